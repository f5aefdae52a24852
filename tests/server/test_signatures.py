"""Requests signed by access keys: who is let in, and what may not be changed on the way."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote_plus

import httpx
import pytest
from sqlalchemy import text
from tests import plain_http
from tests.server import signing
from tests.server.signing import AccessKeyOf, Request, Sign
from tests.server.test_metrics import counts
from tests.server.test_tokens import Watch

from headwater.catalog.model.events import EventType
from headwater.catalog.model.principal import Scope
from headwater.catalog.model.tokens import TokenKind
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.sealed_options import KEYS, OptionKeys, option_keys
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.sql.events.feed import EventFeed
from headwater.server.dependencies import Principals
from headwater.server.recent_answers import KEPT_MILLIS
from headwater.storage.errors import CorruptData, Invalid

ONE, TWO = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))
KEYRING = OptionKeys({"k1": bytes([1]) * 32})
SCHEMES = {
    "default": signing.default,
    "openapi": signing.openapi,
    "openapi-v4": signing.openapi_v4,
}


@dataclass(frozen=True)
class Server:
    """A running server, its tokens, and the holder of one of its access keys."""

    http: httpx.Client
    tokens: Tokens
    groups: Groups
    watch: Watch
    key: AccessKeyOf

    def send(
        self,
        sign: Sign,
        method: str,
        path: str,
        parameters: dict[str, str] | None = None,
        body: object = None,
        *,
        key: AccessKeyOf | None = None,
        late_millis: int = 0,
        change: Callable[[httpx.Request], None] | None = None,
        sent_body: bytes | None = None,
        sent_url: str | None = None,
    ) -> httpx.Response:
        """Sign a request and send it, perhaps otherwise than it was signed."""
        content = b"" if body is None else json.dumps(body).encode()
        at = self.watch.millis - late_millis
        request = Request(method, path, parameters or {}, content, at)
        headers = sign(key or self.key, request)
        sent = self.http.build_request(
            method,
            sent_url or request.url,
            headers=headers,
            content=(content if sent_body is None else sent_body) or None,
        )
        if change is not None:
            change(sent)
        return self.http.send(sent)

    def make(self, name: str, **limits: object) -> AccessKeyOf:
        """Make another access key."""
        made = self.tokens.create(name, kind=TokenKind.DLF, **limits)  # type: ignore[arg-type]
        assert made.info.access_key_id is not None
        return AccessKeyOf(made.info.access_key_id, made.secret)


@pytest.fixture
def database(catalog: SqlCatalog, tmp_path: Path) -> Iterator[SqlDatabase]:
    with opened_database(f"sqlite:///{tmp_path}/headwater.db") as opened:
        yield opened


@pytest.fixture
def server(
    catalog: SqlCatalog, serve: Callable[..., str], database: SqlDatabase
) -> Iterator[Server]:
    watch = Watch()
    tokens, groups = Tokens(database, watch.runtime, KEYRING), Groups(database)
    parts = {
        "find_token": tokens.find,
        "principals": Principals(tokens, groups),
        "runtime": watch.runtime,
    }
    address = serve(catalog, parts=parts, require_token=True)
    with plain_http.Client(base_url=address, headers={"content-type": ""}) as http:
        del http.headers["content-type"]
        nobody = AccessKeyOf("", "")
        made = Server(http, tokens, groups, watch, nobody)
        key = made.make("ada", scopes=[Scope.ADMINISTER])
        yield replace(made, key=key)


@pytest.fixture(params=SCHEMES)
def sign(request: pytest.FixtureRequest) -> Sign:
    return SCHEMES[request.param]


DATABASES = "/v1/main/databases"


def test_a_signed_request_is_its_holder_s(server: Server, sign: Sign) -> None:
    made = server.send(sign, "POST", DATABASES, body={"name": "sales", "options": {"a": "ä/ &~*"}})
    assert made.status_code == 200, made.text
    parameters = {"databaseNamePattern": "s%", "maxResults": "5", "pageToken": ""}
    listed = server.send(sign, "GET", DATABASES, parameters)
    assert (listed.status_code, listed.json()["databases"]) == (200, ["sales"])
    found = server.send(sign, "GET", f"{DATABASES}/sales")
    assert (found.json()["owner"], found.json()["options"]) == ("ada", {"a": "ä/ &~*"})
    assert server.send(sign, "DELETE", f"{DATABASES}/sales").status_code == 200
    # Names with what clients escape differently.
    for name in ("a~b", "c d", "e*f", "g$h", "ü"):
        assert server.send(sign, "POST", DATABASES, body={"name": name}).status_code in (200, 400)
        found = server.send(sign, "GET", f"{DATABASES}/{quote_plus(name)}")
        assert found.status_code in (200, 404)


# Each is sent in place of the URL that was signed.
OTHER_URLS = (
    "/v1/main/databases/other?maxResults=5",
    "/v1/main/%64atabases/sales?maxResults=5",
    "/v1/main/databases/sales?maxResults=6",
    "/v1/main/databases/sales?maxResults=5&pageToken=x",
    "/v1/main/databases/sales",
    "/v1/main/databases/sales?maxResults=5&maxResults=6",
    "/v1/main/databases/sales?maxResults%3D5",
)


def test_a_url_or_method_changed_on_the_way_is_refused(
    server: Server, sign: Sign, subtests: pytest.Subtests
) -> None:
    path, parameters = "/v1/main/databases/sales", {"maxResults": "5"}
    assert server.send(sign, "GET", path, parameters).status_code == 404
    for url in OTHER_URLS:
        with subtests.test(url):
            # The scheme that signs decoded URLs takes other escapes of one URL for it, which it is.
            is_same = sign is signing.openapi and "%64" in url
            answer = server.send(sign, "GET", path, parameters, sent_url=url)
            assert answer.status_code == (404 if is_same else 401), answer.text

    def change(request: httpx.Request) -> None:
        request.method = "DELETE"

    assert server.send(sign, "GET", path, parameters, change=change).status_code == 401


def test_a_header_that_is_signed_cannot_be_changed_dropped_or_repeated(
    server: Server, sign: Sign
) -> None:
    body = {"name": "sales"}
    content = json.dumps(body).encode()
    headers = sign(server.key, Request("POST", DATABASES, {}, content, server.watch.millis))
    # Every body is JSON to the server, whatever the request says: its type means nothing.
    meaningless = ("host", "authorization", "content-type")
    names = [name for name in headers if name not in meaningless]
    others = {"x-dlf-version": "v2", "x-acs-signature-version": "2.0"}
    for name in names:
        old = headers[name]
        other = others.get(name, old[:-2] + ("0" if old[-2] != "0" else "1") + old[-1])
        for changed in (
            [(name, other)],
            [],
            [(name, old), (name, old)],
        ):
            others_sent = [item for item in headers.items() if item[0] != name]
            answer = server.http.post(DATABASES, headers=others_sent + changed, content=content)
            assert answer.status_code == 401, (name, changed, answer.text)
    credential = headers["authorization"]
    for wrong in (
        credential[:-3] + ("A" if credential[-3] != "A" else "B") + credential[-2:],
        credential.replace(server.key.id, "6e2c1f0e-0000-4000-8000-000000000000"),
        credential.replace(signing.REGION, "eu-central-1") + ("" if "/" in credential else "x"),
        credential + ",More=1",
        credential.split(" ")[0],
    ):
        sent = {**headers, "authorization": wrong}
        if wrong != credential:
            assert server.http.post(DATABASES, headers=sent, content=content).status_code == 401
    assert server.send(sign, "GET", f"{DATABASES}/sales").status_code == 404
    assert server.http.post(DATABASES, headers=headers, content=content).status_code == 200


OTHER_BODIES = (
    ({"name": "sales"}, b'{"name": "other"}'),
    ({"name": "sales"}, b""),
    (None, b'{"name": "other"}'),
    ({"name": "sales"}, b"\xff\xfe"),
)


def test_a_body_that_was_not_signed_does_nothing(
    server: Server, sign: Sign, subtests: pytest.Subtests
) -> None:
    for signed, sent in OTHER_BODIES:
        for in_chunks in (False, True):

            def stream(
                request: httpx.Request, sent: bytes = sent, in_chunks: bool = in_chunks
            ) -> None:
                if in_chunks:
                    request.headers.pop("content-length", None)
                    request.headers["transfer-encoding"] = "chunked"
                    request.stream = httpx.ByteStream(sent)

            with subtests.test(f"{sent!r} {in_chunks}"):
                answer = server.send(
                    sign, "POST", DATABASES, body=signed, sent_body=sent, change=stream
                )
                assert (answer.status_code, answer.json()["message"]) == (
                    401,
                    "the request body is not the one that was signed",
                )
    assert server.send(sign, "GET", DATABASES).json()["databases"] == []


def test_a_signature_is_good_for_a_quarter_of_an_hour(server: Server, sign: Sign) -> None:
    # Signatures have whole seconds.
    server.watch.millis = server.watch.millis // 1000 * 1000
    for late, status in ((900_000, 200), (-900_000, 200), (901_000, 401), (-901_000, 401)):
        answer = server.send(sign, "GET", DATABASES, late_millis=late)
        assert answer.status_code == status
        assert ("clock" in answer.text) == (status == 401)


def test_it_ends_it_is_revoked_and_its_limits_hold(server: Server, sign: Sign) -> None:
    reader = server.make("reader", scopes=[Scope.READ], lifetime=timedelta(seconds=60))
    narrow = server.make("narrow", scopes=[Scope.ADMINISTER], warehouses=["other"])
    server.groups.add("ops", "reader")
    server.send(sign, "POST", DATABASES, body={"name": "sales"})
    assert server.send(sign, "GET", DATABASES, key=narrow).status_code == 403
    body = {"name": "mine"}
    assert server.send(sign, "POST", DATABASES, body=body, key=reader).status_code == 403
    # Nothing is granted to the reader, and then something to its group.
    assert server.send(sign, "GET", f"{DATABASES}/sales", key=reader).status_code == 404
    found = server.tokens.find_access_key(reader.id)
    assert found is not None
    assert found.info.principal.groups == {"ops"}
    server.watch.millis += 60_000
    assert server.send(sign, "GET", DATABASES, key=reader).status_code == 401
    server.tokens.revoke("ada")
    server.watch.millis += KEPT_MILLIS
    assert server.send(sign, "GET", DATABASES).status_code == 401


def test_another_secret_a_sent_secret_and_a_sent_id_open_nothing(
    server: Server, sign: Sign
) -> None:
    other = server.make("bob")
    swapped = AccessKeyOf(server.key.id, other.secret)
    assert server.send(sign, "GET", DATABASES, key=swapped).status_code == 401
    for sent in (server.key.secret, server.key.id):
        answer = server.http.get(DATABASES, headers={"authorization": f"Bearer {sent}"})
        assert answer.status_code == 401
    # A bearer token signs nothing.
    bearer = server.tokens.create("carl").secret
    with_bearer = AccessKeyOf(server.key.id, bearer)
    assert server.send(sign, "GET", DATABASES, key=with_bearer).status_code == 401


def test_the_scheme_that_signs_decoded_urls_refuses_those_with_two_readings(
    server: Server,
) -> None:
    sign = signing.openapi
    signed = Request("GET", f"{DATABASES}/a/tables", {}, b"", server.watch.millis)
    headers = sign(server.key, signed)
    for path in ("/v1/main/databases/a%2Ftables", "/v1/main/databases%2Fa/tables"):
        answer = server.http.get(path, headers=headers)
        assert (answer.status_code, "signing-algorithm=default" in answer.text) == (401, True)
    pattern = {"databaseNamePattern": "a&maxResults=1"}
    answer = server.send(sign, "GET", DATABASES, pattern)
    assert (answer.status_code, "signing-algorithm=default" in answer.text) == (401, True)
    for other in (signing.default, signing.openapi_v4):
        assert server.send(other, "GET", DATABASES, pattern).status_code == 200


def test_the_fast_lane_asks_for_signatures_too(
    server: Server,
    sign: Sign,
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
) -> None:
    server.send(sign, "POST", DATABASES, body={"name": "sales"})
    identifier = {"database": "sales", "object": "orders"}
    tables = f"{DATABASES}/sales/tables"
    body: dict[str, object] = {"identifier": identifier, "schema": schema}
    assert server.send(sign, "POST", tables, body=body).status_code == 200
    orders = f"{tables}/orders"
    commit: dict[str, object] = {
        "tableId": None,
        "baseSnapshotUuid": None,
        "snapshot": snapshot(1),
        "statistics": [],
    }
    other = json.dumps({**commit, "snapshot": snapshot(1, uuid="another")}).encode()
    refused = server.send(sign, "POST", f"{orders}/commit", body=commit, sent_body=other)
    assert refused.status_code == 401
    taken = server.send(sign, "POST", f"{orders}/commit", body=commit)
    assert taken.json() == {"success": True}
    assert server.send(sign, "GET", orders).status_code == 200
    found = server.send(sign, "GET", f"{orders}/snapshot")
    assert found.json()["snapshot"]["snapshot"]["uuid"] == "uuid-1"
    wrong = AccessKeyOf(server.key.id, "hw_wrong")
    for path in (orders, f"{orders}/snapshot"):
        assert server.send(sign, "GET", path, key=wrong).status_code == 401
    watcher = server.tokens.create("watcher", scopes=[Scope.ADMINISTER]).secret
    counted = counts(str(server.http.base_url).rstrip("/"), watcher)
    lane = {name: count for name, count in counted.items() if "fast_lane" in name[0]}
    assert sum(lane.values()) >= 3


def test_a_server_that_needs_no_token_takes_a_wrong_signature_for_anybody_s(
    catalog: SqlCatalog, serve: Callable[..., str]
) -> None:
    address = serve(catalog)
    headers = {"authorization": "DLF4-HMAC-SHA256 Credential=x"}
    assert plain_http.get(f"{address}{DATABASES}", headers=headers).status_code == 200


def test_secrets_are_encrypted_need_a_key_and_follow_it(
    database: SqlDatabase, watch_runtime: Watch
) -> None:
    def of(keys: str) -> Tokens:
        return Tokens(database, watch_runtime.runtime, option_keys({KEYS: keys}))

    with pytest.raises(Invalid, match=KEYS):
        of("").create("ada", kind=TokenKind.DLF)
    assert of("").list() == []
    made = of(f"k1:{ONE}").create("ada", kind=TokenKind.DLF)
    id_ = made.info.access_key_id or ""
    with database.read() as connection:
        row = connection.execute(text("SELECT * FROM hw_tokens")).one()
    assert made.secret not in str(row)
    assert made.secret not in repr(made)
    with pytest.raises(Invalid, match="'k1'"):
        of(f"k2:{TWO}").check_secrets()
    both = of(f"k2:{TWO},k1:{ONE}")
    assert (both.rotate_key(), both.rotate_key()) == (1, 0)
    only = of(f"k2:{TWO}")
    only.check_secrets()
    found = only.find_access_key(id_)
    assert found is not None
    assert found.secret == made.secret
    # Each is bound to its id.
    other = only.create("bob", kind=TokenKind.DLF).info.access_key_id
    with closing(database.engine.raw_connection()) as raw:
        raw.cursor().execute(
            "UPDATE hw_tokens SET sealed_secret = (SELECT sealed_secret FROM hw_tokens "
            f"WHERE id = '{other}') WHERE id = '{id_}'"
        )
        raw.commit()
    with pytest.raises(CorruptData, match="cannot be decrypted"):
        only.check_secrets()


@pytest.fixture
def watch_runtime() -> Watch:
    return Watch()


def test_over_http_a_key_is_made_listed_and_revoked(server: Server, database: SqlDatabase) -> None:
    boss = server.make("boss", scopes=[Scope.ADMINISTER, Scope.MANAGE])
    body = {"name": "eve", "kind": "dlf", "scopes": ["read"]}
    made = server.send(signing.default, "POST", "/management/v1/tokens", body=body, key=boss)
    assert made.status_code == 200, made.text
    eve = AccessKeyOf(made.json()["accessKeyId"], made.json()["secret"])
    assert server.send(signing.default, "GET", DATABASES, key=eve).status_code == 200
    listed = server.send(signing.default, "GET", "/management/v1/tokens", key=boss).json()
    assert {each["name"]: each["accessKeyId"] for each in listed["tokens"]}["eve"] == eve.id
    assert eve.secret not in json.dumps(listed)
    gone = server.send(signing.default, "DELETE", "/management/v1/tokens/eve", key=boss)
    assert gone.status_code == 200
    feed = EventFeed(database)
    told = [each for each in feed.read().events if each.subject.name == "eve"]
    assert [(each.type, each.principal) for each in told] == [
        (EventType.CREATE_TOKEN, "boss"),
        (EventType.REVOKE_TOKEN, "boss"),
    ]
    assert (told[0].subject.id, told[0].details["kind"]) == (eve.id, "dlf")
    assert eve.secret not in repr(told)
