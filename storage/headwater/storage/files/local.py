"""File access to the local disk: durable, atomic, with a put that never overwrites."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from headwater.storage.errors import Forbidden, Invalid, NotFound, Unavailable
from headwater.storage.files.access import FileStatus
from headwater.storage.files.layout import WAREHOUSE_MARKER

__all__ = ["LocalFileAccess", "local_path", "local_uri", "move_local_file"]

# Names a temporary file uniquely among the threads of one process.
_counter = itertools.count()
_TEMPORARY = ".headwater-tmp"
# Characters, of at most four bytes each, of the file that a temporary one is for.
_LONGEST_PART = 40
# More than what a file system keeps beside a file's name.
_PROBE_SIZE = 8192
_DELETE_ATTEMPTS = 100


def local_path(uri: str) -> str:
    """The file system path of a ``file:`` URI or of a plain absolute path.

    Percent signs are taken literally: Paimon's partition directories contain ``%3A`` and the like
    as they are, and its clients build ``file:`` paths without encoding.

    Raises:
        Invalid: The URI has another scheme, or the path is not absolute.
    """
    scheme, separator, rest = uri.partition(":")
    if uri.startswith("/"):
        path = uri
    elif separator and scheme == "file":
        path = "/" + rest.lstrip("/")
    else:
        raise Invalid(f"'{uri}' is not a local path; local files have file:/// URIs")
    if "\x00" in path:
        raise Invalid(f"'{uri}' contains a null character")
    return os.path.normpath(path)


def local_uri(path: str | os.PathLike[str]) -> str:
    """The ``file:///`` URI of a path, made absolute."""
    return "file://" + os.path.abspath(path)


def move_local_file(source: str, target: str) -> None:
    """Give a file that another program wrote its place, durably; no file is ever replaced.

    Args:
        source: The file's URI.
        target: The URI that it gets, on the same disk. Its directory is made if need be.

    Raises:
        NotFound, Forbidden, Unavailable: As the methods of `LocalFileAccess`.
    """
    with _explained(source):
        before, after = local_path(source), local_path(target)
        _make_directory(os.path.dirname(after))
        _flush_file(before)
        os.link(before, after)
        _flush_directory(after)
        os.unlink(before)


