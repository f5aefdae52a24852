"""Data tokens: what a client gets to reach a table's files.

The names of a warehouse's storage options are sent as every client knows them: Java's S3 access
takes ``s3.access-key``, pypaimon's ``fs.s3.accessKeyId``.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["STORAGE_OPTIONS", "client_storage_options"]

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


def client_storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Storage options under every name that a client may look for; never log them."""
    sent = dict(options)
    for names in _SAME:
        known = next((options[name] for name in names if name in options), None)
        if known is not None:
            sent.update((name, options.get(name, known)) for name in names)
    return sent
