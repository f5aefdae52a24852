"""Positions in the logs of MySQL and MariaDB: GTID sets, and GTID lists.

All are immutable and are parsed once. MySQL's are sets, with gaps that are kept: only one that
contains another comes after it, and two may have no order. MariaDB's have a sequence number for
each domain, whichever server wrote the transaction.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.cdc.source.positions import Position, of_different_servers
from headwater.storage.errors import Invalid

# First transactions of intervals and those after their last ones, ascending, with gaps between.
_Intervals = tuple[tuple[int, int], ...]

# Transaction numbers end before this one (``GNO_END`` in ``rpl_gtid.h``).
END_OF_NUMBERS = 2**63 - 1
MAX_TAG_LENGTH = 32

_UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}")
_TAG = re.compile(rf"[a-z_][a-z0-9_]{{0,{MAX_TAG_LENGTH - 1}}}")
_INTERVAL = re.compile(r"([0-9]{1,19})(?:\s*-\s*([0-9]{1,19}))?")
_MARIADB_GTID = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,20})")
_TAGGED = 1
_EXCERPT = 80


class Source(NamedTuple):
    """What numbers transactions: a server's UUID in lower case, and a tag or an empty string."""

    server: str
    tag: str = ""


class Gtid(NamedTuple):
    """The GTID of a transaction of MySQL."""

    source: Source
    number: int

    @staticmethod
    def from_text(text: str) -> Gtid:
        """Parse ``uuid:5`` or ``uuid:tag:5``.

        Raises:
            Invalid: The text is not the GTID of one transaction.
        """
        gtids = GtidSet.from_text(text)
        if gtids.count != 1:
            raise _invalid("GTID", text, f"it has {gtids.count} transactions")
        source, intervals = gtids.sources[0]
        return Gtid(source, intervals[0][0])

    def __str__(self) -> str:
        return ":".join((*filter(None, self.source), str(self.number)))


