"""The log: a line of JSON, or of text, with the id of the request that it is about."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextvars import ContextVar
from functools import lru_cache

from pydantic_core import to_json

from headwater.storage.printable import printable, printable_json

__all__ = ["REQUEST_ID", "JsonLines", "TextLines", "log_to_stderr"]

REQUEST_ID: ContextVar[str | None] = ContextVar("headwater_request_id", default=None)
"""The id of the request that is being answered, in the thread that answers it, too."""

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


@lru_cache(maxsize=2)
def _time(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(second))


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, object] = {
            "time": _time(int(record.created)),
            "level": record.levelname,
            "logger": record.name,
            "process": self._process,
        }
        request = getattr(record, "request", None)
        if isinstance(request, dict):
            # Of plain values only, and as frequent as nothing else.
            return printable_json(to_json({**line, **request}).decode())
        line["message"] = record.getMessage()
        request_id = REQUEST_ID.get()
        if request_id is not None:
            line["request_id"] = request_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(_ENCODE(line))


class TextLines(logging.Formatter):
    """Formats a log record as a line for people: time, level, message, and the request's id."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end; an exception's lines follow it."""
        message = record.getMessage()
        request = getattr(record, "request", None)
        request_id = REQUEST_ID.get()
        if isinstance(request, dict):
            message += f" in {request['milliseconds']} ms by {request['principal'] or '-'}"
            request_id = request["request_id"]
        # Names in paths are others' text: a line must not become two.
        line = f"{_time(int(record.created))} {record.levelname:<7} {printable(message)}"
        if request_id is not None:
            line += f" [{request_id}]"
        if record.exc_info:
            line += f"\n{printable(self.formatException(record.exc_info), keep=chr(10))}"
        return line


def log_to_stderr(form: str, level: str) -> None:
    """Write the log to standard error.

    Args:
        form: ``json`` or ``text``.
        level: The least level that is written, such as ``INFO``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    for name in ("headwater", "uvicorn", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
