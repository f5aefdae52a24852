"""File access by requests that the server signs, for stores without a security token service.

Each request to the store is signed by the server for the one file that it is about, so neither the
client nor Spark's workers have credentials. A read of a file is signed once, and again when that
has expired.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from urllib.parse import unquote_plus
from xml.etree import ElementTree

import httpx

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.signed_requests import (
    FileRequestModel,
    SignedRequestModel,
    SignTableRequestsRequest,
    SignTableRequestsResponse,
)
from headwater.client.multipart_upload import FilePart, MultipartUpload
from headwater.client.requests import Requests, table_path
from headwater.storage.errors import Forbidden, NotFound, Unavailable
from headwater.storage.files.access import FileStatus
from headwater.storage.files.object_store import ObjectStoreFiles

__all__ = ["SignedFiles"]

_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_ATTEMPTS = 3
_WAIT_SECONDS = 0.2
# Signed reads that are kept, and the time before its end when one is not begun any more.
_MAX_KEPT = 4096
_MARGIN_MILLIS = 20_000
_AT_ONCE = 500
_SIGNATURE = "X-Amz-Signature"


def _without_signature(record: logging.LogRecord) -> bool:
    """Leave out of httpx's line about a request what would let its reader send it again."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            argument.copy_with(query=None)
            if isinstance(argument, httpx.URL) and _SIGNATURE in argument.params
            else argument
            for argument in record.args
        )
    return True


logging.getLogger("httpx").addFilter(_without_signature)


