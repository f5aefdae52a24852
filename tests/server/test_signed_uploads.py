"""Files that are larger than a part, put by requests that the server signs one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import httpx
import pytest
from tests import plain_http
from tests.client.conftest import Clock, open_proxy
from tests.conftest import NewSqlite, Serve

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.wire.signed_requests import FileRequestModel
from headwater.client.multipart_upload import FilePart, MultipartUpload
from headwater.client.rest import RestCatalog
from headwater.client.signed_files import SignedFiles
from headwater.client.transport import Timeouts
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unavailable
from headwater.storage.schema.table_schema import Schema

PART = 5 << 20
PLACE = "s3://lake/main/sales.db/orders"
SIGN = "/v1/main/databases/sales/tables/orders/sign"


@pytest.fixture
def store(s3_endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


@pytest.fixture
def address(
    s3_endpoint: str,
    tmp_path: Path,
    new_sqlite: NewSqlite,
    serve: Serve,
    schema: dict[str, object],
) -> Iterator[str]:
    """A server that signs, with an empty table ``sales.orders``."""
    url = new_sqlite(tmp_path / "store.db")
    options = {"s3.endpoint": s3_endpoint, "s3.access-key": "own", "s3.secret-key": "secret"}
    catalog = SqlCatalog.open(
        url, warehouse="main", location="s3://lake/main", storage_options=options
    )
    catalog.databases.create("sales")
    catalog.tables.create(Identifier("sales", "orders"), Schema.from_json(schema))  # type: ignore[arg-type]
    yield serve(catalog, signed_request_seconds=900)
    catalog.close()


@pytest.fixture
def files(address: str) -> Iterator[SignedFiles]:
    """The access that the SDK has to the table's files, with small parts."""
    with closing(RestCatalog(address, options={"s3.multipart.size": "5 mb"})) as catalog:
        files = catalog.table_files(catalog.tables.get(Identifier("sales", "orders")))
        assert isinstance(files, SignedFiles)
        yield files


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file of three parts, the last of which is small."""
    path = tmp_path / "large"
    path.write_bytes(os.urandom(2 * PART + 1000))
    return path


def _uploads(store: Any) -> list[str]:
    return [each["Key"] for each in store.list_multipart_uploads(Bucket="lake").get("Uploads", [])]


def test_a_large_file_is_put_in_parts(files: SignedFiles, store: Any, large: Path) -> None:
    path = f"{PLACE}/bucket-0/data 1%.parquet"
    for content in (large.read_bytes(), large.read_bytes()[:PART], b"small"):
        with files.open_output(path) as sink:
            sink.write(content)
        assert files.size(path) == len(content)
        assert files.read(path) == content
        parts = store.head_object(Bucket="lake", Key=path.removeprefix("s3://lake/"))["ETag"]
        assert parts.strip('"').endswith("-3") == (len(content) > PART)
    assert _uploads(store) == []


def _sending(files: SignedFiles, path: str) -> Any:
    def send(asked: FileRequestModel, content: bytes | FilePart | None) -> httpx.Response:
        return files._repeated(asked, path, content)

    return send


def test_nothing_is_left_of_an_upload_that_fails(
    files: SignedFiles, store: Any, large: Path
) -> None:
    send = _sending(files, f"{PLACE}/x")

    def failing(asked: FileRequestModel, content: bytes | FilePart | None) -> httpx.Response:
        if asked.part == 2:
            assert _uploads(store) == ["main/sales.db/orders/x"]
            raise KeyboardInterrupt
        return send(asked, content)  # type: ignore[no-any-return]

    with pytest.raises(KeyboardInterrupt):
        MultipartUpload(failing, "x", large, PART).run()
    assert _uploads(store) == []
    assert not files.exists(f"{PLACE}/x")


def test_a_last_step_whose_answer_was_lost_is_found_done(files: SignedFiles, large: Path) -> None:
    send = _sending(files, f"{PLACE}/x")

    def losing(asked: FileRequestModel, content: bytes | FilePart | None) -> httpx.Response:
        if asked.method == "COMPLETE":
            send(asked, content)
        return send(asked, content)  # type: ignore[no-any-return]

    MultipartUpload(losing, "x", large, PART).run()
    assert files.read(f"{PLACE}/x") == large.read_bytes()


def test_an_upload_that_somebody_ended_is_no_file(
    files: SignedFiles, store: Any, large: Path
) -> None:
    send = _sending(files, f"{PLACE}/x")

    def ended(asked: FileRequestModel, content: bytes | FilePart | None) -> httpx.Response:
        if asked.method == "COMPLETE":
            key = "main/sales.db/orders/x"
            store.abort_multipart_upload(Bucket="lake", Key=key, UploadId=asked.upload_id)
        return send(asked, content)  # type: ignore[no-any-return]

    with pytest.raises(HeadwaterError):
        MultipartUpload(ended, "x", large, PART).run()
    with pytest.raises(NotFound):
        files.read(f"{PLACE}/x")


def test_what_is_signed_is_for_one_key_and_one_upload(address: str, store: Any) -> None:
    """The path and all parameters are signed; what a store does with others' ids is its own."""
    victim = store.create_multipart_upload(Bucket="lake", Key="main/sales.db/other/x")["UploadId"]
    with plain_http.Client(base_url=address) as http:
        for method, sent, more in (
            ("CREATE", "POST", {}),
            ("PART", "PUT", {"uploadId": victim, "part": 1}),
            ("COMPLETE", "POST", {"uploadId": victim, "ifAbsent": True}),
            ("ABORT", "DELETE", {"uploadId": victim}),
        ):
            body = {"requests": [{"method": method, "path": "x", **more}]}
            (signed,) = http.post(SIGN, json=body).json()["requests"]
            parts = urlsplit(signed["url"])
            assert (signed["method"], parts.path) == (sent, "/lake/main/sales.db/orders/x")
            query = parse_qs(parts.query, keep_blank_values=True)
            query = {name: value for name, value in query.items() if not name.startswith("X-Amz")}
            expected: dict[str, list[str]] = {"uploads": [""]}
            if more:
                expected = {"uploadId": [victim]}
            if method == "PART":
                expected["partNumber"] = ["1"]
            assert query == expected
            assert signed["headers"] == ({"if-none-match": "*"} if "ifAbsent" in more else {})


def test_a_part_is_of_a_size_that_stores_take(address: str) -> None:
    for size in ("1 mb", "soon"):
        with (
            closing(RestCatalog(address, options={"s3.multipart.size": size})) as catalog,
            pytest.raises(Invalid, match=r"s3\.multipart\.size"),
        ):
            catalog.table_files(catalog.tables.get(Identifier("sales", "orders")))


def test_a_server_out_of_reach_is_not_waited_for_file_by_file(address: str) -> None:
    clock, orders = Clock(), Identifier("sales", "orders")
    timeouts = Timeouts(outage=60)
    with (
        open_proxy(address) as proxy,
        closing(RestCatalog(proxy.url, timeouts=timeouts, runtime=clock.runtime)) as catalog,
    ):
        files = catalog.table_files(catalog.tables.get(orders))
        for outages in (1, 2):
            proxy.stop()
            for name in "abc":
                with pytest.raises(Unavailable, match="cannot be reached"):
                    files.delete(f"{PLACE}/{name}")
            assert sum(clock.slept) == pytest.approx(60 * outages)
            proxy.start()
            files.delete(f"{PLACE}/a")
