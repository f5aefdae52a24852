"""Temporary keys: no wider than the credential that they are made of, and dead when it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests import plain_http
from tests.server import signing
from tests.server.signing import AccessKeyOf, Request, Sign
from tests.server.test_oidc import AUDIENCE, Issuer, clock, groups, issuer
from tests.server.test_signatures import (
    DATABASES,
    KEYRING,
    Server,
    database,
    server,
    sign,
)

from headwater.catalog.model.events import EventType
from headwater.catalog.model.principal import Scope
from headwater.catalog.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.sealed_options import OptionKeys
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.events.feed import EventFeed
from headwater.client import connect
from headwater.server.dependencies import Principals
from headwater.server.recent_answers import KEPT_MILLIS
from headwater.storage.errors import Forbidden, Invalid, Unsupported

__all__ = ["clock", "database", "groups", "issuer", "server", "sign"]

KEYS = "/management/v1/temporary-keys"


def bearer(server: Server, name: str, **limits: object) -> dict[str, str]:
    secret = server.tokens.create(name, **limits).secret  # type: ignore[arg-type]
    return {"authorization": f"Bearer {secret}"}


def key_of(answer: httpx.Response) -> AccessKeyOf:
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert set(made) == {"AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration"}
    return AccessKeyOf(made["AccessKeyId"], made["AccessKeySecret"], made["SecurityToken"])


def ask(server: Server, headers: dict[str, str], **wanted: object) -> httpx.Response:
    return server.http.post(KEYS, json=wanted, headers=headers)


def status(server: Server, key: AccessKeyOf, method: str = "GET", **more: Any) -> int:
    path = more.pop("path", DATABASES)
    return server.send(signing.default, method, path, key=key, **more).status_code


def test_a_key_of_each_kind_of_credential_stands_for_its_holder(server: Server, sign: Sign) -> None:
    by_signature = server.send(sign, "POST", KEYS, body={})
    by_token = ask(server, bearer(server, "bob", scopes=[Scope.ADMINISTER]))
    for holder, made in (("ada", by_signature), ("bob", by_token)):
        key = key_of(made)
        body = {"name": f"of_{holder}", "options": {"a": "ä/ &~*"}}
        created = server.send(sign, "POST", DATABASES, body=body, key=key)
        assert created.status_code == 200, created.text
        found = server.send(sign, "GET", f"{DATABASES}/of_{holder}", {"a": "b c"}, key=key)
        assert found.json()["owner"] == holder
        # Neither part of it is anything by itself.
        for part in (
            replace(key, token=None),
            replace(key, secret="hw_other"),
            replace(key, id=server.key.id),
            AccessKeyOf(server.key.id, server.key.secret, key.token),
        ):
            assert server.send(sign, "GET", DATABASES, key=part).status_code == 401
        for sent in (key.secret, key.token):
            headers = {"authorization": f"Bearer {sent}"}
            assert server.http.get(DATABASES, headers=headers).status_code == 401


def test_the_security_token_is_signed_and_cannot_be_changed(server: Server, sign: Sign) -> None:
    key, other = (key_of(server.send(sign, "POST", KEYS, body={})) for _ in range(2))
    assert key.token is not None
    assert other.token is not None
    name = "x-dlf-security-token" if sign is signing.default else "x-acs-security-token"

    def sent(token: str | None) -> int:
        def change(request: httpx.Request) -> None:
            del request.headers[name]
            if token is not None:
                request.headers[name] = token

        return server.send(sign, "GET", DATABASES, key=key, change=change).status_code

    assert sent(key.token) == 200
    assert [sent(None), sent(""), sent(other.token), sent("a.b.c"), sent("....")] == [401] * 5
    # As bytes: one that only the sealing, and not the signature, would notice.
    for at in range(0, len(key.token), 7):
        flipped = "A" if key.token[at] != "A" else "B"
        changed = replace(key, token=key.token[:at] + flipped + key.token[at + 1 :])
        assert server.send(sign, "GET", DATABASES, key=changed).status_code == 401
    # A signed header that the scheme does not know of says nothing.
    strange = {"x-dlf-security-token", "x-acs-security-token"} - {name}
    plain = server.send(
        sign,
        "GET",
        DATABASES,
        key=replace(key, token=None),
        change=lambda request: request.headers.update({strange.pop(): key.token or ""}),
    )
    assert plain.status_code == 401


def test_what_it_may_do_is_in_it_unread(server: Server) -> None:
    key = key_of(server.send(signing.default, "POST", KEYS, body={}))
    assert key.token is not None
    plain = b"".join(
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in key.token.split(".")
    )
    for hidden in (key.secret, "ada", "administer", server.key.id):
        assert hidden.encode() not in plain
        assert hidden not in key.token


def test_it_has_no_scope_and_no_warehouse_that_its_parent_lacks(server: Server) -> None:
    writer = bearer(server, "bob", warehouses=["main", "other"])
    for wider in (
        {"scopes": ["administer"]},
        {"warehouses": ["main", "third"]},
        {"warehouses": [""]},
    ):
        assert ask(server, writer, **wider).status_code == 403
    wrong: list[dict[str, object]] = [
        {"scopes": ["manage"]},
        {"scopes": []},
        {"warehouses": []},
        {"lifetimeMillis": 0},
        {"lifetimeMillis": 999},
        {"lifetimeMillis": 12 * 3_600_000 + 1},
        {"lifetimeMillis": 2**70},
    ]
    for nonsense in wrong:
        assert ask(server, writer, **nonsense).status_code == 400, nonsense
    manager = bearer(server, "boss", scopes=[Scope.MANAGE])
    assert ask(server, manager).status_code == 403
    both = bearer(server, "both", scopes=[Scope.MANAGE, Scope.ADMINISTER])
    key = key_of(ask(server, both))
    assert status(server, key) == 200
    assert status(server, key, path="/management/v1/tokens") == 403
    # Narrower.
    reader = key_of(ask(server, both, scopes=["read"]))
    assert status(server, reader, "POST", body={"name": "sales"}) == 403
    elsewhere = key_of(ask(server, both, warehouses=["other"]))
    assert status(server, elsewhere) == 403
    limited = key_of(ask(server, writer, warehouses=["other"]))
    assert status(server, limited) == 403


def test_one_that_does_not_administer_asks_permission_though_its_parent_does_not(
    server: Server,
) -> None:
    assert server.send(signing.default, "POST", DATABASES, body={"name": "sales"}).is_success
    writer = key_of(server.send(signing.default, "POST", KEYS, body={"scopes": ["write"]}))
    # The owner is shown what it owns; what it did not make it may not drop.
    chief = bearer(server, "chief", scopes=[Scope.ADMINISTER])
    assert server.http.post(DATABASES, json={"name": "theirs"}, headers=chief).is_success
    listed = server.send(signing.default, "GET", DATABASES, key=writer)
    assert listed.json()["databases"] == ["sales"]
    assert status(server, writer, "DELETE", path=f"{DATABASES}/theirs") == 404


def test_groups_and_grants_are_those_of_its_parent_now(server: Server, catalog: SqlCatalog) -> None:
    catalog.databases.create("sales")
    server.groups.add("ops", "bob")
    target = PermissionTarget(TargetType.DATABASE, "sales")
    catalog.permissions.grant(Grant(target, Access.DESCRIBE, "group:ops"))
    key = key_of(ask(server, bearer(server, "bob")))
    assert status(server, key, path=f"{DATABASES}/sales") == 200
    server.groups.remove("ops", "bob")
    server.watch.millis += KEPT_MILLIS
    assert status(server, key, path=f"{DATABASES}/sales") == 404


def test_it_ends_by_its_own_end_and_by_its_parent_s(server: Server, sign: Sign) -> None:
    hour = 3_600_000
    short = key_of(ask(server, bearer(server, "bob"), lifetimeMillis=hour))
    ending = bearer(server, "carl", lifetime=timedelta(minutes=30))
    made = ask(server, ending, lifetimeMillis=hour)
    told = datetime.strptime(made.json()["Expiration"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert told.timestamp() == (server.watch.millis + hour // 2) // 1000
    of_ending = key_of(made)
    for each in (short, of_ending):
        assert server.send(sign, "GET", DATABASES, key=each).status_code == 200
    server.watch.millis += hour // 2
    assert server.send(sign, "GET", DATABASES, key=of_ending).status_code == 401
    assert server.send(sign, "GET", DATABASES, key=short).status_code == 200
    server.watch.millis += hour // 2
    assert server.send(sign, "GET", DATABASES, key=short).status_code == 401


def test_it_dies_with_its_parent_and_another_of_its_name_does_not_revive_it(
    server: Server,
) -> None:
    token = key_of(ask(server, bearer(server, "bob")))
    signed = key_of(server.send(signing.default, "POST", KEYS, body={}))
    assert [status(server, each) for each in (token, signed)] == [200, 200]
    for name in ("bob", "ada"):
        server.tokens.revoke(name)
        server.tokens.create(name, scopes=[Scope.ADMINISTER])
    server.watch.millis += KEPT_MILLIS
    assert [status(server, each) for each in (token, signed)] == [401, 401]


def test_a_temporary_key_makes_no_other_and_nobody_none(server: Server) -> None:
    key = key_of(server.send(signing.default, "POST", KEYS, body={}))
    again = server.send(signing.default, "POST", KEYS, body={}, key=key)
    assert again.status_code == 403
    assert server.http.post(KEYS, json={}).status_code == 401


def test_it_leaves_an_event_that_names_its_id_and_no_secret(server: Server) -> None:
    key = key_of(server.send(signing.default, "POST", KEYS, body={"scopes": ["read"]}))
    feed = EventFeed(server.tokens._database)
    (event,) = [
        each for each in feed.read(limit=1000).events if each.type is EventType.CREATE_TEMPORARY_KEY
    ]
    assert (event.principal, event.subject.name, event.subject.id) == ("ada", "ada", key.id)
    assert event.details["scopes"] == ["read"]
    assert key.secret not in repr(event)
    assert (key.token or "-") not in repr(event)


def started(
    catalog: SqlCatalog, serve: Callable[..., str], keys: OptionKeys = KEYRING, **settings: object
) -> tuple[str, Tokens]:
    tokens = Tokens(catalog.operation.database, catalog.operation.database.runtime, keys)
    parts = {
        "find_token": tokens.find,
        "principals": Principals(tokens, Groups(catalog.operation.database)),
    }
    return serve(catalog, parts=parts, **settings), tokens


def sent(address: str, key: AccessKeyOf) -> int:
    now = int(datetime.now(UTC).timestamp() * 1000)
    headers = signing.default(key, Request("GET", DATABASES, {}, b"", now))
    return plain_http.get(address + DATABASES, headers=headers).status_code


def test_settings_and_keys_of_the_operator_decide_if_there_are_any(
    catalog: SqlCatalog, serve: Callable[..., str]
) -> None:
    token = "operator-token"
    headers = {"authorization": f"Bearer {token}"}
    address, _ = started(catalog, serve, tokens=[token])
    key = key_of(plain_http.post(address + KEYS, json={}, headers=headers))
    assert sent(address, key) == 200
    # Every server on the same keys takes it, and none without.
    replaced = OptionKeys({"k2": bytes([2]) * 32, **KEYRING.keys})
    for keys, settings, expected in (
        (KEYRING, {"tokens": [token]}, 200),
        (replaced, {"tokens": [token]}, 200),
        (OptionKeys({"k2": bytes([2]) * 32}), {"tokens": [token]}, 401),
        (OptionKeys({"k1": bytes([2]) * 32}), {"tokens": [token]}, 401),
        (OptionKeys(), {"tokens": [token]}, 401),
        (KEYRING, {"tokens": ["another"]}, 401),
        (KEYRING, {"tokens": [token], "temporary_key_lifetime": "0 s"}, 401),
    ):
        other, _ = started(catalog, serve, keys, **settings)
        assert sent(other, key) == expected, (keys, settings)
    for keys, lifetime in ((OptionKeys(), "1 h"), (KEYRING, "0 s")):
        other, _ = started(catalog, serve, keys, tokens=[token], temporary_key_lifetime=lifetime)
        assert plain_http.post(other + KEYS, json={}, headers=headers).status_code == 501


def test_a_shorter_setting_ends_those_that_were_given(
    catalog: SqlCatalog, serve: Callable[..., str], server: Server
) -> None:
    key = key_of(server.send(signing.default, "POST", KEYS, body={}))
    parts = {
        "find_token": server.tokens.find,
        "principals": Principals(server.tokens, server.groups),
        "runtime": server.watch.runtime,
    }
    address = serve(catalog, parts=parts, require_token=True, temporary_key_lifetime="1 h")
    with plain_http.Client(base_url=address) as http:
        other = replace(server, http=http)
        assert status(other, key) == 200
        server.watch.millis += 3_600_000
        assert status(other, key) == 401
    assert status(server, key) == 200


def test_a_token_of_an_issuer_is_a_parent(
    catalog: SqlCatalog, serve: Callable[..., str], issuer: Issuer, groups: Groups
) -> None:
    tokens = Tokens(catalog.operation.database, issuer.clock.runtime, KEYRING)
    parts = {
        "runtime": issuer.clock.runtime,
        "find_token": tokens.find,
        "principals": Principals(tokens, groups),
    }
    own = {"oidc_issuer": issuer.address, "oidc_audience": AUDIENCE}
    address = serve(catalog, parts=parts, **own, oidc_administrators="group:platform")
    catalog.databases.create("sales")

    def made(**claims: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {issuer.token('first', **claims)}"}
        return plain_http.post(address + KEYS, json={}, headers=headers)

    def listed(key: AccessKeyOf) -> object:
        at = issuer.clock.seconds * 1000
        headers = signing.default(key, Request("GET", DATABASES, {}, b"", int(at)))
        answer = plain_http.get(address + DATABASES, headers=headers)
        return answer.json()["databases"] if answer.is_success else answer.status_code

    usual, chief = key_of(made()), key_of(made(groups=["platform"]))
    assert (listed(usual), listed(chief)) == ([], ["sales"])
    told = made().json()["Expiration"]
    end = datetime.strptime(told, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    assert end == int(issuer.clock.seconds) + 3600
    # Another administrator, and then another key of the issuer's: it dies with the token.
    lesser = serve(catalog, parts=parts, **own)
    address, first = lesser, address
    assert listed(chief) == 401
    address = first
    assert made(groups=["g" * 200] * 55).status_code == 501
    issuer.clock.seconds += 3600 + 31
    assert (listed(usual), listed(chief)) == (401, 401)


def test_the_sdk_asks_for_one_of_its_token(catalog: SqlCatalog, serve: Callable[..., str]) -> None:
    address, tokens = started(catalog, serve, require_token=True)
    secret = tokens.create("bob").secret
    with connect(address, token=secret) as lake:
        key = lake.temporary_key(lifetime=timedelta(hours=2), scopes=[Scope.READ])
        document = json.loads(json.dumps(key.document()))
        named = AccessKeyOf(
            document["AccessKeyId"], document["AccessKeySecret"], document["SecurityToken"]
        )
        assert sent(address, named) == 200
        for hidden in (key.secret, key.security_token):
            assert hidden not in repr(key)
        with pytest.raises(Forbidden, match="lacks scope administer"):
            lake.temporary_key(scopes=[Scope.ADMINISTER])
        with pytest.raises(Invalid, match="HEADWATER_TEMPORARY_KEY_LIFETIME"):
            lake.temporary_key(lifetime=timedelta(days=1))


def test_an_embedded_catalog_gives_out_none(tmp_path: Any) -> None:
    with connect(tmp_path / "lake") as lake, pytest.raises(Unsupported, match="embedded"):
        lake.temporary_key()
