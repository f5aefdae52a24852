"""An upload in parts, each of which is a request of its own: for files that one put cannot take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import httpx

from headwater.catalog.wire.signed_requests import MOST_PARTS, FileRequestModel
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unavailable
from headwater.storage.options import parse_bytes

__all__ = ["FilePart", "MultipartUpload", "part_size"]

_OPTION = "s3.multipart.size"
_DEFAULT_SIZE = 64 << 20
# No store takes a smaller part, unless it is the last one.
_LEAST_SIZE = 5 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True)
class FilePart:
    """A part of a local file.

    Attributes:
        file: The file.
        start: The place of its first byte.
        size: The number of its bytes.
    """

    file: Path
    start: int
    size: int

    def __iter__(self) -> Iterator[bytes]:
        """The bytes, in chunks."""
        left = self.size
        with open(self.file, "rb") as source:
            source.seek(self.start)
            while left and (chunk := source.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk


Send: TypeAlias = Callable[[FileRequestModel, "bytes | FilePart | None"], httpx.Response]
"""Has a request signed and sends it, several times if need be; raises if the store refuses it."""


def part_size(options: Mapping[str, str]) -> int:
    """The size of a part, bytes: the option ``s3.multipart.size``, Hadoop's; 64 mb by default.

    Raises:
        Invalid: It is no size, or less than 5 mb, which is the least that stores take.
    """
    size = parse_bytes(options.get(_OPTION, str(_DEFAULT_SIZE)), _OPTION)
    if size < _LEAST_SIZE:
        raise Invalid(f"option {_OPTION}: '{options[_OPTION]}' is less than 5 mb")
    return size


class MultipartUpload:
    """Creates or replaces one object; nothing of it is to be seen before its last step.

    Args:
        send: Sends requests.
        path: The object's path below the table's directory.
        content: Its content.
        size: The size of a part, bytes; larger where there would be too many.
    """

    def __init__(self, send: Send, path: str, content: Path, size: int) -> None:
        self._send = send
        self._path = path
        self._content = content
        self._total = content.stat().st_size
        self._size = max(size, -(-self._total // MOST_PARTS))

    def run(self) -> None:
        """Upload all parts; if that fails, the store is told to forget them.

        Raises:
            Unavailable: The store does not answer.
        """
        answer = self._send(FileRequestModel(method="CREATE", path=self._path), None)
        upload = _root(answer).findtext("{*}UploadId")
        if not upload:
            raise Unavailable(f"the object store began no upload of {self._path}")
        try:
            self._complete(upload, [*self._parts(upload)])
        except BaseException:
            with suppress(HeadwaterError):
                asked = FileRequestModel(method="ABORT", path=self._path, upload_id=upload)
                self._send(asked, None)
            raise

    def _parts(self, upload: str) -> Iterator[str]:
        """Put the parts one after another; their tags."""
        for number, start in enumerate(range(0, self._total, self._size), 1):
            asked = FileRequestModel(method="PART", path=self._path, upload_id=upload, part=number)
            part = FilePart(self._content, start, min(self._size, self._total - start))
            tag = self._send(asked, part).headers.get("etag")
            if not tag:
                raise Unavailable(f"the object store has no tag for a part of {self._path}")
            yield tag

    def _complete(self, upload: str, tags: list[str]) -> None:
        asked = FileRequestModel(method="COMPLETE", path=self._path, upload_id=upload)
        try:
            answer = self._send(asked, _list_of(tags))
        except NotFound:
            # It was done the first time, whose answer was lost.
            if self._is_there(len(tags)):
                return
            raise Unavailable(
                f"the object store has forgotten the upload of {self._path}; write it again"
            ) from None
        # A store that takes long answers 200 before it knows.
        if _root(answer).tag.rpartition("}")[2] == "Error" and not self._is_there(len(tags)):
            raise Unavailable(f"the object store did not put the parts of {self._path} together")

    def _is_there(self, parts: int) -> bool:
        """True if the object is the one of so many parts that was uploaded."""
        try:
            head = self._send(FileRequestModel(method="HEAD", path=self._path), None).headers
        except NotFound:
            return False
        tag, size = str(head.get("etag")), str(head.get("content-length"))
        return tag.strip('"').endswith(f"-{parts}") and size == str(self._total)


def _root(answer: httpx.Response) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(answer.content)
    except ElementTree.ParseError as error:
        raise Unavailable("the object store's answer about an upload is no XML") from error


def _list_of(tags: list[str]) -> bytes:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
        for number, tag in enumerate(tags, 1)
    )
    return (
        '<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"{parts}</CompleteMultipartUpload>"
    ).encode()
