"""Options whose values become part of a path: none may lead out of the table's directory.

Paimon's writers join them to the table's path and resolve what comes of it, so that ``..`` in a
prefix or in the name of a branch is a place in another table (``FileStorePathFactory``,
``DataFilePathFactory``, ``BranchManager.branchPath``, ``TagManager.tagPath``). Places outside that
an option may name are claimed by the catalog instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.errors import Invalid
from headwater.storage.files.location import leads_elsewhere

__all__ = ["PATH_OPTIONS", "check_path_options"]

_FOLDER = "data-file.path-directory"

PATH_OPTIONS = frozenset(
    {
        _FOLDER,
        "branch",
        "changelog-file.compression",
        "changelog-file.format",
        "changelog-file.prefix",
        "consumer-id",
        "data-file.prefix",
        "file.compression",
        "file.compression.per.level",
        "file.format",
        "file.format.per.level",
        "format-table.file.compression",
        "manifest.format",
        "partition.default-name",
        "scan.fallback-branch",
        "scan.fallback-delta-branch",
        "scan.fallback-snapshot-branch",
        "scan.primary-branch",
        "scan.tag-name",
        "scan.version",
        "tag.batch.customized-name",
        "vector.file.format",
    }
)
"""The options whose values are names of files and folders, or parts of such names."""


def check_path_options(options: Mapping[str, str]) -> None:
    """Refuse values that lead out of the table's directory; raises Invalid.

    Args:
        options: A table's.
    """
    for key in sorted(PATH_OPTIONS & options.keys()):
        text = options[key]
        if key == _FOLDER:
            is_wrong = ":" in text or any(
                not part or leads_elsewhere(part) for part in text.split("/")
            )
        else:
            is_wrong = leads_elsewhere(text)
        if is_wrong and text:
            what = "a folder such as 'data' or 'a/b'" if key == _FOLDER else "part of a file's name"
            raise Invalid(
                f"option '{key}' must be {what}, and '{text}' could lead out of the table's "
                "directory"
            )
