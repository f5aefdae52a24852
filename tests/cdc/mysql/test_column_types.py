"""Types of columns: those of MySQL and MariaDB, and what they become in the lake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.mysql.column_types import (
    SourceType,
    TypeMapping,
    lake_type,
    parse_source_type,
    parse_type_mapping,
)
from headwater.storage.errors import Invalid, Unsupported


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tinyint(1)", "BOOLEAN"),
        ("tinyint(1) unsigned", "SMALLINT"),
        ("tinyint(4)", "TINYINT"),
        ("tinyint unsigned", "SMALLINT"),
        ("smallint(6)", "SMALLINT"),
        ("smallint(5) unsigned zerofill", "INT"),
        ("mediumint", "INT"),
        ("mediumint unsigned", "BIGINT"),
        ("int(11)", "INT"),
        ("int unsigned", "BIGINT"),
        ("bigint(20)", "BIGINT"),
        ("bigint(20) unsigned", "DECIMAL(20, 0)"),
        ("float", "FLOAT"),
        ("double unsigned", "DOUBLE"),
        ("decimal(38,10)", "DECIMAL(38, 10)"),
        ("decimal(65,30)", "STRING"),
        ("bit(1)", "BOOLEAN"),
        ("bit(9)", "BINARY(2)"),
        ("char(3)", "CHAR(3)"),
        ("char(0)", "STRING"),
        ("varchar(80)", "VARCHAR(80)"),
        ("longtext", "STRING"),
        ("enum('a','it''s')", "STRING"),
        ("json", "STRING"),
        ("uuid", "STRING"),
        ("binary(16)", "VARBINARY(16)"),
        ("varbinary(7)", "VARBINARY(7)"),
        ("longblob", "BYTES"),
        ("point", "BYTES"),
        ("date", "DATE"),
        ("time", "TIME(0)"),
        ("time(3)", "TIME(3)"),
        ("time(6)", "STRING"),
        ("datetime(6)", "TIMESTAMP(6)"),
        ("timestamp", "TIMESTAMP(0) WITH LOCAL TIME ZONE"),
        ("year(4)", "INT"),
        ("varchar(3) /*M!100301 COMPRESSED*/", "VARCHAR(3)"),
    ],
)
def test_types_of_the_lake(text: str, wanted: str) -> None:
    source = parse_source_type(text)
    assert str(lake_type(source, nullable=True)) == wanted
    assert str(lake_type(source, nullable=False)) == f"{wanted} NOT NULL"
    assert str(lake_type(source, nullable=False, mapping=[TypeMapping.TO_NULLABLE])) == wanted
    if source.name != "point":
        assert str(lake_type(source, nullable=True, mapping=[TypeMapping.TO_STRING])) == "STRING"


def test_a_set_is_an_array() -> None:
    assert str(lake_type(parse_source_type("set('a','b')"), nullable=True)) == "ARRAY<STRING>"


@pytest.mark.parametrize(
    ("text", "mapping", "wanted"),
    [
        ("tinyint(1)", "tinyint1-not-bool", "TINYINT"),
        ("bigint(20) unsigned", "bigint-unsigned-to-bigint", "BIGINT"),
        ("char(3)", "char-to-string", "STRING"),
        ("varchar(3)", " Char-To-String , to-nullable", "STRING"),
        ("longtext", "longtext-to-bytes", "BYTES"),
        ("mediumtext", "longtext-to-bytes", "STRING"),
    ],
)
def test_choices_by_the_names_of_paimon(text: str, mapping: str, wanted: str) -> None:
    chosen = parse_type_mapping(mapping)
    assert str(lake_type(parse_source_type(text), nullable=True, mapping=chosen)) == wanted


def test_bad_types_and_choices_are_rejected_by_name() -> None:
    with pytest.raises(Invalid, match="type_mapping 'tinyint' is not known; the names are"):
        parse_type_mapping("to-string,tinyint")
    with pytest.raises(Unsupported, match="column type 'vector' is not read"):
        lake_type(parse_source_type("vector(3)"), nullable=True)
    with pytest.raises(Invalid, match="is malformed"):
        parse_source_type("(int)")


@given(st.lists(st.text(max_size=8), min_size=1, max_size=5))
def test_values_of_an_enum_are_read_as_they_were_written(values: list[str]) -> None:
    # As the servers' append_unescaped does.
    escapes = str.maketrans({"'": "''", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
    quoted = ",".join(f"'{value.translate(escapes)}'" for value in values)
    assert parse_source_type(f"enum({quoted})") == SourceType("enum", tuple(values))


@pytest.mark.parametrize("text", ["point", "geometrycollection", "vector(3)"])
def test_types_without_a_text_are_rejected_by_name(text: str) -> None:
    source = parse_source_type(text)
    with pytest.raises(Unsupported, match=f"column type '{source.name}'"):
        lake_type(source, nullable=True, mapping=[TypeMapping.TO_STRING])


def test_a_compressed_column_has_the_type_without_the_compression() -> None:
    source = parse_source_type("varchar(100) /*M!100301 COMPRESSED*/")
    assert source == SourceType("varchar", ("100",))
