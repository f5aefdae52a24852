"""Every cast there is, of values at the edges: what Paimon's Java library makes of them."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from headwater.client.lake import Lake
from headwater.storage.casts.cast import cast
from headwater.storage.casts.type_changes import equal_types, refuse_type_change
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import UpdateColumnType
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType, Json, parse_type, to_arrow
from headwater.storage.types.values import units_per_second

from .cast_edges import TYPES, edges, pairs
from .conftest import TOKEN, Service
from .java_client import JavaClient

ZONE = "America/New_York"
_FLOATS = (Root.FLOAT, Root.DOUBLE)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_TEXT = (Root.CHAR, Root.VARCHAR)


class Failed:
    """No value."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return f"<{self.why}>"


class JavaCasts:
    """Paimon's CastExecutors, on one value after the other."""

    def __init__(self, gateway: JavaGateway, version: str) -> None:
        self._jvm: Any = gateway.jvm
        self._paimon = self._jvm.org.apache.paimon
        self._newer = version >= "1.4"

    def data_type(self, document: Json) -> Any:
        field = json.dumps({"id": 0, "name": "f", "type": document})
        kind = self._jvm.java.lang.Class.forName("org.apache.paimon.types.DataField")
        return self._paimon.utils.JsonSerdeUtil.fromJson(field, kind).type()

    def allows(self, old: Json, new: Json, *, explicit: bool) -> bool:
        """What SchemaManager asks before it changes a type."""
        old_type, new_type = self.data_type(old), self.data_type(new)
        if not self._paimon.types.DataTypeCasts.supportsCast(old_type, new_type, explicit):
            return False
        return self._paimon.casting.CastExecutors.resolve(old_type, new_type) is not None

    @contextmanager
    def in_zone(self, name: str) -> Iterator[None]:
        """With another default time zone."""
        zones = self._jvm.java.util.TimeZone
        before = zones.getDefault()
        zones.setDefault(zones.getTimeZone(name))
        yield
        zones.setDefault(before)

    def rows(self, text: str) -> list[Any]:
        """One row for each edge of a type."""
        data_type = parse_type(text)
        assert isinstance(data_type, AtomicType)
        return [self._row(value, data_type) for value in edges(text)]

    def _row(self, value: object, data_type: AtomicType) -> Any:
        row = self._paimon.data.BinaryRow(1)
        fields = self._paimon.data.BinaryRowWriter(row)
        match data_type.root:
            case Root.BOOLEAN:
                fields.writeBoolean(0, value)
            case Root.TINYINT:
                fields.writeByte(0, value)
            case Root.SMALLINT:
                fields.writeShort(0, value)
            case Root.BIGINT:
                fields.writeLong(0, value)
            case Root.FLOAT:
                # Py4J can neither send NaN nor infinities.
                fields.writeInt(0, struct.unpack("<i", struct.pack("<f", value))[0])
            case Root.DOUBLE:
                fields.writeLong(0, struct.unpack("<q", struct.pack("<d", value))[0])
            case Root.DECIMAL:
                number = self._jvm.java.math.BigDecimal(
                    self._jvm.java.math.BigInteger(value), data_type.scale
                )
                decimal = self._paimon.data.Decimal.fromBigDecimal(
                    number, data_type.precision, data_type.scale
                )
                fields.writeDecimal(0, decimal, data_type.precision)
            case Root.CHAR | Root.VARCHAR:
                fields.writeString(0, self._paimon.data.BinaryString.fromString(value))
            case Root.BINARY | Root.VARBINARY:
                assert isinstance(value, bytes)
                fields.writeBinary(0, value, *((0, len(value)) if self._newer else ()))
            case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
                assert isinstance(value, int)
                millis, nanos = divmod(value, 10**6)
                moment = self._paimon.data.Timestamp.fromEpochMillis(millis, nanos)
                fields.writeTimestamp(0, moment, data_type.precision)
            case _:
                fields.writeInt(0, value)
        fields.complete()
        return row

    def getter(self, old: str, new: str) -> Any:
        """What reads a row's value and casts it, as Paimon's readers do."""
        old_type, new_type = self.data_type(old), self.data_type(new)
        field = self._paimon.data.InternalRow.createFieldGetter(old_type, 0)
        executor = self._paimon.casting.CastExecutors.resolve(old_type, new_type)
        name = ("f",) if self._newer else ()
        return self._paimon.casting.CastFieldGetter(field, executor, *name)

    def cast(self, getter: Any, row: Any, new: AtomicType) -> object:
        try:
            return self._plain(getter.getFieldOrNull(row), new)
        except Py4JJavaError as error:
            return Failed(str(error.java_exception))

    def _plain(self, value: Any, data_type: AtomicType) -> object:
        if value is None:
            return None
        match data_type.root:
            case Root.CHAR | Root.VARCHAR:
                return bytes(value.toBytes())
            case Root.DECIMAL:
                return Decimal(value.toString())
            case Root.BINARY | Root.VARBINARY:
                return bytes(value)
            case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
                return int(value.getMillisecond()) * 10**6 + int(value.getNanoOfMillisecond())
            case Root.FLOAT:
                return struct.unpack("<f", struct.pack("<f", value))[0]  # sent with few digits
        result: object = value
        return result


