"""File access to S3-compatible object stores, through obstore."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from headwater.storage.errors import Forbidden, Invalid, NotFound, Unavailable
from headwater.storage.files.access import FileStatus
from headwater.storage.files.object_store import ObjectStoreFiles
from headwater.storage.files.renewed_options import RenewedOptions

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Config

__all__ = ["S3FileAccess"]

# obstore's setting, and the table or catalog options that give it: Paimon Java's names first,
# pypaimon's after them.
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "endpoint": ("s3.endpoint", "fs.s3.endpoint"),
    "access_key_id": ("s3.access-key", "fs.s3.accessKeyId"),
    "secret_access_key": ("s3.secret-key", "fs.s3.accessKeySecret"),
    "session_token": ("s3.session.token", "s3.session-token", "fs.s3.securityToken"),
    "region": ("s3.region", "fs.s3.region", "s3.endpoint.region"),
}
# obstore has kinds of errors for what concerns one object; a listing that is refused is of none.
_REFUSED_LIST = re.compile(r"list request: .*status code: (401|403)\b")
_PATH_STYLE = ("s3.path.style.access", "s3.path-style-access")


class S3FileAccess(ObjectStoreFiles):
    """Reads and writes objects of S3-compatible stores.

    A put is atomic by nature; put-if-absent is a conditional put (``If-None-Match: *``), which
    the store must support.

    Options: ``s3.endpoint``, ``s3.access-key``, ``s3.secret-key``, ``s3.session.token``,
    ``s3.region`` (default ``us-east-1``), ``s3.path.style.access`` (default: true when an endpoint
    is set). Without keys the usual ``AWS_…`` environment variables apply.
    """

    def __init__(self, options: Mapping[str, str] | RenewedOptions) -> None:
        self._options = options if isinstance(options, RenewedOptions) else dict(options)
        self._in_force: Mapping[str, str] = {}
        self._stores: dict[str, S3Store] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "S3FileAccess(…)"  # the options hold secrets

    def __reduce__(
        self,
    ) -> tuple[type[S3FileAccess], tuple[dict[str, str] | RenewedOptions]]:
        return S3FileAccess, (self._options,)

    def _locate(self, path: str) -> tuple[S3Store, str]:
        scheme, separator, rest = path.partition("://")
        bucket, _, key = rest.partition("/")
        if not separator or scheme.lower() not in ("s3", "s3a") or not bucket:
            raise Invalid(f"'{path}' is not an S3 path; write it as s3://bucket/key")
        known = self._options
        options = known.current() if isinstance(known, RenewedOptions) else known
        with self._lock:
            if options is not self._in_force:
                self._in_force = options
                self._stores.clear()
            store = self._stores.get(bucket)
            if store is None:
                store = self._stores[bucket] = _open(bucket, options)
        return store, key.strip("/")

    def read(self, path: str) -> bytes:
        """The object's content; raises NotFound."""
        store, key = self._locate(path)
        with _explained(path):
            return obstore.get(store, key).bytes().to_bytes()

    def size(self, path: str) -> int:
        """The object's size in bytes; raises NotFound."""
        store, key = self._locate(path)
        with _explained(path):
            return int(obstore.head(store, key)["size"])

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace an object; what a store has taken it keeps."""
        store, key = self._locate(path)
        with _explained(path):
            obstore.put(store, key, data)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object; False, changing nothing, when it exists."""
        store, key = self._locate(path)
        with _explained(path):
            try:
                obstore.put(store, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def delete(self, path: str) -> None:
        """Delete an object; nothing happens when it does not exist."""
        store, key = self._locate(path)
        with _explained(path):
            try:
                obstore.delete(store, key)
            except (NotFoundError, FileNotFoundError):
                return

    def check_path(self, path: str) -> None:
        """Raise Invalid unless the path is one of S3."""
        self._locate(path)

    def delete_tree(self, directory: str) -> None:
        """Delete everything below a directory."""
        store, prefix = self._locate(directory)
        with _explained(directory):
            for batch in obstore.list(store, prefix + "/", chunk_size=1000):
                obstore.delete(store, [item["path"] for item in batch])

    def list(self, directory: str) -> list[FileStatus]:
        """The objects directly in a directory, by name."""
        store, prefix = self._locate(directory)
        with _explained(directory):
            found = obstore.list_with_delimiter(store, prefix + "/")["objects"]
            return sorted(
                (_status(directory, prefix, item) for item in found),
                key=lambda status: status.path,
            )

    def folders(self, directory: str) -> Sequence[str]:
        """The names that stand for directories directly in a directory, in their order."""
        store, prefix = self._locate(directory)
        with _explained(directory):
            found = obstore.list_with_delimiter(store, prefix + "/")["common_prefixes"]
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """All objects below a directory; an unfinished one is none."""
        store, prefix = self._locate(directory)
        with _explained(directory):
            for batch in obstore.list(store, prefix + "/", chunk_size=1000):
                for item in batch:
                    yield _status(directory, prefix, item)

    def range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start` to `end`; raises NotFound."""
        store, key = self._locate(path)
        with _explained(path):
            return obstore.get_range(store, key, start=start, end=end).to_bytes()

    def upload(self, path: str, content: Path) -> None:
        """Create or replace an object with the content of a local file."""
        store, key = self._locate(path)
        with _explained(path):
            obstore.put(store, key, content)


def _open(bucket: str, options: Mapping[str, str]) -> S3Store:
    settings: dict[str, str] = {}
    for setting, names in _SETTINGS.items():
        for name in names:
            if options.get(name):
                settings[setting] = options[name]
                break
    endpoint = settings.get("endpoint", "")
    settings.setdefault("region", "us-east-1")
    path_style = next(
        (options[name] for name in _PATH_STYLE if name in options),
        "true" if endpoint else "false",
    )
    settings["virtual_hosted_style_request"] = str(path_style.lower() != "true").lower()
    settings["conditional_put"] = "etag"
    try:
        return S3Store(
            bucket,
            config=cast("S3Config", settings),
            client_options={"allow_http": endpoint.startswith("http://")},
        )
    except BaseError as error:
        sentence = str(error).partition("\n")[0]
        raise Invalid(
            f"the options for storage in s3://{bucket} cannot be used together: {sentence}"
        ) from error


def _status(directory: str, prefix: str, item: ObjectMeta) -> FileStatus:
    inner = str(item["path"]).removeprefix(prefix).lstrip("/")
    modified = int(item["last_modified"].timestamp() * 1000)
    return FileStatus(f"{directory.rstrip('/')}/{inner}", int(item["size"]), modified)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn the store's errors into Headwater's, naming the path."""
    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise NotFound(f"file {path} does not exist") from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise Forbidden(f"the object store refuses {path}; check the keys in s3.*") from error
    except (BaseError, OSError) as error:
        # The store's own debugging follows its sentence, and would reach the client.
        sentence = str(error).partition("\n")[0]
        if _REFUSED_LIST.search(sentence):
            raise Forbidden(
                f"the object store does not let these keys list {path}: allow them s3:ListBucket, "
                "or check the keys in s3.*"
            ) from error
        raise Unavailable(f"cannot access {path}: {sentence}") from error