class SignedFiles(ObjectStoreFiles):
    """Implements `headwater.storage.files.access.FileAccess` below a table's directory.

    Args:
        requests: Speaks to the server.
        identifier: The table.
        location: Its directory, a URI.
        part_size: The size of the largest file that is put as a whole, and of the parts of one
            that is larger, bytes.
    """

    def __init__(
        self, requests: Requests, identifier: Identifier, location: str, part_size: int
    ) -> None:
        self._part_size = part_size
        self._requests = requests
        self._identifier = identifier
        self._location = location.rstrip("/")
        self._begin()

    def _begin(self) -> None:
        self._http: httpx.Client | None = None
        self._kept: dict[str, tuple[SignedRequestModel, int]] = {}
        self._lock = Lock()
        self._is_out_of_reach = False

    def __repr__(self) -> str:
        return f"SignedFiles({self._location!r})"

    def __reduce__(self) -> tuple[type[SignedFiles], tuple[Requests, Identifier, str, int]]:
        arguments = (self._requests, self._identifier, self._location, self._part_size)
        return SignedFiles, arguments

    def read(self, path: str) -> bytes:
        """The object's content; raises NotFound."""
        return self._get(path, {}).content

    def size(self, path: str) -> int:
        """The object's size in bytes; raises NotFound."""
        inner = self._below(path)
        asked = FileRequestModel(method="HEAD", path=inner)
        # The caller is about to read it.
        signed, until = self._sign([asked, FileRequestModel(method="GET", path=inner)])
        self._keep(path, signed[1], until)
        return int(self._repeated(asked, path, signed=signed[0]).headers["content-length"])

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace an object; what a store has taken it keeps."""
        self._repeated(FileRequestModel(method="PUT", path=self._below(path)), path, data)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object; False, changing nothing, when it exists.

        Raises:
            Unavailable: The store did not answer, or does not know: it may have been created.
        """
        asked = FileRequestModel(method="PUT", path=self._below(path), if_absent=True)
        signed, _ = self._sign([asked])
        # Once: a second request would find what the first one has created.
        answer = self._send(signed[0], path, content=data)
        if answer.status_code == 412:
            return False
        _check(answer, path)
        return True

    def delete(self, path: str) -> None:
        """Delete an object; nothing happens when it does not exist."""
        try:
            self._repeated(FileRequestModel(method="DELETE", path=self._below(path)), path)
        except NotFound:
            return

    def check_path(self, path: str) -> None:
        """Raise Forbidden unless the path lies below the table's directory."""
        self._below(path)

    def delete_tree(self, directory: str) -> None:
        """Delete everything below a directory."""
        all_paths = [status.path for status in self.walk(directory)]
        for start in range(0, len(all_paths), _AT_ONCE):
            paths = all_paths[start : start + _AT_ONCE]
            asked = [FileRequestModel(method="DELETE", path=self._below(path)) for path in paths]
            for path, signed in zip(paths, self._sign(asked)[0], strict=True):
                answer = self._send(signed, path)
                if answer.status_code != 404:
                    _check(answer, path)

    def list(self, directory: str) -> list[FileStatus]:
        """The objects directly in a directory, by name."""
        statuses = [file for files, _ in self._pages(directory, is_deep=False) for file in files]
        return sorted(statuses, key=lambda status: status.path)

    def folders(self, directory: str) -> Sequence[str]:
        """The names that stand for directories directly in a directory, in their order."""
        all_names = [name for _, names in self._pages(directory, is_deep=False) for name in names]
        return sorted(all_names)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """All objects below a directory; unfinished ones are left out."""
        for files, _ in self._pages(directory, is_deep=True):
            yield from files

    def range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start` to `end`; raises NotFound."""
        answer = self._get(path, {"range": f"bytes={start}-{end - 1}"})
        # A store may send the whole object.
        return answer.content if answer.status_code == 206 else answer.content[start:end]

    def upload(self, path: str, content: Path) -> None:
        """Create or replace an object with the content of a local file, in parts if it is large."""
        inner, size = self._below(path), content.stat().st_size
        if size <= self._part_size:
            whole = FilePart(content, 0, size)
            self._repeated(FileRequestModel(method="PUT", path=inner), path, whole)
            return

        def send(asked: FileRequestModel, part: bytes | FilePart | None) -> httpx.Response:
            return self._repeated(asked, path, part)

        MultipartUpload(send, inner, content, self._part_size).run()

    def _below(self, path: str) -> str:
        """The path below the table's directory; raises Forbidden for any other."""
        inner = path.rstrip("/").removeprefix(self._location)
        if inner == path or (inner and not inner.startswith("/")):
            raise Forbidden(
                f"{path} does not lie below {self._location}, and the server signs requests to a "
                "table's own directory alone"
            )
        return inner.strip("/")

    def _sign(self, asked: Sequence[FileRequestModel]) -> tuple[Sequence[SignedRequestModel], int]:
        path = (*table_path(self._identifier), "sign")
        body = SignTableRequestsRequest(requests=[*asked])
        # A server that was waited for in vain is not waited for again, file by file.
        requests = self._requests.once() if self._is_out_of_reach else self._requests
        try:
            answer = requests.post(
                SignTableRequestsResponse, body, *path, of=self._identifier, is_repeatable=True
            )
        except Unavailable:
            self._is_out_of_reach = True
            raise
        self._is_out_of_reach = False
        return answer.requests, answer.expires_at_millis

    def _get(self, path: str, headers: Mapping[str, str]) -> httpx.Response:
        """Read by a request that was signed before, or a new one."""
        with self._lock:
            signed, until = self._kept.get(path, (None, 0))
        if signed is not None and self._requests.runtime.now_millis() < until - _MARGIN_MILLIS:
            answer = self._send(signed, path, headers=headers)
            # It may have expired after all, by the store's clock.
            if answer.status_code < 500 and answer.status_code != 403:
                _check(answer, path)
                return answer
        asked = FileRequestModel(method="GET", path=self._below(path))
        signatures, until = self._sign([asked])
        self._keep(path, signatures[0], until)
        return self._repeated(asked, path, headers=headers, signed=signatures[0])

    def _keep(self, path: str, signed: SignedRequestModel, until: int) -> None:
        with self._lock:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[path] = signed, until

    def _repeated(
        self,
        asked: FileRequestModel,
        path: str,
        content: bytes | FilePart | None = None,
        headers: Mapping[str, str] | None = None,
        signed: SignedRequestModel | None = None,
    ) -> httpx.Response:
        """Send what may be sent again, until the store answers."""
        signed = signed or self._sign([asked])[0][0]
        for attempt in range(_ATTEMPTS - 1):
            try:
                answer = self._send(signed, path, content, headers)
            except Unavailable:
                answer = None
            if answer is not None and answer.status_code not in (409, 429, 500, 502, 503, 504):
                _check(answer, path)
                return answer
            self._requests.runtime.sleep(_WAIT_SECONDS * 4**attempt)
        answer = self._send(signed, path, content, headers)
        _check(answer, path)
        return answer

    def _send(
        self,
        signed: SignedRequestModel,
        path: str,
        content: bytes | FilePart | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        sent = {**signed.headers, **(headers or {})}
        body: bytes | Iterator[bytes] | None = None
        if isinstance(content, FilePart):
            # With its length: stores take no body that does not announce one.
            sent["content-length"] = str(content.size)
            body = iter(content)
        elif content is not None:
            body = content
        try:
            return self._client().request(signed.method, signed.url, headers=sent, content=body)
        except httpx.HTTPError as error:
            # Without the text, which may hold the URL.
            raise Unavailable(
                f"cannot access {path}: the object store does not answer ({type(error).__name__})"
            ) from None

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._http is None:
                # The bytes as they are stored, and no others.
                as_stored = {"accept-encoding": "identity"}
                self._http = httpx.Client(timeout=_TIMEOUT, headers=as_stored)
            return self._http

    def _pages(
        self, directory: str, *, is_deep: bool
    ) -> Iterator[tuple[Sequence[FileStatus], Sequence[str]]]:
        """The files and the names of the folders in a directory, page by page."""
        folder, after = self._below(directory), None
        while True:
            asked = FileRequestModel(method="LIST", path=folder, is_deep=is_deep, after=after)
            answer = self._repeated(asked, directory)
            try:
                root = ElementTree.fromstring(answer.content)
            except ElementTree.ParseError as error:
                raise Unavailable(f"the object store's list of {directory} is no XML") from error
            yield _page(root, directory.rstrip("/"))
            if _text(root, "IsTruncated") != "true":
                return
            after = _text(root, "NextContinuationToken")


def _page(root: ElementTree.Element, directory: str) -> tuple[Sequence[FileStatus], Sequence[str]]:
    is_encoded = _text(root, "EncodingType") == "url"

    def plain(text: str) -> str:
        return unquote_plus(text) if is_encoded else text

    prefix = plain(_text(root, "Prefix"))
    files = [
        FileStatus(
            f"{directory}/{plain(_text(element, 'Key')).removeprefix(prefix)}",
            int(_text(element, "Size")),
            int(datetime.fromisoformat(_text(element, "LastModified")).timestamp() * 1000),
        )
        for element in root.iterfind("{*}Contents")
    ]
    folders = [
        plain(_text(element, "Prefix")).removeprefix(prefix).rstrip("/")
        for element in root.iterfind("{*}CommonPrefixes")
    ]
    return files, folders


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""


def _check(answer: httpx.Response, path: str) -> None:
    """Turn the store's refusal into an error that names the path."""
    if answer.is_success:
        return
    if answer.status_code == 404:
        raise NotFound(f"file {path} does not exist")
    if answer.status_code == 403:
        raise Forbidden(
            f"the object store refuses {path}, though the server signed the request: see that the "
            "warehouse's keys in s3.* may do that, and that the clocks agree"
        )
    raise Unavailable(f"cannot access {path}: the object store answers {answer.status_code}")
