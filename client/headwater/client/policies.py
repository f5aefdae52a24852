"""Policies behind a Paimon REST server."""

from __future__ import annotations

from headwater.client.requests import Requests

__all__ = ["RestPolicies"]


class RestPolicies:
    """Implements `headwater.catalog.model.policies.Policies` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
