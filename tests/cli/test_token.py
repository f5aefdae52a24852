"""`headwater token`: make, list and revoke."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable

import pytest

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


def test_an_access_key_is_printed_as_its_client_needs_it(
    headwater: Headwater, monkeypatch: pytest.MonkeyPatch
) -> None:
    headwater("db", "upgrade")
    without = headwater("token", "create", "flink", "--kind", "dlf")
    assert (without.returncode, without.stderr.count("\n")) == (1, 1)
    assert "HEADWATER_SECRET_KEYS" in without.stderr
    monkeypatch.setenv("HEADWATER_SECRET_KEYS", f"k1:{base64.b64encode(bytes(32)).decode()}")
    made = headwater("token", "create", "flink", "--kind", "dlf")
    options = dict(line.split("=", 1) for line in made.stdout.splitlines())
    assert list(options) == ["dlf.access-key-id", "dlf.access-key-secret"]
    listed = headwater("token", "list", "--json")
    assert json.loads(listed.stdout)["access key"] == options["dlf.access-key-id"]
    assert options["dlf.access-key-secret"] not in listed.stdout
    other = base64.b64encode(bytes([1]) * 32).decode()
    monkeypatch.setenv(
        "HEADWATER_SECRET_KEYS", f"k2:{other},k1:{base64.b64encode(bytes(32)).decode()}"
    )
    assert "the secrets of 1 access keys" in headwater("warehouse", "rotate-key").stdout
    assert headwater("token", "revoke", "flink").returncode == 0


def test_a_temporary_key_is_a_server_s_to_give(headwater: Headwater) -> None:
    headwater("db", "upgrade")
    asked = headwater(
        "token", "temporary", "--catalog", "sqlite:///headwater.db", "--location", "."
    )
    assert (asked.returncode, asked.stderr.count("\n")) == (1, 1)
    assert "connect to the server with a token" in asked.stderr
    wrong = headwater("token", "temporary", "--expires-in", "4")
    assert (wrong.returncode, "'4' has no unit" in wrong.stderr) == (1, True)


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
