"""What a client does when the server is slow, gone, or something else."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.ports import free_port

from headwater.catalog.model.functions import FunctionSpec
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewSchema
from headwater.catalog.sql import SqlCatalog
from headwater.client.answers import Answer
from headwater.client.rest import RestCatalog
from headwater.client.transport import encode_path, seconds_to_wait
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    Forbidden,
    HeadwaterError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ResourceType,
    Unavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from tests.client.conftest import Clock, Proxy


@pytest.fixture
def catalog(proxy: Proxy, clock: Clock) -> RestCatalog:
    """A client before the proxy that has shaken hands."""
    client = RestCatalog(proxy.url, runtime=clock.runtime)
    client.connect()
    return client


def test_a_server_that_is_not_there_is_one_sentence(clock: Clock) -> None:
    port = free_port()
    client = RestCatalog(f"http://127.0.0.1:{port}/", runtime=clock.runtime)
    with pytest.raises(
        Unavailable, match=rf"http://127\.0\.0\.1:{port} cannot be reached"
    ) as error:
        client.connect()
    assert "\n" not in error.value.message
    assert clock.slept == [0.1, 0.2, 0.4, 0.8]


def test_a_name_that_leads_nowhere_is_one_sentence(clock: Clock) -> None:
    client = RestCatalog("http://catalog.invalid:80", runtime=clock.runtime)
    with pytest.raises(Unavailable, match=r"http://catalog\.invalid:80 cannot be reached"):
        client.connect()


@pytest.mark.parametrize(
    "url", ["", "catalog:8080", "ftp://catalog", "http://", "http://u:p@host", "http://host/?a=1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as error:
        RestCatalog(url)
    assert "u:p" not in error.value.message


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, "<html>Welcome</html>"),
        (200, "[]"),
        (200, ""),
        (200, '{"defaults": {}, "overrides": {}}'),
        (404, "<html>Not found</html>"),
        (404, '{"detail": "Not Found"}'),
        (302, ""),
        (502, "Bad gateway"),
    ],
)
def test_something_else_at_the_address_is_told(
    proxy: Proxy, clock: Clock, status: int, text: str
) -> None:
    proxy.reply("GET /v1/config", status, text)
    with pytest.raises(Unavailable, match="/v1/config"):
        RestCatalog(proxy.url, runtime=clock.runtime).connect()


def test_503_and_429_are_tried_again(catalog: RestCatalog, proxy: Proxy, clock: Clock) -> None:
    proxy.reply("GET /databases", 503)
    proxy.reply("GET /databases", 429, headers={"retry-after": "7"})
    proxy.reply("GET /databases", 503, headers={"retry-after": "86400"})
    proxy.reply("GET /databases", 503, headers={"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"})
    assert list(catalog.databases.list().items) == []
    assert clock.slept == [0.1, 7.0, 30.0, 0.8]


def test_503_is_tried_again_for_a_post_too(
    catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog
) -> None:
    proxy.reply("POST /databases", 503)
    catalog.databases.create("sales")
    assert list(behind.databases.list().items) == ["sales"]


def test_trying_again_ends(catalog: RestCatalog, proxy: Proxy, clock: Clock) -> None:
    body = json.dumps({"message": "too busy", "code": 503})
    for _ in range(9):
        proxy.reply("GET /databases", 503, body)
    with pytest.raises(Unavailable, match="too busy"):
        catalog.databases.list()
    assert proxy.requests("GET", "/databases") == 5
    assert len(clock.slept) == 4


def test_a_read_is_repeated_when_its_answer_is_lost(
    catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog
) -> None:
    behind.databases.create("sales")
    proxy.lose_answer("GET /databases")
    proxy.lose_request("GET /databases")
    assert list(catalog.databases.list().items) == ["sales"]


def test_a_write_is_not_repeated_when_its_answer_is_lost(
    catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog
) -> None:
    proxy.lose_answer("POST /databases")
    with pytest.raises(OutcomeUnknown, match="its answer was lost"):
        catalog.databases.create("sales")
    assert proxy.requests("POST", "/databases") == 1
    assert list(behind.databases.list().items) == ["sales"]


def test_a_deletion_whose_answer_was_lost_has_happened(
    catalog: RestCatalog, proxy: Proxy, behind: SqlCatalog
) -> None:
    behind.databases.create("sales")
    proxy.lose_answer("DELETE /databases/sales")
    catalog.databases.drop("sales")
    assert proxy.requests("DELETE", "/databases/sales") == 2
    with pytest.raises(NotFound):
        catalog.databases.drop("sales")


def _config(**overrides: str) -> str:
    return json.dumps(
        {
            "defaults": {"header.X-Default": "d", "a": "default", "b": "default", "c": None},
            "overrides": {"prefix": "main", "b": "override", **overrides},
        }
    )


def test_the_servers_configuration_is_merged_in(
    proxy: Proxy, clock: Clock, behind: SqlCatalog
) -> None:
    proxy.reply("GET /v1/config", 200, _config(**{"header.X-Forced": "f"}))
    own = {"a": "own", "b": "own", "header.X-Own": "o", "header.X-Forced": "own"}
    client = RestCatalog(
        proxy.url, warehouse="main", token="secret", options=own, runtime=clock.runtime
    )
    client.databases.list()
    client.databases.list()
    assert dict(client.storage_options) == {"a": "own", "b": "override"}
    assert client.warehouse == "main"
    (first, second, third) = proxy.seen
    assert first[1] == "/v1/config?warehouse=main"
    assert (first[2].get("x-own"), first[2].get("x-default")) == ("o", None)
    assert second[1] == third[1] == "/v1/main/databases"
    sent = second[2]
    assert (sent["x-own"], sent["x-default"], sent["x-forced"]) == ("o", "d", "f")
    assert {request[2]["authorization"] for request in proxy.seen} == {"Bearer secret"}


def test_a_prefix_is_encoded(proxy: Proxy, clock: Clock) -> None:
    proxy.reply("GET /v1/config", 200, _config(prefix="a/b c"))
    proxy.reply("GET /v1/a%2Fb+c/databases", 200, '{"databases": ["x"]}')
    client = RestCatalog(proxy.url, runtime=clock.runtime)
    assert list(client.databases.list().items) == ["x"]


def test_a_path_is_form_encoded() -> None:
    assert encode_path("a/b", "t$branch_x", "a b", "ü+%") == "a%2Fb/t%24branch_x/a+b/%C3%BC%2B%25"


def test_waiting_is_bounded() -> None:
    waits = [seconds_to_wait(attempt) for attempt in (1, 2, 3, 20)]
    assert waits == [0.1, 0.2, 0.4, 30.0]
    assert seconds_to_wait(1, 5.0) == 5.0
    assert seconds_to_wait(1, 500.0) == 30.0


@pytest.mark.parametrize(("header", "seconds"), [("5", 5.0), ("-5", None), ("soon", None)])
def test_retry_after_is_read_in_seconds(header: str, seconds: float | None) -> None:
    assert Answer(503, "", {"retry-after": header}, "GET http://x/y").retry_after == seconds


def _answer(status: int, **body: object) -> Answer:
    return Answer(status, json.dumps(body), {"x-request-id": "rid"}, "GET http://x/y")


@pytest.mark.parametrize(
    ("status", "code", "resource_type", "kind"),
    [
        (400, 400, None, Invalid),
        (422, 422, None, Invalid),
        (401, 401, None, Forbidden),
        (403, 403, "TABLE", Forbidden),
        (404, 404, "TABLE", NotFound),
        (409, 409, "COLUMN", AlreadyExists),
        (409, 409, None, Conflict),
        (409, 409, "", Conflict),
        (500, 500, None, Unavailable),
        (501, 501, "TABLE", Unsupported),
        (503, 503, None, Unavailable),
        (404, 501, "TABLE", Unsupported),  # the body's code counts
        (418, 418, None, Unavailable),
    ],
)
def test_a_foreign_servers_error_is_read_by_code_and_kind(
    status: int, code: int, resource_type: str | None, kind: type[HeadwaterError]
) -> None:
    answer = _answer(status, message="m", resourceType=resource_type, resourceName="n", code=code)
    error = answer.error()
    assert type(error) is kind
    assert error.resource_type == (ResourceType(resource_type) if resource_type else None)
    assert error.resource_name == "n"
    assert error.message == ("m (request id rid)" if code >= 500 else "m")


def test_a_kind_nobody_knows_is_unknown() -> None:
    error = _answer(404, message="m", resourceType="COMET", resourceName=None, code=404).error()
    assert error.resource_type is ResourceType.UNKNOWN


def test_headwaters_own_errors_keep_their_class(
    proxy: Proxy, catalog: RestCatalog, behind: SqlCatalog
) -> None:
    body = json.dumps({"message": "broken", "code": 500})
    proxy.reply("GET /databases", 500, body, headers={"x-headwater-error": "CorruptData"})
    with pytest.raises(CorruptData, match="broken"):
        catalog.databases.list()


def test_a_wrong_token_is_forbidden(
    behind: SqlCatalog, serve: Callable[..., str], clock: Clock
) -> None:
    address = serve(behind, tokens=["right"])
    for token in ("wrong", None):
        with pytest.raises(Forbidden, match="token"):
            RestCatalog(address, token=token, runtime=clock.runtime).connect()
    RestCatalog(address, token="right").connect()


def test_an_unknown_warehouse_is_not_found(address: str) -> None:
    with pytest.raises(NotFound, match="'other'"):
        RestCatalog(address, warehouse="other").connect()


def test_a_client_pickles_and_connects_again(proxy: Proxy, behind: SqlCatalog) -> None:
    behind.databases.create("sales")
    client = RestCatalog(proxy.url, token="secret", options={"header.X-Own": "o"})
    fresh = pickle.loads(pickle.dumps(client))
    assert proxy.seen == []
    assert list(fresh.databases.list().items) == ["sales"]
    assert "secret" not in repr(fresh)
    client.connect()
    connected = pickle.loads(pickle.dumps(client.patient(7)))
    assert connected.patience == 7
    before = proxy.requests("GET", "/v1/config")
    assert list(connected.databases.list().items) == ["sales"]
    assert proxy.requests("GET", "/v1/config") == before
    assert proxy.seen[-1][2]["x-own"] == "o"


def test_a_closed_client_connects_again(catalog: RestCatalog) -> None:
    catalog.close()
    assert list(catalog.databases.list().items) == []
    catalog.close()


def test_a_page_needs_room(catalog: RestCatalog) -> None:
    with pytest.raises(Invalid, match="at least 1"):
        catalog.databases.list(max_results=0)


def test_a_server_that_cannot_replace_is_named(catalog: RestCatalog, proxy: Proxy) -> None:
    name = Identifier("sales", "area")
    # A path that a server does not know is about no resource.
    answer = '{"message": "Not Found", "code": 404, "resourceType": null, "resourceName": null}'
    proxy.reply("POST /replace", 404, answer)
    with pytest.raises(Unsupported, match=r"view sales\.area: the server at .*drop it"):
        catalog.views.replace(name, ViewSchema((), "SELECT 1"))
    proxy.reply("POST /replace", 404, answer)
    with pytest.raises(Unsupported, match=r"function sales\.area: the server at .*drop it"):
        catalog.functions.replace(name, FunctionSpec())
