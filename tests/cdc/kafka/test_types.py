"""Every type of Kafka Connect and Debezium, from messages to columns of the lake."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cdc.kafka.connector import Column, EventTable, connect_type

from headwater.cdc.columns import BadDates
from headwater.cdc.kafka.events import Messages
from headwater.cdc.kafka.json_events import json_events
from headwater.cdc.kafka.table_rows import KafkaTableRows, definition
from headwater.cdc.model.tables import TableName
from headwater.cdc.source.log_batches import LoggedRows
from headwater.storage.errors import CorruptData, Invalid, Unsupported

DEBEZIUM, CONNECT = "io.debezium", "org.apache.kafka.connect.data"
ID = Column("id", connect_type("int64"))
# UUID.nameUUIDFromBytes("__debezium_unavailable_value".getBytes()) of Java.
PLACEHOLDER_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decimal(number: int) -> str:
    """The two's complement of a number, as short as it can be."""
    size = (number + (number < 0)).bit_length() // 8 + 1
    return encoded(number.to_bytes(size, "big", signed=True))


def messages(pairs: list[tuple[bytes | None, bytes | None]]) -> Messages:
    count = len(pairs)
    zeros = np.zeros(count, np.int32)
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return Messages(["t"], zeros, zeros, np.arange(count), keys, values)


def decoded(
    type_: Mapping[str, Any], *values: object, bad_dates: BadDates = BadDates.FAIL
) -> tuple[str, list[Any]]:
    """The lake's type of a column, and what its values become."""
    written: list[tuple[bytes | None, bytes | None]] = []
    columns = [ID, Column("v", type_)]
    table = EventTable(
        TableName("shop", "t"), "t", lambda _, key, value: written.append((key, value)), columns
    )
    for number, value in enumerate(values):
        table.insert({"id": number, "v": value})
    (group,) = json_events(messages(written)).groups
    source = definition(group)
    rows = KafkaTableRows(["id", "v"], [[group]])
    (logged,) = rows.decoded(source, bad_dates, ["id"])
    assert logged.rows.column("id").to_pylist() == list(range(len(values)))
    return str(source.columns[1].type), logged.rows.column("v").to_pylist()


def geometry(srid: int | None, wkb: bytes) -> dict[str, object]:
    return {"x": 1.0, "y": 2.0, "wkb": encoded(wkb), "srid": srid}


