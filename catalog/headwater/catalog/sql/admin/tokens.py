"""The bearer tokens of a catalog's database."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import timedelta

from sqlalchemy import Row, Select, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.principal import Scope
from headwater.catalog.model.tokens import NewToken, TokenInfo, token_hash
from headwater.catalog.sql.admin.principal_names import check_principal_name
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import GroupMemberRow, TokenRow
from headwater.storage.errors import AlreadyExists, Invalid, NotFound
from headwater.storage.runtime import Runtime

__all__ = ["Tokens"]

_PREFIX = "hw_"
_CENTURY = timedelta(days=36525)


class Tokens:
    """Makes, lists, finds and revokes tokens.

    Args:
        database: The database that keeps them, as hashes.
        runtime: Clock and randomness.
    """

    def __init__(self, database: SqlDatabase, runtime: Runtime) -> None:
        self._database = database
        self._runtime = runtime

    def create(
        self,
        name: str,
        *,
        lifetime: timedelta | None = None,
        scopes: Collection[Scope] = (Scope.WRITE,),
        warehouses: Collection[str] | None = None,
    ) -> NewToken:
        """Make a token; its secret is in the answer and nowhere else.

        Args:
            name: Whom it is for; no two tokens have the same.
            lifetime: The time until it expires; None means never.
            scopes: The kinds of request that it is good for.
            warehouses: The only warehouses that it is good for, which need not exist yet; None
                means all.

        Raises:
            AlreadyExists: There is a token of that name.
            Invalid: The name or the lifetime is not one, or it would open nothing.
        """
        check_principal_name(name, "token's")
        if not scopes or (warehouses is not None and not all(warehouses)) or warehouses == ():
            raise Invalid(f"token '{name}': it needs a scope, and names of warehouses or none")
        if lifetime is not None and not timedelta(0) < lifetime <= _CENTURY:
            raise Invalid(f"token '{name}': it must last longer than nothing and at most a century")
        now = self._runtime.now_millis()
        expires_at = None if lifetime is None else now + lifetime // timedelta(milliseconds=1)
        secret = _PREFIX + "".join(self._runtime.new_uuid().replace("-", "") for _ in range(2))
        row = {
            "id": self._runtime.new_uuid(),
            "name": name,
            "hash": token_hash(secret),
            "created_at": now,
            "expires_at": expires_at,
            "scopes": ",".join(sorted(set(scopes))),
            "warehouses": None if warehouses is None else json.dumps(sorted(set(warehouses))),
        }
        try:
            self._database.write(lambda connection: connection.execute(insert(TokenRow), row))
        except IntegrityError as error:
            raise AlreadyExists(
                f"there is a token named '{name}' already; revoke it, or choose another name"
            ) from error
        limits = None if warehouses is None else frozenset(warehouses)
        return NewToken(TokenInfo(name, now, expires_at, frozenset(scopes), limits), secret)

    def list(self) -> Sequence[TokenInfo]:
        """All tokens by name, those that expired included, without their holders' groups."""
        with self._database.read() as connection:
            rows = connection.execute(_tokens().order_by(TokenRow.name)).all()
        return [_info(row) for row in rows]

    def find(self, hash_: str) -> TokenInfo | None:
        """The token with a hash, expired or not; None when there is none; raises Unavailable."""
        with self._database.read() as connection:
            row = connection.execute(_tokens().where(TokenRow.hash == hash_)).one_or_none()
            if row is None:
                return None
            groups = connection.execute(
                select(GroupMemberRow.group_name).where(GroupMemberRow.principal == row.name)
            ).scalars()
            return _info(row, frozenset(groups))

    def next_expiry_millis(self) -> int | None:
        """The time until the next token expires, milliseconds; None when none is to expire.

        Raises:
            Unavailable: The database did not answer.
        """
        now = self._runtime.now_millis()
        with self._database.read() as connection:
            found = connection.execute(
                select(func.min(TokenRow.expires_at)).where(TokenRow.expires_at > now)
            ).scalar_one()
        return None if found is None else int(found) - now

    def revoke(self, name: str) -> None:
        """Delete a token; raises NotFound."""
        gone = self._database.write(
            lambda connection: (
                connection.execute(delete(TokenRow).where(TokenRow.name == name)).rowcount
            )
        )
        if not gone:
            raise NotFound(f"there is no token named '{name}'; 'headwater token list' shows them")


def _tokens() -> Select[str, int, int | None, str, str | None]:
    return select(
        TokenRow.name,
        TokenRow.created_at,
        TokenRow.expires_at,
        TokenRow.scopes,
        TokenRow.warehouses,
    )


def _info(
    row: Row[str, int, int | None, str, str | None], groups: frozenset[str] = frozenset()
) -> TokenInfo:
    return TokenInfo(
        row.name,
        row.created_at,
        row.expires_at,
        frozenset(map(Scope, row.scopes.split(","))),
        None if row.warehouses is None else frozenset(json.loads(row.warehouses)),
        groups,
    )
