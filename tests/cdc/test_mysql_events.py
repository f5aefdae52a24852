"""Events, table maps, rows and compression, from bytes that are made here."""

from __future__ import annotations

import pickle
import struct
import zlib
from itertools import accumulate, count, groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cdc.columns.gather import PADDING
from headwater.cdc.mysql import (
    Event,
    EventDecoder,
    EventType,
    PackedRows,
    RowBatch,
    decode_rows,
    expand,
    parse_format_description,
    parse_query,
    parse_rotation,
    parse_table_map,
    read_log_file,
)
from headwater.storage.errors import CorruptData, Invalid, Unsupported

IN_USE, IGNORABLE = 0x01, 0x80


def event_bytes(type_: int, body: bytes, *, flags: int = 0, checksum: bool = True) -> bytes:
    size = 19 + len(body) + (4 if checksum else 0)
    data = struct.pack("<IBIIIH", 1_700_000_000, type_, 1, size, 0, flags) + body
    covered = data[:17] + bytes([flags & ~IN_USE, flags >> 8]) + data[19:]
    return data + (struct.pack("<I", zlib.crc32(covered)) if checksum else b"")


def format_description(*, algorithm: int = 1, version: int = 4, flags: int = 0) -> bytes:
    server = b"10.11.19-MariaDB-log".ljust(50, b"\0")
    body = struct.pack("<H", version) + server + bytes(4) + bytes([19]) + bytes(40)
    return event_bytes(EventType.FORMAT_DESCRIPTION, body + bytes([algorithm]), flags=flags)


def packed(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def table_map(
    *fields: tuple[int, bytes], types: bytes = b"\x03\x0f", meta: bytes = b"\x14\0"
) -> bytes:
    """Of a table t (id INT NOT NULL, name VARCHAR(20)), unless other types are named."""
    body = struct.pack("<IHH", 7, 0, 1) + packed(b"shop") + b"\0" + packed(b"t") + b"\0"
    body += packed(types) + packed(meta) + b"\2"
    return body + b"".join(bytes([field]) + packed(data) for field, data in fields)


FULL = (
    (1, b"\0"),
    (2, bytes([45])),
    (4, packed(b"id") + packed(b"name")),
    (8, b"\0"),
)


def rows_body(rows: bytes, *, version: int = 2, images: bytes = b"\3") -> bytes:
    extra = struct.pack("<H", 2) if version == 2 else b""
    return struct.pack("<IHH", 7, 0, 1) + extra + b"\2" + images + rows


def row(number: int, name: bytes | None) -> bytes:
    if name is None:
        return b"\2" + struct.pack("<i", number)
    return b"\0" + struct.pack("<i", number) + packed(name)


def only_event(data: bytes) -> Event:
    return EventDecoder("log.000001").decode(data)


def plain(type_: int, body: bytes) -> Event:
    return only_event(event_bytes(type_, body, checksum=False))


def batch(*events: Event) -> RowBatch:
    shape = parse_table_map(plain(EventType.TABLE_MAP, table_map(*FULL))).shape
    rows = PackedRows()
    for event in events:
        rows.add(event)
    (slab,) = rows.slabs()
    return decode_rows(shape, slab)


def test_a_file_is_cut_into_events(tmp_path: Path) -> None:
    path = tmp_path / "log.000001"
    rotate = event_bytes(EventType.ROTATE, struct.pack("<Q", 4) + b"log.000002")
    query = struct.pack("<IIBHH", 5, 0, 4, 0, 3) + b"abc" + b"shop\0" + b"BEGIN"
    path.write_bytes(
        b"\xfebin"
        + format_description(flags=IN_USE)
        + event_bytes(EventType.QUERY, query)
        + event_bytes(200, b"new", flags=IGNORABLE)
        + rotate
    )
    description, statement, unknown, rotation = read_log_file(path)
    assert parse_format_description(description) == ("10.11.19-MariaDB-log", True)
    assert parse_query(statement) == (5, 0, "shop", b"BEGIN", b"abc")
    assert (unknown.type, bytes(unknown.body)) == (200, b"new")
    assert parse_rotation(rotation) == ("log.000002", 4)
    assert rotation.size == len(rotate)


def test_a_format_description_switches_checksums_off() -> None:
    decoder = EventDecoder("a server", checksums=True)
    assert decoder.decode(event_bytes(EventType.XID, bytes(8))).body.nbytes == 8
    data = format_description(algorithm=0)
    without = data + event_bytes(EventType.XID, bytes(8), checksum=False)
    assert [event.type for event in decoder.frame(without)] == [
        EventType.FORMAT_DESCRIPTION,
        EventType.XID,
    ]


@pytest.mark.parametrize("position", [30, 5, 60])
def test_a_changed_byte_is_an_error(position: int) -> None:
    data = bytearray(event_bytes(EventType.ROWS_QUERY, bytes(60)))
    data[position] ^= 1
    decoder = EventDecoder("log.000009", checksums=True)
    with pytest.raises(CorruptData, match=r"log\.000009 at position 0: checksum mismatch .*ROWS_Q"):
        decoder.decode(data)


def test_an_unknown_event_is_an_error_with_its_position() -> None:
    first = event_bytes(EventType.XID, bytes(8), checksum=False)
    data = first + event_bytes(200, b"", checksum=False)
    events = EventDecoder("log.000001").frame(data, position=100)
    assert next(events).type is EventType.XID
    with pytest.raises(
        Unsupported, match=f"position {100 + len(first)}: event type 200 is unknown"
    ):
        next(events)


@pytest.mark.parametrize("size", [1, 18, 19, 40])
def test_a_cut_off_event_is_an_error(size: int) -> None:
    data = event_bytes(EventType.ROWS_QUERY, bytes(60), checksum=False)
    with pytest.raises(CorruptData, match=f"position 0: expected an event of .*got {size} bytes"):
        EventDecoder("log.000001").decode(data[:size])


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        (b"\xfdbin", Unsupported, "the file is encrypted"),
        (b"PAR1", CorruptData, "expected fe62696e at the start of a binary log"),
        (b"\xfebin" + format_description(version=3), Unsupported, "got version 3"),
        (b"\xfebin" + format_description(algorithm=9), Unsupported, "checksum algorithm 9"),
        (
            b"\xfebin" + format_description() + event_bytes(164, bytes(17)),
            Unsupported,
            "the file is encrypted",
        ),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, start: bytes, error: type[Exception], message: str
) -> None:
    (tmp_path / "log").write_bytes(start)
    with pytest.raises(error, match=message):
        list(read_log_file(tmp_path / "log"))


