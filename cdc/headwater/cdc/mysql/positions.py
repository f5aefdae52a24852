"""Positions in a source's log, as text and as they grow from transaction to transaction."""

from __future__ import annotations

from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.gtid import GtidSet, MariadbGtid, MariadbGtidList, Source
from headwater.cdc.mysql.gtid_events import TransactionId
from headwater.cdc.mysql.log_stream import FileStart, GtidStart
from headwater.cdc.mysql.server import Flavour
from headwater.cdc.source.positions import READ_AGAIN, Position
from headwater.storage.errors import CorruptData, Invalid

__all__ = ["MySQLPosition", "PositionTracker", "parse_position", "start_of"]

MySQLPosition = GtidSet | MariadbGtidList | FilePosition
"""A position of MySQL or MariaDB."""


def parse_position(flavour: Flavour, text: str) -> MySQLPosition:
    """Read a position as a pipeline records it; Invalid."""
    if flavour is Flavour.MARIADB:
        return MariadbGtidList.from_text(text)
    # No set of GTIDs has a slash, and each position in a file has.
    return FilePosition.from_text(text) if "/" in text else GtidSet.from_text(text)


def start_of(position: Position) -> FileStart | GtidStart:
    """Where a stream of the log begins that has what follows a position."""
    if isinstance(position, FilePosition):
        return FileStart(position.file, position.offset)
    encoded = position.to_bytes() if isinstance(position, GtidSet) else b""
    return GtidStart(str(position), encoded)


class PositionTracker:
    """A position that grows by one transaction after the other.

    Args:
        start: Where it begins.
    """

    def __init__(self, start: Position) -> None:
        self._is_mariadb = isinstance(start, MariadbGtidList)
        self._place = start if isinstance(start, FilePosition) else None
        # By domain, or by source: the intervals of transactions, of which the last one grows.
        self._domains: dict[int, MariadbGtid] = {}
        self._intervals: dict[Source, list[list[int]]] = {}
        if isinstance(start, MariadbGtidList):
            self._domains = {gtid.domain: gtid for gtid in start.gtids}
        elif isinstance(start, GtidSet):
            self._intervals = {
                source: [list(interval) for interval in intervals]
                for source, intervals in start.sources
            }

    def add(self, gtid: TransactionId) -> None:
        """Add a transaction that was read whole.

        Raises:
            CorruptData: The log has it twice.
        """
        if isinstance(gtid, FilePosition):
            self._place = gtid
            return
        if isinstance(gtid, MariadbGtid):
            last = self._domains.get(gtid.domain)
            if last is not None and last.sequence >= gtid.sequence:
                raise CorruptData(
                    f"the log has {gtid} after {last}; set gtid_strict_mode=ON at the source, and "
                    f"{READ_AGAIN}"
                )
            self._domains[gtid.domain] = gtid
            return
        intervals = self._intervals.setdefault(gtid.source, [])
        if intervals and intervals[-1][1] == gtid.number:
            intervals[-1][1] += 1
            return
        intervals.append([gtid.number, gtid.number + 1])
        intervals.sort()
        joined: list[list[int]] = []
        for first, end in intervals:
            if joined and joined[-1][1] == first:
                joined[-1][1] = end
            else:
                joined.append([first, end])
        self._intervals[gtid.source] = joined

    def position(self) -> MySQLPosition:
        """What was read up to now."""
        if self._place is not None:
            return self._place
        if self._is_mariadb:
            ordered = sorted(self._domains)
            return MariadbGtidList(tuple(self._domains[domain] for domain in ordered))
        return GtidSet(
            tuple(
                (source, tuple((first, end) for first, end in intervals))
                for source, intervals in sorted(self._intervals.items())
            )
        )

    def reaches(self, end: Position) -> bool:
        """Whether all transactions of a position were read."""
        if isinstance(end, FilePosition):
            return self._place is not None and self._place.contains(end)
        if isinstance(end, MariadbGtidList):
            return not any(self.lacks(gtid) for gtid in end.gtids)
        if not isinstance(end, GtidSet):
            raise Invalid(f"'{end}' is not a position of MySQL or MariaDB; use one source")
        return all(
            any(low <= first and last <= high for low, high in self._intervals.get(source, ()))
            for source, intervals in end.sources
            for first, last in intervals
        )

    def lacks(self, gtid: TransactionId) -> bool:
        """Whether a transaction was not read."""
        if isinstance(gtid, FilePosition):
            return self._place is None or not self._place.contains(gtid)
        if isinstance(gtid, MariadbGtid):
            last = self._domains.get(gtid.domain)
            return last is None or last.sequence < gtid.sequence
        intervals = self._intervals.get(gtid.source, ())
        return not any(first <= gtid.number < end for first, end in intervals)

    @property
    def is_start(self) -> bool:
        """Whether a server can send its log from the position on."""
        return self._place is None or self._place.is_start
