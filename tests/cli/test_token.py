"""`headwater token`: make, list and revoke."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_token_is_shown_once_then_listed_and_revoked(headwater: Headwater) -> None:
    assert headwater("db", "upgrade").returncode == 0
    made = headwater("token", "create", "spark", "--expires-in", "90 d")
    secret = made.stdout.strip()
    assert (made.returncode, secret[:3]) == (0, "hw_")
    headwater(
        "token", "create", "flink", "--scope", "manage", "--scope", "read", "--warehouse", "main"
    )
    listed = headwater("token", "list", "--json")
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    shown = [(row["name"], row["expires"] is None, row["valid"], row["scopes"]) for row in rows]
    assert shown == [("flink", True, True, "manage, read"), ("spark", False, True, "write")]
    assert [row["warehouses"] for row in rows] == ["main", None]
    assert secret not in listed.stdout
    assert headwater("token", "revoke", "spark").returncode == 0
    assert "spark" not in headwater("token", "list").stdout


def test_mistakes_are_one_line(headwater: Headwater) -> None:
    without = headwater("token", "list")
    assert (without.returncode, without.stderr.count("\n")) == (1, 1)
    assert "headwater db upgrade" in without.stderr
    headwater("db", "upgrade")
    headwater("token", "create", "spark")
    for arguments, words in (
        (["create", "spark"], "already"),
        (["create", "other", "--expires-in", "soon"], "--expires-in"),
        (["create", "other", "--expires-in", "0 s"], "longer than nothing"),
        (["create", "other", "--expires-in", "5"], "'5' has no unit"),
        (["create", "group:x"], "how permissions name a group"),
        (["revoke", "nobody"], "nobody"),
    ):
        result = headwater("token", *arguments)
        assert (result.returncode, result.stderr.count("\n")) == (1, 1), arguments
        assert words in result.stderr


def test_groups_have_members(headwater: Headwater) -> None:
    headwater("db", "upgrade")
    for group, member in (("analysts", "bob"), ("analysts", "ada"), ("ops", "ada")):
        assert headwater("group", "add", group, member).returncode == 0
    again = headwater("group", "add", "ops", "ada")
    assert (again.returncode, "already" in again.stderr) == (1, True)
    assert headwater("group", "remove", "ops", "ada").returncode == 0
    listed = headwater("group", "list", "--json", "--principal", "ada")
    assert [json.loads(line) for line in listed.stdout.splitlines()] == [
        {"group": "analysts", "principal": "ada"}
    ]
    missing = headwater("group", "remove", "ops", "ada")
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