@dataclass(frozen=True, slots=True)
class GtidSet:
    """A set of transactions of MySQL: ``uuid:1-7:9-10,uuid:tag:1-3``.

    Attributes:
        sources: Each source with its intervals, ordered by source. An interval is its first
            number, and the number after its last one.
    """

    sources: tuple[tuple[Source, _Intervals], ...] = ()

    @staticmethod
    def from_text(text: str) -> GtidSet:
        """Parse a set as MySQL prints it (``gtid_executed``), in any case and with any whitespace.

        Raises:
            Invalid: The text is not a set of GTIDs; a range that ends before it starts is not one.
        """
        intervals: dict[Source, list[tuple[int, int]]] = {}
        parts = [part.strip() for part in text.split(",")]
        for part in filter(None, parts):
            server, *rest = (word.strip().lower() for word in part.split(":"))
            if not (part.isascii() and _UUID.fullmatch(server)):
                raise _invalid("GTID set", text, f"{server!r} is not the UUID of a server")
            if not rest:
                raise _invalid("GTID set", text, f"{server!r} has no transactions")
            source = Source(_dashed(server))
            for word, following in zip(rest, [*rest[1:], ""], strict=True):
                if not _TAG.fullmatch(word):
                    intervals.setdefault(source, []).append(_interval(text, word))
                elif _INTERVAL.fullmatch(following):
                    source = Source(source.server, word)
                else:
                    raise _invalid("GTID set", text, f"tag {word!r} has no transactions")
        return GtidSet._from_intervals(intervals)

    @staticmethod
    def from_bytes(encoded: bytes) -> GtidSet:
        """Decode the form of PREVIOUS_GTIDS events and of the dump command.

        Raises:
            Invalid: The bytes are not a set (``Gtid_set::add_gtid_encoding``).
        """
        return _decode(encoded)

    @staticmethod
    def _from_intervals(intervals: Mapping[Source, Iterable[tuple[int, int]]]) -> GtidSet:
        merged = ((source, _merge(intervals[source])) for source in sorted(intervals))
        return GtidSet(tuple((source, ranges) for source, ranges in merged if ranges))

    def to_bytes(self) -> bytes:
        """Encode for ``COM_BINLOG_DUMP_GTID``; only a set with tags needs MySQL 8.3 or later."""
        is_tagged = any(source.tag for source, _ in self.sources)
        header = len(self.sources)
        if is_tagged:
            header = _TAGGED << 56 | header << 8 | _TAGGED
        parts = [struct.pack("<Q", header)]
        for source, intervals in self.sources:
            parts.append(bytes.fromhex(source.server.replace("-", "")))
            if is_tagged:
                # A length of up to 63 is one byte, without its lowest bit.
                parts.append(bytes([len(source.tag) << 1]) + source.tag.encode("ascii"))
            parts.append(struct.pack("<Q", len(intervals)))
            parts += (struct.pack("<QQ", start, end) for start, end in intervals)
        return b"".join(parts)

    def __str__(self) -> str:
        """The set as MySQL prints it, on one line: tags follow the server that they belong to."""
        servers: dict[str, list[str]] = {}
        for (server, tag), intervals in self.sources:
            words = servers.setdefault(server, [server])
            words += [tag] if tag else []
            for start, end in intervals:
                words.append(str(start) if end == start + 1 else f"{start}-{end - 1}")
        return ",".join(":".join(words) for words in servers.values())

    def __bool__(self) -> bool:
        return bool(self.sources)

    @property
    def count(self) -> int:
        """How many transactions the set has."""
        return sum(end - start for _, intervals in self.sources for start, end in intervals)

    def __contains__(self, gtid: Gtid) -> bool:
        for source, intervals in self.sources:
            if source == gtid.source:
                index = bisect_right(intervals, gtid.number, key=lambda interval: interval[0]) - 1
                return index >= 0 and gtid.number < intervals[index][1]
        return False

    def contains(self, other: Position) -> bool:
        """Whether all transactions of the other set are in this one."""
        return isinstance(other, GtidSet) and not other.subtract(self)

    def union(self, other: Position) -> GtidSet:
        """The transactions that are in at least one of both sets.

        Raises:
            Invalid: The other position is not a set.
        """
        if not isinstance(other, GtidSet):
            raise of_different_servers(self, other)
        intervals: dict[Source, _Intervals] = dict(self.sources)
        for source, ranges in other.sources:
            intervals[source] = intervals.get(source, ()) + ranges
        return GtidSet._from_intervals(intervals)

    def subtract(self, other: GtidSet) -> GtidSet:
        """The transactions that are not in the other set."""
        others = dict(other.sources)
        rest = (
            (source, tuple(_difference(intervals, others.get(source, ()))))
            for source, intervals in self.sources
        )
        return GtidSet(tuple((source, intervals) for source, intervals in rest if intervals))

    def add(self, gtid: Gtid) -> GtidSet:
        """This set with one more transaction; the gap before it stays a gap."""
        if not 1 <= gtid.number < END_OF_NUMBERS:
            raise _invalid("GTID", str(gtid), f"{gtid.number} is not a transaction number")
        return self.union(GtidSet(((gtid.source, ((gtid.number, gtid.number + 1),)),)))

    def compare(self, other: GtidSet) -> int | None:
        """Return -1 if the other set comes after this one, 0 if equal, 1 if before.

        None if each has transactions that the other lacks: such sets have no order.
        """
        return _order(self.contains(other), other.contains(self))


class MariadbGtid(NamedTuple):
    """The GTID of a transaction of MariaDB: ``0-1-100``."""

    domain: int
    server: int
    sequence: int

    @staticmethod
    def from_text(text: str) -> MariadbGtid:
        """Parse ``domain-server-sequence``.

        Raises:
            Invalid: The text is not one GTID.
        """
        match = _MARIADB_GTID.fullmatch(text.strip())
        if match is None:
            raise _invalid("MariaDB GTID", text, "expected domain-server-sequence")
        gtid = MariadbGtid(*map(int, match.groups()))
        if max(gtid.domain, gtid.server) >= 2**32 or gtid.sequence >= 2**64:
            raise _invalid("MariaDB GTID", text, "a number is too large")
        return gtid

    def __str__(self) -> str:
        return "-".join(map(str, self))