@pytest.mark.parametrize("version", [1, 2])
def test_rows_of_both_versions_in_the_order_of_the_log(version: int) -> None:
    code = 23 if version == 1 else 30
    update = row(2, None) + row(2, b"b" * 20)
    result = batch(
        plain(code, rows_body(row(1, b"a") + row(2, None), version=version)),
        plain(code + 1, rows_body(update, version=version, images=b"\3\3")),
        plain(code + 2, rows_body(row(1, b"a"), version=version)),
        plain(code, rows_body(row(3, b""), version=version)),
    )
    assert result.kinds.to_pylist() == [0, 0, 1, 2, 3, 0]
    assert result.rows.to_pydict() == {
        "id": [1, 2, 2, 2, 1, 3],
        "name": ["a", None, None, "b" * 20, "a", ""],
    }


def test_no_rows_have_the_types_of_the_table() -> None:
    result = batch(plain(EventType.WRITE_ROWS, rows_body(b"")))
    assert result.rows.schema == pa.schema({"id": pa.int32(), "name": pa.string()})
    assert len(result.kinds) == result.rows.num_rows == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (row(1, b"abc")[:-1], "a row ends after its event"),
        (b"\1" + row(1, b"x")[1:], "a column that is not nullable is null"),
        (row(1, b"x") + b"\0" * 3, "a row ends after its event"),
        (b"\0\1\0\0\0\xff", "a row ends after its event"),
    ],
)
def test_rows_of_another_shape_are_an_error(rows: bytes, message: str) -> None:
    with pytest.raises(CorruptData, match=f"cannot decode rows of shop.t: {message}"):
        batch(plain(EventType.WRITE_ROWS, rows_body(rows)))


def test_an_update_with_one_image_is_an_error() -> None:
    event = plain(EventType.UPDATE_ROWS, rows_body(row(1, b"a"), images=b"\3\3"))
    with pytest.raises(CorruptData, match="an update has one image only"):
        batch(event)


def test_rows_with_another_number_of_columns_are_an_error() -> None:
    event = plain(EventType.WRITE_ROWS, rows_body(b"").replace(b"\2\3", b"\5\3"))
    with pytest.raises(CorruptData, match="expected 2 columns, got 5"):
        batch(event)


