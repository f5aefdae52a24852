"""One behaviour suite over every file access."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.client.rest import RestCatalog
from headwater.storage.errors import Forbidden, Invalid, NotFound, Unavailable, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.files.local import local_path, local_uri
from headwater.storage.files.open_files import open_file_access
from headwater.storage.schema.table_schema import Schema

KEYS = {"s3.access-key": "test", "s3.secret-key": "test"}


@pytest.fixture(params=["local", "s3", "signed"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[FileAccess, str]]:
    if request.param == "local":
        location = local_uri(tmp_path / "lake")
        yield open_file_access(location), location
        return
    options = {"s3.endpoint": request.getfixturevalue("s3_endpoint"), **KEYS}
    if request.param == "s3":
        location = "s3://lake/lake"
        yield open_file_access(location, options), location
        return
    serve, name = request.getfixturevalue("serve"), Identifier("sales", "orders")
    url = request.getfixturevalue("new_sqlite")(tmp_path / "catalog.db")
    place = "s3://lake/warehouse"
    opened = SqlCatalog.open(url, warehouse="main", location=place, storage_options=options)
    with closing(opened) as catalog:
        catalog.databases.create("sales")
        catalog.tables.create(name, Schema.from_arrow(pa.schema([("n", pa.int64())])))
        address = serve(catalog, signed_request_seconds=60)
        with closing(RestCatalog(address, warehouse="main")) as client:
            client.connect()
            info = client.tables.get(name)
            yield client.table_files(info), f"{info.path}/below"


def test_what_is_written_is_read(place: tuple[FileAccess, str]) -> None:
    files, base = place
    files.write(f"{base}/a/b", b"one")
    files.write(f"{base}/a/b", b"two!")
    assert files.read(f"{base}/a/b") == b"two!"
    assert files.size(f"{base}/a/b") == 4
    assert files.exists(f"{base}/a/b")


HINTS = ["9", "10", "11", "12", "22", "21", "2", "", "3", "1003", "1009", "1010", "1010"]


def test_hints_one_after_the_other_are_read(place: tuple[FileAccess, str]) -> None:
    files, base = place
    for hint in HINTS:
        files.write(f"{base}/LATEST", hint.encode(), durable=False)
        assert files.read(f"{base}/LATEST") == hint.encode()


def test_most_hints_need_no_new_file(tmp_path: Path) -> None:
    files, hint = open_file_access(local_uri(tmp_path)), tmp_path / "LATEST"
    with ExitStack() as kept:
        files_made = set()
        for number in range(100, 200):
            files.write(local_uri(hint), str(number).encode(), durable=False)
            # Held open: otherwise the next might have the same inode.
            files_made.add(os.fstat(kept.enter_context(hint.open("rb")).fileno()).st_ino)
    assert len(files_made) == 10
    assert os.listdir(tmp_path) == ["LATEST"]


def test_a_hint_changes_no_file_but_its_own(tmp_path: Path) -> None:
    files = open_file_access(local_uri(tmp_path))
    hint, backup = tmp_path / "LATEST", tmp_path / "backup"
    hint.write_bytes(b"18")
    os.link(hint, backup)
    files.write(local_uri(hint), b"19", durable=False)
    assert (hint.read_bytes(), backup.read_bytes()) == (b"19", b"18")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"20")
    hint.unlink()
    hint.symlink_to(elsewhere)
    files.write(local_uri(hint), b"21", durable=False)
    assert (hint.read_bytes(), elsewhere.read_bytes()) == (b"21", b"20")


def test_hints_of_several_writers_are_each_of_one_of_them(tmp_path: Path) -> None:
    files, path = open_file_access(local_uri(tmp_path)), local_uri(tmp_path / "LATEST")
    files.write(path, b"10", durable=False)
    start = threading.Barrier(3)

    def write(hints: Sequence[bytes]) -> None:
        start.wait()
        for _ in range(500):
            for hint in hints:
                files.write(path, hint, durable=False)

    writers = [
        threading.Thread(target=write, args=(hints,))
        for hints in ((b"10", b"11", b"12"), (b"33", b"34", b"35"))
    ]
    for thread in writers:
        thread.start()
    seen: set[bytes] = set()
    start.wait()
    while any(thread.is_alive() for thread in writers):
        seen.add(files.read(path))
    assert seen <= {b"10", b"11", b"12", b"33", b"34", b"35"}


def test_a_put_if_absent_never_overwrites(place: tuple[FileAccess, str]) -> None:
    files, base = place
    assert files.write_if_absent(f"{base}/x", b"first")
    assert not files.write_if_absent(f"{base}/x", b"second")
    assert files.read(f"{base}/x") == b"first"


def test_one_of_many_racing_puts_wins(place: tuple[FileAccess, str]) -> None:
    files, base = place
    start = threading.Barrier(8)
    won: list[int] = []

    def put(number: int) -> None:
        start.wait()
        if files.write_if_absent(f"{base}/race", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert files.read(f"{base}/race") == str(won[0]).encode()


def test_a_missing_file_is_named(place: tuple[FileAccess, str]) -> None:
    files, base = place
    for attempt in (files.read, files.size, files.open_input):
        with pytest.raises(NotFound, match="nothing-here"):
            attempt(f"{base}/nothing-here")
    assert not files.exists(f"{base}/nothing-here")
    files.delete(f"{base}/nothing-here")


def test_listing_sees_files_of_one_directory_and_walking_all(
    place: tuple[FileAccess, str],
) -> None:
    files, base = place
    assert files.list(f"{base}/empty") == []
    assert files.folders(f"{base}/empty") == []
    assert list(files.walk(f"{base}/empty")) == []
    for name in ("b", "a", "deep/c", "deep/er/d", "dt=a%3Ab/e"):
        files.write(f"{base}/t/{name}", name.encode())
    files.write(f"{base}/t-other/z", b"")
    assert [status.name for status in files.list(f"{base}/t")] == ["a", "b"]
    assert files.folders(f"{base}/t") == ["deep", "dt=a%3Ab"]
    walked = {status.path: status.size for status in files.walk(f"{base}/t")}
    assert walked == {
        f"{base}/t/{name}": len(name) for name in ("a", "b", "deep/c", "deep/er/d", "dt=a%3Ab/e")
    }
    assert files.read(f"{base}/t/dt=a%3Ab/e") == b"dt=a%3Ab/e"
    assert all(status.modified_millis > 1_600_000_000_000 for status in files.walk(f"{base}/t"))


def test_walking_gives_what_a_killed_writer_left_when_asked(tmp_path: Path) -> None:
    files, base = open_file_access(str(tmp_path)), local_uri(tmp_path)
    with files.open_output(f"{base}/t/data") as sink:
        sink.write(b"half")
        (name,) = [status.name for status in files.walk(base, unfinished=True)]
        assert list(files.walk(base)) == []
    (tmp_path / "t" / name).write_bytes(b"half")
    found = [status.name for status in files.walk(f"{base}/t", unfinished=True)]
    assert sorted(found) == sorted(["data", name])
    assert [status.name for status in files.walk(base)] == ["data"]


def test_what_cannot_be_looked_into_is_not_taken_for_empty(tmp_path: Path) -> None:
    files, base = open_file_access(str(tmp_path)), local_uri(tmp_path)
    files.write(f"{base}/t/a", b"")
    files.write(f"{base}/t/deep/b", b"")
    deep, user = tmp_path / "t" / "deep", os.geteuid()
    deep.chmod(0)
    if user == 0:  # may look into everything, so it becomes nobody for a moment
        os.seteuid(65_534)
    try:
        with pytest.raises(Forbidden, match="no permission for"):
            list(files.walk(f"{base}/t"))
    finally:
        os.seteuid(user)
        deep.chmod(0o700)


def test_a_directory_can_be_made_before_its_files(place: tuple[FileAccess, str]) -> None:
    files, base = place
    for _ in range(2):
        files.make_directory(f"{base}/a/b c")
    assert list(files.walk(base)) == []
    if base.startswith("file:"):
        assert Path(local_path(f"{base}/a/b c")).is_dir()


def test_deleting_a_tree_leaves_its_neighbours(place: tuple[FileAccess, str]) -> None:
    files, base = place
    for name in ("t/a", "t/deep/b", "t2/c"):
        files.write(f"{base}/{name}", b"x")
    files.delete_tree(f"{base}/t")
    files.delete_tree(f"{base}/t")
    assert [status.path for status in files.walk(base)] == [f"{base}/t2/c"]
    files.delete(f"{base}/t2/c")
    assert not files.exists(f"{base}/t2/c")


def test_an_output_appears_whole_or_not_at_all(place: tuple[FileAccess, str]) -> None:
    files, base = place
    with files.open_output(f"{base}/out/data") as sink:
        sink.write(b"0123456789")
        assert not files.exists(f"{base}/out/data")

    def break_half_way() -> None:
        with files.open_output(f"{base}/out/broken") as sink:
            sink.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_half_way()
    assert [status.name for status in files.walk(f"{base}/out")] == ["data"]


def test_an_input_reads_anywhere(place: tuple[FileAccess, str]) -> None:
    files, base = place
    files.write(f"{base}/in", b"0123456789")
    with files.open_input(f"{base}/in") as source:
        assert isinstance(source, pa.NativeFile)
        assert source.size() == 10
        source.seek(4)
        assert source.read(3) == b"456"
        assert source.read() == b"789"


def test_an_access_survives_pickling(place: tuple[FileAccess, str]) -> None:
    files, base = place
    files.write(f"{base}/p", b"here")
    assert pickle.loads(pickle.dumps(files)).read(f"{base}/p") == b"here"
    assert "test" not in repr(files)


def test_what_cannot_be_reached_says_why() -> None:
    with pytest.raises(Unsupported, match="gopher"):
        open_file_access("gopher://host/x")
    with pytest.raises(Invalid, match="neither"):
        open_file_access("relative/path")
    with pytest.raises(Invalid, match="not a local path"):
        open_file_access("file:///x").read("s3://bucket/key")


def test_a_store_that_does_not_answer_is_unavailable() -> None:
    files = open_file_access("s3://b/x", {"s3.endpoint": "http://127.0.0.1:9", **KEYS})
    with pytest.raises(Unavailable, match="s3://b/x") as raised:
        files.read("s3://b/x")
    # A sentence, without the store's own debugging.
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("work", ["list", "folders", "walk", "delete_tree"])
def test_a_listing_that_the_store_refuses_is_forbidden(work: str) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            endpoint = f"http://127.0.0.1:{server.server_port}"
            files = open_file_access("s3://b/x", {"s3.endpoint": endpoint, **KEYS})
            with pytest.raises(Forbidden, match="list s3://b/d: allow them s3:ListBucket"):
                list(getattr(files, work)("s3://b/d") or ())
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("options", [{"s3.secret-key": "TOP"}, {"s3.access-key": "TOP"}])
def test_half_a_key_is_refused_before_anything_is_sent(options: dict[str, str]) -> None:
    files = open_file_access("s3://lake/in", options)
    with pytest.raises(Invalid, match="s3://lake cannot be used together") as caught:
        files.read("s3://lake/in/x")
    assert "TOP" not in str(caught.value)
