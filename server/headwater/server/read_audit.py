"""Reads that were answered, for the change feed, if the settings ask for them."""

from __future__ import annotations

from headwater.server.audited_reads import AuditedReads
from headwater.server.request_counts import ANYTHING, OTHERS, NotedRequest, RequestCounts
from headwater.storage.runtime import Runtime

__all__ = ["MOST_READS", "ReadAudit"]

MOST_READS = 10_000
"""The events that each turn tells, and that wait for a database that is away."""


class ReadAudit(RequestCounts):
    """Reads that are yet to be written. No read waits for that, and each is counted.

    Beyond a number of events in a turn, what a caller reads besides is added up.

    Args:
        runtime: The clock.
        reads: The reads that are told.
    """

    def __init__(self, runtime: Runtime, reads: AuditedReads) -> None:
        super().__init__(runtime)
        self.operations = reads.operations

    def _told(self, noted: NotedRequest) -> NotedRequest:
        kept = len(self._counts)
        if kept < MOST_READS:
            return noted
        principal = noted.principal if kept < 2 * MOST_READS else None
        return NotedRequest(principal, None, "", ANYTHING, OTHERS, noted.status)