def test_a_rows_event_that_ends_in_its_bitmaps_is_an_error() -> None:
    with pytest.raises(CorruptData, match="expected 2 bytes of bitmaps"):
        PackedRows().add(plain(EventType.UPDATE_ROWS, rows_body(b"")))


def test_a_log_without_names_names_the_setting() -> None:
    body = table_map((1, b"\0"), (2, bytes([45])))
    with pytest.raises(Unsupported, match=r"shop\.t.*set binlog_row_metadata=FULL"):
        parse_table_map(plain(EventType.TABLE_MAP, body))


@pytest.mark.parametrize(
    ("code", "name"),
    [(12, "DATETIME"), (20, "TYPED_ARRAY"), (99, "99")],
)
def test_a_type_that_is_not_supported_is_named(code: int, name: str) -> None:
    body = table_map(*FULL, types=bytes([3, code]), meta=b"\0\0")
    with pytest.raises(Unsupported, match=f"column 2 has the type {name}, which is not supported"):
        parse_table_map(plain(EventType.TABLE_MAP, body))


def test_unknown_metadata_is_an_error() -> None:
    body = table_map(*FULL, (99, b"x"))
    with pytest.raises(Unsupported, match="metadata of the unknown kind 99"):
        parse_table_map(plain(EventType.TABLE_MAP, body))


@pytest.mark.parametrize("size", range(8, len(table_map(*FULL)), 3))
def test_a_cut_off_table_map_is_an_error(size: int) -> None:
    event = plain(EventType.TABLE_MAP, table_map(*FULL)[:size])
    with pytest.raises((CorruptData, Unsupported), match="cannot read"):
        parse_table_map(event)


def test_partial_json_and_other_events_are_not_rows() -> None:
    with pytest.raises(Unsupported, match="binlog_row_value_options"):
        PackedRows().add(plain(EventType.PARTIAL_UPDATE_ROWS, rows_body(b"")))
    with pytest.raises(Invalid, match="expected a rows event, got the event type"):
        PackedRows().add(plain(EventType.XID, bytes(8)))


def payload_event(payload: bytes, *, compression: int, size: int) -> Event:
    body = bytes([2, 1, compression]) if compression < 251 else bytes([2, 3, 0xFC, compression, 0])
    body += bytes([3, 4, 0xFD]) + size.to_bytes(3, "little")
    body += bytes([1, 4, 0xFD]) + len(payload).to_bytes(3, "little") + b"\0"
    return plain(EventType.TRANSACTION_PAYLOAD, body + payload)


INNER = event_bytes(EventType.TABLE_MAP, table_map(*FULL), checksum=False) + event_bytes(
    EventType.WRITE_ROWS, rows_body(row(1, b"abc")), checksum=False
)


EVENT = event_bytes(EventType.ROWS_QUERY, bytes(50 - 19), checksum=False)


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


@pytest.mark.parametrize("compression", [0, 255])
def test_a_compressed_transaction_has_its_events(compression: int) -> None:
    payload = zstd(INNER) if compression == 0 else INNER
    event = payload_event(payload, compression=compression, size=len(INNER))
    maps, rows = expand(event)
    assert parse_table_map(maps).shape.table == "t"
    assert batch(rows).rows.to_pylist() == [{"id": 1, "name": "abc"}]


