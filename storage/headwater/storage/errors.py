"""The errors that Headwater raises.

Every error says what was wrong, where, and what to do. The tree is closed: a caller that handles
these eight classes has handled everything Headwater raises on purpose.

    HeadwaterError
    ├── NotFound       the named thing does not exist
    ├── AlreadyExists  the name is taken
    ├── Conflict       somebody else changed the same thing first; re-read and try again
    ├── Invalid        the request, the schema, the option or the data is wrong
    ├── Forbidden      the caller is not known or not allowed
    ├── Unavailable    a service or a store did not answer; trying again does no harm …
    │   └── OutcomeUnknown   … except here: it may have been done or not; look first
    ├── CorruptData    a stored file is missing, truncated or not what its metadata says
    └── Unsupported    a valid request for something this version does not do
"""

from __future__ import annotations

from enum import StrEnum

from headwater.storage.printable import printable

__all__ = [
    "AlreadyExists",
    "Conflict",
    "CorruptData",
    "Forbidden",
    "HeadwaterError",
    "Invalid",
    "NotFound",
    "OutcomeUnknown",
    "ResourceType",
    "Unavailable",
    "Unsupported",
]


class ResourceType(StrEnum):
    """The kinds of thing an error can be about, named as in Paimon's REST `ErrorResponse`."""

    DATABASE = "DATABASE"
    TABLE = "TABLE"
    PARTITION = "PARTITION"
    COLUMN = "COLUMN"
    SNAPSHOT = "SNAPSHOT"
    BRANCH = "BRANCH"
    TAG = "TAG"
    VIEW = "VIEW"
    DIALECT = "DIALECT"
    FUNCTION = "FUNCTION"
    DEFINITION = "DEFINITION"
    POLICY = "POLICY"
    LABEL = "LABEL"
    UNKNOWN = "UNKNOWN"


class HeadwaterError(Exception):
    """Base of every error raised on purpose.

    Args:
        message: The message: what was wrong, where, and what to do about it.
        resource_type: The kind of thing the error is about, if it is about one thing.
        resource_name: That thing's name (a snapshot's id, a tag's name, a column's name…).
        private: A part of the message that a server keeps from its callers: what its database said,
            which may name hosts and files.
    """

    def __init__(
        self,
        message: str,
        *,
        resource_type: ResourceType | None = None,
        resource_name: str | None = None,
        private: str | None = None,
    ) -> None:
        # It may quote a name or a value of another engine's, and is printed anywhere.
        message = printable(message, "\n\t")
        super().__init__(message)
        self.message = message
        self.private = None if private is None else printable(private, "\n\t")
        self.resource_type = resource_type
        self.resource_name = resource_name

    def __reduce__(
        self,
    ) -> tuple[object, tuple[type[HeadwaterError], str, ResourceType | None, str | None]]:
        return _restore, (type(self), self.message, self.resource_type, self.resource_name)


def _restore(
    kind: type[HeadwaterError],
    message: str,
    resource_type: ResourceType | None,
    resource_name: str | None,
) -> HeadwaterError:
    # Spark's workers send errors to the driver pickled; keyword-only arguments need this help.
    return kind(message, resource_type=resource_type, resource_name=resource_name)


class NotFound(HeadwaterError):
    """The named thing does not exist."""


class AlreadyExists(HeadwaterError):
    """The name is taken."""


class Conflict(HeadwaterError):
    """Somebody else changed the same thing first."""


class Invalid(HeadwaterError):
    """The request, the schema, the option or the data is wrong."""


class Forbidden(HeadwaterError):
    """The caller is not known or not allowed."""


class Unavailable(HeadwaterError):
    """A service or a store did not answer; trying again does no harm."""


class OutcomeUnknown(Unavailable):
    """The request may have been carried out, or not, or is still to come.

    Look before you ask for it again. The files of a commit that ends so are kept.
    """


class CorruptData(HeadwaterError):
    """A stored file is missing, truncated or not what its metadata says."""


class Unsupported(HeadwaterError):
    """A valid request for something this version does not do."""
