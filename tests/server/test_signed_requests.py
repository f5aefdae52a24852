"""Requests to the store that the server signs: for whom, for which files, and how."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import httpx
import pytest
from botocore.config import Config  # type: ignore[import-untyped]
from tests import plain_http
from tests.conftest import NewSqlite, Serve

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.model.principal import GROUP_PREFIX, Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.sql.events.counted_requests import CountedRequests
from headwater.client import connect
from headwater.server.audited_reads import AuditedReads
from headwater.server.dependencies import Principals
from headwater.server.presigned_urls import Bucket, presigned
from headwater.server.read_audit import ReadAudit
from headwater.server.settings import load_settings
from headwater.server.sts import Credentials
from headwater.storage.errors import Forbidden, Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import SetOption

# The steps after the first.
UPLOAD_STEPS: tuple[tuple[str, dict[str, object]], ...] = (
    ("PART", {"uploadId": "x", "part": 1}),
    ("COMPLETE", {"uploadId": "x"}),
    ("ABORT", {"uploadId": "x"}),
)
TABLES = "/v1/main/databases/sales/tables"


@pytest.fixture
def lake(s3_endpoint: str, tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    """A catalog in an object store without a token service."""
    url = new_sqlite(tmp_path / "store.db")
    options = {
        "s3.endpoint": s3_endpoint,
        "s3.access-key": "AKIAOWN",
        "s3.secret-key": "own-secret",
    }
    place = "s3://lake/ware house%"
    opened = SqlCatalog.open(url, warehouse="main", location=place, storage_options=options)
    yield opened
    opened.close()


@pytest.fixture
def reads() -> ReadAudit:
    return ReadAudit(SYSTEM_RUNTIME, AuditedReads.DATA)


@pytest.fixture
def address(
    lake: SqlCatalog, tmp_path: Path, serve: Serve, schema: dict[str, Any], reads: ReadAudit
) -> str:
    """A server that signs, with an empty table ``sales.orders``."""
    with opened_database(f"sqlite:///{tmp_path}/store.db") as database:
        tokens = Tokens(database, SYSTEM_RUNTIME)
        made = {
            name: tokens.create(name, scopes={scope}).secret
            for name, scope in (("reader", Scope.READ), ("writer", Scope.WRITE))
        }
        (tmp_path / "reader").write_text(made["reader"])
        (tmp_path / "writer").write_text(made["writer"])
        parts = {
            "find_token": tokens.find,
            "principals": Principals(tokens, Groups(database)),
            "read_audit": reads,
        }
    settings = {"tokens": ["all"], "signed_request_seconds": 900, "enforce_permissions": False}
    at = serve(lake, parts=parts, **settings)
    with _as(at, "all") as http:
        http.post("/v1/main/databases", json={"name": "sales"})
        body = {"identifier": {"database": "sales", "object": "orders"}, "schema": schema}
        assert http.post(TABLES, json=body).status_code == 200
    return at


def _as(address: str, token: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {token}"}
    return plain_http.Client(base_url=address, headers=headers, timeout=30)


def _sign(http: httpx.Client, method: str, path: str, **more: object) -> httpx.Response:
    asked = {"method": method, "path": path, **more}
    return http.post(f"{TABLES}/orders/sign", json={"requests": [asked]})


def test_it_signs_as_the_store_s_own_library_does(subtests: pytest.Subtests) -> None:
    """What S3 and its like check, which the store of the tests does not."""
    for style, session, url in (
        ("path", None, "https://minio.example:9000/lake"),
        ("path", "a/session+token=", "https://minio.example:9000/lake"),
        ("virtual", None, "https://lake.s3.eu-west-1.amazonaws.com"),
    ):
        theirs = boto3.client(
            "s3",
            endpoint_url="https://minio.example:9000" if style == "path" else None,
            region_name="eu-west-1",
            aws_access_key_id="AKIAOWN",
            aws_secret_access_key="own-secret",
            aws_session_token=session,
            config=Config(signature_version="s3v4", s3={"addressing_style": style}),
        )
        bucket = Bucket(url, "eu-west-1", Credentials("AKIAOWN", "own-secret", session))
        key = "ware house%/sales.db/ü+*'()~:/dt=a%2Fb/data-1.parquet"
        listed = {"prefix": "a b/%/", "delimiter": "/", "continuation-token": "1/+="}
        of_list = {"Prefix": "a b/%/", "Delimiter": "/", "ContinuationToken": "1/+="}
        for operation, method, of, query, headers, parameters in (
            ("get_object", "GET", key, {}, {}, {"Key": key}),
            ("head_object", "HEAD", key, {}, {}, {"Key": key}),
            ("delete_object", "DELETE", key, {}, {}, {"Key": key}),
            ("put_object", "PUT", key, {}, {}, {"Key": key}),
            (
                *("put_object", "PUT", key, {}),
                *({"if-none-match": "*"}, {"Key": key, "IfNoneMatch": "*"}),
            ),
            ("create_multipart_upload", "POST", key, {"uploads": ""}, {}, {"Key": key}),
            (
                *("upload_part", "PUT", key, {"uploadId": "a/+=", "partNumber": "7"}, {}),
                {"Key": key, "UploadId": "a/+=", "PartNumber": 7},
            ),
            (
                *("complete_multipart_upload", "POST", key, {"uploadId": "a/+="}, {}),
                {"Key": key, "UploadId": "a/+="},
            ),
            (
                *("abort_multipart_upload", "DELETE", key, {"uploadId": "a/+="}, {}),
                {"Key": key, "UploadId": "a/+="},
            ),
            (
                *("list_objects_v2", "GET", ""),
                {"list-type": "2", "encoding-type": "url", **listed},
                {},
                {**of_list, "EncodingType": "url"},
            ),
        ):
            with subtests.test(f"{style} {operation} {headers}"):
                expected = theirs.generate_presigned_url(
                    operation, Params={"Bucket": "lake", **parameters}, ExpiresIn=900
                )
                wanted = parse_qs(urlsplit(expected).query, keep_blank_values=True)
                (stamp,) = wanted["X-Amz-Date"]
                moment = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
                made = presigned(
                    bucket,
                    method,
                    of,
                    query=query,
                    headers=headers,
                    seconds=900,
                    now_millis=int(moment.timestamp() * 1000),
                )
                assert parse_qs(urlsplit(made).query, keep_blank_values=True) == wanted
                assert urlsplit(made).path.rstrip("/") == urlsplit(expected).path.rstrip("/")


def test_the_sdk_works_without_credentials(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"order_id": n, "dt": "a/b %", "amount": n} for n in range(3)]
    writer = (tmp_path / "writer").read_text()
    with connect(address, warehouse="main", token=writer) as lake:
        table = lake.table("sales.orders")
        table.write(rows)
        table.write(rows[:1])
        table.compact()
        assert table.scan().to_arrow().num_rows == 3
        assert [each.id for each in table.snapshots()] == [3, 2, 1]
    reader = (tmp_path / "reader").read_text()
    with connect(address, warehouse="main", token=reader) as lake:
        table = lake.table("sales.orders")
        assert table.scan(where="amount > 0").to_arrow().num_rows == 2
        with pytest.raises(Forbidden):
            table.write(rows)
    sent = [each.getMessage() for each in caplog.records if each.name == "httpx"]
    assert any("/orders/snapshot/" in each for each in sent)
    assert not any("X-Amz" in each for each in sent)


def test_only_who_may_write_gets_what_changes_files(
    address: str, tmp_path: Path, reads: ReadAudit
) -> None:
    for name, may in (("reader", 403), ("writer", 200)):
        with _as(address, (tmp_path / name).read_text()) as http:
            for method in ("GET", "HEAD", "LIST"):
                assert _sign(http, method, "schema").status_code == 200
            for method in ("PUT", "DELETE", "CREATE"):
                assert _sign(http, method, "schema/schema-9").status_code == may
            for method, more in UPLOAD_STEPS:
                assert _sign(http, method, "schema/schema-9", **more).status_code == may
            answer = _sign(http, "GET", "schema/schema-0")
        assert "own-secret" not in answer.text
        (signed,) = answer.json()["requests"]
        path, query = urlsplit(signed["url"]).path, parse_qs(urlsplit(signed["url"]).query)
        assert path == "/lake/ware%20house%25/sales.db/orders/schema/schema-0"
        assert query["X-Amz-Expires"] == ["900"]
        assert b'"order_id"' in plain_http.get(signed["url"]).content
    with _as(address, "wrong") as http:
        assert _sign(http, "GET", "schema/schema-0").status_code == 401
    # Those that were given out, and no others, are told of where reads are audited.
    told: list[CountedRequests] = []
    reads.write(told.extend)
    changing = len(UPLOAD_STEPS) + 3
    assert {(each.principal, each.operation, str(each.subject), each.count) for each in told} == {
        ("reader", "signTableRequests", "sales.orders", 4),
        ("writer", "signTableRequests", "sales.orders", 4 + changing),
    }


@pytest.mark.parametrize("groups", [False, True], ids=["named", "in groups"])
def test_what_is_granted_says_who_may_read_and_write_files(
    lake: SqlCatalog, address: str, tmp_path: Path, serve: Serve, *, groups: bool
) -> None:
    table = PermissionTarget(TargetType.TABLE, "sales", "orders")
    columns = PermissionTarget(TargetType.COLUMN, "sales", "orders")
    some = ColumnSet(names=("order_id",))
    orders = Identifier("sales", "orders")
    lake.tables.alter(orders, [SetOption("query-auth.enabled", "true")])
    grants = {
        "selects": (Grant(table, Access.SELECT, "selects"), 200, 403),
        "updates": (Grant(table, Access.UPDATE, "updates"), 200, 200),
        "some": (Grant(columns, Access.SELECT, "some", some), 403, 403),
        "alters": (Grant(table, Access.ALTER, "alters"), 403, 403),
    }
    with opened_database(f"sqlite:///{tmp_path}/store.db") as database:
        tokens, members = Tokens(database, SYSTEM_RUNTIME), Groups(database)
        parts = {"find_token": tokens.find, "principals": Principals(tokens, members)}
        enforcing = serve(lake, parts=parts, require_token=True, signed_request_seconds=900)
        for name, (grant, may_read, may_write) in grants.items():
            secret = tokens.create(name, scopes={Scope.WRITE}).secret
            if groups:
                members.add(f"who {name}", name)
                grant = replace(grant, principal=f"{GROUP_PREFIX}who {name}")
            lake.permissions.grant(grant)
            with _as(enforcing, secret) as http:
                for method, may in (
                    *((each, may_read) for each in ("GET", "HEAD")),
                    *((each, may_write) for each in ("PUT", "DELETE", "CREATE")),
                ):
                    signed = _sign(http, method, "schema/schema-0")
                    assert signed.status_code == may, (name, method, signed.text)


def test_nothing_beside_the_table_is_signed(address: str) -> None:
    with _as(address, "all") as http:
        for path in (
            *("..", "../orders2/x", "a/../../x", ".", "a/./b", "/x", "a//b", "a/", ""),
            *("a\\b", "a\nb", "a\0b", "x" * 1025),
        ):
            for method, more in UPLOAD_STEPS:
                assert _sign(http, method, path, **more).status_code == 400, (method, path)
            for method in ("GET", "HEAD", "PUT", "DELETE", "LIST", "CREATE"):
                is_whole_table = (method, path) == ("LIST", "")
                status = _sign(http, method, path).status_code
                assert status == (200 if is_whole_table else 400), (method, path)
        # Percent signs stand for themselves, and lists end with a slash.
        (signed,) = _sign(http, "GET", "%2e%2e/x").json()["requests"]
        assert urlsplit(signed["url"]).path.endswith("/orders/%252e%252e/x")
        for path, prefix in (("", "orders/"), ("schema", "orders/schema/")):
            (signed,) = _sign(http, "LIST", path).json()["requests"]
            (asked,) = parse_qs(urlsplit(signed["url"]).query)["prefix"]
            assert asked == f"ware house%/sales.db/{prefix}"
        for wrong in (
            {"method": "POST", "path": "x"},
            {"method": "GET", "path": "x", "ifAbsent": True},
            {"method": "GET", "path": "x", "isDeep": True},
            {"method": "PUT", "path": "x", "after": "1"},
            {"method": "PUT", "path": "x", "uploadId": "1"},
            {"method": "PUT", "path": "x", "uploadId": "1", "part": 1},
            {"method": "CREATE", "path": "x", "uploadId": "1"},
            {"method": "CREATE", "path": "x", "ifAbsent": True},
            {"method": "PART", "path": "x", "uploadId": "1"},
            {"method": "PART", "path": "x", "uploadId": "", "part": 1},
            {"method": "PART", "path": "x", "uploadId": "1", "part": 0},
            {"method": "PART", "path": "x", "uploadId": "1", "part": 10001},
            {"method": "COMPLETE", "path": "x"},
            {"method": "COMPLETE", "path": "x", "uploadId": "1", "part": 1},
            {"method": "ABORT", "path": "x"},
        ):
            answer = http.post(f"{TABLES}/orders/sign", json={"requests": [wrong]})
            assert answer.status_code == 400
        too_many = [{"method": "GET", "path": "x"}] * 1001
        for many in ([], too_many):
            answer = http.post(f"{TABLES}/orders/sign", json={"requests": many})
            assert answer.status_code == 400


def test_a_put_that_must_not_replace_says_so_in_what_is_signed(address: str) -> None:
    with _as(address, "all") as http:
        answer = _sign(http, "PUT", "schema/schema-0", ifAbsent=True)
    (signed,) = answer.json()["requests"]
    assert signed["headers"] == {"if-none-match": "*"}
    query = parse_qs(urlsplit(signed["url"]).query)
    assert query["X-Amz-SignedHeaders"] == ["host;if-none-match"]
    sent = plain_http.request("PUT", signed["url"], headers=signed["headers"], content=b"x")
    assert sent.status_code == 412


def test_what_it_does_not_sign(
    lake: SqlCatalog, tmp_path: Path, new_sqlite: NewSqlite, serve: Serve, schema: dict[str, Any]
) -> None:
    def refused(
        catalog: SqlCatalog, words: str, path: str | None = None, seconds: int | None = None
    ) -> None:
        address = serve(catalog, tokens=["all"], signed_request_seconds=seconds)
        with _as(address, "all") as http:
            http.post("/v1/main/databases", json={"name": "sales"})
            options = {"bucket": "2", **({} if path is None else {"path": path})}
            body = {
                "identifier": {"database": "sales", "object": "orders"},
                "schema": {**schema, "options": options},
            }
            assert http.post(TABLES, json=body).status_code == 200
            answer = _sign(http, "GET", "schema/schema-0")
            assert (answer.status_code, words in answer.text) == (501, True), answer.text
            assert http.delete(f"{TABLES}/orders").status_code == 200
            defaults = http.get("/v1/config").json()["defaults"]
            assert ("headwater.signed-requests.enabled" in defaults) == (path is not None)

    refused(lake, "HEADWATER_SIGNED_REQUEST_SECONDS")
    refused(lake, "is external", "s3://lake/outside", seconds=900)
    url = new_sqlite(tmp_path / "folder.db")
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "folder"))
    with closing(opened) as folder:
        refused(folder, "HEADWATER_SIGNED_REQUEST_SECONDS", seconds=900)
    url = new_sqlite(tmp_path / "role.db")
    options = {**lake.storage_options, "s3.sts.role-arn": "arn:aws:iam::1:role/x"}
    opened = SqlCatalog.open(
        url, warehouse="main", location="s3://lake/other", storage_options=options
    )
    with closing(opened) as with_role:
        refused(with_role, "s3.sts.role-arn", seconds=900)


def test_the_time_is_one_that_makes_sense() -> None:
    for wrong in ("59", "3601", "soon"):
        with pytest.raises(Invalid, match="signed_request_seconds"):
            load_settings({"signed_request_seconds": wrong})