@pytest.mark.parametrize(
    ("payload", "compression", "error", "message"),
    [
        (b"not zstd", 0, CorruptData, "cannot read a compressed transaction"),
        (b"x", 3, Unsupported, "compression type 3 is unknown"),
        (zstd(EVENT), 0, CorruptData, "expected 100 bytes, got 50"),
        (zstd(3 * EVENT), 0, CorruptData, "expected 100 bytes, got more"),
        (zstd(2 * EVENT)[:-1], 0, CorruptData, "cannot read a compressed transaction"),
    ],
)
def test_a_compressed_transaction_that_cannot_be_read(
    payload: bytes, compression: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(expand(payload_event(payload, compression=compression, size=100)))


def mariadb_compressed(data: bytes) -> bytes:
    return bytes([0x82]) + len(data).to_bytes(2, "big") + zlib.compress(data)


def test_compressed_events_of_mariadb() -> None:
    rows = row(1, b"abc") + row(2, None)
    body = rows_body(b"", version=1) + mariadb_compressed(rows)
    (event,) = expand(plain(EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1, body))
    assert event.type is EventType.WRITE_ROWS_V1
    assert batch(event).rows["id"].to_pylist() == [1, 2]

    query = struct.pack("<IIBHH", 5, 0, 4, 0, 3) + b"abc" + b"shop\0"
    body = query + mariadb_compressed(b"CREATE TABLE x (a INT)")
    (event,) = expand(plain(EventType.MARIADB_QUERY_COMPRESSED, body))
    assert parse_query(event).statement == b"CREATE TABLE x (a INT)"


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"\x82\0\5abc", CorruptData, "cannot read a compressed event"),
        (bytes([0x82, 0, 9]) + zlib.compress(b"abc"), CorruptData, "expected 9 bytes, got 3"),
        (b"\x92abc", Unsupported, "compression header 0x92 is unknown"),
        (b"", Unsupported, "compression header 0x00 is unknown"),
    ],
)
def test_compressed_events_that_cannot_be_read(
    data: bytes, error: type[Exception], message: str
) -> None:
    body = rows_body(b"", version=1) + data
    with pytest.raises(error, match=message):
        list(expand(plain(EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1, body)))


def test_an_event_without_compression_stays_as_it_is() -> None:
    event = plain(EventType.XID, bytes(8))
    assert list(expand(event)) == [event]


# Events in the order of the log ------------------------------------------------------------------

ROWS_TYPES = (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS_V1)


def other_body(type_: int, table: int, number: int, images: bytes) -> bytes:
    """A rows event's body with one row, or one update."""
    is_update = type_ == EventType.UPDATE_ROWS
    rows = row(number, None) if images == b"\3" else b"\0" + struct.pack("<i", number)
    version = 1 if type_ == EventType.DELETE_ROWS_V1 else 2
    body = rows_body(rows * (1 + is_update), version=version, images=images * (1 + is_update))
    return table.to_bytes(6, "little") + body[6:]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([*ROWS_TYPES, EventType.XID]),
        st.sampled_from([7, 8]),
        st.sampled_from([b"\3", b"\1"]),
    ),
    max_size=12,
)


@given(events=EVENTS, gap=st.sampled_from([0, 5]), checksums=st.booleans())
def test_rows_events_are_taken_together(
    events: list[tuple[EventType, int, bytes]], gap: int, checksums: bool
) -> None:
    data = bytes(3)
    bodies = [
        bytes(8) if type_ is EventType.XID else other_body(type_, table, number, images)
        for number, (type_, table, images) in enumerate(events)
    ]
    for (type_, *_), body in zip(events, bodies, strict=True):
        data += bytes(gap) + event_bytes(type_, body, checksum=checksums)
    frames = EventDecoder("log", checksums=checksums).frame(data + b"end", 3, len(data), gap=gap)
    taken: list[tuple[EventType | int, bytes]] = []
    runs = total = 0
    for event in frames:
        if event.type is EventType.XID:
            taken.append((event.type, bytes(event.body)))
            total += event.size
            continue
        starts, ends = list[int](), list[int]()
        total += frames.take_rows(event, starts, ends)
        runs += 1
        taken += [
            (event.type, bytes(frames.data[start:end]))
            for start, end in zip(starts, ends, strict=True)
        ]
    assert taken == [(type_, body) for (type_, *_), body in zip(events, bodies, strict=True)]
    assert total + gap * len(events) == len(data) - 3
    expected = groupby(events, lambda event: (event[0], event[1]))
    assert runs == sum(type_ is not EventType.XID for (type_, _), _ in expected)


def test_a_wrong_event_among_rows_is_an_error() -> None:
    body = rows_body(row(1, b"a"))
    good, wrong = (event_bytes(EventType.WRITE_ROWS, body) for _ in range(2))
    wrong = wrong[:-1] + bytes([wrong[-1] ^ 1])
    frames = EventDecoder("log", checksums=True).frame(good + good + wrong)
    starts = list[int]()
    frames.take_rows(next(frames), starts, [])
    assert len(starts) == 2
    with pytest.raises(CorruptData, match=f"position {2 * len(good)}: checksum mismatch"):
        next(frames)


# Many rows ---------------------------------------------------------------------------------------

MANY = 4000
"""So many events of twenty rows are not copied."""


class Run(NamedTuple):
    """Rows events of a kind: their type, images and how many, and how many bytes follow each."""

    type_: EventType
    images: bytes
    events: int
    distance: int
    in_new_buffer: bool


