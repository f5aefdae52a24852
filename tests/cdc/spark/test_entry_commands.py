"""`headwater cdc … --spark MASTER`: sessions of commands, and masters that are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from tests.cdc.spark.conftest import Shop
from tests.conftest import spark_home
from tests.ports import free_port
from tests.spark_sessions import connect_server, spark_cluster, starts_local_sessions

from headwater.client import connect

pytestmark = [pytest.mark.spark, pytest.mark.mariadb]

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


def tables(output: str) -> dict[str, str]:
    """The tables' phases in the last line of a pipeline, whose output is lines of JSON."""
    figures = [json.loads(line) for line in output.splitlines()]
    return {table["table"]: table["phase"] for table in figures[-1]["tables"]}


def equal(shop: Shop, rows: int) -> str:
    """What `verify` prints if both tables are equal."""
    name = shop.source.database
    return (
        f"{name}.names: equal; 300 rows at the source, 300 in the lake\n"
        f"{name}.orders: equal; {rows} rows at the source, {rows} in the lake\n"
    )


@starts_local_sessions
def test_commands_use_a_session_and_leave_it_to_who_started_it(
    spark: SparkSession, headwater: Headwater, shop: Shop, tmp_path: Path
) -> None:
    at_spark = ("--spark", "local[2]")
    checked = headwater(
        *("cdc", "check", "--catalog", str(shop.place), "--source", shop.options["source"]),
        *("--include", shop.options["include"], "--target", "lake", *at_spark),
    )
    assert (checked.returncode, checked.stdout) == (0, "subject\tproblem\tremedy\n")
    assert connect(shop.place).list_tables("lake") == []
    followed = headwater(*shop.arguments("--once", *at_spark))
    assert followed.returncode == 0, followed.stderr
    assert set(tables(followed.stdout).values()) == {"streaming"}
    verify = ("cdc", "verify", "--catalog", str(shop.place), *at_spark)
    compared = headwater(*verify)
    assert (compared.returncode, compared.stdout) == (0, equal(shop, 1000))
    # The same pipeline goes on from a file, and without Spark.
    shop.change()
    file = tmp_path / "shop.yaml"
    names = {name.replace("_", "-"): value for name, value in shop.options.items()}
    file.write_text(yaml.safe_dump({**names, "spark": "local[2]", "once": True}))
    ran = headwater("cdc", "run", str(file), "--catalog", str(shop.place))
    assert ran.returncode == 0, ran.stderr
    assert headwater(*verify).stdout == equal(shop, 858)
    shop.source.run("UPDATE orders SET item = 'last' WHERE id = 1")
    assert headwater(*shop.arguments("--once")).returncode == 0
    with connect(shop.place) as lake:
        lake.table("lake.orders").write({"id": [1, 2000], "item": ["lie", "lie"]})
    differs = headwater(*verify)
    assert differs.returncode == 1
    first, second, *keys = differs.stdout.splitlines()
    assert first.endswith("names: equal; 300 rows at the source, 300 in the lake")
    assert second.endswith("orders: 2 keys differ; 858 rows at the source, 859 in the lake")
    assert sorted(keys) == ["  id=1: different", "  id=2000: not in the source"]
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("nonsense", "Spark has no master 'nonsense': give local[*], local[4], spark://host:7077,"),
        ("local[", "Spark has no master 'local[': give "),
        ("", "option 'spark' is '': "),
        ("spark://127.0.0.1:{port}", "cannot reach Spark at spark://127.0.0.1:{port}: Connection"),
        ("sc://127.0.0.1:{port}/;a=b", "cannot reach Spark at sc://127.0.0.1:{port}/;a=b: Conn"),
        ("spark://127.0.0.1:x", "cannot reach Spark at spark://127.0.0.1:x: "),
    ],
)
def test_a_wrong_master_is_one_sentence(
    headwater: Headwater, shop: Shop, master: str, message: str
) -> None:
    port = free_port()
    named = master.format(port=port)
    followed = headwater(*shop.arguments("--once", "--spark", named))
    assert followed.returncode == 1
    assert followed.stderr.startswith(f"headwater: {message.format(port=port)}")
    assert followed.stderr.count("\n") == 1
    with connect(shop.place) as lake:
        assert lake.list_tables("lake") == []


def test_without_the_extra_it_is_named(
    headwater: Headwater, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.cli.extras.find_spec", lambda name: name != "pyspark" or None)
    followed = headwater(*shop.arguments("--spark", "local[2]"))
    assert followed.returncode == 1
    assert "'headwater cdc mysql --spark' needs pyspark" in followed.stderr
    assert "pip install 'headwater[spark]'" in followed.stderr


@contextmanager
def _at(kind: str, folder: Path) -> Iterator[str]:
    """Where a session is to be."""
    if kind == "local":
        yield "local[2]"
    elif kind == "cluster":
        with spark_cluster(folder) as master:
            yield master
    else:
        with connect_server(folder, {}) as address:
            yield address


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["local", "cluster", "connect"])
def test_a_process_of_its_own_starts_and_ends_its_session(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "spark"
    folder.mkdir()
    monkeypatch.setenv("SPARK_HOME", str(spark_home(tmp_path / "home")))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {key: value for key, value in os.environ.items() if "HEADWATER_" not in key}
        return subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            cwd=tmp_path,
            env={**variables, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )

    with _at(kind, folder) as master:
        followed = run(*shop.arguments("--once", "--spark", master))
        assert followed.returncode == 0, followed.stderr
        assert set(tables(followed.stdout).values()) == {"streaming"}
        compared = run("cdc", "verify", "--catalog", str(shop.place), "--spark", master)
        assert (compared.returncode, compared.stdout) == (0, equal(shop, 1000)), compared.stderr