WKB = bytes.fromhex("0101000000000000000000f03f0000000000000040")
DAY = 19_000
INSTANT = datetime(2024, 2, 29, 12, 30, 45, 123456)
MICROS = int(INSTANT.replace(tzinfo=UTC).timestamp()) * 1_000_000 + 123456
TYPES: list[tuple[Mapping[str, Any], str, list[Any], list[Any]]] = [
    (connect_type("boolean"), "BOOLEAN", [True, False, None], [True, False, None]),
    (connect_type("int8"), "TINYINT", [-128, 127], [-128, 127]),
    (connect_type("int16"), "SMALLINT", [-32768, 32767], [-32768, 32767]),
    (connect_type("int32"), "INT", [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    (connect_type("int64"), "BIGINT", [-(2**63), 2**53 + 1], [-(2**63), 2**53 + 1]),
    (connect_type("float"), "FLOAT", [1.5, None], [1.5, None]),
    (
        *(connect_type("double"), "DOUBLE"),
        [0.1, 1e300, "Infinity", "-Infinity", 1],
        [0.1, 1e300, float("inf"), float("-inf"), 1.0],
    ),
    (
        *(connect_type("string"), "STRING"),
        ["", "null", 'q"\\\n\u00fc\U0001f600', None],
        ["", "null", 'q"\\\n\u00fc\U0001f600', None],
    ),
    (connect_type("bytes"), "BYTES", [encoded(b"\x00\xff"), "", None], [b"\x00\xff", b"", None]),
    (
        connect_type(
            "bytes", f"{CONNECT}.Decimal", scale="2", **{"connect.decimal.precision": "10"}
        ),
        "DECIMAL(10, 2)",
        [decimal(-1), decimal(0), decimal(12345678901 // 10), None, decimal(255)],
        [Decimal("-0.01"), Decimal("0.00"), Decimal("12345678.90"), None, Decimal("2.55")],
    ),
    (
        connect_type("bytes", f"{CONNECT}.Decimal", scale="0"),
        "DECIMAL(38, 0)",
        [decimal(10**37), decimal(-(10**37))],
        [Decimal(10**37), Decimal(-(10**37))],
    ),
    (
        connect_type(
            "bytes", f"{CONNECT}.Decimal", scale="30", **{"connect.decimal.precision": "65"}
        ),
        "STRING",
        [decimal(10**64 + 1), decimal(-5)],
        [f"{10**34}.{'0' * 29}1", "-5E-30"],
    ),
    (
        connect_type("struct", f"{DEBEZIUM}.data.VariableScaleDecimal"),
        "STRING",
        [
            {"scale": 2, "value": decimal(12345)},
            None,
            {"value": decimal(-(10**50)), "scale": 0},
            {"scale": 3, "value": decimal(7)},
        ],
        ["123.45", None, str(-(10**50)), "0.007"],
    ),
    (
        *(connect_type("int32", f"{DEBEZIUM}.time.Date"), "DATE"),
        [DAY, -1, None],
        [date(2022, 1, 8), date(1969, 12, 31), None],
    ),
    (connect_type("int32", f"{CONNECT}.Date"), "DATE", [DAY], [date(2022, 1, 8)]),
    (
        *(connect_type("int32", f"{DEBEZIUM}.time.Time"), "TIME(3)"),
        [0, 86_399_999],
        [time(0), time(23, 59, 59, 999_000)],
    ),
    (connect_type("int32", f"{CONNECT}.Time"), "TIME(3)", [1], [time(0, 0, 0, 1000)]),
    (
        *(connect_type("int64", f"{DEBEZIUM}.time.MicroTime"), "STRING"),
        [1, -(838 * 3600 + 59 * 60 + 59) * 1_000_000, 45_296_000_007],
        ["00:00:00.000001", "-838:59:59.000000", "12:34:56.000007"],
    ),
    (
        *(connect_type("int64", f"{DEBEZIUM}.time.NanoTime"), "STRING"),
        [45_296_000_000_007],
        ["12:34:56.000000007"],
    ),
    (
        *(connect_type("int64", f"{DEBEZIUM}.time.Timestamp"), "TIMESTAMP(3)"),
        [MICROS // 1000, -1],
        [INSTANT.replace(microsecond=123_000), datetime(1969, 12, 31, 23, 59, 59, 999_000)],
    ),
    (
        *(connect_type("int64", f"{CONNECT}.Timestamp"), "TIMESTAMP(3)"),
        [MICROS // 1000],
        [INSTANT.replace(microsecond=123_000)],
    ),
    (
        *(connect_type("int64", f"{DEBEZIUM}.time.MicroTimestamp"), "TIMESTAMP(6)"),
        [MICROS, None],
        [INSTANT, None],
    ),
    (
        *(connect_type("int64", f"{DEBEZIUM}.time.NanoTimestamp"), "TIMESTAMP(9)"),
        [MICROS * 1000],
        [INSTANT],
    ),
    (
        *(connect_type("string", f"{DEBEZIUM}.time.ZonedTimestamp"),),
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        ["2024-02-29T12:30:45.123456Z", "2024-02-29T14:30:45.123456+02:00", None],
        [INSTANT.replace(tzinfo=UTC), INSTANT.replace(tzinfo=UTC), None],
    ),
    (connect_type("int32", f"{DEBEZIUM}.time.Year"), "INT", [1901, 0], [1901, 0]),
    (connect_type("int64", f"{DEBEZIUM}.time.MicroDuration"), "BIGINT", [-5], [-5]),
    (connect_type("double", f"{DEBEZIUM}.time.MicroDuration"), "DOUBLE", [5.5], [5.5]),
    (connect_type("int64", f"{DEBEZIUM}.time.NanoDuration"), "BIGINT", [5], [5]),
    (connect_type("bytes", f"{DEBEZIUM}.data.Bits", length="9"), "BYTES", ["AQE="], [b"\x01\x01"]),
    *(
        (connect_type("string", f"{DEBEZIUM}.{name}"), "STRING", ["x", None], ["x", None])
        for name in (
            *("time.ZonedTime", "time.Interval", "time.IsoDate", "time.IsoTime"),
            *("time.IsoTimestamp", "data.Enum", "data.EnumSet", "data.Json", "data.Ltree"),
            *("data.Tsvector", "data.Uuid", "data.Xml"),
        )
    ),
    *(
        (
            *(connect_type("struct", f"{DEBEZIUM}.data.geometry.{name}"), "BYTES"),
            [geometry(4326, WKB), None, geometry(None, WKB)],
            [(4326).to_bytes(4, "little") + WKB, None, bytes(4) + WKB],
        )
        for name in ("Geometry", "Geography", "Point")
    ),
    (
        *({**connect_type("array"), "items": connect_type("int32")}, "ARRAY<INT>"),
        [[1, None, 3], [], None, [4]],
        [[1, None, 3], [], None, [4]],
    ),
    (
        {
            **connect_type("array"),
            "items": {**connect_type("array"), "items": connect_type("string")},
        },
        "ARRAY<ARRAY<STRING>>",
        [[["a", "b,]"], []], [None], None],
        [[["a", "b,]"], []], [None], None],
    ),
    (
        {
            **connect_type("array"),
            "items": connect_type("int64", f"{DEBEZIUM}.time.MicroTimestamp"),
        },
        "ARRAY<TIMESTAMP(6)>",
        [[MICROS]],
        [[INSTANT]],
    ),
    *(
        (
            {**connect_type("array", f"{DEBEZIUM}.data.{name}"), "items": connect_type(item)},
            f"ARRAY<{lake}>",
            [[1.5, 2]],
            [[1.5, 2.0]],
        )
        for name, item, lake in (
            ("FloatVector", "float", "FLOAT"),
            ("DoubleVector", "double", "DOUBLE"),
        )
    ),
]


@pytest.mark.parametrize(
    ("type_", "lake", "sent", "expected"),
    TYPES,
    ids=[f"{type_['type']}-{type_.get('name', '')}-{lake}" for type_, lake, *_ in TYPES],
)
def test_values(
    type_: Mapping[str, Any], lake: str, sent: list[object], expected: list[object]
) -> None:
    assert decoded(type_, *sent) == (lake, expected)


@pytest.mark.parametrize(
    ("type_", "values", "kinds"),
    [
        (
            connect_type("struct", f"{DEBEZIUM}.data.VariableScaleDecimal"),
            [{"scale": 1, "value": decimal(15)}, {"scale": 1, "value": decimal(16)}],
            [2, 1, 2],
        ),
        # Arrow does not compare arrays: each update counts as one of the key.
        ({**connect_type("array"), "items": connect_type("string")}, [["a"], ["b"]], [1, 2, 1, 2]),
        (connect_type("double"), ["Infinity", 2], [2, 1, 2]),
    ],
)
def test_updates_of_a_key(type_: Mapping[str, Any], values: list[object], kinds: list[int]) -> None:
    written: list[tuple[bytes | None, bytes | None]] = []
    table = EventTable(
        TableName("shop", "t"),
        "t",
        lambda _, key, value: written.append((key, value)),
        [Column("v", type_), ID],
    )
    table.rows[()] = {"v": values[0], "id": 1}
    table.key = 0
    table.update((), id=2)
    table.update((), v=values[1])
    (group,) = json_events(messages(written)).groups
    (logged,) = KafkaTableRows(["v", "id"], [[group]]).decoded(
        definition(group), BadDates.FAIL, ["v"]
    )
    assert logged.kinds.to_pylist() == kinds
    assert logged.left_out == 4 - len(kinds)


def test_not_a_number_is_one() -> None:
    _, (value, absent) = decoded(connect_type("double"), "NaN", None)
    assert value != value
    assert absent is None


def test_columns_without_any_value() -> None:
    for type_, lake, *_ in TYPES:
        assert decoded(type_, None, None) == (lake, [None, None])


def test_an_array_of_texts_in_the_order_of_rows() -> None:
    sent = [[f"{n}", "x" * (n % 5)] if n % 3 else None for n in range(1000)]
    type_ = {**connect_type("array"), "items": connect_type("string")}
    assert decoded(type_, *sent) == ("ARRAY<STRING>", sent)


@pytest.mark.parametrize(
    "type_",
    [
        connect_type("string", "com.example.Money"),
        connect_type("int64", "io.debezium.time.PicoTime"),
        {**connect_type("map"), "keys": connect_type("string"), "values": connect_type("string")},
        connect_type("struct", "io.debezium.data.SparseVector"),
        connect_type("struct"),
        connect_type("int128"),
    ],
)
def test_other_types_are_rejected_by_name(type_: Mapping[str, Any]) -> None:
    with pytest.raises(Unsupported, match=f"column 'v' of shop.t: type '{type_['type']}"):
        decoded(type_, None)


@pytest.mark.parametrize(
    ("type_", "value", "error"),
    [
        (connect_type("int32"), 2**31, "int32"),
        (connect_type("int32"), 1.5, "int32"),
        (connect_type("int64"), "1x", "int64"),
        (connect_type("boolean"), 2, "boolean"),
        (connect_type("string"), 5, "not of type 'string'"),
        (connect_type("bytes"), "§", "bytes"),
        (connect_type("int32", "io.debezium.time.Time"), 86_400_000, "not within a day"),
        (connect_type("string", "io.debezium.time.ZonedTimestamp"), "infinity", "'infinity'"),
        (connect_type("string"), "__debezium_unavailable_value", "TOAST"),
        (connect_type("bytes"), encoded(b"__debezium_unavailable_value"), "TOAST"),
        (
            {**connect_type("array"), "items": connect_type("string")},
            ["__debezium_unavailable_value"],
            "TOAST",
        ),
        (
            {**connect_type("array"), "items": connect_type("int32")},
            list(b"__debezium_unavailable_value"),
            "TOAST",
        ),
        (
            {**connect_type("array"), "items": connect_type("string", f"{DEBEZIUM}.data.Uuid")},
            [PLACEHOLDER_UUID],
            "TOAST",
        ),
        (
            connect_type("string", f"{DEBEZIUM}.data.Json"),
            '{"__debezium_unavailable_value":"__debezium_unavailable_value"}',
            "TOAST",
        ),
        (
            connect_type(
                "bytes", f"{CONNECT}.Decimal", scale="2", **{"connect.decimal.precision": "3"}
            ),
            decimal(1000),
            "DECIMAL",
        ),
    ],
)
def test_values_that_do_not_fit_are_rejected(
    type_: Mapping[str, Any], value: object, error: str
) -> None:
    with pytest.raises((Invalid, CorruptData), match=error):
        decoded(type_, value)


VARIABLE = connect_type("struct", f"{DEBEZIUM}.data.VariableScaleDecimal")
NUMBERS = {**connect_type("array"), "items": connect_type("int32")}


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (connect_type("int64"), '"5"'),
        (connect_type("int64"), '"0x10"'),
        (connect_type("int64"), "true"),
        (connect_type("int64"), "[1]"),
        (connect_type("int64"), "9223372036854775808"),
        (connect_type("int32"), "1.5"),
        (connect_type("int8"), "128"),
        (connect_type("float"), "1e39"),
        (connect_type("float"), "-1e39"),
        (connect_type("double"), '"1.5"'),
        (connect_type("double"), '"inf"'),
        (connect_type("double"), "true"),
        (connect_type("boolean"), "1"),
        (connect_type("boolean"), '"true"'),
        (connect_type("string"), "{}"),
        (connect_type("bytes"), "[1]"),
        (connect_type("bytes"), '"AQE"'),
        (NUMBERS, '"abc"'),
        (NUMBERS, '{"a": [1]}'),
        (NUMBERS, '[1, "2"]'),
        (NUMBERS, "5"),
        (VARIABLE, '"12.5"'),
        (VARIABLE, "[1]"),
        (VARIABLE, '{"scale": "1", "value": "AQ=="}'),
        (VARIABLE, '{"scale": 1, "value": 5}'),
        (VARIABLE, '{"value": "AQ=="}'),
        (VARIABLE, "{}"),
        (connect_type("struct", f"{DEBEZIUM}.data.geometry.Point"), "7"),
    ],
)
def test_values_of_another_type_are_corrupt(type_: Mapping[str, Any], value: str) -> None:
    with pytest.raises(CorruptData, match="partition 0, offset 2: the message has the value"):
        decoded(type_, None, None, json.loads(value), None)


@pytest.mark.parametrize("image", ["before", "after"])
@pytest.mark.parametrize("value", ["5", "[1]", '"text"', "true"])
def test_rows_that_are_not_objects_are_corrupt(image: str, value: str) -> None:
    right = b'{"op":"u","before":{"id":1},"after":{"id":1},"source":{"db":"shop","table":"t"}}'
    wrong = right.replace(f'"{image}":{{"id":1}}'.encode(), f'"{image}":{value}'.encode())
    where = f"partition 0, offset 1: the message has the value {re.escape(value)}, which is not an"
    with pytest.raises(CorruptData, match=where):
        json_events(messages([(b'{"id":1}', right), (b'{"id":1}', wrong)]))


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (b'{"op":"c","after":{"id":1},"source":"shop"}', '"shop"'),
        (b'{"schema":{"fields":[]},"payload":[1]}', "[1]"),
    ],
)
def test_events_without_their_objects_are_corrupt(message: bytes, value: str) -> None:
    where = f"partition 0, offset 0: the message has the value {re.escape(value)}"
    with pytest.raises(CorruptData, match=where):
        json_events(messages([(b'{"id":1}', message)]))


def test_instants_beyond_the_lake_may_be_null() -> None:
    type_ = connect_type("string", f"{DEBEZIUM}.time.ZonedTimestamp")
    sent = ["+292278994-08-16T23:00:00Z", "2024-02-29T12:30:45.123456Z"]
    _, values = decoded(type_, *sent, bad_dates=BadDates.NULL)
    assert values == [None, INSTANT.replace(tzinfo=UTC)]


def decoded_without_schema(value: object) -> LoggedRows:
    """A row whose column ``v`` has a value, of a message without a schema."""
    event = {
        "before": None,
        "after": {"id": 1, "v": value},
        "source": {"db": "shop", "table": "t"},
        "op": "c",
    }
    text = json.dumps(event, separators=(",", ":")).encode()
    (group,) = json_events(messages([(b'{"id": 1}', text)])).groups
    source = definition(group)
    assert [str(column.type) for column in source.columns] == ["STRING NOT NULL", "STRING"]
    (logged,) = KafkaTableRows(["id", "v"], [[group]]).decoded(source, BadDates.FAIL)
    return logged


def test_a_column_without_a_schema_is_text() -> None:
    logged = decoded_without_schema({"a": [1.10]})
    assert logged.rows.to_pylist() == [{"id": "1", "v": '{"a":[1.1]}'}]
    assert logged.kinds.to_pylist() == [0]
    assert logged.rows.schema.field("id").type == pa.string()


@pytest.mark.parametrize(
    "sent",
    [
        "__debezium_unavailable_value",
        encoded(b"__debezium_unavailable_value"),
        b"__debezium_unavailable_value".hex(),
        ["__debezium_unavailable_value"],
        list(b"__debezium_unavailable_value"),
        [encoded(b"__debezium_unavailable_value")],
        [PLACEHOLDER_UUID],
        {"__debezium_unavailable_value": "__debezium_unavailable_value"},
    ],
)
def test_a_value_without_a_schema_that_was_left_out_is_rejected(sent: object) -> None:
    with pytest.raises(Invalid, match="TOAST"):
        decoded_without_schema(sent)


@pytest.mark.parametrize("bad_dates", list(BadDates))
def test_instants_have_six_digits_of_seconds(bad_dates: BadDates) -> None:
    type_ = connect_type("string", f"{DEBEZIUM}.time.ZonedTimestamp")
    digits = ["", ".1", ".123456", ".1234567", ".12345678", ".123456789", ".999999999"]
    sent = [
        f"2024-02-29T12:30:45{fraction}{zone}" for fraction in digits for zone in ("Z", "+00:00")
    ]
    _, values = decoded(type_, *sent, None, bad_dates=bad_dates)
    micros = [0, 100_000, *[123_456] * 4, 999_999]
    start = INSTANT.replace(tzinfo=UTC)
    expected = [start.replace(microsecond=number) for number in micros for _ in range(2)]
    assert values == [*expected, None]


def test_an_array_of_instants_that_no_row_has() -> None:
    instants = connect_type("string", f"{DEBEZIUM}.time.ZonedTimestamp")
    type_ = {**connect_type("array"), "items": instants}
    lake = "ARRAY<TIMESTAMP(6) WITH LOCAL TIME ZONE>"
    assert decoded(type_, None, []) == (lake, [None, []])


def _spaced(message: bytes) -> bytes:
    return json.dumps(json.loads(message)).encode()


def _turned(message: bytes) -> bytes:
    return json.dumps(dict(reversed(json.loads(message).items()))).encode()


def _with_more(message: bytes) -> bytes:
    return message.removesuffix(b"}") + b',"more":{"payload":{"op":"d"}}}'


def _bare(message: bytes) -> bytes:
    return json.dumps(json.loads(message)["payload"]).encode()


@pytest.mark.parametrize(
    "rewrites",
    [
        [bytes],
        [_spaced],
        [_turned],
        [_with_more],
        [bytes, _with_more],
        [_with_more, bytes, _spaced, _turned],
    ],
)
def test_messages_around_their_payload(rewrites: list[Callable[[bytes], bytes]]) -> None:
    written: list[tuple[bytes | None, bytes | None]] = []

    def write(topic: str, key: bytes | None, value: bytes | None) -> None:
        rewrite = rewrites[len(written) % len(rewrites)]
        written.append((key and rewrite(key), value and rewrite(value)))

    columns = [ID, Column('a,"payload":{}', connect_type("string"))]
    tables = [EventTable(TableName("shop", name), "t", write, columns) for name in ("t", "u")]
    for number in range(12):
        for table in tables:
            table.insert({"id": number, columns[1].name: f'{{"schema":{number}}}'})
    rows: dict[str, list[dict[str, Any]]] = {}
    for group in json_events(messages(written)).groups:
        source = definition(group)
        assert [str(column.type) for column in source.columns] == ["BIGINT NOT NULL", "STRING"]
        names = [column.name for column in columns]
        (logged,) = KafkaTableRows(names, [[group]]).decoded(source, BadDates.FAIL)
        rows.setdefault(group.table.table, []).extend(logged.rows.to_pylist())
    for table in tables:
        ordered = sorted(rows[table.name.table], key=lambda row: row["id"])
        assert ordered == list(table.rows.values())


@pytest.mark.parametrize(
    "source_time", ['"now"', "1.5", "null", "true", "{}", "99999999999999999999"]
)
def test_a_source_time_that_is_not_an_integer_is_absent(source_time: str) -> None:
    text = '{"op":"c","after":{"id":1},"source":{"db":"shop","table":"t","ts_ms":%s}}'
    pairs = [(None, (text % value).encode()) for value in (source_time, "5")]
    assert json_events(messages([*pairs])).source_time == 5
    assert json_events(messages([pairs[0]])).source_time == 0


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_messages_whose_schema_is_null(separators: tuple[str, str]) -> None:
    event = {"op": "c", "after": {"id": 1}, "source": {"db": "shop", "table": "t"}}
    key, value = (
        json.dumps({"schema": None, "payload": payload}, separators=separators).encode()
        for payload in ({"id": 1}, event)
    )
    (group,) = json_events(messages([(key, value)]), has_schema=False).groups
    assert [str(column.type) for column in definition(group).columns] == ["STRING NOT NULL"]


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (b'{"schema":{"type":"int32","optional":false},"payload":1}', "is of type 'int32'"),
        (b'{"schema":5,"payload":{"id":1}}', "not one of Kafka Connect"),
        (b"1", "not an object of JSON"),
    ],
)
def test_keys_that_are_not_structs(key: bytes, problem: str) -> None:
    event = b'{"op":"c","after":{"id":1},"source":{"db":"shop","table":"t"}}'
    with pytest.raises(CorruptData, match=f"partition 0, offset 1: the key.*{problem}"):
        json_events(messages([(b'{"id":1}', event), (key, event)]))


