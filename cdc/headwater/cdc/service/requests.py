"""Requests to the process that runs a pipeline, from any other one."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from contextlib import closing
from time import monotonic, sleep

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.pipeline import MAX_WAIT_SECONDS
from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.sources import SourceKind, source_kind
from headwater.cdc.service.status import StoredPipeline
from headwater.storage.errors import Conflict, HeadwaterError, Invalid, NotFound, Unavailable

__all__ = ["request_catchup", "request_resnapshot", "request_stop"]

_ASK_SECONDS = 0.5
_RETURN_SECONDS = MAX_WAIT_SECONDS + 15.0
_REPLACE = "replace"
_BEGIN_AGAIN = "headwater cdc resnapshot --all --replace"


def request_stop(
    pipeline: StoredPipeline, *, password: str | None = None, seconds: float = 120.0
) -> None:
    """Let the process that runs a pipeline end after its batch, and wait until it has.

    Args:
        pipeline: The pipeline.
        password: The source's password.
        seconds: How long to wait.

    Raises:
        NotFound: No process runs it.
        Unavailable: It has not ended in time.
    """
    state, deadline = pipeline.state, monotonic() + seconds
    request, is_taken, back_by = "", False, 0.0
    while True:
        running = is_running(pipeline, password)
        waits = "stop" in state.requests()
        is_taken |= bool(request) and not waits
        if running is not False:
            # A process that has lost its connection connects later than this one does.
            back_by = monotonic() + _RETURN_SECONDS
        if not running and (is_taken or monotonic() > back_by):
            break
        if running is not False and not (request and waits):
            # Not the value of a request that was meant for an earlier process.
            request = secrets.token_hex(8)
            state.request("stop", request)
        if monotonic() > deadline:
            state.answer({"stop": request})
            raise Unavailable(
                f"pipeline '{pipeline.name}' has not stopped within {seconds:g} s; end its process "
                "(it goes on where it was when it is started again)"
            )
        sleep(_ASK_SECONDS)
    state.answer({"stop": request})
    if not request:
        raise NotFound(f"no process runs pipeline '{pipeline.name}'; nothing is to be stopped")


def request_resnapshot(
    pipeline: StoredPipeline,
    tables: Collection[str] = (),
    *,
    replace: bool = False,
    password: str | None = None,
    seconds: float = 120.0,
) -> bool:
    """Let tables be read again.

    Args:
        pipeline: The pipeline.
        tables: The source's tables, such as ``shop.orders``; none is all, from where the source is
            now: the log between need not be there any more.
        replace: Whether the lake's tables are created again, too.
        password: The source's password.
        seconds: How long to wait for the process that runs it.

    Returns:
        Whether a running process has begun; False if none runs: the next start begins with it.

    Raises:
        Invalid: The pipeline does not have one of the tables, or its source is Kafka, and does not
            have that.
        NotFound, Unsupported: Its source is Kafka, and does not have all messages of the tables.
        Unavailable: The process that runs it has not begun in time; it still may.
    """
    if source_kind(pipeline.started_with().source) is SourceKind.KAFKA:
        requests = _of_topics(pipeline, tables, password, replace=replace)
    else:
        requests = _requests(pipeline, tables, replace=replace)
        if not tables:
            requests["restart"] = ""
    return _ask(pipeline, requests, "read again", password, seconds)


def request_catchup(
    pipeline: StoredPipeline,
    tables: Collection[str],
    *,
    password: str | None = None,
    seconds: float = 120.0,
) -> bool:
    """Let quarantined tables catch up from where they are.

    Args:
        pipeline: The pipeline.
        tables: The source's tables, such as ``shop.orders``.
        password: The source's password.
        seconds: How long to wait for the process that runs it.

    Returns:
        Whether a running process has begun; False if none runs: the next start begins with it.

    Raises:
        Conflict: A table cannot catch up.
        Invalid: The pipeline does not have one of the tables, or one is not quarantined.
        Unavailable: The process that runs it has not begun in time; it still may.
    """
    states = pipeline.plan().tables
    known = _known(pipeline, tables)
    kind = source_kind(pipeline.started_with().source)
    for table in tables:
        state = states[known[table]]
        if state.phase is not TablePhase.QUARANTINED:
            raise Invalid(
                f"table {table} is in phase {state.phase}; only a quarantined table catches up"
            )
        problem = None
        if kind is SourceKind.POSTGRES:
            problem = "PostgreSQL deletes the log that the other tables have had"
        elif state.backlog is None:
            problem = (
                "the position of its rows in the log is not known, as it was not streaming when it "
                "was quarantined"
            )
        if problem is not None:
            raise Conflict(
                f"table {table} cannot catch up: {problem}; read it again: headwater cdc "
                f"resnapshot {table}"
            )
    requests = {f"catchup:{known[table]}": "" for table in tables}
    if not _ask(pipeline, requests, "catch up", password, seconds):
        return False
    states = pipeline.plan().tables
    for table in tables:
        after = states.get(known[table])
        if after is not None and after.phase is TablePhase.QUARANTINED:
            raise Conflict(f"table {table} is quarantined: {after.reason}")
    return True


def _ask(
    pipeline: StoredPipeline,
    requests: Mapping[str, str],
    what: str,
    password: str | None,
    seconds: float,
) -> bool:
    """Leave requests, and wait until they are obeyed; False if no process runs the pipeline."""
    for name, value in requests.items():
        pipeline.state.request(name, value)
    if is_running(pipeline, password) is False:
        return False
    deadline = monotonic() + seconds
    while requests.keys() & pipeline.state.requests().keys():
        if monotonic() > deadline:
            raise Unavailable(
                f"pipeline '{pipeline.name}' has not begun to {what} within {seconds:g} s; it "
                "will when it runs"
            )
        sleep(_ASK_SECONDS)
    return True


def _of_topics(
    pipeline: StoredPipeline, tables: Collection[str], password: str | None, *, replace: bool
) -> dict[str, str]:
    """The requests that let tables be read again whose source is Kafka: from its topics.

    Raises:
        Invalid: All tables are asked for, and not their replacement, or the other way round; or a
            process may run the pipeline.
        NotFound, Unsupported: The topics do not have all messages of the tables.
    """
    from headwater.cdc.kafka.source import KafkaSource

    if not tables:
        if not replace:
            raise Invalid(
                f"the source of pipeline '{pipeline.name}' is Kafka, which cannot be asked for "
                f"rows; name tables, or create all of them again: {_BEGIN_AGAIN}"
            )
        if is_running(pipeline, password) is not False:
            raise Invalid(
                f"pipeline '{pipeline.name}' runs, or its source cannot be asked; stop it first: "
                "headwater cdc stop"
            )
        return {"restart": _REPLACE}
    if replace:
        raise Invalid(
            f"the source of pipeline '{pipeline.name}' is Kafka, which cannot be asked for the "
            "definition of a table; leave --replace out to read its messages into the table that "
            f"the lake has, or create all tables again: {_BEGIN_AGAIN}"
        )
    plan, known = pipeline.plan(), _known(pipeline, tables)
    for table in tables:
        state = plan.tables[known[table]]
        if not state.columns:
            raise Invalid(
                f"table {table} has no columns yet ({state.reason}); create all tables again: "
                f"{_BEGIN_AGAIN}"
            )
    with closing(pipeline.source(password)) as source:
        assert isinstance(source, KafkaSource)
        start = source.beginning(
            source.parse(plan.end),
            f"{', '.join(tables)} cannot be read again alone",
            f"create all tables again from the messages that there are: {_BEGIN_AGAIN}",
        )
    return {f"begin again:{known[table]}": str(start) for table in tables}


def is_running(pipeline: StoredPipeline, password: str | None = None) -> bool | None:
    """Whether a process runs a pipeline; None if the source cannot be asked."""
    try:
        with closing(pipeline.source(password)) as source:
            return source.is_locked(pipeline.name)
    except HeadwaterError:
        return None


def _requests(
    pipeline: StoredPipeline, tables: Collection[str], *, replace: bool
) -> dict[str, str]:
    known = _known(pipeline, tables)
    value = _REPLACE if replace else ""
    return {f"resnapshot:{known[table]}": value for table in tables or known}


def _known(pipeline: StoredPipeline, tables: Collection[str]) -> Mapping[str, str]:
    """The escaped names of a pipeline's tables; Invalid if some of `tables` are not among them."""
    known = {
        str(TableName.from_escaped(name)): name
        for name, state in pipeline.plan().tables.items()
        if state.phase is not TablePhase.GONE or tables
    }
    for table in tables:
        if table not in known:
            raise Invalid(
                f"pipeline '{pipeline.name}' does not follow table '{table}'; it follows "
                f"{', '.join(sorted(known)) or 'none yet'}"
            )
    return known