def ours(values: list[object], old: AtomicType, new: AtomicType) -> list[object]:
    """Headwater's casts, all at once where none fails, and else one by one."""
    zone = ZoneInfo(ZONE)
    array = column(values, old)
    try:
        return plain(cast(array, old, new, lambda: zone), new)
    except Invalid:
        found: list[object] = []
        for at in range(len(array)):
            try:
                found += plain(cast(array.slice(at, 1), old, new, lambda: zone), new)
            except Invalid as error:
                found.append(Failed(error.message))
        return found


def column(values: list[object], data_type: AtomicType) -> pa.Array:
    target = to_arrow(data_type)
    match data_type.root:
        case Root.DECIMAL:
            decimals = [Decimal(f"{value}E-{data_type.scale}") for value in values]
            return pa.array(decimals, target)
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            step = 10**9 // units_per_second(data_type)
            ticks = [value // step for value in values if isinstance(value, int)]
            return pa.array(ticks, pa.int64()).cast(pa.timestamp(target.unit)).cast(target)
        case Root.DATE | Root.TIME:
            return pa.array(values, pa.int32()).view(target)
    return pa.array(values, target)


def plain(array: pa.Array, data_type: AtomicType) -> list[object]:
    """Values in the form of `JavaCasts.cast`."""
    array.validate(full=True)
    assert array.type == to_arrow(data_type)
    match data_type.root:
        case Root.CHAR | Root.VARCHAR:
            found: list[object] = array.cast(pa.binary()).to_pylist()
            return found
        case Root.DATE | Root.TIME:
            found = array.view(pa.int32()).to_pylist()
            return found
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            step = 10**9 // units_per_second(data_type)
            ticks = array.view(pa.int64()).to_pylist()
            return [None if value is None else value * step for value in ticks]
    found = array.to_pylist()
    return found


def same(ours: object, java: object) -> bool:
    if isinstance(ours, Failed) and isinstance(java, Failed):
        return True
    if isinstance(ours, float) and isinstance(java, float):
        return struct.pack("<d", ours) == struct.pack("<d", java) or ours != ours != java != java
    return type(ours) is type(java) and ours == java


@pytest.fixture
def java(java_gateway: JavaGateway, java_version: str) -> JavaCasts:
    return JavaCasts(java_gateway, java_version)


def beyond_arrow(java: object, new: AtomicType) -> bool:
    """Whether Java has a value that Headwater refuses because Arrow's type cannot hold it."""
    if not isinstance(java, int):
        return False
    if new.root is Root.TIME:
        return not 0 <= java < 86_400_000
    # A day less, for seconds and fractions are put together.
    return new.root in _TIMESTAMPS and abs(java) + 86_400 * 10**9 >= 2**63 * (
        10**9 // units_per_second(new)
    )


def wraps(value: object, new: AtomicType) -> bool:
    """Whether a number of seconds becomes nonsense in Java, which is refused."""
    number = int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value
    return new.root in _TIMESTAMPS and isinstance(number, int) and abs(number) >= 2**63 // 1000


def mended_since(version: str, old: AtomicType, value: object, new: AtomicType) -> bool:
    """Whether an earlier release had a mistake that newer ones have not, and Headwater neither."""
    if version >= "2.1":
        return False
    if old.root in _TIMESTAMPS and isinstance(value, int):
        if new.root in (Root.DATE, Root.TIME):
            return value < 0  # counted towards the epoch
        # The zeros a fraction begins with were not counted.
        return new.root in _TIMESTAMPS and 0 < value % 10**9 < 10**8
    if old.root in _TEXT and isinstance(value, str):
        is_time = new.root in (Root.DATE, Root.TIME, *_TIMESTAMPS)
        # Neither was read: negative numbers, and a T before the time.
        return is_time and (value.startswith("-") or "T" in value)
    return False


def shorter(ours: object, java: object, new: AtomicType) -> bool:
    """Whether the texts are of one number, and Java before version 19 wrote a digit too many."""
    if not isinstance(ours, bytes) or not isinstance(java, bytes) or b"E" not in ours + java:
        return False
    if new.length < 24:  # cut, perhaps in the exponent
        return ours[:8] == java[:8]
    return len(ours) < len(java) and struct.pack("<f", float(ours)) == struct.pack(
        "<f", float(java)
    )


@pytest.mark.interop_java
def test_values_are_javas(java: JavaCasts, java_version: str) -> None:
    different: list[str] = []
    compared = 0
    with java.in_zone(ZONE):
        for old in TYPES:
            rows = java.rows(old)
            for new in [new for one, new in pairs() if one == old]:
                stored, wanted = parse_type(old), parse_type(new)
                assert isinstance(stored, AtomicType)
                assert isinstance(wanted, AtomicType)
                getter = java.getter(old, new)
                results = ours(edges(old), stored, wanted)
                for value, row, mine in zip(edges(old), rows, results, strict=True):
                    theirs = java.cast(getter, row, wanted)
                    compared += 1
                    refused = isinstance(mine, Failed) and (
                        beyond_arrow(theirs, wanted) or wraps(value, wanted)
                    )
                    if not (
                        same(mine, theirs)
                        or refused
                        or mended_since(java_version, stored, value, wanted)
                        or (stored.root in _FLOATS and shorter(mine, theirs, wanted))
                    ):
                        different.append(f"{old} {value!r} as {new}: {mine!r}, Java {theirs!r}")
    assert different == []
    assert compared > 30_000


@pytest.mark.interop_java
def test_what_can_be_cast_is_what_java_casts(java: JavaCasts) -> None:
    nested: list[Json] = [
        {"type": "ARRAY", "element": "INT"},
        {"type": "MAP", "key": "INT", "value": "STRING"},
        {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]},
        {"type": "MULTISET", "element": "INT"},
    ]
    kinds: list[Json] = [*TYPES, *nested, "STRING NOT NULL", "VARIANT"]
    different: list[str] = []
    for old in kinds:
        for new in kinds:
            one, other = parse_type(old), parse_type(new)
            if equal_types(one, other):
                continue
            for explicit in (True, False):
                allowed = java.allows(old, new, explicit=explicit)
                if allowed != takes(one, other, explicit=explicit):
                    different.append(f"{one} to {other}, explicit {explicit}: Java {allowed}")
    assert different == []