def test_messages_with_and_without_their_schema() -> None:
    written: list[tuple[bytes | None, bytes | None]] = []
    table = EventTable(
        TableName("shop", "t"), "t", lambda _, key, value: written.append((key, value)), [ID]
    )
    for number in range(4):
        table.insert({"id": number})
    mixed = [
        (key, value if at % 2 else _bare(value or b"")) for at, (key, value) in enumerate(written)
    ]
    groups = json_events(messages(mixed)).groups
    assert [group.rows.tolist() for group in groups] == [[0, 2], [1, 3]]
    for has_schema in (True, False):
        with pytest.raises(Unsupported, match="schema-include"):
            json_events(messages(mixed), has_schema=has_schema)
    assert len(json_events(messages(written), has_schema=True).groups) == 1


@pytest.mark.parametrize(
    "broken",
    [
        b'{"schema":null,"payload":{"op":"c"}},{"op":"c"}}',
        b'{"schema":null,"payload":{"op":"c"}\n{"op":"c"}}',
        b'{"schema":null,"payload":}',
        b'{"schema":{,"payload":{"op":"c"}}',
    ],
)
def test_messages_that_are_not_json(broken: bytes) -> None:
    with pytest.raises(CorruptData, match="JSON"):
        json_events(messages([(None, broken)]))
