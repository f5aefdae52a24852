"""The bearer tokens of a catalog's database."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Select, delete, insert, select
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.tokens import NewToken, TokenInfo, token_hash
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import TokenRow
from headwater.storage.errors import AlreadyExists, Invalid, NotFound
from headwater.storage.runtime import Runtime

__all__ = ["Tokens"]

_PREFIX = "hw_"
_LONGEST_NAME = 255
_CENTURY = timedelta(days=36525)


class Tokens:
    """Makes, lists, finds and revokes tokens; they open every warehouse of the database.

    Args:
        database: The database that keeps them, as hashes.
        runtime: Clock and randomness.
    """

    def __init__(self, database: SqlDatabase, runtime: Runtime) -> None:
        self._database = database
        self._runtime = runtime

    def create(
        self, name: str, *, lifetime: timedelta | None = None, may_manage: bool = False
    ) -> NewToken:
        """Make a token; its secret is in the answer and nowhere else.

        Args:
            name: Whom it is for; no two tokens have the same.
            lifetime: The time until it expires; None means never.
            may_manage: True if it also allows the management of warehouses.

        Raises:
            AlreadyExists: There is a token of that name.
            Invalid: The name or the lifetime is not one.
        """
        _check_name(name)
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
            "may_manage": may_manage,
        }
        try:
            self._database.write(lambda connection: connection.execute(insert(TokenRow), row))
        except IntegrityError as error:
            raise AlreadyExists(
                f"there is a token named '{name}' already; revoke it, or choose another name"
            ) from error
        return NewToken(TokenInfo(name, now, expires_at, may_manage), secret)

    def list(self) -> Sequence[TokenInfo]:
        """All tokens by name, those that expired included."""
        with self._database.read() as connection:
            rows = connection.execute(_tokens().order_by(TokenRow.name)).all()
        return [TokenInfo(*row) for row in rows]

    def find(self, hash_: str) -> TokenInfo | None:
        """The token with a hash, expired or not; None when there is none; raises Unavailable."""
        with self._database.read() as connection:
            row = connection.execute(_tokens().where(TokenRow.hash == hash_)).one_or_none()
        return None if row is None else TokenInfo(*row)

    def revoke(self, name: str) -> None:
        """Delete a token; raises NotFound."""
        gone = self._database.write(
            lambda connection: (
                connection.execute(delete(TokenRow).where(TokenRow.name == name)).rowcount
            )
        )
        if not gone:
            raise NotFound(f"there is no token named '{name}'; 'headwater token list' shows them")


def _tokens() -> Select[str, int, int | None, bool]:
    return select(TokenRow.name, TokenRow.created_at, TokenRow.expires_at, TokenRow.may_manage)


def _check_name(name: str) -> None:
    # It stands in log lines and in permissions.
    if not name or name != name.strip() or len(name) > _LONGEST_NAME:
        raise Invalid(
            f"'{name[:40]}' is not a token's name: it must have 1 to {_LONGEST_NAME} characters "
            "and no space at either end"
        )
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise Invalid(f"{name!r} is not a token's name: it has a control character")
