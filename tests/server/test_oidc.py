"""Access tokens of an OpenID Connect issuer, which runs here and rotates its keys."""

from __future__ import annotations

import hmac
import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from tests import plain_http

from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.server.dependencies import Principals
from headwater.server.issuer_keys import REFRESH_SECONDS, RETRY_SECONDS
from headwater.server.settings import load_settings
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

Claims: TypeAlias = dict[str, object]

AUDIENCE = "headwater"


class Clock:
    """A clock that a test turns, seconds since the epoch."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            lambda: self.seconds * 1000,
            SYSTEM_RUNTIME.new_uuid,
            SYSTEM_RUNTIME.sleep,
            monotonic=lambda: float(self.seconds),
        )


class Issuer:
    """An issuer of this machine, with the keys that it publishes now."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.keys: dict[str, Key] = {}
        self.published: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.is_away = False
        self.says: str | None = None
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                documents: dict[str, object] = {
                    "/realm/.well-known/openid-configuration": {
                        "issuer": issuer.says or issuer.address,
                        "jwks_uri": f"{issuer.address}/keys",
                    },
                    "/realm/keys": {"keys": issuer.published},
                }
                body = json.dumps(documents.get(self.path, {})).encode()
                self.send_response(503 if issuer.is_away else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.02])
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/realm"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def rotate(self, key: Key, key_id: str, *, keep: int = 1) -> None:
        """Sign with a new key, and go on publishing some of the earlier ones."""
        self.keys[key_id] = key
        public = {**key.as_dict(private=False), "kid": key_id}
        self.published = [public, *self.published][: keep + 1]

    def token(
        self,
        key_id: str,
        *,
        alg: str = "RS256",
        key: Key | None = None,
        header: Claims | None = None,
        **claims: object,
    ) -> str:
        """A token of an hour for ada; None leaves a claim out."""
        all_claims = {
            "iss": self.address,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": self.clock.seconds,
            "exp": self.clock.seconds + 3600,
            **claims,
        }
        kept = {name: value for name, value in all_claims.items() if value is not None}
        signed = {"alg": alg, "kid": key_id, **(header or {})}
        return jwt.encode(signed, kept, key or self.keys[key_id], algorithms=[alg])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer(clock: Clock) -> Iterator[Issuer]:
    with closing(Issuer(clock)) as made:
        made.rotate(RSAKey.generate_key(2048), "first")
        yield made


@pytest.fixture
def groups(catalog: SqlCatalog) -> Groups:
    return Groups(catalog.operation.database)


@pytest.fixture
def start(
    catalog: SqlCatalog, serve: Callable[..., str], issuer: Issuer, groups: Groups
) -> Callable[..., Callable[..., httpx.Response]]:
    """Starts a server that takes the issuer's tokens, and answers what calls it with one."""

    def start_one(**settings: object) -> Callable[..., httpx.Response]:
        tokens = Tokens(catalog.operation.database, issuer.clock.runtime)
        parts = {
            "runtime": issuer.clock.runtime,
            "find_token": tokens.find,
            "principals": Principals(tokens, groups),
        }
        own = {"oidc_issuer": issuer.address, "oidc_audience": AUDIENCE}
        address = serve(catalog, parts=parts, **{**own, **settings})

        def call(token: str, path: str = "/v1/main/databases") -> httpx.Response:
            headers = {"authorization": f"Bearer {token}"}
            return plain_http.get(address + path, headers=headers)

        return call

    return start_one


Start: TypeAlias = Callable[..., Callable[..., httpx.Response]]


