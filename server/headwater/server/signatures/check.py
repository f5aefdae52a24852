"""The callers of signed requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from starlette.types import Scope

from headwater.catalog.model.principal import Principal
from headwater.catalog.model.tokens import AccessKey
from headwater.server.remembered_lookup import RememberedLookup
from headwater.server.signatures import dlf4, openapi
from headwater.server.signatures.signed_request import (
    BODY_DIGEST,
    Signature,
    SignatureFault,
    SignedRequest,
)
from headwater.storage.runtime import Runtime

__all__ = ["CLOCK_SKEW_MILLIS", "SCHEMES", "FindAccessKey", "SignatureCheck"]

CLOCK_SKEW_MILLIS = 15 * 60_000
"""The time for which a signature is good, before and after it was made."""

SCHEMES: Mapping[str, Callable[[SignedRequest, str], Signature]] = {
    "DLF4-HMAC-SHA256": dlf4.read,
    "ACS4-HMAC-SHA256": openapi.read_v4,
    "acs": openapi.read,
}
"""The readers of signatures, by the scheme in the header ``Authorization``."""

FindAccessKey = Callable[[str], AccessKey | None]


class SignatureCheck:
    """Checks signatures against the database's access keys.

    Args:
        find: Finds an access key in the database by its id; None when there is no database.
        runtime: The clock.
        enforces_permissions: False if nobody has to ask permission.
    """

    def __init__(
        self, find: FindAccessKey | None, runtime: Runtime, *, enforces_permissions: bool = True
    ) -> None:
        self._runtime = runtime
        self._enforces_permissions = enforces_permissions
        self._keys: RememberedLookup[AccessKey] = RememberedLookup(find, runtime)

    async def principal(self, scope: Scope, scheme: str, credential: str) -> Principal:
        """The caller of a request, which is signed but for its body.

        The digest that the body must have is left in the connection's state, as `BODY_DIGEST`.

        Args:
            scope: The connection.
            scheme: The scheme in the header ``Authorization``, one of `SCHEMES`.
            credential: The rest of that header.

        Raises:
            SignatureFault: It is not signed by an access key that is good now.
            Unavailable: The database had to be asked and did not answer.
        """
        signature = SCHEMES[scheme](SignedRequest.of(scope), credential)
        # Before the database is asked: what is old was perhaps overheard.
        if abs(self._runtime.now_millis() - signature.signed_at) > CLOCK_SKEW_MILLIS:
            raise SignatureFault(
                "the request was signed more than 15 minutes ago, or is to be in as many: look at "
                "the clock of the client"
            )
        key = await self._keys.valid(signature.access_key_id)
        if key is None or not signature.is_made_with(key.secret):
            # Paimon's Java client shows no message that speaks of secrets, tokens or access keys.
            raise SignatureFault(
                "the request is not signed by a key of this catalog that is good now, or was "
                "changed on its way"
            )
        scope.setdefault("state", {})[BODY_DIGEST] = signature.body
        principal = key.info.principal
        return (
            principal if self._enforces_permissions else replace(principal, asks_permission=False)
        )
