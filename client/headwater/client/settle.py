"""Committing over a network: what to do when the answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.snapshots import SnapshotInfo
from headwater.catalog.wire.history import CommitTableResponse
from headwater.client.transport import Answer, OutcomeUnknown, seconds_to_wait
from headwater.storage.errors import HeadwaterError, NotFound, ResourceType, Unavailable
from headwater.storage.runtime import Runtime
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["settle_commit"]

_ATTEMPTS = 6

# Answers after which the commit is known not to have happened, though it may be tried again.
_NOT_DONE = frozenset({HTTPStatus.TOO_MANY_REQUESTS})
# Answers of the server's side that are nevertheless definite.
_DEFINITE = frozenset({HTTPStatus.NOT_IMPLEMENTED})


class History(Protocol):
    """Where to look for a snapshot whose commit has an unknown outcome."""

    def latest(self, identifier: Identifier) -> SnapshotInfo | None:
        """The latest snapshot."""
        ...

    def get(self, identifier: Identifier, version: str) -> Snapshot:
        """A snapshot by id."""
        ...


def settle_commit(
    identifier: Identifier,
    snapshot: Snapshot,
    *,
    offer: Callable[[], Answer],
    history: History,
    runtime: Runtime,
) -> bool:
    """Offer a snapshot until it is known whether it was committed.

    Offering it again does no harm: a snapshot id is given out once, and only on top of the
    snapshot's base. But once an answer was lost, a refusal proves nothing: others may have
    committed on top of it. Then the history decides.

    Args:
        identifier: The table.
        snapshot: The snapshot.
        offer: Sends it once.
        history: Answers what became of it.
        runtime: Waits between attempts.

    Returns:
        False when another commit came first.

    Raises:
        HeadwaterError: The server refused for another reason.
        Unavailable: The server was out of reach, or the outcome is unknown.
    """
    is_uncertain = False
    problem: HeadwaterError | None = None
    for attempt in range(1, _ATTEMPTS + 1):
        if attempt > 1:
            runtime.sleep(seconds_to_wait(attempt - 1))
        try:
            answer = offer()
        except OutcomeUnknown as error:
            problem, is_uncertain = error, True
            accepted = None
        except Unavailable as error:
            problem, accepted = error, None
        else:
            if _is_definite(answer):
                try:
                    accepted = answer.read(CommitTableResponse).success
                except HeadwaterError as error:
                    # Refused now, but the offer whose answer was lost may have been taken.
                    if not is_uncertain:
                        raise
                    problem = error
                    break
            else:
                problem, accepted = answer.error(), None
                is_uncertain = is_uncertain or answer.status not in _NOT_DONE
        if accepted or (accepted is False and not is_uncertain):
            return accepted
        if is_uncertain:
            try:
                found = _is_in_history(identifier, snapshot, history)
            except Unavailable as error:
                problem = error
                continue
            except HeadwaterError as error:
                problem = error
                break
            if found is not None:
                return found
            if accepted is False:
                # Not in the history and refused: its base is gone, so it never will be.
                return False
    assert problem is not None
    if not is_uncertain:
        raise problem
    raise Unavailable(
        f"whether snapshot {snapshot.id} of table {identifier} was committed is unknown: "
        f"{problem.message}; look for commit user {snapshot.commit_user}, identifier "
        f"{snapshot.commit_identifier} in its snapshots before writing the data again"
    ) from problem


def _is_definite(answer: Answer) -> bool:
    if answer.status in _NOT_DONE:
        return False
    return answer.status < HTTPStatus.INTERNAL_SERVER_ERROR or answer.status in _DEFINITE


def _is_in_history(identifier: Identifier, snapshot: Snapshot, history: History) -> bool | None:
    """True if it was committed, False if another has its id, None if no snapshot has it yet."""
    latest = history.latest(identifier)
    if latest is None or latest.snapshot.id < snapshot.id:
        return None
    if latest.snapshot.id == snapshot.id:
        return _is_same(latest.snapshot, snapshot)
    try:
        return _is_same(history.get(identifier, str(snapshot.id)), snapshot)
    except NotFound as error:
        if error.resource_type is not ResourceType.SNAPSHOT:
            raise
        raise Unavailable(
            f"snapshot {snapshot.id} of table {identifier} expired before its commit was confirmed"
        ) from error


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    if one.uuid is not None or other.uuid is not None:
        return one.uuid == other.uuid
    return (one.commit_user, one.commit_identifier, one.commit_kind) == (
        other.commit_user,
        other.commit_identifier,
        other.commit_kind,
    )
