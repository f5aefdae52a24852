"""A consumer that one reader holds, so that no other moves it meanwhile.

The catalog gives the right to move a consumer as a lease. A reader renews it as long as it lives;
another that wants the consumer watches the lease: renewed, its reader is alive, and run out, dead.
A reader that was paused for too long, and whose lease another took, fails at its next move.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from datetime import timedelta
from types import TracebackType

from headwater.catalog.model.consumers import ConsumerLease, Consumers
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Conflict, HeadwaterError, Invalid
from headwater.storage.runtime import Runtime

__all__ = ["LEASE", "ConsumerHold"]

LEASE = timedelta(seconds=30)
"""The time after which the consumer of a reader that died can be taken over."""

# A lease is renewed so many times before it would run out: a renewal may fail now and then.
_RENEWALS = 3
# Renewing keeps the position from expiring, too, which it may after a shorter time.
_LONGEST_SECONDS = 60.0
_SECONDS_BETWEEN_LOOKS = 0.5
_LONGEST_HOST = 100


class ConsumerHold:
    """The right to move a consumer; made by `Consumer.hold`.

    Entering it takes the right and renews it in a thread of its own; leaving it gives it back.

    Args:
        consumers: The catalog's consumers.
        identifier: The table.
        consumer_id: The consumer.
        runtime: Clock and names.
        lease: The time after which another reader may take what is not renewed.
    """

    def __init__(
        self,
        consumers: Consumers,
        identifier: Identifier,
        consumer_id: str,
        runtime: Runtime,
        lease: timedelta,
    ) -> None:
        self._consumers = consumers
        self._identifier = identifier
        self._consumer_id = consumer_id
        self._runtime = runtime
        self._millis = lease // timedelta(milliseconds=1)
        if self._millis <= 0:
            raise Invalid(f"a lease lasts at least one millisecond, not {lease}")
        host = socket.gethostname()[:_LONGEST_HOST]
        self.owner = f"process {os.getpid()} on {host} ({runtime.new_uuid()})"
        self._lost: str | None = None
        self._ended = threading.Event()

    def __repr__(self) -> str:
        return f"ConsumerHold({self._consumer_id} of {self._identifier} by {self.owner})"

    def __enter__(self) -> ConsumerHold:
        self.take()
        self.keep()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What went wrong before counts, and a lease that is not given back runs out.
        with suppress(HeadwaterError):
            self.release()

    def take(self) -> None:
        """Take the right to move the consumer, once its last reader is known to be dead.

        Raises:
            Conflict: Its reader is alive: it renewed its lease.
        """
        held: ConsumerLease | None = None
        while True:
            lease = self._lease(renew=False)
            if lease is None or lease.owner == self.owner:
                return
            if held is not None and lease != held:
                raise Conflict(
                    f"table {self._identifier}: consumer '{self._consumer_id}' is in use by "
                    f"'{lease.owner}', which is alive: give each query a consumer id of its own, "
                    "or stop the other one first"
                )
            held = lease
            self._runtime.sleep(_SECONDS_BETWEEN_LOOKS)

    def keep(self) -> None:
        """Renew the lease from now on, in a thread, until it is given back."""
        threading.Thread(
            target=self._keep, name=f"lease of consumer {self._consumer_id}", daemon=True
        ).start()

    def renew(self) -> None:
        """Have the lease last longer.

        Raises:
            Conflict: It is another reader's, or nobody's, by now.
        """
        self.check()
        lease = self._lease(renew=True)
        if lease is None or lease.owner != self.owner:
            by = "was taken from it" if lease is None else f"was taken over by '{lease.owner}'"
            self._lost = (
                f"table {self._identifier}: consumer '{self._consumer_id}' of '{self.owner}' {by}: "
                "this reader did not renew its lease in time, or the consumer was moved by force. "
                "Start it again to go on from where the consumer is"
            )
        self.check()

    def check(self) -> None:
        """Raise Conflict if the consumer is known to be lost to another reader."""
        if self._lost is not None:
            raise Conflict(self._lost)

    def advance(self, next_snapshot: int, *, full_read: bool = False) -> None:
        """Move the consumer, once everything before a snapshot has been consumed for good.

        Args:
            next_snapshot: The first snapshot to be consumed.
            full_read: All of its rows are, not its changes: the reader begins with them.

        Raises:
            Conflict: Another reader has taken it over; it was not moved.
        """
        self.check()
        self._consumers.reset(
            self._identifier,
            self._consumer_id,
            next_snapshot,
            full_read=full_read,
            owner=self.owner,
        )

    def release(self) -> None:
        """Let others take the consumer at once; nothing happens when it is another's already."""
        if not self._ended.is_set():
            self._ended.set()
            self._consumers.release(self._identifier, self._consumer_id, self.owner)

    def _keep(self) -> None:
        seconds = min(self._millis / 1000 / _RENEWALS, _LONGEST_SECONDS)
        while not self._ended.wait(seconds):
            try:
                self.renew()
            except Conflict:
                return
            except HeadwaterError:
                # Out of reach: the next renewal, or the next move, finds out more.
                continue

    def _lease(self, *, renew: bool) -> ConsumerLease | None:
        return self._consumers.lease(
            self._identifier, self._consumer_id, self.owner, self._millis, renew=renew
        )