@dataclass(frozen=True, slots=True)
class MariadbGtidList:
    """A position in MariaDB's log: the last transaction of each domain, ``0-1-100,7-2-3``.

    Sequence numbers grow within a domain whichever server writes (``gtid_strict_mode``).
    ``gtid_binlog_pos`` has this form; ``gtid_binlog_state``, with several servers of one domain,
    does not.
    """

    gtids: tuple[MariadbGtid, ...] = ()

    @staticmethod
    def from_text(text: str) -> MariadbGtidList:
        """Parse a list.

        Raises:
            Invalid: An item is not a GTID, or two are of one domain.
        """
        domains: dict[int, MariadbGtid] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            gtid = MariadbGtid.from_text(part)
            if gtid.domain in domains:
                raise _invalid("MariaDB position", text, f"domain {gtid.domain} is there twice")
            domains[gtid.domain] = gtid
        return MariadbGtidList._from_domains(domains)

    @staticmethod
    def _from_domains(domains: Mapping[int, MariadbGtid]) -> MariadbGtidList:
        return MariadbGtidList(tuple(domains[domain] for domain in sorted(domains)))

    def __str__(self) -> str:
        return ",".join(map(str, self.gtids))

    def __bool__(self) -> bool:
        return bool(self.gtids)

    def __contains__(self, gtid: MariadbGtid) -> bool:
        last = self._domains().get(gtid.domain)
        if last is None or last.sequence < gtid.sequence:
            return False
        return last.sequence > gtid.sequence or last.server == gtid.server

    def contains(self, other: Position) -> bool:
        """Whether this position is at or after the other one in all domains."""
        return isinstance(other, MariadbGtidList) and all(gtid in self for gtid in other.gtids)

    def union(self, other: Position) -> MariadbGtidList:
        """The later position of each domain.

        Raises:
            Invalid: Two servers wrote the same sequence number: their logs have diverged; or the
                other position is not such a list.
        """
        if not isinstance(other, MariadbGtidList):
            raise of_different_servers(self, other)
        domains = self._domains()
        for gtid in other.gtids:
            last = domains.get(gtid.domain, gtid)
            if last.sequence == gtid.sequence and last.server != gtid.server:
                raise _invalid(
                    "MariaDB position",
                    f"{self} with {other}",
                    f"{last} and {gtid} are different transactions of one sequence number",
                )
            domains[gtid.domain] = max(last, gtid, key=lambda item: item.sequence)
        return MariadbGtidList._from_domains(domains)

    def subtract(self, other: MariadbGtidList) -> MariadbGtidList:
        """The domains of this position that the other one has not reached."""
        return MariadbGtidList(tuple(gtid for gtid in self.gtids if gtid not in other))

    def add(self, gtid: MariadbGtid) -> MariadbGtidList:
        """This position with one more transaction at the end of its domain.

        Raises:
            Invalid: The sequence number does not grow.
        """
        last = self._domains().get(gtid.domain)
        if last is not None and last.sequence >= gtid.sequence:
            raise Invalid(
                f"cannot advance MariaDB position '{self}' to {gtid}: its sequence number is not "
                f"after that of {last}; set gtid_strict_mode=ON on the server"
            )
        return MariadbGtidList._from_domains({**self._domains(), gtid.domain: gtid})

    def compare(self, other: MariadbGtidList) -> int | None:
        """Return -1 if the other position is after this one, 0 if equal, 1 if before.

        None if each is ahead in some domain, or if their logs have diverged.
        """
        return _order(self.contains(other), other.contains(self))

    def _domains(self) -> dict[int, MariadbGtid]:
        return {gtid.domain: gtid for gtid in self.gtids}


