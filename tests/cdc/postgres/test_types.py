"""Types of PostgreSQL's columns, and what they are in the lake."""

from __future__ import annotations

import pytest

from headwater.cdc.postgres.types import lake_type, parse_source_type, parse_type_mapping
from headwater.storage.errors import Invalid, Unsupported

TYPES = {
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "oid": "BIGINT",
    "xid8": "DECIMAL(20, 0)",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "numeric(12,2)": "DECIMAL(12, 2)",
    "numeric(38,0)": "DECIMAL(38, 0)",
    "numeric(39,0)": "STRING",
    "numeric(5,-2)": "DECIMAL(7, 0)",
    "numeric(37,-2)": "STRING",
    "numeric(3,5)": "DECIMAL(5, 5)",
    "numeric": "STRING",
    "money": "STRING",
    "boolean": "BOOLEAN",
    "character(5)": "CHAR(5)",
    "bpchar": "STRING",
    "character varying(20)": "VARCHAR(20)",
    "character varying": "STRING",
    "text": "STRING",
    '"char"': "STRING",
    "bytea": "BYTES",
    "date": "DATE",
    "time(3) without time zone": "TIME(3)",
    "time without time zone": "STRING",
    "time(2) with time zone": "STRING",
    "timestamp without time zone": "TIMESTAMP(6)",
    "timestamp(3) without time zone": "TIMESTAMP(3)",
    "timestamp(0) with time zone": "TIMESTAMP(0) WITH LOCAL TIME ZONE",
    "timestamp with time zone": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "interval": "STRING",
    "interval day to second(3)": "STRING",
    "interval(2)": "STRING",
    "uuid": "STRING",
    "bit(1)": "BOOLEAN",
    "bit(9)": "BINARY(2)",
    "bit varying(9)": "STRING",
    "bit varying": "STRING",
    "public.mood": "STRING",
    'public."A (odd) type"': "STRING",
    "public.geometry(Point,4326)": "STRING",
    "int4range": "STRING",
    "integer[]": "ARRAY<INT>",
    "numeric(12,2)[]": "ARRAY<DECIMAL(12, 2)>",
    "timestamp(3) without time zone[]": "ARRAY<TIMESTAMP(3)>",
    'public."My mood"[]': "ARRAY<STRING>",
}


@pytest.mark.parametrize(("source", "expected"), TYPES.items())
def test_types_in_the_lake(source: str, expected: str) -> None:
    type_ = parse_source_type(source)
    assert str(lake_type(type_, nullable=True)) == expected
    assert str(lake_type(type_, nullable=False)) == f"{expected} NOT NULL"


@pytest.mark.parametrize(
    ("mapping", "source", "expected"),
    [
        ("to-nullable", "integer", "INT"),
        ("to-string", "integer[]", "STRING NOT NULL"),
        ("char-to-string", "character varying(3)", "STRING NOT NULL"),
        ("char-to-string", "character(3)", "STRING NOT NULL"),
        ("array-to-string", "integer[]", "STRING NOT NULL"),
        ("numeric-to-decimal", "numeric", "DECIMAL(38, 18) NOT NULL"),
        ("numeric-to-decimal", "numeric(40,2)", "STRING NOT NULL"),
        ("Numeric-To-Decimal, numeric-not-string", "numeric", "DECIMAL(38, 18) NOT NULL"),
    ],
)
def test_choices(mapping: str, source: str, expected: str) -> None:
    type_ = lake_type(
        parse_source_type(source), nullable=False, mapping=parse_type_mapping(mapping)
    )
    assert str(type_) == expected


def test_types_that_are_rejected() -> None:
    with pytest.raises(Unsupported, match="'regclass' is not followed"):
        lake_type(parse_source_type("regclass"), nullable=True)
    with pytest.raises(Unsupported, match="'regclass' is not followed"):
        lake_type(parse_source_type("regclass[]"), nullable=True)
    mapping = parse_type_mapping("numeric-not-string")
    for source in ("numeric", "numeric(40,2)"):
        with pytest.raises(Unsupported, match="at most 38 digits"):
            lake_type(parse_source_type(source), nullable=True, mapping=mapping)
    with pytest.raises(Invalid, match="type_mapping 'nothing' is not known"):
        parse_type_mapping("nothing")
