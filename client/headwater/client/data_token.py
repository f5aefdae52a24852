"""Data tokens: the storage options by which a server lets clients reach a table's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.tables import GetTableTokenResponse
from headwater.client.requests import Requests, table_path
from headwater.storage.files.renewed_options import ExpiringOptions

__all__ = ["AskForToken"]


@dataclass(frozen=True)
class AskForToken:
    """Asks a server for a table's data token; pickles without a connection.

    Attributes:
        requests: Speaks to the server.
        identifier: The table.
        options: Storage options for what the token leaves open.
    """

    requests: Requests
    identifier: Identifier
    options: Mapping[str, str] = field(repr=False)

    def __call__(self, *, is_urgent: bool) -> ExpiringOptions:
        """Request a new token, which overrides the options.

        Args:
            is_urgent: Whether to wait for a server that cannot be reached, as no token holds.
        """
        path = (*table_path(self.identifier), "token")
        requests = self.requests if is_urgent else self.requests.patient(0)
        answer = requests.get(GetTableTokenResponse, None, *path, of=self.identifier)
        return ExpiringOptions({**self.options, **answer.token}, answer.expires_at_millis)
