"""The lake's table after changes of the source's: rows from before, field ids, and order."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.cdc.ddl import ChangeColumn, ColumnDefinition, Syntax
from headwater.cdc.ddl import TableName as StatementTable
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.model.type_changes import keeps_values, wider_type
from headwater.cdc.mysql.column_types import lake_type, parse_source_type
from headwater.cdc.mysql.table_changes import apply_change
from headwater.cdc.mysql.type_synonyms import column_type
from headwater.cdc.sink.schema_changes import Narrowing, lake_columns, schema_changes
from headwater.cdc.sink.target_tables import target_schema
from headwater.client import Lake, connect
from headwater.storage.errors import Unsupported
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema_change import AddColumn, DropColumn, SetOption
from headwater.storage.types.data_type import ArrayType, parse_type, to_arrow

# A value of each type that the types after it in its family hold.
VALUES: Mapping[str, Any] = {
    "TINYINT": -7,
    "INT": -7,
    "BIGINT": -7,
    "DECIMAL(20, 0)": Decimal(7),
    "DECIMAL(6, 2)": Decimal("12.30"),
    "DECIMAL(9, 2)": Decimal("12.30"),
    "DECIMAL(6, 4)": Decimal("12.3000"),
    "VARCHAR(5)": "ab é",
    "VARCHAR(9)": "ab é",
    "STRING": "ab é",
    # Shorter ones are padded.
    "CHAR(5)": "ab cd",
    "CHAR(9)": "ab cd efg",
    "TIMESTAMP(0)": datetime.datetime(2024, 2, 29, 1, 2, 3),
    "TIMESTAMP(6)": datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    "DATE": datetime.date(2024, 2, 29),
    "TIME(0)": datetime.time(1, 2, 3),
    "TIME(3)": datetime.time(1, 2, 3, 4000),
    "BOOLEAN": True,
    "FLOAT": 0.5,
    "DOUBLE": 0.25,
    "VARBINARY(4)": b"\0\xff",
    "BYTES": b"\0\xff",
    "ARRAY<STRING>": ["x", "y"],
}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path / "lake") as lake:
        lake.create_database("copy")
        yield lake


def source(*columns: str, comment: str = "") -> SourceTable:
    """A table with key ``id``, of columns such as ``n INT NOT NULL COMMENT x``."""
    shape = []
    for column in ("id BIGINT NOT NULL", *columns):
        name, _, rest = column.partition(" ")
        type_, _, text = rest.partition(" COMMENT ")
        is_set = type_ == "ARRAY<STRING>"
        of_lake = ArrayType(parse_type("STRING")) if is_set else parse_type(type_)
        shape.append(SourceColumn(name, type_.lower(), of_lake, comment=text))
    return SourceTable(TableName("shop", "t"), tuple(shape), ("id",), comment)


def create(lake: Lake, table: SourceTable) -> Table:
    lake.drop_table("copy.t", ignore_if_not_exists=True)
    return lake.create_table("copy.t", target_schema(table, {"bucket": "1"}))


def change(
    lake: Lake, old: SourceTable, new: SourceTable, renames: Sequence[tuple[str, str]] = ()
) -> Table:
    table = lake.table("copy.t")
    changes = schema_changes(table.schema, old, new, renames)
    return lake.alter_table("copy.t", *changes) if changes else table


def write(table: Table, columns: Sequence[SourceColumn], key: int) -> dict[str, Any]:
    """Write a row with a value in each column, and return it."""
    row: dict[str, Any] = {}
    arrays = []
    for column in columns:
        bare = str(replace(column.type, nullable=True))
        # A DECIMAL may have become wider than those of the list.
        row[column.name] = key if column.name == "id" else VALUES.get(bare, Decimal(7))
        arrays.append(pa.array([row[column.name]], to_arrow(column.type)))
    table.write(pa.table(arrays, names=list(row)))
    return row


def rows(table: Table) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = table.scan().to_arrow().sort_by("id").to_pylist()
    return data


def shape(table: Table) -> list[tuple[str, str, str | None]]:
    return [(item.name, str(item.type), item.description) for item in table.schema.fields]


def ids(table: Table) -> dict[str, int]:
    return {item.name: item.id for item in table.schema.fields}


def test_columns_are_added_at_their_position(lake: Lake) -> None:
    old = source("a INT")
    create(lake, old)
    new = source("b INT NOT NULL", "a INT", "c STRING COMMENT new")
    new = replace(new, columns=(new.columns[1], new.columns[0], *new.columns[2:]))
    table = change(lake, old, new)
    # Rows that are there have no value of a column that is NOT NULL at the source.
    assert shape(table) == [
        ("b", "INT", None),
        ("id", "BIGINT NOT NULL", None),
        ("a", "INT", None),
        ("c", "STRING", "new"),
    ]
    assert [str(column.type) for column in lake_columns(new, table.schema)] == [
        "INT",
        "BIGINT NOT NULL",
        "INT",
        "STRING",
    ]


def test_swapped_names_keep_their_rows(lake: Lake) -> None:
    old = source("a INT", "b STRING", "c DATE", "_renamed_0 INT")
    table = create(lake, old)
    former = write(table, old.columns, 1)
    before = ids(table)
    new = source("b INT", "c STRING", "a DATE", "_renamed_0 INT")
    table = change(lake, old, new, [("a", "b"), ("b", "c"), ("c", "a")])
    assert shape(table)[1:4] == [("b", "INT", None), ("c", "STRING", None), ("a", "DATE", None)]
    assert ids(table) == {**before, "b": before["a"], "c": before["b"], "a": before["c"]}
    (row,) = rows(table)
    assert row == {**former, "b": former["a"], "c": former["b"], "a": former["c"]}


def test_a_key_column_is_renamed_and_no_more(lake: Lake) -> None:
    old = source("a INT")
    create(lake, old)
    key = SourceColumn("pk", "bigint", parse_type("BIGINT NOT NULL"))
    new = replace(old, columns=(key, old.columns[1]), primary_key=("pk",))
    assert change(lake, old, new, [("id", "pk")]).schema.primary_keys == ("pk",)
    schema = create(lake, old).schema
    wider = replace(old.columns[0], type=parse_type("DECIMAL(20, 0) NOT NULL"))
    text = replace(old.columns[0], type=parse_type("DATE NOT NULL"))
    for column, problem in (
        (wider, r"Cannot update primary key: \[id\]"),
        (text, "column 'id' of the key is BIGINT NOT NULL in the lake, and DATE NOT NULL"),
    ):
        with pytest.raises(Unsupported, match=problem):
            schema_changes(schema, old, replace(old, columns=(column, old.columns[1])))
    with pytest.raises(Unsupported, match=r"its primary key was \(id\) and is \(a\)"):
        schema_changes(schema, old, replace(old, primary_key=("a",)))


def test_a_narrower_type_is_kept_or_rejected(lake: Lake) -> None:
    old, new = source("a BIGINT", "b STRING"), source("a INT", "b VARCHAR(5)")
    table = create(lake, old)
    assert schema_changes(table.schema, old, new) == ()
    assert [str(column.type) for column in lake_columns(new, table.schema)[1:]] == [
        "BIGINT",
        "STRING",
    ]
    with pytest.raises(Unsupported, match=r"ALTER TABLE shop\.t MODIFY a bigint"):
        schema_changes(table.schema, old, new, narrowing=Narrowing.FAIL)
    # A type that grows again fits into what the lake has kept.
    assert schema_changes(table.schema, new, old, narrowing=Narrowing.FAIL) == ()


def test_comments_and_options_are_left_alone(lake: Lake) -> None:
    """apache/paimon#3088, #2011: a comment's change lost others, and NOT NULL."""
    old = source("a INT NOT NULL COMMENT one", "b INT COMMENT two", comment="all")
    create(lake, old)
    lake.alter_table("copy.t", SetOption("snapshot.num-retained.max", "77"))
    lake.alter_table("copy.t", AddColumn(("own",), parse_type("STRING"), "mine"))
    new = source("a BIGINT NOT NULL", "b INT COMMENT two", comment="some")
    table = change(lake, old, new)
    assert shape(table) == [
        ("id", "BIGINT NOT NULL", None),
        ("a", "BIGINT NOT NULL", None),
        ("b", "INT", "two"),
        ("own", "STRING", "mine"),
    ]
    assert table.schema.comment == "some"
    assert table.schema.options["snapshot.num-retained.max"] == "77"
    last = source("b INT COMMENT two", "a BIGINT")
    table = change(lake, new, last)
    assert [item[:2] for item in shape(table)] == [
        ("id", "BIGINT NOT NULL"),
        ("b", "INT"),
        ("own", "STRING"),
        ("a", "BIGINT"),
    ]
    assert table.schema.comment is None