def test_a_token_of_the_issuer_lets_in_and_names_the_caller(
    start: Start, issuer: Issuer, catalog: SqlCatalog, groups: Groups
) -> None:
    call = start(oidc_algorithms="RS256,ES256,Ed25519")
    catalog.databases.create("sales")
    for principal in ("ada", "group:analysts", "group:kept"):
        catalog.databases.create(principal[-3:])
        target = PermissionTarget(TargetType.DATABASE, principal[-3:])
        catalog.permissions.grant(Grant(target, Access.DESCRIBE, principal))
    groups.add("kept", "bob")
    seen = {
        name: call(issuer.token("first", sub=name, groups=listed)).json()["databases"]
        for name, listed in (("ada", None), ("bob", ["analysts", 7, ""]), ("eve", "analysts"))
    }
    assert seen == {"ada": ["ada"], "bob": ["ept", "sts"], "eve": ["sts"]}
    issuer.rotate(ECKey.generate_key("P-256"), "second", keep=5)
    issuer.rotate(OKPKey.generate_key("Ed25519"), "third", keep=5)
    issuer.clock.seconds += RETRY_SECONDS
    assert call(issuer.token("second", alg="ES256")).status_code == 200
    assert call(issuer.token("third", alg="Ed25519")).status_code == 200


def _unsigned(issuer: Issuer, algorithm: str) -> str:
    parts = [
        {"alg": algorithm, "typ": "JWT", "kid": "first"},
        {"iss": issuer.address, "aud": AUDIENCE, "sub": "ada", "exp": issuer.clock.seconds + 60},
    ]
    written = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*written, ""])


def _hmac_with_the_public_key(issuer: Issuer) -> str:
    key = issuer.keys["first"]
    assert isinstance(key, RSAKey)
    head, body, _ = _unsigned(issuer, "HS256").split(".")
    signature = hmac.digest(key.as_pem(private=False), f"{head}.{body}".encode(), "sha256")
    return f"{head}.{body}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


WRONG: dict[str, Callable[[Issuer], str]] = {
    "alg none": lambda issuer: _unsigned(issuer, "none"),
    "alg None": lambda issuer: _unsigned(issuer, "None"),
    "no signature": lambda issuer: _unsigned(issuer, "RS256"),
    "HMAC with the public key": _hmac_with_the_public_key,
    "an algorithm that is not allowed": lambda issuer: issuer.token("first", alg="RS512"),
    "another's key": lambda issuer: issuer.token("first", key=RSAKey.generate_key(2048)),
    "an unknown key": lambda issuer: issuer.token("other", key=issuer.keys["first"]),
    "no key": lambda issuer: issuer.token("first", header={"kid": ""}),
    "another audience": lambda issuer: issuer.token("first", aud="another"),
    "other audiences": lambda issuer: issuer.token("first", aud=["a", "b"]),
    "no audience": lambda issuer: issuer.token("first", aud=None),
    "another issuer": lambda issuer: issuer.token("first", iss=issuer.address + "/"),
    "no issuer": lambda issuer: issuer.token("first", iss=None),
    "expired": lambda issuer: issuer.token("first", exp=issuer.clock.seconds - 30),
    "never to expire": lambda issuer: issuer.token("first", exp=None),
    "to expire at no number": lambda issuer: issuer.token("first", exp=float("nan")),
    "to expire at infinity": lambda issuer: issuer.token("first", exp=float("inf")),
    "to expire truly": lambda issuer: issuer.token("first", exp=True),
    "not yet valid": lambda issuer: issuer.token("first", nbf=issuer.clock.seconds + 31),
    "issued in the future": lambda issuer: issuer.token("first", iat=issuer.clock.seconds + 31),
    "nobody's": lambda issuer: issuer.token("first", sub=None),
    "a number's": lambda issuer: issuer.token("first", sub=7),
    "a group's": lambda issuer: issuer.token("first", sub="group:admins"),
    "the settings'": lambda issuer: issuer.token("first", sub="configured"),
    "of another type": lambda issuer: issuer.token("first", header={"typ": "logout+jwt"}),
    "critical": lambda issuer: issuer.token("first", header={"crit": ["kid"]}),
    "cut": lambda issuer: issuer.token("first")[:-4],
    "no token": lambda issuer: "a.b.c",
}


def test_any_other_token_is_refused(
    start: Start, issuer: Issuer, subtests: pytest.Subtests
) -> None:
    call = start(oidc_algorithms="RS256")
    for kind, make in WRONG.items():
        with subtests.test(kind):
            answer = call(make(issuer))
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    # So would be one of a database's form; a good one is not.
    assert call("hw_x").status_code == 401
    assert call(issuer.token("first", aud=["other", AUDIENCE])).status_code == 200