RUNS = st.lists(
    st.builds(
        Run,
        st.sampled_from([EventType.WRITE_ROWS, EventType.DELETE_ROWS]),
        st.sampled_from([b"\3", b"\1"]),
        st.sampled_from([1, 2, MANY]),
        st.sampled_from([0, 40, 2000]),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


def run_bodies(run: Run, first: int) -> list[bytes]:
    """The bodies of a run's events, each with twenty rows."""
    bodies = []
    for number in range(first, first + run.events):
        rows = row(number, b"x" * (number % 21))
        if run.images == b"\1":
            rows = b"\0" + struct.pack("<i", number)
        bodies.append(rows_body(rows * 20, images=run.images))
    return bodies


def decoded(rows: PackedRows) -> tuple[list[object], list[object], list[object]]:
    """The rows' columns, kinds, and the columns that each row has."""
    shape = parse_table_map(plain(EventType.TABLE_MAP, table_map(*FULL))).shape
    batches = [decode_rows(shape, slab) for slab in rows.slabs()]
    sets: list[object] = []
    for batch in batches:
        numbers = [0] * len(batch.kinds) if batch.column_set is None else batch.column_set
        sets += [batch.column_sets[int(number)] for number in numbers]
    table = pa.concat_tables(batch.rows for batch in batches)
    kinds = [kind for batch in batches for kind in batch.kinds.to_pylist()]
    return [table.combine_chunks().to_pydict()], kinds, sets


@settings(max_examples=25)
@given(runs=RUNS, single=st.booleans(), padding=st.sampled_from([0, 64]))
def test_rows_that_are_copied_late_or_never_are_the_same(
    runs: list[Run], single: bool, padding: int
) -> None:
    one_by_one, together = PackedRows(), PackedRows()
    numbers = count()
    buffers = [bytearray()]
    places: list[tuple[Run, int, list[int], list[int]]] = []
    for run in runs:
        bodies = run_bodies(run, next(numbers) * MANY)
        for body in bodies:
            one_by_one.add(plain(run.type_, body))
        if run.in_new_buffer:
            buffers.append(bytearray())
        starts, ends = [], []
        for body in bodies:
            starts.append(len(buffers[-1]))
            buffers[-1] += body
            ends.append(len(buffers[-1]))
            buffers[-1] += bytes(run.distance)
        places.append((run, len(buffers) - 1, starts, ends))
    views = [memoryview(buffer + bytes(padding)) for buffer in buffers]
    for run, buffer, starts, ends in places:
        if single and run.events == 1:
            together.add(plain(run.type_, bytes(views[buffer][starts[0] : ends[0]])))
        else:
            together.add_bodies(run.type_, views[buffer], starts, ends)
    assert decoded(together) == decoded(one_by_one)
    copied = pickle.loads(pickle.dumps(together))
    assert decoded(copied) == decoded(one_by_one)
    assert together.size >= one_by_one.size


def test_rows_are_not_copied_where_their_buffer_has_little_else() -> None:
    bodies = run_bodies(Run(EventType.WRITE_ROWS, b"\3", MANY, 0, False), 0)
    data = memoryview(b"".join(bodies) + bytes(PADDING))
    ends = list(accumulate(map(len, bodies)))
    starts = [0, *ends[:-1]]
    few = 5
    for source, number, is_copied in (
        (data, MANY, False),
        (data, few, True),
        (memoryview(bytes(data) + bytes(len(data))), MANY, True),
        (memoryview(data[:-PADDING].tobytes()), MANY, True),
    ):
        rows = PackedRows()
        rows.add_bodies(EventType.WRITE_ROWS, source, starts[:number], ends[:number])
        (slab,) = rows.slabs()
        assert (slab.data.obj is not source.obj) is is_copied
        shape = parse_table_map(plain(EventType.TABLE_MAP, table_map(*FULL))).shape
        assert decode_rows(shape, slab).rows.num_rows == 20 * number


def test_a_body_that_ends_in_its_bitmaps_is_an_error_among_others() -> None:
    body = rows_body(row(1, b"a"))
    data = memoryview(body + body[:11] + body)
    size = len(body)
    with pytest.raises(CorruptData, match="expected 1 bytes of bitmaps"):
        PackedRows().add_bodies(
            EventType.WRITE_ROWS, data, [0, size, size + 11], [size, size + 11, len(data)]
        )
