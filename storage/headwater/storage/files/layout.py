"""The paths of a table's files (``FileStorePathFactory.java``, ``DataFilePathFactory.java``).

Every path is a URI below the table's location, such as ``file:///lake/db.db/t/snapshot/snapshot-1``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "MAIN_BRANCH",
    "POSTPONE_BUCKET",
    "WAREHOUSE_MARKER",
    "TableLayout",
    "escape_path_name",
    "unescape_path_name",
]

MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
"""The bucket of rows that wait for a compaction, and the option ``bucket`` where there is one."""

WAREHOUSE_MARKER = ".headwater-warehouse"
"""The file in a warehouse's directory by which it is known; Paimon looks for directories there."""

# PartitionPathUtils.java: the characters Hive escapes in a partition's directory name.
_ESCAPED = frozenset(
    [chr(code) for code in range(32)]
    + ['"', "#", "%", "'", "*", "/", ":", "=", "?", "\\", "\x7f", "{", "}", "[", "]", "^"]
)
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")


def escape_path_name(name: str) -> str:
    """A partition name or value as it stands in a directory name (``%XX`` for some characters)."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in name)


def unescape_path_name(name: str) -> str:
    """The text that a directory's name, or a part of it, was escaped from."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)


@dataclass(frozen=True)
class TableLayout:
    """The paths of one table and branch.

    Attributes:
        location: The table's own URI, without a trailing slash.
        branch: The branch whose schema, snapshot, tag and consumer files are meant. Manifests
            and data files are shared by all branches.
    """

    location: str
    branch: str = MAIN_BRANCH

    @property
    def branch_location(self) -> str:
        """The directory of the branch's own files."""
        if self.branch == MAIN_BRANCH:
            return self.location
        return f"{self.location}/branch/branch-{self.branch}"

    @property
    def schema_directory(self) -> str:
        """The directory of the schema files."""
        return f"{self.branch_location}/schema"

    def schema(self, schema_id: int) -> str:
        """A schema file."""
        return f"{self.schema_directory}/schema-{schema_id}"

    @property
    def snapshot_directory(self) -> str:
        """The directory of the snapshot files and their hints."""
        return f"{self.branch_location}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        """A snapshot file."""
        return f"{self.snapshot_directory}/snapshot-{snapshot_id}"

    @property
    def latest_hint(self) -> str:
        """The hint file that holds the latest snapshot's id."""
        return f"{self.snapshot_directory}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """The hint file that holds the earliest snapshot's id."""
        return f"{self.snapshot_directory}/EARLIEST"

    @property
    def changelog_directory(self) -> str:
        """The directory of the changelogs that outlive their snapshots, and of their hints."""
        return f"{self.branch_location}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        """The changelog that is left of a snapshot."""
        return f"{self.changelog_directory}/changelog-{snapshot_id}"

    @property
    def latest_changelog_hint(self) -> str:
        """The hint file that holds the latest changelog's id."""
        return f"{self.changelog_directory}/LATEST"

    @property
    def earliest_changelog_hint(self) -> str:
        """The hint file that holds the earliest changelog's id."""
        return f"{self.changelog_directory}/EARLIEST"

    @property
    def tag_directory(self) -> str:
        """The directory of the tag files."""
        return f"{self.branch_location}/tag"

    def tag(self, name: str) -> str:
        """A tag file."""
        return f"{self.tag_directory}/tag-{name}"

    def tag_success_file(self, name: str) -> str:
        """The file that says that a tag is complete."""
        return f"{self.tag_directory}/tag-success-file/{name}_SUCCESS"

    @property
    def consumer_directory(self) -> str:
        """The directory of the consumer files."""
        return f"{self.branch_location}/consumer"

    def consumer(self, consumer_id: str) -> str:
        """A consumer file."""
        return f"{self.consumer_directory}/consumer-{consumer_id}"

    @property
    def manifest_directory(self) -> str:
        """The directory of manifests, manifest lists and index manifests."""
        return f"{self.location}/manifest"

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest."""
        return f"{self.manifest_directory}/{name}"

    def deletion(self, deletion_id: str) -> str:
        """The list of the files that a deletion takes, see `…storage.maintenance.deletion`.

        Among the manifests, where orphan removal of every engine takes a forgotten one.
        """
        return f"{self.manifest_directory}/deletion-{deletion_id}"

    def statistics(self, name: str) -> str:
        """A table-statistics file."""
        return f"{self.location}/statistics/{name}"

    def index(self, name: str) -> str:
        """A table-index file."""
        return f"{self.location}/index/{name}"

    def bucket_directory(
        self, partition: Sequence[tuple[str, str]], bucket: int, below: str = ""
    ) -> str:
        """The directory of a bucket's data files.

        Args:
            partition: (column name, value as text) in partition-key order.
            bucket: The bucket's number; -1 is never a directory (unbucketed tables use 0), and -2
                is that of rows in the postpone bucket.
            below: The folder of the table's that data files are in; empty for the table's own.
        """
        inner = f"{below}/" if below else ""
        inner += "".join(f"{escape_path_name(k)}={escape_path_name(v)}/" for k, v in partition)
        name = "postpone" if bucket == POSTPONE_BUCKET else bucket
        return f"{self.location}/{inner}bucket-{name}"
