"""The tokens of a catalog's database: bearer tokens and access keys."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import timedelta

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.events import Detail, EventType, ObjectKind, Subject
from headwater.catalog.model.principal import Principal, Scope
from headwater.catalog.model.tokens import AccessKey, NewToken, TokenInfo, TokenKind, token_hash
from headwater.catalog.sql.admin.principal_names import check_principal_name
from headwater.catalog.sql.admin.sealed_options import KEYS, OptionKeys
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import GroupMemberRow, TokenRow
from headwater.catalog.sql.events.record import record_event_in
from headwater.storage.errors import AlreadyExists, CorruptData, Invalid, NotFound, Unavailable
from headwater.storage.runtime import Runtime

__all__ = ["Tokens"]

_PREFIX = "hw_"
_CENTURY = timedelta(days=36525)


class Tokens:
    """Makes, lists, finds and revokes tokens.

    Args:
        database: The database that keeps them, as hashes.
        runtime: Clock and randomness.
        keys: The keys by which the secrets of access keys are encrypted; without any there can be
            none.

    Attributes:
        runtime, keys: The same.
    """

    def __init__(
        self, database: SqlDatabase, runtime: Runtime, keys: OptionKeys | None = None
    ) -> None:
        self._database = database
        self.runtime = runtime
        self.keys = keys or OptionKeys()

    def create(
        self,
        name: str,
        *,
        lifetime: timedelta | None = None,
        scopes: Collection[Scope] = (Scope.WRITE,),
        warehouses: Collection[str] | None = None,
        kind: TokenKind = TokenKind.BEARER,
    ) -> NewToken:
        """Make a token; its secret is in the answer and nowhere else.

        Args:
            name: Whom it is for; no two tokens have the same.
            lifetime: The time until it expires; None means never.
            scopes: The kinds of request that it is good for.
            warehouses: The only warehouses that it is good for, which need not exist yet; None
                means all.
            kind: The way in which it shall prove who calls.

        Raises:
            AlreadyExists: There is a token of that name.
            Invalid: The name or the lifetime is not one, or it would open nothing, or there is no
                key to encrypt the secret of an access key with.
        """
        check_principal_name(name, "token's")
        if not scopes or (warehouses is not None and not all(warehouses)) or warehouses == ():
            raise Invalid(f"token '{name}': it needs a scope, and names of warehouses or none")
        if lifetime is not None and not timedelta(0) < lifetime <= _CENTURY:
            raise Invalid(f"token '{name}': it must last longer than nothing and at most a century")
        now = self.runtime.now_millis()
        expires_at = None if lifetime is None else now + lifetime // timedelta(milliseconds=1)
        secret = _PREFIX + "".join(self.runtime.new_uuid().replace("-", "") for _ in range(2))
        id_ = self.runtime.new_uuid()
        is_access_key = kind is TokenKind.DLF
        row = {
            "id": id_,
            "name": name,
            "hash": token_hash(secret),
            "created_at": now,
            "expires_at": expires_at,
            "scopes": ",".join(sorted(set(scopes))),
            "warehouses": None if warehouses is None else json.dumps(sorted(set(warehouses))),
            "sealed_secret": self.keys.seal_secret(id_, secret) if is_access_key else None,
        }
        details: dict[str, Detail] = {
            "kind": kind.value,
            "scopes": sorted(set(scopes)),
            "expiresAt": expires_at,
        }
        if warehouses is not None:
            details["warehouses"] = sorted(set(warehouses))

        def work(connection: Connection) -> None:
            connection.execute(insert(TokenRow), row)
            subject = Subject(ObjectKind.TOKEN, name, id_)
            record_event_in(connection, now, "", EventType.CREATE_TOKEN, subject, details)

        try:
            self._database.write(work)
        except IntegrityError as error:
            raise AlreadyExists(
                f"there is a token named '{name}' already; revoke it, or choose another name"
            ) from error
        limits = None if warehouses is None else frozenset(warehouses)
        info = TokenInfo(
            name,
            now,
            expires_at,
            frozenset(scopes),
            limits,
            access_key_id=id_ if is_access_key else None,
            id=id_,
        )
        return NewToken(info, secret)

    def list(self) -> Sequence[TokenInfo]:
        """All tokens by name, those that expired included, without their holders' groups."""
        with self._database.read() as connection:
            rows = connection.execute(_tokens().order_by(TokenRow.name)).all()
        return [_info(row) for row in rows]

    def find(self, hash_: str) -> TokenInfo | None:
        """The bearer token with a hash, expired or not; None if there is none; raises Unavailable.

        The secret of an access key is none: it must not be sent.
        """
        query = _tokens().where(TokenRow.hash == hash_, TokenRow.sealed_secret.is_(None))
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
            return None if row is None else _info(row, _groups(connection, row.name))

    def find_by_id(self, id_: str) -> TokenInfo | None:
        """The token of a record, of either kind, expired or not; None if it was revoked."""
        with self._database.read() as connection:
            row = connection.execute(_tokens().where(TokenRow.id == id_)).one_or_none()
            if row is None or row.id != id_:
                return None
            return _info(row, _groups(connection, row.name))

    def record_temporary_key(self, access_key_id: str, holder: Principal, expires_at: int) -> None:
        """Write the event of a temporary key, which is all that the database knows of one.

        Args:
            access_key_id: Its id.
            holder: The principal that it stands for, with its limits.
            expires_at: Its end, milliseconds since the epoch.
        """
        details: dict[str, Detail] = {
            "scopes": sorted(holder.scopes),
            "expiresAt": expires_at,
        }
        if holder.warehouses is not None:
            details["warehouses"] = sorted(holder.warehouses)

        def work(connection: Connection) -> None:
            subject, now = (
                Subject(ObjectKind.TOKEN, holder.name, access_key_id),
                self.runtime.now_millis(),
            )
            type_ = EventType.CREATE_TEMPORARY_KEY
            record_event_in(connection, now, "", type_, subject, details)

        self._database.write(work)

    def find_access_key(self, id_: str) -> AccessKey | None:
        """The access key of an id, expired or not; None when there is none.

        Raises:
            Unavailable: The database did not answer, or the secret cannot be decrypted here.
        """
        query = _tokens().where(TokenRow.id == id_, TokenRow.sealed_secret.is_not(None))
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
            if row is None or row.sealed_secret is None or row.id != id_:
                return None
            info = _info(row, _groups(connection, row.name))
        try:
            secret = self.keys.open_secret(id_, row.sealed_secret)
        except (CorruptData, Invalid) as error:
            raise Unavailable(f"access key '{id_}' cannot be checked: {error}") from error
        return AccessKey(info, secret)

    def check_secrets(self) -> None:
        """See that the secrets of all access keys can be decrypted.

        Raises:
            Invalid: A key is missing.
            CorruptData: A secret was changed in the database.
        """
        with self._database.read() as connection:
            found = connection.execute(_sealed()).all()
        for row in found:
            self.keys.open_secret(row.id, row.sealed_secret or "{}")

    def rotate_key(self) -> int:
        """Encrypt all secrets of access keys anew that are not encrypted with the first key.

        Returns:
            The number of access keys whose secrets were.

        Raises:
            Invalid: There are no keys, or one is missing.
            CorruptData: A secret was changed in the database.
        """
        if self.keys.current is None:
            raise Invalid(f"there is no key to encrypt with; give one in {KEYS}")

        def work(connection: Connection) -> int:
            found = connection.execute(_sealed().with_for_update()).all()
            old = [row for row in found if not self.keys.is_current(row.sealed_secret or "{}")]
            for row in old:
                secret = self.keys.open_secret(row.id, row.sealed_secret or "{}")
                connection.execute(
                    update(TokenRow)
                    .where(TokenRow.id == row.id)
                    .values(sealed_secret=self.keys.seal_secret(row.id, secret))
                )
                subject, now = (
                    Subject(ObjectKind.TOKEN, row.name, row.id),
                    self.runtime.now_millis(),
                )
                record_event_in(connection, now, "", EventType.ROTATE_KEY, subject)
            return len(old)

        return self._database.write(work)

    def next_expiry_millis(self) -> int | None:
        """The time until the next token expires, milliseconds; None when none is to expire.

        Raises:
            Unavailable: The database did not answer.
        """
        now = self.runtime.latest_millis()
        with self._database.read() as connection:
            found = connection.execute(
                select(func.min(TokenRow.expires_at)).where(TokenRow.expires_at > now)
            ).scalar_one()
        return None if found is None else int(found) - now

    def revoke(self, name: str) -> None:
        """Delete a token; raises NotFound."""

        def work(connection: Connection) -> bool:
            token_id = connection.execute(
                select(TokenRow.id).where(TokenRow.name == name).with_for_update()
            ).scalar_one_or_none()
            if token_id is None:
                return False
            connection.execute(delete(TokenRow).where(TokenRow.id == token_id))
            subject, now = Subject(ObjectKind.TOKEN, name, token_id), self.runtime.now_millis()
            record_event_in(connection, now, "", EventType.REVOKE_TOKEN, subject)
            return True

        if not self._database.write(work):
            raise NotFound(f"there is no token named '{name}'; 'headwater token list' shows them")


def _groups(connection: Connection, name: str) -> frozenset[str]:
    found = connection.execute(
        select(GroupMemberRow.group_name).where(GroupMemberRow.principal == name)
    )
    return frozenset(found.scalars())


def _sealed() -> Select[str, str, str | None]:
    return select(TokenRow.id, TokenRow.name, TokenRow.sealed_secret).where(
        TokenRow.sealed_secret.is_not(None)
    )


def _tokens() -> Select[str, int, int | None, str, str | None, str, str | None]:
    return select(
        TokenRow.name,
        TokenRow.created_at,
        TokenRow.expires_at,
        TokenRow.scopes,
        TokenRow.warehouses,
        TokenRow.id,
        TokenRow.sealed_secret,
    )


def _info(
    row: Row[str, int, int | None, str, str | None, str, str | None],
    groups: frozenset[str] = frozenset(),
) -> TokenInfo:
    return TokenInfo(
        row.name,
        row.created_at,
        row.expires_at,
        frozenset(map(Scope, row.scopes.split(","))),
        None if row.warehouses is None else frozenset(json.loads(row.warehouses)),
        groups,
        None if row.sealed_secret is None else row.id,
        row.id,
    )
