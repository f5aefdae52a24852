"""Where a Kafka cluster is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.storage.errors import Invalid

__all__ = ["Address"]

_DEFAULT_PORT = 9092
_URL = re.compile(r"kafka://(?:([^:@/]+)(?::([^@/]*))?@)?([^/?#@]+)/?")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\],]+)(?::(\d{1,5}))?")
_FORM = "write one such as kafka://host:9092,host:9092"


@dataclass(frozen=True)
class Address:
    """Where a cluster is, and how to log in; as text without a password.

    Attributes:
        servers: The brokers to begin with, ``host:port``.
        user, password: The login of SASL; empty without.
    """

    servers: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)

    @staticmethod
    def from_url(url: str, password: str | None = None) -> Address:
        """Read a URL; Invalid."""
        match = _URL.fullmatch(url)
        servers = [] if match is None else [_SERVER.fullmatch(part) for part in match[3].split(",")]
        if match is None or not all(servers):
            raise Invalid(f"the source is not a URL of Kafka; {_FORM}")
        names = tuple(
            f"{server[1]}:{server[2] or _DEFAULT_PORT}" for server in servers if server is not None
        )
        return Address(names, match[1] or "", match[2] or password or "")

    @property
    def host(self) -> str:
        """The first broker's host."""
        return self.servers[0].rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The first broker's port."""
        return int(self.servers[0].rpartition(":")[2])

    @property
    def url(self) -> str:
        """The URL without a password."""
        user = f"{self.user}@" if self.user else ""
        return f"kafka://{user}{','.join(self.servers)}"

    def __str__(self) -> str:
        return ",".join(self.servers)

    def config(self, properties: Mapping[str, str]) -> dict[str, Any]:
        """What a client connects with.

        Args:
            properties: Its other properties.
        """
        config: dict[str, Any] = {
            "bootstrap.servers": str(self),
            # Errors are raised where they concern somebody.
            "log_level": 0,
            **properties,
        }
        if self.user:
            config |= {"sasl.username": self.user, "sasl.password": self.password}
        return config
