"""The file access that reaches a location, chosen by its scheme."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.access import FileAccess
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.files.renewed_options import RenewedOptions
from headwater.storage.files.routed import RoutedFileAccess

__all__ = ["open_file_access", "open_table_files"]


def open_file_access(
    location: str,
    options: Mapping[str, str] | RenewedOptions | None = None,
    *,
    root: str | None = None,
) -> FileAccess:
    """The file access that reaches a location.

    Args:
        location: A ``file:`` or ``s3:`` URI, or an absolute local path.
        options: Storage options, such as ``s3.endpoint``; see `S3FileAccess`.
        root: A directory that writing does not make; see `LocalFileAccess`.

    Raises:
        Invalid: The location is not a URI with a scheme, nor an absolute path.
        Unsupported: The scheme has no file access, or its extra is not installed.
    """
    scheme = "file" if location.startswith("/") else location.partition(":")[0].lower()
    match scheme:
        case "file":
            return LocalFileAccess(root)
        case "s3" | "s3a":
            try:
                from headwater.storage.files.s3 import S3FileAccess
            except ModuleNotFoundError as error:
                raise Unsupported(
                    f"{location} needs the object store support: pip install 'headwater[s3]'"
                ) from error
            return S3FileAccess({} if options is None else options)
        case _ if "://" not in location:
            raise Invalid(f"'{location}' is neither an absolute path nor a URI with a scheme")
        case _:
            raise Unsupported(f"no file access for scheme '{scheme}' of {location}")


def open_table_files(
    location: str,
    options: Mapping[str, str] | RenewedOptions | None = None,
    *,
    root: str | None = None,
) -> FileAccess:
    """The file access to a table, and to the places of another scheme where files of it may lie.

    Args:
        location: The table's location.
        options: Storage options; those that reach the table reach the other places, too.
        root: As for `open_file_access`.

    Raises:
        Invalid, Unsupported: As `open_file_access`.
    """
    own = open_file_access(location, options, root=root)
    return RoutedFileAccess(location, own, partial(open_file_access, options=options))
