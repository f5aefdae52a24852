"""A schema registry, as far as serializers and readers speak to one: its protocol is HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

__all__ = ["Registry", "running_registry"]


class Registry:
    """The schemas by their numbers.

    Attributes:
        url: Where it is.
        schemas: The schemas; the first has the number 1.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.schemas: list[dict[str, Any]] = []

    def add(self, schema: object, **more: object) -> int:
        """Add a schema, unless it is there; its number."""
        entry = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if entry not in self.schemas:
            self.schemas.append(entry)
        return self.schemas.index(entry) + 1


@contextmanager
def running_registry() -> Iterator[Registry]:
    """Run a registry."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            number = self.path.partition("?")[0].rpartition("/")[2]
            if number.isdecimal() and 0 < int(number) <= len(registry.schemas):
                self._answer(200, registry.schemas[int(number) - 1])
            else:
                self._answer(404, {"error_code": 40403, "message": "Schema not found"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            number = registry.add(body["schema"])
            self._answer(200, {"id": number, "subject": "s", "version": 1, **body})

        def log_message(self, *arguments: object) -> None:
            del arguments

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry = Registry(server.server_port)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
