"""`headwater cdc`: pipelines in the foreground, and what other processes see and ask of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.cdc.source_logs import SourceServer
from tests.ports import free_port

from headwater.cdc.pipeline.state import PipelineState
from headwater.client import connect

pytestmark = pytest.mark.mariadb

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def arguments(place: Path, options: dict[str, Any]) -> list[str]:
    """The command line of the pipeline of `options`."""
    names = ("source", "include", "target", "name")
    values = [text for name in names for text in (f"--{name}", options[name])]
    return ["cdc", "mysql", "--catalog", str(place), *values, "--batch-seconds", "0.2"]


def into_second(arguments: list[str]) -> list[str]:
    """The command line of another pipeline, into the lake's second database."""
    changed = list(arguments)
    changed[changed.index("--name") + 1] = "other"
    changed[changed.index("--target") + 1] = "second"
    return changed


@contextmanager
def running(arguments: list[str], place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that follows."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.cli.main", *arguments, "--interval", "0.1"],
        cwd=place.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if "HEADWATER_" not in name},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def until_streaming(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The first line of a process whose tables are all streaming."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        figures = json.loads(line) if line.startswith("{") else {}
        tables = figures.get("tables")
        if tables and all(table["phase"] == "streaming" for table in tables):
            return dict(figures)
    raise AssertionError("".join(lines))


def rows(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_tables_without_a_key_are_checked_followed_and_compared(
    headwater: Headwater, arguments: list[str], place: Path, store: SourceServer
) -> None:
    store.run("CREATE TABLE log (a INT, b VARCHAR(9))", "INSERT INTO log VALUES (1, 'x'), (1, 'x')")
    check = ["cdc", "check", *arguments[2:4], *arguments[4:10]]
    rejected = headwater(*check)
    assert rejected.returncode == 1
    assert "follow it with --tables-without-key append" in rejected.stdout
    option = ["--tables-without-key", "append"]
    assert headwater(*check, *option).stdout.splitlines() == ["subject\tproblem\tremedy"]
    assert headwater(*arguments, *option, "--once").returncode == 0
    store.run("DELETE FROM log LIMIT 1")
    assert headwater(*arguments, *option, "--once").returncode == 0
    verify = ["cdc", "verify", "--catalog", str(place)]
    equal = headwater(*verify)
    assert f"{store.database}.log: equal; 1 rows at the source, 1 in the lake" in equal.stdout
    with connect(place) as lake:
        lake.table("lake.log").write({"row_kind": ["+I"], "a": [1], "b": ["x"]})
    differs = headwater(*verify)
    assert differs.returncode == 1
    assert "more in the lake than in the source" in differs.stdout


def test_once_prints_figures_and_status_has_the_rest(
    headwater: Headwater, arguments: list[str], place: Path, store: SourceServer
) -> None:
    result = headwater(*arguments, "--once")
    assert (result.returncode, result.stderr) == (0, "")
    last = rows(result)[-1]
    assert (last["pipeline"], last["lag_bytes"], last["waits_for"]) == ("shop", 0, None)
    (table,) = last["tables"]
    assert (table["table"], table["phase"]) == (f"{store.database}.orders", "streaming")
    assert (table["rows"], table["reason"]) == (2, None)
    store.run("INSERT INTO orders VALUES (3, 'mug')")
    assert headwater(*arguments, "--once").returncode == 0
    status = headwater("cdc", "status", "--catalog", str(place), "--json")
    (row,) = rows(status)
    assert (row["pipeline"], row["running"], row["lag seconds"]) == ("shop", False, 0)
    assert (row["table"], row["target"]) == (f"{store.database}.orders", "lake.orders")
    assert row["phase"] == "streaming"
    assert 0 < row["table batch"] <= row["batch"]
    assert row["source time"] is not None
    # Another table of the source does not change the lake's, and is not followed.
    store.run("INSERT INTO orders VALUES (4, 'cap')")
    (row,) = rows(headwater("cdc", "status", "--catalog", str(place), "--target", "lake", "--json"))
    assert row["lag seconds"] is None or row["lag seconds"] >= 0
    table = headwater("cdc", "status", "--catalog", str(place)).stdout.splitlines()
    assert table[0].split("\t")[:3] == ["pipeline", "running", "batch"]


def test_a_file_is_run_as_the_options_are(
    headwater: Headwater, place: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump(options))
    catalog = ("--catalog", str(place))
    assert headwater("cdc", "check", str(file), *catalog).stdout == "subject\tproblem\tremedy\n"
    assert headwater("cdc", "run", str(file), "--once", *catalog).returncode == 0
    file.write_text(yaml.safe_dump({**options, "inclued": 1, "once": True}))
    for command in ("run", "check"):
        result = headwater("cdc", command, str(file), *catalog)
        assert (result.returncode, result.stderr.count("\n")) == (1, 1)
        assert "option 'inclued' is not known; the options are bad-dates" in result.stderr


def test_check_lists_findings_and_creates_nothing(
    headwater: Headwater, place: Path, options: dict[str, Any], store: SourceServer
) -> None:
    store.run("CREATE TABLE keyless (a INT)")
    command = ("cdc", "check", "--catalog", str(place), "--source", options["source"])
    result = headwater(*command, "--include", options["include"], "--target", "none", "--json")
    assert result.returncode == 1
    assert [row["subject"] for row in rows(result)] == [
        f"table {store.database}.keyless",
        "target 'none'",
    ]
    assert all(row["problem"] and row["remedy"] for row in rows(result))
    result = headwater(*command)
    assert (result.returncode, result.stdout) == (1, "")
    assert "option 'target' is missing" in result.stderr or "'include' is missing" in result.stderr
    assert headwater(*command, "file.yaml").returncode == 2
    with connect(place) as lake:
        assert lake.list_tables("lake") == []


def test_options_have_paimons_names(
    headwater: Headwater, arguments: list[str], place: Path, store: SourceServer
) -> None:
    layout = ("--table_prefix", "ods_", "--metadata_column", "table_name", "--partition_keys=item")
    computed = ("--computed_column", "big=upper(item)", "--table_conf", "bucket=-1")
    result = headwater(*arguments, *layout, *computed, "--once")
    assert (result.returncode, result.stdout) == (2, "")
    assert "option 'table-conf' is one of Paimon's actions" in " ".join(result.stderr.split())
    computed = (*computed[:2], "--table-option", "bucket=-1")
    assert headwater(*arguments, *layout, *computed, "--once").returncode == 0
    assert headwater("cdc", "verify", "--catalog", str(place)).returncode == 0
    with connect(place) as lake:
        rows = lake.table("lake.ods_orders").scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "item": "pen", "big": "PEN", "table_name": "orders"},
        {"id": 2, "item": "cup", "big": "CUP", "table_name": "orders"},
    ]
    command = ("cdc", "check", "file.yaml", "--catalog", str(place), "--table-prefix", "a")
    assert "give either a file or options" in headwater(*command).stderr


def test_the_password_is_not_on_the_command_line(
    headwater: Headwater,
    arguments: list[str],
    options: dict[str, Any],
    new_user: Callable[..., str],
    tmp_path: Path,
    place: Path,
) -> None:
    source = new_user("ALL ON *.*")
    arguments[arguments.index("--source") + 1] = source.replace(":secret", "")
    (tmp_path / "password").write_text("secret\n")
    assert headwater(*arguments, "--once").returncode == 1
    assert headwater(*arguments, "--once", "--password-file", "password").returncode == 0
    secret = {"HEADWATER_CDC_SOURCE_PASSWORD": "secret"}
    assert headwater(*arguments, "--once", **secret).returncode == 0
    status = ("cdc", "status", "--catalog", str(place), "--json")
    result = headwater(*status)
    assert rows(result)[0]["running"] is None
    assert "rejects user" in result.stderr
    assert rows(headwater(*status, **secret))[0]["running"] is False
    assert rows(headwater(*status, "--password-file", "password"))[0]["running"] is False


def test_a_quarantined_table_ends_once_with_1(
    headwater: Headwater, arguments: list[str], store: SourceServer
) -> None:
    store.run("CREATE TABLE days (id INT PRIMARY KEY, d DATE)", "INSERT INTO days VALUES (1, 0)")
    result = headwater(*arguments, "--once")
    assert result.returncode == 1
    days, orders = rows(result)[-1]["tables"]
    assert (days["phase"], orders["phase"]) == ("quarantined", "streaming")
    assert "0000-00-00" in days["reason"]
    result = headwater(*into_second(arguments), "--once", "--bad-dates", "null")
    assert [table["phase"] for table in rows(result)[-1]["tables"]] == ["streaming"] * 2


def test_others_watch_and_stop_it(
    headwater: Headwater, arguments: list[str], place: Path, store: SourceServer
) -> None:
    port = free_port()
    with running([*arguments, "--metrics-port", str(port)], place) as process:
        figures = until_streaming(process)
        assert figures["batch"] > 0
        status = headwater("cdc", "status", "--catalog", str(place), "--json")
        assert rows(status)[0]["running"] is True
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            metrics = {
                (sample.name, *sorted(sample.labels.values())): sample.value
                for family in text_string_to_metric_families(response.read().decode())
                for sample in family.samples
            }
        assert metrics["headwater_cdc_up", "shop"] == 1
        assert metrics["headwater_cdc_rows_total", f"{store.database}.orders", "shop"] == 2
        assert metrics["headwater_cdc_tables", "shop", "streaming"] == 1
        assert metrics["headwater_cdc_batch", "shop"] >= figures["batch"]
        # Its output is read on, as it waits for a full pipe.
        result = headwater("cdc", "stop", "--catalog", str(place))
        assert (result.returncode, result.stdout) == (0, "pipeline 'shop' has stopped\n")
        process.communicate()
        assert process.returncode == 0
    again = headwater("cdc", "stop", "--catalog", str(place))
    assert (again.returncode, again.stdout) == (1, "")
    assert "no process runs pipeline 'shop'" in again.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_its_batch(
    arguments: list[str], place: Path, number: signal.Signals
) -> None:
    with running(arguments, place) as process:
        until_streaming(process)
        process.send_signal(number)
        output, _ = process.communicate()
        assert process.returncode == 0, output
        assert json.loads(output.splitlines()[-1])["tables"][0]["phase"] == "streaming"


def test_tables_are_read_again_on_request(
    headwater: Headwater, arguments: list[str], place: Path, store: SourceServer
) -> None:
    command = ("cdc", "resnapshot", "--catalog", str(place))
    none = headwater(*command, "--all")
    assert "the lake has no pipeline; start one" in none.stderr
    assert headwater(*arguments, "--once").returncode == 0
    table = f"{store.database}.orders"
    for wrong, message in (
        ([], "Usage"),
        ([table, "--all"], "Usage"),
        ([f"{store.database}.none"], f"follow table '{store.database}.none'; it follows {table}"),
        ([table, "--name", "other"], "the lake has no pipeline 'other'"),
    ):
        result = headwater(*command, *wrong)
        assert result.returncode in (1, 2)
        assert message in result.stderr
    later = headwater(*command, table, "--replace")
    assert later.stdout == (
        f"{table}: read again when pipeline 'shop' is started: none runs it now\n"
    )
    with connect(place) as lake:
        state = PipelineState.open(lake, "lake", "shop")
        assert list(state.requests().values()) == ["replace"]
        state.answer(state.requests())
        before = state.plan()
    with running(arguments, place) as process:
        until_streaming(process)
        begun = headwater(*command, table)
        assert begun.stdout == f"{table}: being read again; 'headwater cdc status' shows how far\n"
    with connect(place) as lake:
        state = PipelineState.open(lake, "lake", "shop")
        after = state.plan()
        assert before is not None
        assert after is not None
        assert after.number > before.number
        assert state.requests() == {}
    assert headwater(*arguments, "--once").returncode == 0
    assert headwater("cdc", "verify", "--catalog", str(place)).returncode == 0


def test_quarantined_tables_catch_up_on_request(
    headwater: Headwater, arguments: list[str], place: Path, store: SourceServer
) -> None:
    store.run(
        "CREATE TABLE days (id INT PRIMARY KEY, d DATE)",
        "INSERT INTO days VALUES (1, '2026-01-02')",
        "CREATE TABLE early LIKE days",
        "INSERT INTO early VALUES (1, 0)",
    )
    assert headwater(*arguments, "--once").returncode == 1
    store.run("INSERT INTO days VALUES (2, 0)", "UPDATE days SET d = '2026-01-03' WHERE id = 1")
    assert headwater(*arguments, "--once").returncode == 1
    command = ("cdc", "catchup", "--catalog", str(place))
    days, early, orders = (f"{store.database}.{name}" for name in ("days", "early", "orders"))
    for wrong, message in (
        ([], "Usage"),
        ([orders], f"table {orders} is in phase streaming; only a quarantined table catches up"),
        ([early], f"it was quarantined; read it again: headwater cdc resnapshot {early}"),
        ([f"{store.database}.none"], f"follow table '{store.database}.none'; it follows {days}"),
    ):
        result = headwater(*command, *wrong)
        assert result.returncode in (1, 2)
        assert message in result.stderr
    later = headwater(*command, days)
    assert later.stdout == (
        f"{days}: caught up when pipeline 'shop' is started: none runs it now\n"
    )
    # The cause is still there.
    assert headwater(*arguments, "--once").returncode == 1
    with running([*arguments, "--bad-dates", "null"], place) as process:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["batch"] < 0:
            pass
        begun = headwater(*command, days)
        assert begun.stdout == f"{days}: catching up; 'headwater cdc status' shows how far\n"
        assert headwater("cdc", "resnapshot", "--catalog", str(place), early).returncode == 0
        until_streaming(process)
    assert headwater(*arguments, "--bad-dates", "null", "--once").returncode == 0
    verify = headwater("cdc", "verify", "--catalog", str(place))
    assert f"{days}: equal; 2 rows at the source, 2 in the lake" in verify.stdout


def test_verify_prints_the_keys_that_differ(
    headwater: Headwater, arguments: list[str], place: Path, store: SourceServer
) -> None:
    assert headwater(*arguments, "--once").returncode == 0
    command = ("cdc", "verify", "--catalog", str(place))
    table = f"{store.database}.orders"
    equal = headwater(*command)
    assert (equal.returncode, equal.stdout) == (
        0,
        f"{table}: equal; 2 rows at the source, 2 in the lake\n",
    )
    with connect(place) as lake:
        lake.table("lake.orders").write({"id": [2, 7, 8], "item": ["tea", "gone", "gone"]})
    differs = headwater(*command, "--limit", "2")
    assert differs.returncode == 1
    first, *keys = differs.stdout.splitlines()
    assert first == f"{table}: 3 keys differ; 2 rows at the source, 4 in the lake"
    assert len(keys) == 3
    assert keys[-1] == "  … and 1 more"
    (row,) = rows(headwater(*command, "--json"))
    assert (row["table"], row["equal"], row["differences"]) == (table, False, 3)
    assert sorted(key["id"] for key in row["keys"]) == [2, 7, 8]
    assert headwater("cdc", "resnapshot", "--catalog", str(place), table).returncode == 0
    # A column that no snapshot has yet.
    store.run("ALTER TABLE orders ADD COLUMN note VARCHAR(10)")
    assert headwater(*arguments, "--once").returncode == 0
    again = headwater(*command)
    assert (again.returncode, again.stdout, again.stderr) == (0, equal.stdout, "")


def test_one_of_several_pipelines_is_named(
    headwater: Headwater, arguments: list[str], place: Path
) -> None:
    assert headwater(*arguments, "--once").returncode == 0
    assert headwater(*into_second(arguments), "--once").returncode == 0
    result = headwater("cdc", "stop", "--catalog", str(place))
    assert result.returncode == 1
    assert "several pipelines: 'shop' into lake, 'other' into second; choose with" in result.stderr
    status = headwater("cdc", "status", "--catalog", str(place), "--json")
    assert [row["pipeline"] for row in rows(status)] == ["shop", "other"]
    (only,) = rows(headwater("cdc", "status", "--catalog", str(place), "--name", "shop", "--json"))
    assert only["pipeline"] == "shop"


def test_a_taken_port_of_metrics(headwater: Headwater, arguments: list[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        result = headwater(*arguments, "--metrics-port", str(port))
    assert result.returncode == 1
    assert f"cannot serve metrics at port {port}" in result.stderr
