"""What log lines look like."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import httpx
import pytest
from tests import plain_http

from headwater.catalog.sql import SqlCatalog
from headwater.server.logs import JsonLines, TextLines
from headwater.server.request_log import ACCESS_LOGGER

Serve = Callable[..., str]


class _TellingDatabases:
    def list(self, **_: object) -> None:
        # In a thread of its own, as all of a catalog's work.
        logging.getLogger("headwater.catalog").warning("a\nwarning")
        raise RuntimeError("over")


class _Telling:
    """As much of a catalog as logs something while it answers."""

    warehouse = "main"
    databases = _TellingDatabases()


@pytest.mark.parametrize("form", [JsonLines, TextLines])
def test_what_is_logged_during_a_request_carries_its_id(
    serve: Serve, caplog: pytest.LogCaptureFixture, form: type[logging.Formatter]
) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(form().format(record))

    logger, handler = logging.getLogger("headwater.catalog"), Keep()
    logger.addHandler(handler)
    try:
        address = serve({"main": _Telling()})
        headers = {"x-request-id": "seek-me"}
        plain_http.get(f"{address}/v1/main/databases", headers=headers)
    finally:
        logger.removeHandler(handler)
    (line,) = lines
    assert "seek-me" in line
    assert "\n" not in line


def test_a_request_is_one_line_of_text(
    http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        http.get("/v1/config", headers={"x-request-id": "mine"})
        http.get("/healthz")
    record = next(record for record in caplog.records if record.name == ACCESS_LOGGER)
    line = TextLines().format(record)
    assert "INFO    GET /v1/config 200 in " in line
    assert line.endswith(" ms by configured [mine]")


def test_an_exception_follows_its_line(catalog: SqlCatalog) -> None:
    try:
        raise ValueError("what")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("headwater", logging.ERROR, "", 0, "it %s", ("broke",), info)
    first, *rest = TextLines().format(record).splitlines()
    assert first.endswith("ERROR   it broke")
    assert rest[-1] == "ValueError: what"
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["level"]) == ("it broke", "ERROR")
    assert line["exception"].endswith("ValueError: what")


@pytest.mark.parametrize("form", [JsonLines, TextLines])
def test_a_name_makes_no_second_line(form: type[logging.Formatter]) -> None:
    try:
        raise ValueError("\u202eeulav\x1b[2J")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    message = "table \u202eelbat\u2028next \x85 \x1b[31m"
    record = logging.LogRecord("headwater", logging.ERROR, "", 0, "%s", (message,), info)
    text = form().format(record)
    first = text.split("\n")[0]
    assert all(line.isprintable() for line in text.split("\n"))
    assert r"table \u202eelbat\u2028next" in first
    if form is JsonLines:
        assert json.loads(text)["message"] == message


def test_a_path_is_logged_on_one_line(http: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        http.get("/v1/main/databases/a%E2%80%AEb%E2%80%A8c")
    record = next(record for record in caplog.records if record.name == ACCESS_LOGGER)
    for form in (TextLines(), JsonLines()):
        assert form.format(record).isprintable()