def test_what_the_lake_rejects_is_named(lake: Lake) -> None:
    old, new = source("a INT"), source()
    table = create(lake, old)
    table = lake.alter_table("copy.t", SetOption("fields.a.ignore-retract", "true"))
    with pytest.raises(Unsupported, match=r"option .fields\.a\.ignore-retract. names it"):
        schema_changes(table.schema, old, new)
    with pytest.raises(Unsupported, match="column 'z' is not in the lake's table"):
        lake_columns(source("z INT"), table.schema)
    lake.alter_table("copy.t", AddColumn(("own",), parse_type("STRING")))
    with pytest.raises(Unsupported, match="has a column 'own' of its own"):
        change(lake, old, source("own INT"), [("a", "own")])


@st.composite
def tables(draw: st.DrawFn) -> tuple[SourceTable, SourceTable, list[tuple[str, str]]]:
    """A table, what it becomes, and the columns that are renamed."""
    types = st.sampled_from([*VALUES])
    former = {name: draw(types) for name in draw(st.permutations("abcde"))}
    stays = draw(st.lists(st.sampled_from([*former]), unique=True))
    names = draw(st.lists(st.sampled_from("abcdexyz"), unique=True, min_size=len(stays)))
    columns = {}
    renames = []
    for old, new in zip(stays, names, strict=False):
        columns[new] = draw(types) if draw(st.booleans()) else former[old]
        if old != new:
            renames.append((old, new))
    for name in names[len(stays) :]:
        # A name that stays without a rename is the same column.
        if name not in former or name in stays:
            columns[name] = draw(types)
    order = draw(st.permutations([*columns]))
    before = source(*(f"{name} {type_}" for name, type_ in former.items()))
    return before, source(*(f"{name} {columns[name]}" for name in order)), renames


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tables())
def test_rows_of_any_table_read_back(
    lake: Lake, change_of_table: tuple[SourceTable, SourceTable, list[tuple[str, str]]]
) -> None:
    old, new, renames = change_of_table
    table = create(lake, old)
    former = write(table, old.columns, 1)
    before = ids(table)
    table = change(lake, old, new, renames)
    assert [item.name for item in table.schema.fields] == [column.name for column in new.columns]
    names = {column.name: column.name for column in old.columns if column.name not in dict(renames)}
    names |= {new_name: old_name for old_name, new_name in renames}
    types = {column.name: column.type for column in old.columns}
    wanted: dict[str, Any] = {}
    for column, field in zip(new.columns, table.schema.fields, strict=True):
        previous = names.get(column.name)
        is_kept = previous is not None and keeps_values(types[previous], column.type)
        assert (field.id == before.get(previous or "")) == is_kept
        wanted[column.name] = former[previous] if is_kept and previous is not None else None
        if is_kept and previous is not None:
            assert field.type == wider_type(types[previous], column.type)
    columns = lake_columns(new, table.schema)
    after = write(table, columns, 2)
    assert rows(table) == [wanted, after]


