"""Positions in the logs of MySQL and MariaDB, against plain sets of transactions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.gtid import (
    END_OF_NUMBERS,
    Gtid,
    GtidSet,
    MariadbGtid,
    MariadbGtidList,
    Source,
)
from headwater.storage.errors import Invalid

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "00000000-0000-0000-0000-0000000000ff"
SOURCES = [Source(A), Source(A, "tag"), Source(A, "_t2"), Source(B), Source(B, "z" * 32)]

# A model of a set: its transactions one by one.
models = st.frozensets(st.builds(Gtid, st.sampled_from(SOURCES), st.integers(1, 12)))


def from_model(gtids: frozenset[Gtid]) -> GtidSet:
    result = GtidSet()
    for gtid in gtids:
        result = result.add(gtid)
    return result


def to_model(gtids: GtidSet) -> frozenset[Gtid]:
    return frozenset(
        Gtid(source, number)
        for source, intervals in gtids.sources
        for start, end in intervals
        for number in range(start, end)
    )


@given(models, models)
def test_sets_do_what_sets_of_transactions_do(
    left: frozenset[Gtid], right: frozenset[Gtid]
) -> None:
    """apache/flink-cdc#3452: sets of several servers keep the transactions of each."""
    a, b = from_model(left), from_model(right)
    assert to_model(a) == left
    assert a.count == len(left)
    assert bool(a) == bool(left)
    assert to_model(a.union(b)) == left | right
    assert to_model(a.subtract(b)) == left - right
    assert a.contains(b) == (left >= right)
    assert (a == b) == (left == right)
    order = {(True, True): 0, (True, False): 1, (False, True): -1, (False, False): None}
    assert a.compare(b) == order[left >= right, left <= right]
    assert all((gtid in a) == (gtid in left) for gtid in left | right)


@given(models, st.data())
def test_text_and_bytes_round_trip(model: frozenset[Gtid], data: st.DataObject) -> None:
    gtids = from_model(model)
    assert GtidSet.from_text(str(gtids)) == gtids
    assert GtidSet.from_bytes(gtids.to_bytes()) == gtids
    pieces = [str(gtid) for gtid in data.draw(st.permutations(sorted(model)))]
    separator = data.draw(st.sampled_from([",", ", ", ",\n", " ,\t,"]))
    written = separator.join(pieces).replace(":", data.draw(st.sampled_from([":", " : "])))
    assert GtidSet.from_text(data.draw(st.sampled_from([str.upper, str.lower]))(written)) == gtids
    assert [Gtid.from_text(piece) for piece in pieces] == [
        Gtid.from_text(str(Gtid.from_text(piece))) for piece in pieces
    ]


def test_a_gap_is_kept_when_a_transaction_is_added() -> None:
    """apache/flink-cdc#4072: 1-7:9-10 became 1-10, and transaction 8 was lost."""
    position = GtidSet.from_text(f"{A}:1-7")
    for number in (9, 10):
        position = position.add(Gtid(Source(A), number))
    assert str(position) == f"{A}:1-7:9-10"
    assert Gtid(Source(A), 8) not in position
    assert str(position.add(Gtid(Source(A), 8))) == f"{A}:1-10"


def test_sets_of_a_failover_have_no_order() -> None:
    left, right = GtidSet.from_text(f"{A}:1-9,{B}:1"), GtidSet.from_text(f"{A}:1-5,{B}:1-2")
    assert left.compare(right) is None
    assert left.compare(left.union(right)) == -1
    assert str(left.subtract(right)) == f"{A}:6-9"


def test_a_set_is_read_as_the_server_prints_it() -> None:
    text = f"{B}:1-3,\n{A.upper()}:1-7:9-10:TAG:1-3: 5 - 6 :_t2:4,{A.replace('-', '')}:8"
    assert str(GtidSet.from_text(text)) == f"{B}:1-3,{A}:1-10:_t2:4:tag:1-3:5-6"
    assert GtidSet.from_text(" \n") == GtidSet()
    largest = GtidSet.from_text(f"{A}:1-{END_OF_NUMBERS - 1}")
    assert GtidSet.from_bytes(largest.to_bytes()) == largest


def test_the_binary_form_is_that_of_the_dump_command() -> None:
    """``Gtid_set::encode``: sources, then intervals that end after their last transaction."""
    interval = (1).to_bytes(8, "little") + (8).to_bytes(8, "little")
    server = bytes.fromhex(A.replace("-", ""))
    one = (1).to_bytes(8, "little")
    assert GtidSet.from_text(f"{A}:1-7").to_bytes() == one + server + one + interval
    assert GtidSet().to_bytes() == bytes(8)
    # With tags, the first and the last byte of the header are 1.
    header = bytes([1, 1, 0, 0, 0, 0, 0, 1])
    tagged = GtidSet.from_text(f"{A}:tag:1-7")
    assert tagged.to_bytes() == header + server + bytes([6]) + b"tag" + one + interval


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:5-3",
        f"{A}:1-",
        f"{A}:1--2",
        f"{A}:-1",
        f"{A}:1.5",
        f"{A}:tag",
        f"{A}:1:tag",
        f"{A}:tag:other:1",
        f"{A}:{'t' * 33}:1",
        f"{A}:2tag:1",
        f"{A}:{END_OF_NUMBERS}",
        f"{A}:1 2",
        f"{A}:\u0661",
        f"{A}:\u212a:1",
        f"{A[:-1]}:1",
        f"{A}g:1",
        "0-1-100",
        "mysql-bin.000003:154",
    ],
)
def test_what_is_not_a_set_is_rejected_with_its_text(text: str) -> None:
    with pytest.raises(Invalid) as error:
        GtidSet.from_text(text)
    assert text in error.value.message


