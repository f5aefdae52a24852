"""HTTP answers as the four answers to a commit."""

from __future__ import annotations

from http import HTTPStatus

from headwater.catalog.wire.history import CommitTableResponse
from headwater.client.answers import Answer
from headwater.storage.errors import Unavailable
from headwater.storage.table_storage import CommitAnswer

__all__ = ["commit_answer"]

# Of the answers that tell of the server's state, or that a proxy may give in its stead, those that
# say for certain that the commit was not looked at.
_REFUSED = frozenset({HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})


def commit_answer(answer: Answer) -> CommitAnswer:
    """The answer to one try of a commit.

    429 says that nothing was done. 503 does not: it may be about what came after the decision, or
    be a proxy's that lost its connection to the server. The same holds for every other answer that
    is neither a commit's nor a refusal as a Paimon REST catalog sends it.

    Raises:
        HeadwaterError: The server refused the commit.
    """
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return CommitAnswer.not_sent(answer.error(), answer.retry_after)
    if answer.is_success:
        try:
            return CommitAnswer.of(answer.read(CommitTableResponse).success)
        except Unavailable as error:
            return CommitAnswer.unknown(error)
    refusal = answer.error()
    is_servers = answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if answer.status not in _REFUSED and (is_servers or isinstance(refusal, Unavailable)):
        return CommitAnswer.unknown(refusal, answer.retry_after)
    raise refusal
