"""An HTTP client that costs next to nothing, so that what is measured is the server."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

__all__ = ["Connection"]

# Servers close connections that nobody uses after a few seconds.
_IDLE_SECONDS = 1.0


class Connection:
    """One kept connection to a server; for one thread.

    Args:
        url: The server's address.
        headers: Sent with every request.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        lines = {"Host": parts.netloc, "Content-Type": "application/json", **(headers or {})}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection((self._host, self._port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._used = time.perf_counter()

    def request(self, method: str, path: str, body: str = "") -> bytes:
        """The body of the answer; anything but a success raises RuntimeError."""
        if time.perf_counter() - self._used > _IDLE_SECONDS:
            self.close()
            self._connect()
        content = body.encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(content)}\r\n\r\n"
        self._socket.sendall(head.encode() + content)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._receive()
        header = received[:end].lower()
        at = header.find(b"content-length:")
        length = int(header[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        answer = received[end + 4 :]
        while len(answer) < length:
            answer += self._receive()
        if not 200 <= int(header[9:12]) < 300:
            raise RuntimeError(f"{method} {path} was answered {answer.decode()}")
        self._used = time.perf_counter()
        return answer

    def get(self, path: str) -> bytes:
        """The body of the answer to a GET."""
        return self.request("GET", path)

    def post(self, path: str, body: object) -> bytes:
        """The body of the answer to a POST of JSON."""
        return self.request("POST", path, json.dumps(body))

    def _receive(self) -> bytes:
        part = self._socket.recv(65536)
        if not part:
            raise RuntimeError("the server closed the connection")
        return part

    def close(self) -> None:
        """Give the connection back."""
        self._socket.close()