@given(st.text() | st.text("0123456789abcdef-:, t"))
def test_arbitrary_text_is_a_position_or_invalid(text: str) -> None:
    for parse in (GtidSet, MariadbGtidList, FilePosition, Gtid, MariadbGtid):
        try:
            position = parse.from_text(text)
        except Invalid:
            continue
        assert parse.from_text(str(position)) == position


@given(
    st.binary()
    | st.builds(
        lambda head, rest: head + rest,
        st.sampled_from([bytes([1]) + bytes(7), bytes([1, 1, 0, 0, 0, 0, 0, 1])]),
        st.binary(max_size=60),
    )
)
def test_arbitrary_bytes_are_a_set_or_invalid(encoded: bytes) -> None:
    try:
        gtids = GtidSet.from_bytes(encoded)
    except Invalid:
        return
    assert GtidSet.from_bytes(gtids.to_bytes()) == gtids


@given(models.filter(bool), st.data())
def test_truncated_bytes_are_invalid(model: frozenset[Gtid], data: st.DataObject) -> None:
    encoded = from_model(model).to_bytes()
    length = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(Invalid):
        GtidSet.from_bytes(encoded[:length])
    with pytest.raises(Invalid, match="left over"):
        GtidSet.from_bytes(encoded + b"\0")


def test_one_gtid_is_one_transaction() -> None:
    assert Gtid.from_text(f" {A.upper()}:Tag:5 ") == Gtid(Source(A, "tag"), 5)
    for text in (f"{A}:1-2", f"{A}:1,{B}:1", ""):
        with pytest.raises(Invalid, match="GTID"):
            Gtid.from_text(text)
    for number in (0, -1, END_OF_NUMBERS):
        with pytest.raises(Invalid, match="not a transaction number"):
            GtidSet().add(Gtid(Source(A), number))


# A model of a MariaDB position: the last sequence number of each domain, all of one history.
domains = st.dictionaries(st.integers(0, 3), st.integers(1, 5))


def writer(sequence: int) -> int:
    """The server that wrote a sequence number: the primary changes after the second one."""
    return 1 if sequence <= 2 else 2


def mariadb(model: dict[int, int]) -> MariadbGtidList:
    position = MariadbGtidList()
    for domain, sequence in model.items():
        position = position.add(MariadbGtid(domain, writer(sequence), sequence))
    return position


@given(domains, domains)
def test_mariadb_positions_are_compared_by_domain(
    left: dict[int, int], right: dict[int, int]
) -> None:
    """apache/flink-cdc#2794: compared by server id, positions after a failover lost rows."""
    a, b = mariadb(left), mariadb(right)
    is_after = all(left.get(domain, 0) >= sequence for domain, sequence in right.items())
    is_before = all(right.get(domain, 0) >= sequence for domain, sequence in left.items())
    order = {(True, True): 0, (True, False): 1, (False, True): -1, (False, False): None}
    assert a.contains(b) == is_after
    assert a.compare(b) == order[is_after, is_before]
    assert a.union(b) == mariadb(
        {domain: max(left.get(domain, 0), right.get(domain, 0)) for domain in left | right}
    )
    assert a.subtract(b) == mariadb(
        {domain: number for domain, number in left.items() if number > right.get(domain, 0)}
    )
    assert MariadbGtidList.from_text(str(a)) == a


def test_a_mariadb_position_only_advances() -> None:
    position = MariadbGtidList.from_text("7-2-3,0-1-100")
    assert str(position) == "0-1-100,7-2-3"
    assert str(position.add(MariadbGtid(0, 2, 105))) == "0-2-105,7-2-3"
    for sequence in (99, 100):
        with pytest.raises(Invalid, match="gtid_strict_mode=ON"):
            position.add(MariadbGtid(0, 2, sequence))


def test_diverged_mariadb_servers_have_no_order() -> None:
    left, right = MariadbGtidList.from_text("0-1-5"), MariadbGtidList.from_text("0-2-5")
    assert left.compare(right) is None
    with pytest.raises(Invalid, match="different transactions"):
        left.union(right)


@pytest.mark.parametrize(
    "text",
    ["0-1", "0-1-2-3", "0-1-x", "a", "4294967296-1-1", "0-1-18446744073709551616", "0-1-5,0-2-6"],
)
def test_what_is_not_a_mariadb_position_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="MariaDB"):
        MariadbGtidList.from_text(text)
