"""Locations: the URI that names a directory, and the one key of the place that it leads to.

A directory has many names: ``s3a://Lake/x//y`` and ``S3://lake/x/y/``, or a path through a symbolic
link and one around it. The URI is kept as clients need it; whether two locations overlap is decided
by their places alone.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import unquote

from headwater.storage.errors import Invalid
from headwater.storage.files.local import local_path, local_uri

__all__ = [
    "Place",
    "absolute_location",
    "check_file_label",
    "leads_elsewhere",
    "new_folder",
    "new_location",
    "parse_location",
    "shown_location",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ALIASES: Mapping[str, str] = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
    "https": "http",
}
# Each way to a name node has a port of its own.
_DEFAULT_PORTS: Mapping[str, str] = {
    "hdfs": "8020",
    "webhdfs": "9870",
    "swebhdfs": "9871",
    "http": "80",
    "https": "443",
}
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d+)?")
# What resolvers take for the numbers of an address, in whatever base.
_NUMBERS = re.compile(r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){0,3}")
# Clients do not agree on where they lead: some decode percent signs, and take what follows a
# question mark or a hash for no part of the path (pypaimon: ``LocalFileIO._to_file``,
# ``PyArrowFileIO.to_filesystem_path``).
_AMBIGUOUS = re.compile(r"[%?#\\]")
# With "consumer-" before it or "_SUCCESS" after it, within the 255 bytes of a file name.
_LONGEST_LABEL = 240
_NO_NAME = re.compile(r"[/\\\x00-\x1f\ud800-\udfff]")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_HAVE_BUCKETS = frozenset({"s3", "gs", "oss", "obs", "cosn", "tos", "abfs"})


def parse_location(text: str) -> str:
    """The URI of a directory, from a URI or a local path as somebody wrote it.

    The scheme is in lower case and the path has no empty part, no ``.`` and no slash at its end.
    Percent signs are literal, as in file access.

    Raises:
        Invalid: It is neither a URI nor a local path, or it has a ``..`` part, a control character
            or credentials.
    """
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Invalid(f"{text!r} is not a usable location: it contains a control character")
    found = _SCHEME.match(text)
    # A single letter before a colon is the name of a folder here.
    if found is None or (len(found[1]) == 1 and not text.startswith(f"{found[0]}//")):
        return local_uri(text)
    scheme, rest = found[1].lower(), text[found.end() :]
    if scheme == "file":
        if re.match("//[^/]", rest):
            raise Invalid(
                f"'{text}' is not a usable location: a local file's URI has three slashes, as in "
                "file:///folder"
            )
        return local_uri(local_path(f"file:{rest}"))
    if not rest.startswith("//"):
        raise Invalid(f"'{text}' is neither a URI nor a local path")
    authority, *parts = rest[2:].split("/")
    if ":" in authority.rpartition("@")[0]:
        # Without the text: anybody may see locations, but never credentials.
        raise Invalid(
            "a location must not hold credentials; give them as options, such as s3.access-key"
        )
    if not authority or authority in (".", "..") or ".." in parts:
        raise Invalid(
            f"'{text}' is not a usable location: a bucket must stand in it, '..' must not"
        )
    kept = [authority, *(part for part in parts if part not in ("", "."))]
    return f"{scheme}://{'/'.join(kept)}"


def absolute_location(text: str) -> str:
    """The URI of a directory, from a URI or an absolute path; as `parse_location`.

    Raises:
        Invalid: It is no location, or a path that depends on where the process was started.
    """
    found = _SCHEME.match(text)
    if not text.startswith("/") and (found is None or len(found[1]) == 1):
        raise Invalid(f"'{text}' is neither a URI nor an absolute path")
    return parse_location(text)


def new_location(text: str) -> str:
    """The URI of a directory that somebody chooses; as `parse_location`, which reads all.

    Raises:
        Invalid: It is no location, or not all clients would take it for the same directory.
    """
    location = parse_location(text)
    scheme, _, rest = location.partition("://")
    found = _AMBIGUOUS.search(rest)
    if found is not None:
        raise Invalid(
            f"'{location}' is not a usable location: clients do not agree on where a "
            f"'{found[0]}' leads; choose one without '%', '?', '#' and backslashes"
        )
    if scheme != "file" and not _is_plain(_ALIASES.get(scheme, scheme), rest.partition("/")[0]):
        raise Invalid(
            f"'{location}' is not a usable location: the name of a bucket or host has ASCII "
            "letters, digits, dots and dashes only, and a bucket has neither user nor port"
        )
    return location


def _is_plain(scheme: str, authority: str) -> bool:
    """True if nothing in a bucket or host is dropped or folded by some clients."""
    container, at, host = authority.rpartition("@")
    if at and (scheme != "abfs" or not _BUCKET.fullmatch(container)):
        return False
    return (_BUCKET if scheme in _HAVE_BUCKETS else _HOST).fullmatch(host) is not None


def shown_location(location: str) -> str:
    """A location as Paimon shows it: ``file:/lake`` for ``file:///lake`` (``Path.java``)."""
    return f"file:/{location[8:]}" if location.startswith("file:///") else location