def _invalid(what: str, text: str, why: str) -> Invalid:
    excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
    return Invalid(f"cannot read {what} '{excerpt}': {why}; use the value as the server prints it")


def _order(is_after: bool, is_before: bool) -> int | None:
    if is_after and is_before:
        return 0
    return 1 if is_after else -1 if is_before else None


def _dashed(server: str) -> str:
    digits = server.replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _interval(text: str, word: str) -> tuple[int, int]:
    match = _INTERVAL.fullmatch(word)
    if match is None:
        raise _invalid("GTID set", text, f"{word!r} is neither a tag nor a range of transactions")
    start, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= start <= last < END_OF_NUMBERS:
        raise _invalid("GTID set", text, f"{word!r} is not a range of transactions")
    return start, last + 1


def _merge(intervals: Iterable[tuple[int, int]]) -> _Intervals:
    """Sort intervals, and join those that touch; gaps stay."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _difference(intervals: _Intervals, others: _Intervals) -> Iterator[tuple[int, int]]:
    index = 0
    for first, end in intervals:
        start = first
        while index < len(others) and others[index][1] <= start:
            index += 1
        cut = index
        while start < end:
            if cut == len(others) or others[cut][0] >= end:
                yield start, end
                break
            if start < others[cut][0]:
                yield start, others[cut][0]
            start = others[cut][1]
            cut += 1


class _Bytes:
    """Encoded bytes, read from front to back."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        self._offset = 0

    def take(self, length: int) -> bytes:
        end = self._offset + length
        if end > len(self.encoded):
            raise self.invalid(f"it ends after {len(self.encoded)} bytes, within a value")
        part = self.encoded[self._offset : end]
        self._offset = end
        return part

    def integer(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def expect_end(self) -> None:
        if self._offset != len(self.encoded):
            raise self.invalid(f"{len(self.encoded) - self._offset} bytes are left over")

    def invalid(self, why: str) -> Invalid:
        return Invalid(
            f"cannot decode GTID set of {len(self.encoded)} bytes "
            f"0x{self.encoded[: _EXCERPT // 2].hex()}: {why}; read the log event again"
        )


def _decode(encoded: bytes) -> GtidSet:
    reader = _Bytes(encoded)
    header = reader.integer()
    encoding = header >> 56
    if encoding not in (0, _TAGGED):
        raise reader.invalid(f"encoding {encoding} is unknown")
    count = header >> 8 & (1 << 48) - 1 if encoding == _TAGGED else header
    sources: dict[Source, _Intervals] = {}
    for _ in range(count):
        server = _dashed(reader.take(16).hex())
        source = Source(server, _decode_tag(reader) if encoding == _TAGGED else "")
        if source in sources:
            raise reader.invalid(f"source {':'.join(source)} is there twice")
        sources[source] = _decode_intervals(reader)
    reader.expect_end()
    return GtidSet(tuple(sorted((source, ranges) for source, ranges in sources.items() if ranges)))


def _decode_tag(reader: _Bytes) -> str:
    length = reader.take(1)[0]
    if length & 1 or length >> 1 > MAX_TAG_LENGTH:
        raise reader.invalid("the length of a tag is wrong")
    tag = reader.take(length >> 1).decode("latin-1")
    if tag and not _TAG.fullmatch(tag):
        raise reader.invalid(f"{tag!r} is not a tag")
    return tag


def _decode_intervals(reader: _Bytes) -> _Intervals:
    intervals: list[tuple[int, int]] = []
    last = 0
    for _ in range(reader.integer()):
        start, end = reader.integer(), reader.integer()
        if not last < start < end <= END_OF_NUMBERS:
            raise reader.invalid(f"interval from {start} to {end} is not after {last}")
        intervals.append((start, end))
        last = end
    return tuple(intervals)
