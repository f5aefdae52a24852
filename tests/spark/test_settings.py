"""A catalog that the settings of a Spark application name, without `connect`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.conftest import spark_home
from tests.spark.conftest import Numbered

import headwater.client
from headwater.spark import connect
from headwater.spark.connection import Connection, refuse_other_settings
from headwater.spark.driver_settings import settings_of
from headwater.storage.errors import Invalid

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("unconnected_program.py")
JVM = ["java", "-Dspark.d=1", "-cp", "jars/*", "org.apache.spark.deploy.SparkSubmit"]


def test_settings_of_a_drivers_command_line() -> None:
    arguments = [*JVM, "--verbose", "--conf", "spark.a=x = y", "--conf=spark.b=2", "--name", "n"]
    arguments += ["app.py", "--conf", "spark.a=of the application"]
    assert settings_of(arguments, {}) == {"spark.d": "1", "spark.a": "x = y", "spark.b": "2"}


def test_settings_of_drivers_that_run_on_a_cluster(tmp_path: Path) -> None:
    """As YARN's application master and Kubernetes's entry point start them."""
    file = tmp_path / "__spark_conf__.properties"
    file.write_text("spark.headwater.uri=http\\://host\\:8080\n")
    master = ["java", "-Xmx1g", "org.apache.spark.deploy.yarn.ApplicationMaster", "--class", "x"]
    master += ["--primary-py-file", "app.py", "--arg", "--conf", "--arg", "a=b"]
    master += ["--properties-file", str(file)]
    entry = [*JVM, "--conf", "spark.driver.bindAddress=10.0.0.1", "--deploy-mode", "client"]
    entry += ["--properties-file", str(file), "--class", "x", "local:///app.py"]
    for arguments in (master, entry):
        assert settings_of(arguments, {})["spark.headwater.uri"] == "http://host:8080"


def test_settings_of_files(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.z 0\n\nspark.a   from defaults\nspark.b=2\nspark.url http\\://host\\:80 \n"
        "spark.long one, \\\n   two\n"
    )
    (tmp_path / "own.properties").write_text("spark.a: own\n")
    environment = {"SPARK_CONF_DIR": str(tmp_path)}
    own = ["--properties-file", str(tmp_path / "own.properties")]
    assert settings_of([*JVM[:1], *JVM[2:], "app.py"], environment) == {
        "spark.a": "from defaults",
        "spark.b": "2",
        "spark.url": "http://host:80",
        "spark.long": "one, two",
    }
    found = settings_of([*JVM, *own, "--conf", "spark.b=3", "app.py"], environment)
    assert found == {"spark.d": "1", "spark.a": "own", "spark.b": "3"}
    found = settings_of([*JVM, "--load-spark-defaults", *own, "app.py"], environment)
    assert (found["spark.a"], found["spark.b"]) == ("own", "2")


def test_the_environment_names_what_settings_do_not() -> None:
    environment = {"HEADWATER_CATALOG": "http://env", "HEADWATER_CATALOG_TOKEN": "secret"}
    found = Connection.of_settings({"warehouse": "main", "s3.region": "eu"}, environment)
    assert (found.target, found.warehouse, found.token) == ("http://env", "main", "secret")
    assert found.storage == {"s3.region": "eu"}
    assert Connection.of_settings({"uri": "http://set"}, environment).target == "http://set"
    with pytest.raises(Invalid, match=r"start Spark with the setting spark\.headwater\.uri or"):
        Connection.of_settings({}, {})


@pytest.mark.parametrize("name", ["header.x", "table-default.bucket", "s3.endpoint", "location"])
def test_known_settings(name: str) -> None:
    refuse_other_settings({name: "value"})


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match=r"no setting spark\.headwater\.ur: did you mean .*\.uri\?"):
        Connection.of_settings({"ur": "http://host"}, {"HEADWATER_CATALOG": "http://env"})
    with pytest.raises(Invalid, match=r"no setting spark\.headwater\.s3\.colour"):
        refuse_other_settings({"uri": "x", "s3.colour": "red"})


@pytest.mark.spark
def test_connect_takes_the_sessions_settings(
    spark: SparkSession, numbered: Numbered, tmp_path: Path
) -> None:
    with headwater.client.connect(tmp_path) as lake:
        lake.create_database("db")
    spark.conf.set("spark.headwater.uri", str(tmp_path))
    try:
        found = connect(spark)
        found.create_table("db.t", numbered(0, 1).schema)
        found.write(numbered(0, 3), "db.t")
        assert found.table("db.t").count() == 3
        spark.conf.set("spark.headwater.wharehouse", "main")
        with pytest.raises(Invalid, match=r"did you mean spark\.headwater\.warehouse\?"):
            connect(spark, tmp_path)
    finally:
        spark.conf.unset("spark.headwater.uri")
        spark.conf.unset("spark.headwater.wharehouse")


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("local", marks=pytest.mark.modes),
        pytest.param("cluster", marks=pytest.mark.slow),
        pytest.param("connect", marks=pytest.mark.slow),
    ],
)
def test_the_format_needs_no_connect(kind: str, tmp_path: Path, serve: Callable[..., str]) -> None:
    """Nor an import: Spark finds the format by itself, and the catalog by its own settings."""
    room = tmp_path / "room"
    room.mkdir()
    with headwater.client.connect(tmp_path / "lake") as lake:
        lake.create_database("db")
        schema = pa.schema([("n", pa.int64())])
        lake.create_table("db.t", schema)
        lake.create_table("db.copy", schema)
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(spark_home(tmp_path / "home")),
        }
        command = [sys.executable, str(PROGRAM), kind, str(room), serve(lake.catalog)]
        ended = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, cwd=room
        )
    assert ended.returncode == 0, ended.stderr[-4000:]
    printed = ["read [0, 1, 2]", "copied [0, 1, 2]"]
    assert ended.stdout.splitlines() == [*printed, "imported []"] if kind == "local" else printed