class LocalFileAccess:
    """Reads and writes files on the local disk.

    A write goes to a temporary file beside its target, is flushed to the disk, and takes its name
    by a rename (replace) or a hard link (put-if-absent); then the directory is flushed too. What
    need not be durable and differs in its last byte only, as most hints do, is changed in place: no
    reader sees half a byte, and a file for each number costs some file systems dearly.

    Args:
        root: A directory, as a URI, that only `make_directory` makes: while it is missing, such as
            a disk that is not mounted, nothing is written in it. Once it was seen with a
            warehouse's marker, no directory is made in it while that is missing, or another's.
    """

    _root: str | None = None
    _marker: bytes | None = None

    def __init__(self, root: str | None = None) -> None:
        if root is not None:
            self._root = local_path(root)

    def read(self, path: str) -> bytes:
        """The file's content; raises NotFound."""
        with _explained(path), _none_too_long():
            return Path(local_path(path)).read_bytes()

    def exists(self, path: str) -> bool:
        """True if the file exists."""
        with _explained(path):
            return os.path.isfile(local_path(path))

    def size(self, path: str) -> int:
        """The file's size in bytes; raises NotFound."""
        with _explained(path), _none_too_long():
            return os.stat(local_path(path)).st_size

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace a file, atomically and, unless told otherwise, durably."""
        with _explained(path):
            target = local_path(path)
            if not durable and _change_last_byte(target, data):
                return
            self._make_parent(target)
            temporary = _write_temporary(target, data, durable=durable)
            os.replace(temporary, target)
            if durable:
                _flush_directory(target)

    def write_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file, atomically and durably; False, changing nothing, when it exists."""
        with _explained(path):
            target = local_path(path)
            self._make_parent(target)
            temporary = _write_temporary(target, data)
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            finally:
                os.unlink(temporary)
            _flush_directory(target)
            return True

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens when it does not exist."""
        with _explained(path), suppress(FileNotFoundError), _none_too_long():
            os.unlink(local_path(path))

    def make_directory(self, directory: str) -> None:
        """Make a directory, and those above it."""
        with _explained(directory):
            path = local_path(directory)
            if path != self._root:
                self._require_root(path)
            os.makedirs(path, exist_ok=True)

    def check_directory(self, directory: str) -> None:
        """Raise unless the directory is there and takes a file of some kilobytes."""
        path = local_path(directory)
        with _explained(directory):
            if not os.path.isdir(path):
                raise Unavailable(f"the folder {directory} is missing: mount it, or restore it")
            target = os.path.join(path, "probe")
            os.unlink(_write_temporary(target, bytes(_PROBE_SIZE), durable=False))

    def _make_parent(self, target: str) -> None:
        directory = os.path.dirname(target)
        if not os.path.isdir(directory):
            self._require_root(directory)
            _make_directory(directory)

    def _require_root(self, path: str) -> None:
        root = self._root
        if root is None or not (path == root or path.startswith(f"{root.rstrip('/')}/")):
            return
        if not os.path.isdir(root):
            raise Unavailable(
                f"the folder file://{root} is missing, and nothing is written until it is there "
                "again: mount it, or restore it"
            )
        # A disk that is not mounted leaves its folder behind, but none of those below.
        marker = Path(root, WAREHOUSE_MARKER)
        there = marker.read_bytes() if marker.is_file() else None
        if self._marker is None:
            self._marker = there
        elif self._marker != there:
            raise Unavailable(
                f"{marker} is missing, or another one than it was, and nothing is written until it "
                "is there again: mount the disk, or restart what writes if this is meant"
            )

    def delete_tree(self, directory: str) -> None:
        """Delete everything below a directory, and the directory."""
        path = local_path(directory)
        with _explained(directory):
            # Others may delete the same at the same time.
            for _ in range(_DELETE_ATTEMPTS):
                with suppress(FileNotFoundError):
                    shutil.rmtree(path)
                if not os.path.lexists(path):
                    return
            raise FileExistsError(errno.EEXIST, "others put files there", path)

    def list(self, directory: str) -> list[FileStatus]:
        """The files directly in a directory, by name; empty when there is no such directory."""
        with _explained(directory):
            try:
                entries = sorted(os.scandir(local_path(directory)), key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                return []
            prefix = directory.rstrip("/")
            found = (
                _status(f"{prefix}/{entry.name}", entry)
                for entry in entries
                if not _is_temporary(entry.name) and entry.is_file()
            )
            return [status for status in found if status is not None]

    def folders(self, directory: str) -> Sequence[str]:
        """The names of the directories directly in a directory, in their order."""
        with _explained(directory):
            try:
                entries = os.scandir(local_path(directory))
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted(entry.name for entry in entries if entry.is_dir())

    def walk(self, directory: str, *, unfinished: bool = False) -> Iterator[FileStatus]:
        """All files below a directory; empty when there is no such directory."""
        with _explained(directory):
            prefix = directory.rstrip("/")
            root = local_path(directory)
            for folder, folders, names in os.walk(root, onerror=_refuse_unless_gone):
                folders.sort()
                inner = os.path.relpath(folder, root)
                base = prefix if inner == "." else f"{prefix}/{inner}"
                for name in sorted(names):
                    if _is_temporary(name) and not unfinished:
                        continue
                    try:
                        stat = os.stat(os.path.join(folder, name))
                    except FileNotFoundError:
                        continue
                    yield FileStatus(f"{base}/{name}", stat.st_size, stat.st_mtime_ns // 1_000_000)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reads; raises NotFound.

        Not mapped: what was read of a mapped file counts as memory of the process until it is
        closed, and a file that is cut short meanwhile ends the process.
        """
        with _explained(path):
            return pa.OSFile(local_path(path), "r")

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file for writing; it appears when the context ends without an exception."""
        with _explained(path):
            target = local_path(path)
            temporary = _temporary_name(target)
            self._make_parent(target)
            try:
                with pa.OSFile(temporary, "wb") as sink:
                    yield sink
                _flush_file(temporary)
                os.replace(temporary, target)
            except BaseException:
                if os.path.exists(temporary):
                    os.unlink(temporary)
                raise
            _flush_directory(target)


def _status(path: str, entry: os.DirEntry[str]) -> FileStatus | None:
    try:
        stat = entry.stat()
    except FileNotFoundError:  # deleted between the listing and the look
        return None
    return FileStatus(path, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _refuse_unless_gone(error: OSError) -> None:
    # Who walks to learn what there is must not take what cannot be looked into for empty.
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _is_temporary(name: str) -> bool:
    return name.endswith(_TEMPORARY)


def _temporary_name(target: str) -> str:
    directory, name = os.path.split(target)
    # The longest name that a file can have leaves no room for more.
    name = name[:_LONGEST_PART]
    unique = f"{os.getpid()}-{threading.get_ident()}-{next(_counter)}"
    return os.path.join(directory, f".{name}.{unique}{_TEMPORARY}")


def _write_temporary(target: str, data: bytes, *, durable: bool = True) -> str:
    temporary = _temporary_name(target)
    try:
        with open(temporary, "wb") as sink:
            sink.write(data)
            if durable:
                sink.flush()
                os.fsync(sink.fileno())
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    return temporary


def _change_last_byte(target: str, data: bytes) -> bool:
    """Make a file hold `data` if its last byte alone has to change for that.

    What comes before it is never changed in place, so of several that do this at once one wins.
    """
    last = len(data) - 1
    if last < 0:
        return False
    try:
        descriptor = os.open(target, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        with suppress(OSError):
            stat = os.fstat(descriptor)
            is_plain = stat.st_nlink == 1 and stat.st_size == len(data)
            if is_plain and os.pread(descriptor, last, 0) == data[:last]:
                return os.pwrite(descriptor, data[last:], last) == 1
    finally:
        os.close(descriptor)
    return False


def _make_directory(directory: str) -> None:
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    _make_directory(parent)
    os.makedirs(directory, exist_ok=True)
    _flush_file(parent)


def _flush_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_directory(target: str) -> None:
    _flush_file(os.path.dirname(target))


@contextmanager
def _none_too_long() -> Iterator[None]:
    """Take a file whose name is longer than any can be for one that does not exist."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise FileNotFoundError(*error.args) from error


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn the operating system's errors into Headwater's, naming the path."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"file {path} does not exist") from error
    except PermissionError as error:
        raise Forbidden(f"no permission for {path}: {error.strerror}") from error
    except IsADirectoryError as error:
        raise Invalid(f"{path} is a directory, not a file") from error
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR):
            raise Invalid(f"{path} is not a usable path: {error.strerror}") from error
        raise Unavailable(f"cannot access {path}: {error.strerror or error}") from error