SOURCE_TYPES = """
TINYINT|TINYINT(1)|SMALLINT|INT|INT UNSIGNED|BIGINT|BIGINT UNSIGNED|DECIMAL(6,2)|DECIMAL(9,2)
DECIMAL(20,2)|DECIMAL(9,4)|DECIMAL(38,4)|DECIMAL(40,4)|FLOAT|DOUBLE|BIT(1)|BIT(9)|VARCHAR(5)
VARCHAR(9)|CHAR(5)|CHAR(9)|TEXT|LONGTEXT|ENUM('a')|ENUM('a','b')|SET('a')|DATE|TIME|TIME(3)|TIME(6)
DATETIME|DATETIME(6)|TIMESTAMP|BINARY(4)|VARBINARY(4)|VARBINARY(9)|BLOB|JSON|POINT|YEAR
"""


@settings(max_examples=300)
@given(st.lists(st.sampled_from(SOURCE_TYPES.replace("\n", "|").strip("|").split("|")), min_size=2))
def test_a_column_is_replaced_only_if_the_table_is_read_again(types: list[str]) -> None:
    """Also after the lake has kept a type that was wider at some time."""
    syntax = Syntax(mariadb=True)
    text = column_type(types[0], syntax=syntax)
    column = SourceColumn(
        "a",
        text,
        lake_type(parse_source_type(text), nullable=True),
        collation="utf8mb4_general_ci",
    )
    table = replace(source(), columns=(*source().columns, column))
    existing = new_table_schema(target_schema(table), 0)
    for type_ in types[1:]:
        change_of_type = ChangeColumn(StatementTable("shop", "t"), ColumnDefinition("a", type_))
        result = apply_change(
            change_of_type, table, syntax=syntax, explicit_timestamps=True, strict=True
        )
        changes = schema_changes(existing, table, result.table)
        if any(isinstance(item, DropColumn) for item in changes):
            assert result.rereads is not None
        existing = apply_changes(existing, changes, now_millis=0, has_snapshots=True)
        table = result.table
