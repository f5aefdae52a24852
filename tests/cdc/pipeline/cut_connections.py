"""A way to a server that breaks off while the server sends its log."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from dataclasses import replace
from threading import Event, Thread
from types import TracebackType

from headwater.cdc.mysql.server import Address

# The commands for the log, and where each has its flags.
_DUMPS = {0x12: 9, 0x1E: 5}
_DO_NOT_WAIT = 0x01
_COMMAND = 4
_TLS_FLAG = 0x08


class CutConnections:
    """Forwards connections to a server; those that read its log are cut, one after the other.

    Args:
        address: The server.
        cuts: After how many bytes of the log each reader is cut; later readers are not.
        when_cut: Called after each cut.

    Attributes:
        is_closed: Whether the server cannot be reached.
        rejected: How many connections were rejected meanwhile.
    """

    def __init__(
        self, address: Address, cuts: list[int], when_cut: Callable[[], None] = lambda: None
    ) -> None:
        self._server, self._cuts, self._when_cut = address, list(cuts), when_cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = replace(address, host="127.0.0.1", port=self._listener.getsockname()[1])
        self.cut_readers, self.rejected, self.is_closed = 0, 0, False
        self._ended = Event()
        self._thread = Thread(target=self._accept, daemon=True)

    def __enter__(self) -> CutConnections:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._listener], [], [], 0.1)[0]:
                continue
            client, _ = self._listener.accept()
            if self.is_closed:
                client.close()
                self.rejected += 1
                continue
            server = socket.create_connection((self._server.host, self._server.port))
            Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        left: int | None = None
        with client, server:
            client.sendall(_without_tls(server.recv(1 << 16)))
            while not (self._ended.is_set() or self.is_closed):
                ready, _, _ = select.select([client, server], [], [], 0.1)
                for end in ready:
                    try:
                        data = end.recv(1 << 16)
                    except OSError:
                        return
                    if not data:
                        return
                    if end is client:
                        if _is_reader(data) and self._cuts:
                            left = self._cuts.pop(0)
                        server.sendall(data)
                        continue
                    if left is not None and len(data) > left:
                        client.sendall(data[:left])
                        self.cut_readers += 1
                        self._when_cut()
                        return
                    left = None if left is None else left - len(data)
                    client.sendall(data)


def _is_reader(data: bytes) -> bool:
    """Whether a client asks for the log and waits for what follows."""
    is_command = len(data) > _COMMAND and data[_COMMAND - 1] == 0
    if not is_command or data[_COMMAND] not in _DUMPS:
        return False
    return not data[_DUMPS[data[_COMMAND]]] & _DO_NOT_WAIT


def _without_tls(greeting: bytes) -> bytes:
    """A server's first packet, in which it does not offer encryption."""
    # Its version ends with a zero; a number, the first part of the salt and a zero follow.
    flags = greeting.index(b"\0", _COMMAND + 1) + 1 + 4 + 8 + 1
    high = greeting[flags + 1] & ~_TLS_FLAG
    return greeting[: flags + 1] + bytes([high]) + greeting[flags + 2 :]
