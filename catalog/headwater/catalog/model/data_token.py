"""Data tokens: what a client gets to reach a table's files.

The names of a warehouse's storage options are sent as every client knows them: Java's S3 access
takes ``s3.access-key``, pypaimon's ``fs.s3.accessKeyId``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.storage.errors import Invalid

__all__ = ["STORAGE_OPTIONS", "check_storage_options", "client_storage_options"]

# Names of the same thing; the first that is there is sent under all.
_SAME: tuple[tuple[str, ...], ...] = (
    ("s3.endpoint", "fs.s3.endpoint"),
    ("s3.access-key", "fs.s3.accessKeyId"),
    ("s3.secret-key", "fs.s3.accessKeySecret"),
    ("s3.session.token", "s3.session-token", "fs.s3.securityToken"),
    ("s3.region", "fs.s3.region", "s3.endpoint.region"),
    ("s3.path.style.access", "s3.path-style-access"),
)

STORAGE_OPTIONS = tuple(name for names in _SAME for name in names)
"""The names of all options of access to object stores."""

# What else is done with a warehouse's options: data tokens, and uploads by signed requests.
_OTHER_OPTIONS = ("s3.multipart.size", "s3.sts.role-arn", "s3.sts.endpoint", "s3.sts.external-id")


def check_storage_options(
    names: Iterable[str], what: str, *, also: tuple[str, ...] = (), prefixes: tuple[str, ...] = ()
) -> None:
    """Reject names of storage options that nothing reads.

    Args:
        names: The names.
        what: What the options are given to, for the message.
        also: Further names that are known.
        prefixes: What other known names begin with.

    Raises:
        Invalid: The message has the name, and those that are known.
    """
    known = (*STORAGE_OPTIONS, *_OTHER_OPTIONS, *also)
    for name in names:
        has_blank = any(character.isspace() or character == "\0" for character in name)
        if name in known or (name.startswith(prefixes) and not has_blank):
            continue
        reason = "must not contain blanks or NUL" if name and has_blank else "is not known"
        raise Invalid(
            f"{what}: the storage option {name!r} {reason}; use "
            f"{', '.join((*known, *(f'{prefix}…' for prefix in prefixes)))}"
        )


def client_storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Storage options under every name that a client may look for; never log them."""
    sent = dict(options)
    for names in _SAME:
        known = next((options[name] for name in names if name in options), None)
        if known is not None:
            sent.update((name, options.get(name, known)) for name in names)
    return sent
