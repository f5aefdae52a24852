"""The callers of signed requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.types import Scope

from headwater.catalog.model.tokens import AccessKey
from headwater.server.credentials import Credential
from headwater.server.remembered_lookup import RememberedLookup
from headwater.server.signatures import dlf4, openapi
from headwater.server.signatures.signed_request import (
    BODY_DIGEST,
    Signature,
    SignatureFault,
    SignedRequest,
)
from headwater.server.temporary_keys import TemporaryKeyRing
from headwater.server.token_check import TokenCheck
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
    """Checks signatures against the database's access keys, and temporary ones.

    Args:
        find: Finds an access key in the database by its id; None when there is no database.
        tokens: Tells what the holder of an access key is good for.
        temporary: Opens temporary keys.
        runtime: The clock.
    """

    def __init__(
        self,
        find: FindAccessKey | None,
        tokens: TokenCheck,
        temporary: TemporaryKeyRing,
        runtime: Runtime,
    ) -> None:
        self._runtime = runtime
        self._tokens = tokens
        self._temporary = temporary
        self._keys: RememberedLookup[AccessKey] = RememberedLookup(find, runtime)

    async def credential(self, scope: Scope, scheme: str, credential: str) -> Credential:
        """The credential of a request, which is signed but for its body.

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
        if signature.security_token is None:
            found = await self._of_access_key(signature)
        else:
            found = await self._of_temporary_key(signature, signature.security_token)
        if found is None:
            # Paimon's Java client shows no message that speaks of secrets, tokens or access keys.
            raise SignatureFault(
                "the request is not signed by a key of this catalog that is good now, or was "
                "changed on its way"
            )
        scope.setdefault("state", {})[BODY_DIGEST] = signature.body
        return found

    async def _of_access_key(self, signature: Signature) -> Credential | None:
        key = await self._keys.valid(signature.access_key_id)
        if key is None or not signature.is_made_with(key.secret):
            return None
        return self._tokens.of_access_key(key.info)

    async def _of_temporary_key(self, signature: Signature, token: str) -> Credential | None:
        key = self._temporary.open(signature.access_key_id, token)
        # Nobody is asked about a key whose secret the caller does not have.
        if key is None or not signature.is_made_with(key.secret):
            return None
        principal = await self._temporary.principal(key)
        return None if principal is None else Credential(principal, key.expires_at)
