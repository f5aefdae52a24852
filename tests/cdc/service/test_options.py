"""Options of pipelines: their names, values and passwords, from Python and from files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.column_types import TypeMapping
from headwater.cdc.pipeline.settings import OnDrop, PipelineSettings, TablesWithoutKey
from headwater.cdc.service import PASSWORD_VARIABLE, PipelineOptions
from headwater.storage.errors import HeadwaterError, Invalid, Unavailable

POSTGRES = "postgresql://ada@db1.example.com/shop"
LEAST: dict[str, Any] = {
    "source": "mysql://ada@db1.example.com",
    "include": "shop.*",
    "target": "lake",
}


def resolve(values: dict[str, Any]) -> None:
    options = PipelineOptions.parse(values)
    options.address()
    options.settings()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inclued": "a.*"}, "option 'inclued' is not known; the options are bad-dates, batch-"),
        ({"target": None}, "option 'target' is missing"),
        (
            {"source": "nonsense"},
            "the source is not a URL; write mysql://user@host:port, mariadb://",
        ),
        (
            {"source": "oracle://u@h"},
            "'oracle', which is not MySQL, MariaDB, PostgreSQL or Kafka; write",
        ),
        ({"source": "mysql://u@h:abc"}, "not a URL: its port is not a number, or its password"),
        ({"source": "mysql://u@[::1"}, "the source is not a URL: its port is not a number, or"),
        ({"source": "mysql://u:s3@cr3:t@h"}, "has otherwise, as '@' is %40, ':' is %3A and '/' is"),
        ({"source": "postgresql://u:s3@cr3:t@h/d"}, "the source is not a URL: its port is not a"),
        ({"source": "mysql://u:s3@cr3t@h/a/b"}, "source 'mysql://u@h/a/b'"),
        ({"include": []}, "no table is included"),
        ({"include": ["shop"]}, "'shop' is not a pattern of tables"),
        ({"exclude": "a.b.c"}, "'a.b.c' is not a pattern of tables"),
        ({"target": "a.b"}, "target 'a.b' is not a database of the lake"),
        ({"name": "a b"}, "pipeline name 'a b' is not usable"),
        ({"target": "x" * 60}, "pipeline name 'db1-xxx"),
        ({"type_mapping": "to-string,nope"}, "type_mapping 'nope' is not known; the names are"),
        ({"bad_dates": "zero"}, "option 'bad-dates' is 'zero': input should be"),
        ({"on_drop": "delete"}, "option 'on-drop' is 'delete': input should be 'keep' or 'drop'"),
        ({"narrowing": "no"}, "option 'narrowing' is 'no': input should be 'keep' or 'fail'"),
        ({"tables_without_key": "skip"}, "should be 'reject' or 'append'"),
        ({"readers": "many"}, "option 'readers' is 'many': input should be a valid integer"),
        ({"readers": 0}, "readers is 0; use 1 or more"),
        ({"batch_seconds": float("nan")}, "batch-seconds is nan; use 0.05 or more"),
        ({"metrics_port": 70000}, "option 'metrics-port' is 70000: "),
        ({"table_options": ["bucket"]}, "option 'table-options' is ['bucket']: "),
        ({"password": "a", "password_file": "b"}, "the source's password is given twice"),
        ({"source": "mysql://u:a@h", "password": "b"}, "the password is given twice"),
        ({"including_tables": "a++"}, "option 'including-tables' is 'a++': '++' is not a part"),
        ({"excluding_dbs": "(a"}, "option 'excluding-dbs' is '(a', which is not a regular"),
        ({"table_mapping": ["orders"]}, "'orders' lacks '='; write name=value once"),
        ({"table_prefix_db": ["a=b", "a=c"]}, "'a=c' is named twice; write name=value once"),
        ({"table_mapping": {"orders": ""}}, "'table-mapping' has 'orders=', which lacks a name"),
        ({"partition_keys": ["a", "b"]}, "all tables are named twice; name each once"),
        (
            {"partition_keys": "t=a", "multiple_table_partition_keys": "t=a"},
            "the partition keys of table 't' are there twice",
        ),
        ({"metadata_column": "op_ts"}, "'op_ts', which is not known of rows that are read from"),
        ({"metadata_column": "schema_name"}, "'schema_name', which this source does not have"),
        ({"metadata_column_prefix": "_"}, "'metadata-column-prefix' is there without metadata-col"),
        ({"computed_column": "dt"}, "option 'computed-column' is 'dt', which is not one; write"),
        ({"mode": "combined"}, "option 'mode' is one of Paimon's actions, which pipelines do not"),
        ({"table_conf": "bucket=4"}, "pipelines do not have; use table-options"),
        ({"tag_batches": 0}, "tag-batches is 0; use 1 or more"),
        ({"tag_num_retained_max": 1}, "tag-batches is missing: no tags are made; give"),
        ({"slot": "a"}, "option 'slot' is one of PostgreSQL; leave it out"),
        (
            {"publication": ""},
            "option 'publication' is '': string should have at least 1 character",
        ),
        ({"source": "postgresql://u@h"}, "the database is missing; write postgresql://user@host:"),
        ({"source": POSTGRES, "slot": "a"}, "option 'publication' is missing: a slot's log begins"),
        ({"source": POSTGRES, "type_mapping": "tinyint1-not-bool"}, "names are array-to-string,"),
        ({"type_mapping": "array-to-string"}, "'array-to-string' is not known; the names are big"),
        ({"password_file": "/nowhere"}, "cannot read /nowhere: No such file"),
    ],
)
def test_wrong_options_are_one_sentence(values: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwaterError) as error:
        resolve({**LEAST, **values})
    assert message in error.value.message
    assert "\n" not in error.value.message
    assert "cr3" not in error.value.message


def test_a_file_has_the_same_names(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(
        "source: mysql://ada@h\ninclude: [shop.*, crm.*]\nexclude: shop.log\ntarget: lake\n"
        "name: shop\ntype-mapping: tinyint1-not-bool, to-nullable\non_drop: drop\n"
        "narrowing: fail\ntables-without-key: append\n"
        "table-options: {bucket: 4, deletion-vectors.enabled: true}\nbatch-seconds: 2\n"
    )
    options = PipelineOptions.from_file(file)
    settings = options.settings()
    assert settings.name == "shop"
    assert (settings.include, settings.exclude) == (("shop.*", "crm.*"), ("shop.log",))
    assert settings.type_mapping == {TypeMapping.TINYINT1_NOT_BOOL, TypeMapping.TO_NULLABLE}
    assert settings.on_drop is OnDrop.DROP
    assert settings.narrowing == "fail"
    assert settings.tables_without_key is TablesWithoutKey.APPEND
    assert settings.table_options == {"bucket": "4", "deletion-vectors.enabled": "true"}
    assert settings.batch_seconds == 2.0
    assert not options.once


def test_names_are_made_and_kept() -> None:
    options = {
        "including_tables": "order.*",
        "excluding_dbs": "old_.*",
        "table_prefix": "ods_",
        "table_suffix_db": "shop=_s",
        "table_mapping": ["orders=sales", "crm.orders=people"],
        "merge_shards": False,
        "partition_keys": ["dt", "orders=dt,hh"],
        "multiple_table_partition_keys": {"items": ["a"]},
        "primary_keys": "sales=id,dt",
        "computed_column": "dt=date_format(at, yyyy-MM-dd)",
        "metadata_column": "database_name,table_name",
        "metadata_column_prefix": "_",
    }
    least = {name: value for name, value in LEAST.items() if name != "include"}
    settings = PipelineOptions.parse({**least, **options}).settings()
    assert settings.include == ("*.*",)
    names = [TableName(database, "orders") for database in ("shop", "crm", "old_1")]
    assert [settings.layout.names.table(name) for name in names] == ["sales", "people", "sales"]
    assert settings.layout.names.table(TableName("shop", "order_a")) == "ods_shop_order_a_s"
    again = PipelineSettings.from_stored(settings.name, settings.target, settings.stored())
    assert again == settings
    assert [again.selection().matches(name) for name in names] == [True, True, False]


def test_settings_of_earlier_versions_are_read() -> None:
    settings = PipelineOptions.parse(LEAST).settings()
    later = ("layout", "including-tables", "excluding-tables", "including-dbs", "excluding-dbs")
    stored = {name: value for name, value in settings.stored().items() if name not in later}
    assert PipelineSettings.from_stored(settings.name, settings.target, stored) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: [", "is not YAML: "),
        ("- a\n- b\n", "does not map options to values"),
        ("", "does not map options to values"),
        ("source: mysql://u@h\ntarget: x\ninclude: a.b\nfoo: 1\n", "option 'foo' is not known"),
        ("source: mysql://u@h\ntargt: x\ninclude: a.b\n", "option 'targt' is not known"),
        ("source: mysql://u@h\ntarget: x\ninclude: {a: b}\n", "option 'include' is {'a': 'b'}"),
    ],
)
def test_wrong_files_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    with pytest.raises(Invalid) as error:
        PipelineOptions.from_file(file)
    assert str(file) in error.value.message
    assert message in error.value.message
    assert "\n" not in error.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot read .*No such file"):
        PipelineOptions.from_file(tmp_path / "none.yaml")


def test_the_password_comes_from_four_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text(" from file\n")
    monkeypatch.setenv(PASSWORD_VARIABLE, "from variable")
    for values, password in (
        ({}, "from variable"),
        ({"password": "as text"}, "as text"),
        ({"password_file": file}, " from file"),
        ({"source": "mysql://ada:in%20url@h"}, "in url"),
    ):
        options = PipelineOptions.parse({**LEAST, **values})
        assert options.address().password == password
        settings = options.settings()
        assert re.fullmatch(r"mysql://ada@(db1\.example\.com|h):3306", settings.source)
        assert not any(password in value for value in settings.stored().values())
    assert "as text" not in repr(PipelineOptions.parse({**LEAST, "password": "as text"}))
    monkeypatch.delenv(PASSWORD_VARIABLE)
    assert PipelineOptions.parse(LEAST).address().password == ""


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (POSTGRES, "mysql", "the source is PostgreSQL, which 'mysql' does not follow; use headwat"),
        ("mariadb://u@h", "postgres", "use headwater cdc mysql or lake.cdc.mysql"),
    ],
)
def test_a_source_of_the_other_kind_names_its_command(source: str, kind: str, message: str) -> None:
    with pytest.raises(Invalid) as error:
        PipelineOptions.parse({**LEAST, "source": source}, kind=kind)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("mysql://u@db1.example.com", "db1-lake"),
        ("mysql://u@db1.example.com:3306", "db1-lake"),
        ("mariadb://u@localhost:3307", "localhost-3307-lake"),
        ("mysql://u@10.0.0.7", "10.0.0.7-lake"),
        ("mysql://u@[fd00::7]", "fd00--7-lake"),
        ("postgresql://u@db1.example.com/shop", "db1-shop-lake"),
        ("postgres://u@db1.example.com:5433/shop", "db1-5433-shop-lake"),
    ],
)
def test_the_name_is_derived_from_host_and_target(source: str, name: str) -> None:
    assert PipelineOptions.parse({**LEAST, "source": source}).settings().name == name
