"""Temporary keys: what a key may do is sealed in a text that its holder sends with each request.

No row is kept of a key. It dies with its parent, which is looked for with each request, with the
key of the operator's that it is sealed with, and with the setting that allows it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headwater.catalog.model.principal import Principal, Scope
from headwater.catalog.model.temporary_keys import TemporaryKey
from headwater.catalog.sql.admin.sealed_options import OptionKeys
from headwater.server.credentials import Credential, Parent, ParentKind
from headwater.storage.errors import CorruptData, Forbidden, Invalid, Unsupported
from headwater.storage.runtime import Runtime

__all__ = ["SealedKey", "TemporaryKeyRing"]

_SECOND = 1000
# A request's head, in which it is sent, has room for other things, too.
_LONGEST_TOKEN = 16 * 1024


@dataclass(frozen=True)
class SealedKey:
    """A temporary key as its security token tells it; the signature is yet to be checked.

    Attributes:
        secret: The secret that requests are signed with.
        parent: The credential that it was made of.
        made_at, expires_at: Its beginning and end, milliseconds since the epoch.
        scopes: The kinds of request that it is good for, if its parent is.
        warehouses: The only warehouses that it is good for, likewise; None is all.
    """

    secret: str = field(repr=False)
    parent: Parent
    made_at: int
    expires_at: int
    scopes: frozenset[Scope]
    warehouses: frozenset[str] | None

    def text(self) -> str:
        """The text that is sealed."""
        members: Mapping[str, object] = {
            "s": self.secret,
            "k": self.parent.kind.value,
            "p": self.parent.value,
            "m": self.made_at,
            "e": self.expires_at,
            "c": sorted(self.scopes),
            "w": None if self.warehouses is None else sorted(self.warehouses),
        }
        return json.dumps(members, separators=(",", ":"))

    @staticmethod
    def of(text: str) -> SealedKey:
        """The key of a text that `text` made."""
        members = json.loads(text)
        warehouses = members["w"]
        return SealedKey(
            members["s"],
            Parent(ParentKind(members["k"]), members["p"]),
            members["m"],
            members["e"],
            frozenset(map(Scope, members["c"])),
            None if warehouses is None else frozenset(warehouses),
        )

    def narrowed(self, holder: Principal) -> Principal | None:
        """The principal that is left of its parent as that is now; None if nothing is."""
        scopes = frozenset(scope for scope in self.scopes if holder.has(scope))
        if not scopes:
            return None
        limits = holder.warehouses
        if self.warehouses is not None:
            limits = self.warehouses if limits is None else self.warehouses & limits
        return replace(holder, scopes=scopes, warehouses=limits)


class TemporaryKeyRing:
    """Makes temporary keys, and finds the principals of those that it made.

    Args:
        keys: The keys that seal them; without any it makes and knows none.
        find_parent: Finds a credential again; None if it is good no more.
        runtime: Clock and randomness.
        longest: The longest time that a key is good; nothing makes and knows none.
        enforces_permissions: False if nobody has to ask permission.
    """

    def __init__(
        self,
        keys: OptionKeys,
        find_parent: Callable[[Parent], Awaitable[Credential | None]],
        runtime: Runtime,
        longest: timedelta,
        *,
        enforces_permissions: bool = True,
    ) -> None:
        self._keys = keys
        self._find_parent = find_parent
        self._runtime = runtime
        self._longest = longest // timedelta(milliseconds=1)
        self._enforces_permissions = enforces_permissions

    def make(
        self,
        credential: Credential,
        *,
        lifetime_millis: int | None = None,
        scopes: Collection[Scope] | None = None,
        warehouses: Collection[str] | None = None,
    ) -> tuple[TemporaryKey, Principal]:
        """A key, and the principal that it stands for.

        Arguments and errors are those of `headwater.catalog.model.temporary_keys.TemporaryKeys`.
        """
        if not self._longest:
            raise Unsupported(
                "this server gives out no temporary keys (HEADWATER_TEMPORARY_KEY_LIFETIME)"
            )
        holder = credential.principal
        if credential.parent is None:
            raise Forbidden(
                f"the credential of '{holder.name}' is a temporary key itself, or unknown to the "
                "database; make one with a token or an access key"
            )
        if lifetime_millis is not None and not _SECOND <= lifetime_millis <= self._longest:
            raise Invalid(
                f"a temporary key lasts a second at least and {self._longest // _SECOND} s at most "
                f"(HEADWATER_TEMPORARY_KEY_LIFETIME), not {lifetime_millis} ms"
            )
        now = self._runtime.now_millis()
        ends = [now + (lifetime_millis or self._longest)]
        if credential.expires_at is not None:
            ends.append(credential.expires_at)
        sealed = SealedKey(
            "hw_" + "".join(self._runtime.new_uuid().replace("-", "") for _ in range(2)),
            credential.parent,
            now,
            min(ends) // _SECOND * _SECOND,
            _limited_scopes(holder, scopes),
            _limited_warehouses(holder, warehouses),
        )
        id_ = self._runtime.new_uuid()
        token = self._keys.seal_temporary(id_, sealed.text())
        if len(token) > _LONGEST_TOKEN:
            raise Unsupported(
                f"the credential of '{holder.name}' is so long that a temporary key of it would "
                f"not fit into a request's head ({len(token)} bytes); make one with a token of "
                "this catalog"
            )
        kept = sealed.narrowed(holder)
        assert kept is not None, "the scopes are some of the holder's"
        return TemporaryKey(id_, sealed.secret, token, sealed.expires_at), kept

    def open(self, access_key_id: str, token: str) -> SealedKey | None:
        """The key that a security token tells of, if it is not over; None if it tells of none.

        It is nobody's yet: whoever overheard it has the text, but not the secret.
        """
        if not self._longest or len(token) > _LONGEST_TOKEN:
            return None
        try:
            found = SealedKey.of(self._keys.open_temporary(access_key_id, token))
        except (Invalid, CorruptData):
            return None
        end = min(found.expires_at, found.made_at + self._longest)
        return found if self._runtime.latest_millis() < end else None

    async def principal(self, key: SealedKey) -> Principal | None:
        """The principal of a key; None if its parent is good no more.

        Raises:
            Unavailable: The database, or the issuer, had to be asked and did not answer.
        """
        parent = await self._find_parent(key.parent)
        found = None if parent is None else key.narrowed(parent.principal)
        if found is None:
            return None
        # Who administers asks no permission, and such a key does not unless it administers, too.
        asks = self._enforces_permissions and not found.has(Scope.ADMINISTER)
        return replace(found, asks_permission=found.asks_permission or asks)


def _limited_scopes(holder: Principal, asked: Collection[Scope] | None) -> frozenset[Scope]:
    if asked is None:
        asked = holder.scopes - {Scope.MANAGE}
        if not asked:
            raise Forbidden(
                f"the credential of '{holder.name}' is for scope manage alone, which temporary "
                "keys never have"
            )
    if not asked:
        raise Invalid("a temporary key needs a scope; leave them out for those of its parent")
    if Scope.MANAGE in asked:
        raise Invalid(
            "a temporary key cannot have scope manage: whoever manages makes tokens, and those "
            "would outlast it"
        )
    missing = sorted(scope for scope in asked if not holder.has(scope))
    if missing:
        raise Forbidden(
            f"the credential of '{holder.name}' lacks scope {' and '.join(missing)} itself, so it "
            "can make no key that has it"
        )
    return frozenset(asked)


def _limited_warehouses(holder: Principal, asked: Collection[str] | None) -> frozenset[str] | None:
    if asked is None:
        return holder.warehouses
    missing = sorted(name for name in asked if not name or not holder.reaches(name))
    if missing or not asked:
        names = ", ".join(f"'{name}'" for name in missing)
        raise Forbidden(
            f"the credential of '{holder.name}' is not for warehouse {names}, so it can make no "
            "key that is"
        )
    return frozenset(asked)