def new_folder(name: str, id_: str) -> str:
    """The name of the folder of a new database or table: its own, if all clients can find that.

    Args:
        name: The name of the database or table.
        id_: Its id, which tells the folder of one whose name is not taken from all others.
    """
    plain = _AMBIGUOUS.sub("_", name)
    return name if plain == name else f"{plain}-{id_}"


def leads_elsewhere(name: str) -> bool:
    """True if a file or folder of that name is, to some client, in another folder."""
    plain = unquote(name) if "%" in name else name
    return plain in (".", "..") or _NO_NAME.search(plain) is not None


def check_file_label(label: str, what: str, *, is_new: bool = True) -> None:
    """Refuse what cannot stand in the name of a file, with a few letters before and after it.

    Args:
        label: The name that a user gives the thing in the file.
        what: The thing, for errors: ``tag``.
        is_new: False for a file that may be there already, whoever wrote it, however long its name.

    Raises:
        Invalid: It is blank, or too long for a new file, or the file would lie in another folder.
    """
    if not label.strip():
        raise Invalid(f"the name of a {what} must not be blank")
    if leads_elsewhere(label):
        raise Invalid(
            f"{label!r} is not the name of a {what}: it must not contain a slash, percent-encoded "
            "or not, a control character or half of a character"
        )
    if is_new and len(label.encode()) > _LONGEST_LABEL:
        raise Invalid(f"the {what} name '{label[:40]}…' is longer than {_LONGEST_LABEL} bytes")


@dataclass(frozen=True)
class Place:
    """The directory that a location leads to, whatever it is called.

    Attributes:
        key: The same text for every name of the directory. It ends with a slash, so that the key
            of a directory below it begins with it.
    """

    key: str

    @staticmethod
    def of(location: str) -> Place:
        """The place of a location; symbolic links on this machine are followed.

        An object store's endpoint is no part of it: one store may have many, so buckets of one name
        are taken for the same bucket.

        Raises:
            Invalid: The location is malformed; see `parse_location`.
        """
        scheme, _, rest = parse_location(location).partition("://")
        if scheme == "file":
            resolved = os.path.realpath(rest)
            return Place("file:///" if resolved == "/" else f"file://{resolved}/")
        port = _DEFAULT_PORTS.get(scheme)
        scheme = _ALIASES.get(scheme, scheme)
        authority, slash, path = rest.partition("/")
        authority = authority.lower()
        if port is not None:
            authority = _host_key(authority.removesuffix(f":{port}"))
        elif scheme == "oss":
            authority = authority.partition(".")[0]  # its endpoint may follow the bucket's name
        elif scheme == "abfs":
            authority = authority.replace(".blob.", ".dfs.")
        return Place(f"{scheme}://{authority}/{path}{slash and '/'}")

    @property
    def uri(self) -> str:
        """The key as a URI without a slash at its end."""
        return self.key if self.key == "file:///" else self.key[:-1]

    @property
    def scheme(self) -> str:
        """The one name of the kind of store, such as ``s3`` for ``s3a``, too."""
        return self.key.partition("://")[0]

    def holds(self, other: Place) -> bool:
        """True if another place is this one or lies in it."""
        return other.key.startswith(self.key)

    def overlaps(self, other: Place) -> bool:
        """True if two places are the same or one lies in the other."""
        return self.holds(other) or other.holds(self)

    @property
    def parent(self) -> Place | None:
        """The directory above; None for a bucket, a host or the root."""
        shorter = self.key[:-1].rpartition("/")[0] + "/"
        return None if shorter.endswith("://") or shorter == "file:/" else Place(shorter)

    @property
    def enclosing(self) -> tuple[Place, ...]:
        """This place and every directory above it, nearest first."""
        found: list[Place] = []
        place: Place | None = self
        while place is not None:
            found.append(place)
            place = place.parent
        return tuple(found)


def _host_key(authority: str) -> str:
    """The one name of a host, with its port if that is not the usual one."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return authority
    host, port = found[1].rstrip("."), found[2] or ""
    try:
        if host.startswith("[") and host.endswith("]"):
            address = IPv6Address(host[1:-1])
            mapped = address.ipv4_mapped
            host = f"[{address.compressed}]" if mapped is None else str(mapped)
        elif _NUMBERS.fullmatch(host):
            host = socket.inet_ntoa(socket.inet_aton(host))
    except (ValueError, OSError):
        pass  # a name, whatever it looks like
    return host + port
