"""Bearer tokens in the catalog's database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session
from tests.catalog.conftest import Clock

from headwater.catalog.model.tokens import token_hash
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import TokenRow
from headwater.catalog.sql.database.open_database import opened_database
from headwater.storage.errors import AlreadyExists, Invalid, NotFound


@pytest.fixture
def database(migrated_url: str, clock: Clock) -> Iterator[SqlDatabase]:
    with opened_database(migrated_url, clock.runtime) as opened:
        yield opened


@pytest.fixture
def tokens(database: SqlDatabase, clock: Clock) -> Tokens:
    return Tokens(database, clock.runtime)


def test_a_token_is_found_by_its_hash_alone(tokens: Tokens) -> None:
    made = tokens.create("spark")
    assert tokens.find(token_hash(made.secret)) == made.info
    assert tokens.find(token_hash(made.secret + "x")) is None
    assert tokens.find(made.secret) is None


def test_the_secret_is_nowhere_in_the_database(tokens: Tokens, database: SqlDatabase) -> None:
    made = tokens.create("spark", lifetime=timedelta(days=1))
    with Session(database.engine) as session:
        (row,) = session.scalars(select(TokenRow)).all()
        stored = [str(getattr(row, column.key)) for column in TokenRow.__table__.columns]
    assert not any(made.secret in text or text in made.secret for text in stored)


def test_two_secrets_are_never_the_same(tokens: Tokens) -> None:
    secrets = {tokens.create(f"t{n}").secret for n in range(20)}
    assert len(secrets) == 20
    assert all(len(secret) >= 64 for secret in secrets)


def test_a_token_ends_when_it_should(tokens: Tokens, clock: Clock) -> None:
    info = tokens.create("spark", lifetime=timedelta(hours=1)).info
    assert info.is_valid(clock.millis)
    clock.turn(hours=1, milliseconds=-1)
    assert info.is_valid(clock.millis)
    clock.turn(milliseconds=1)
    assert not info.is_valid(clock.millis)
    clock.turn(days=100_000)
    assert tokens.create("for ever").info.is_valid(clock.millis)


def test_names_are_listed_in_order_and_taken_once(tokens: Tokens) -> None:
    for name in ("b", "a", "C"):
        tokens.create(name)
    assert [token.name for token in tokens.list()] == ["C", "a", "b"]
    with pytest.raises(AlreadyExists, match="'a'"):
        tokens.create("a")


def test_a_revoked_token_is_gone_and_its_name_free(tokens: Tokens) -> None:
    made = tokens.create("spark")
    tokens.revoke("spark")
    assert tokens.find(token_hash(made.secret)) is None
    with pytest.raises(NotFound, match="token list"):
        tokens.revoke("spark")
    assert tokens.create("spark").secret != made.secret


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "x" * 256])
def test_a_name_that_is_none_is_refused(tokens: Tokens, name: str) -> None:
    with pytest.raises(Invalid):
        tokens.create(name)
    assert list(tokens.list()) == []


@pytest.mark.parametrize("days", [0, -1, 40_000])
def test_a_lifetime_that_is_none_is_refused(tokens: Tokens, days: int) -> None:
    with pytest.raises(Invalid):
        tokens.create("spark", lifetime=timedelta(days=days))
    assert list(tokens.list()) == []


def test_a_database_without_tables_is_told(database_url: str) -> None:
    with pytest.raises(Invalid, match="headwater db upgrade"), opened_database(database_url):
        pass