def test_a_clock_that_is_a_little_wrong_is_borne(start: Start, issuer: Issuer) -> None:
    call = start()
    now = issuer.clock.seconds
    assert call(issuer.token("first", nbf=now + 30, iat=now + 30)).status_code == 200
    ending = issuer.token("first", exp=now - 29)
    assert call(ending).status_code == 200
    # What is remembered ends when it should.
    issuer.clock.seconds += 1
    assert call(ending).status_code == 401


def test_keys_rotate(start: Start, issuer: Issuer) -> None:
    call = start()
    old = issuer.token("first", exp=issuer.clock.seconds + 100_000)
    assert call(old).status_code == 200
    issuer.rotate(RSAKey.generate_key(2048), "second", keep=0)
    new = issuer.token("second", exp=issuer.clock.seconds + 100_000)
    # The issuer is not asked for every token that somebody makes up.
    fetched = len(issuer.asked)
    assert [call(new).status_code for _ in range(3)] == [401] * 3
    assert len(issuer.asked) == fetched
    issuer.clock.seconds += RETRY_SECONDS
    assert call(new).status_code == 200
    assert len(issuer.asked) == fetched + 2
    # The old one was withdrawn.
    issuer.clock.seconds += REFRESH_SECONDS
    assert call(old).status_code == 401
    assert call(new).status_code == 200


def test_an_issuer_that_is_away_locks_out_nobody_for_a_while(start: Start, issuer: Issuer) -> None:
    issuer.is_away = True
    call = start()
    token = issuer.token("first", exp=issuer.clock.seconds + 100_000)
    unknown = call(token)
    assert (unknown.status_code, unknown.headers["retry-after"]) == (503, "1")
    issuer.is_away = False
    issuer.clock.seconds += RETRY_SECONDS
    assert call(token).status_code == 200
    issuer.is_away = True
    issuer.clock.seconds += REFRESH_SECONDS
    assert call(token).status_code == 200
    issuer.clock.seconds += 3600
    assert call(token).status_code == 503


def test_what_another_issuer_says_of_itself_is_not_believed(start: Start, issuer: Issuer) -> None:
    issuer.says = "https://evil.example"
    assert start()(issuer.token("first")).status_code == 503


@pytest.mark.parametrize("administrator", ["ada", "group:ops"])
def test_administrators_administer(start: Start, issuer: Issuer, administrator: str) -> None:
    call = start(oidc_administrators=administrator)
    member = issuer.token("first", groups=["ops"])
    other = issuer.token("first", sub="bob", groups=["group:ops", "ada"])
    for path, status in (("/management/v1/tokens", 403), ("/v1/main/databases/none", 404)):
        assert call(other, path).status_code == status
    assert call(member, "/management/v1/tokens").status_code == 200


def test_other_claims_may_name_the_caller(start: Start, issuer: Issuer) -> None:
    call = start(oidc_principal_claim="email", oidc_groups_claim="roles",
                 oidc_administrators="group:ops")  # fmt: skip
    assert call(issuer.token("first")).status_code == 401
    token = issuer.token("first", email="ada@example.com", roles=["ops"])
    assert call(token, "/management/v1/groups").status_code == 200


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"oidc_issuer": "https://i.example"}, "oidc_audience"),
        ({"oidc_audience": "a"}, "oidc_issuer"),
        ({"oidc_issuer": "http://i.example", "oidc_audience": "a"}, "https"),
        ({"oidc_issuer": "https://i.example?x", "oidc_audience": "a"}, "https"),
        ({"oidc_algorithms": "HS256"}, "HS256"),
        ({"oidc_algorithms": "RS256,none"}, "none"),
        ({"oidc_algorithms": ""}, "none"),
        ({"oidc_clock_skew": "1 h"}, "oidc_clock_skew"),
    ],
)
def test_settings_that_are_not_safe_are_refused(settings: dict[str, str], words: str) -> None:
    whole = settings
    if "oidc_algorithms" in settings:
        whole = {"oidc_issuer": "https://i.example", "oidc_audience": "a", **settings}
    with pytest.raises(Invalid, match=words):
        load_settings(whole)