def takes(old: DataType, new: DataType, *, explicit: bool) -> bool:
    """Whether Headwater lets a column's type be changed so."""
    try:
        refuse_type_change("c", old, new, explicit=explicit)
    except Invalid:
        return False
    return True


OLD = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("d", pa.decimal128(10, 4)),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.date32())])),
    ]
)
NEW = {
    "n": "INT",
    "f": "STRING",
    "s": "DECIMAL(5, 1)",
    "d": "DECIMAL(4, 2)",
    "at": "DATE",
    "day": "TIMESTAMP(6)",
    "flag": "VARCHAR(2)",
    "list": "STRING",
    "map": "STRING",
    "row": "STRING",
}


def old_rows(ids: range) -> pa.Table:
    moment = dt.datetime(2026, 3, 1, 10, 0, 0, 123456)
    rows = [
        {
            "id": i,
            "n": None if i % 5 == 0 else i * 10**9,
            "f": i * 1e6 / 7,
            "s": f"{i}.25",
            "d": Decimal(i * 50_005) / 10_000,
            "at": moment + dt.timedelta(hours=i),
            "day": dt.date(2026, 3, 1) - dt.timedelta(days=i * 1000),
            "flag": bool(i % 2),
            "list": None if i % 4 == 0 else [i, None, -i],
            "map": {} if i % 4 == 1 else {"a": i / 8, "b": None},
            "row": None if i % 4 == 2 else {"a": i, "b": dt.date(1970, 1, 1)},
        }
        for i in ids
    ]
    return pa.Table.from_pylist(rows, schema=OLD)


def by_id(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.sort_by("id").to_pylist()
    return rows


@pytest.mark.interop_java
@pytest.mark.parametrize("keys", [["id"], []])
def test_java_reads_columns_that_changed_as_headwater_does(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    keys: list[str],
) -> None:
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    name = f"interop.changed_{client.label}_{len(keys)}"
    options = {"bucket": "1", "bucket-key": "id"}
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, OLD, primary_keys=keys, options=options)
    table.write(old_rows(range(30)))
    table.write(old_rows(range(20, 40)) if keys else old_rows(range(30, 40)))
    table.alter(*(UpdateColumnType((column,), parse_type(text)) for column, text in NEW.items()))
    found = table.scan().to_arrow()
    assert found.num_rows == 40
    assert by_id(client.read(name)) == by_id(found)
    # What Java writes lies beside the old files, or over them.
    client.write(name, found.filter(pa.compute.field("id") < 5))
    both = table.refresh().scan().to_arrow()
    assert both.num_rows == (40 if keys else 45)
    assert by_id(client.read(name)) == by_id(both)
    table.compact()
    assert by_id(table.scan().to_arrow()) == by_id(both)
    assert by_id(client.read(name)) == by_id(both)
