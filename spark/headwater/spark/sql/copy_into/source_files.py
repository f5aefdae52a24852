"""The files of a directory, as Spark sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headwater.storage.errors import Invalid, NotFound

__all__ = ["SourceFile", "list_files", "refuse_pattern", "select_files"]

# What Spark takes for a pattern of paths.
_PATTERN = re.compile(r"[{}\[\]*?\\]")
_PLACE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(/.*)", re.DOTALL)


@dataclass(frozen=True)
class SourceFile:
    """A file.

    Attributes:
        path: Its URI, as Hadoop writes it.
        size: Bytes.
        modified_millis: Last change, milliseconds since the epoch.
    """

    path: str
    size: int
    modified_millis: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


def refuse_pattern(path: str) -> None:
    """Refuse a path that Spark would take for a pattern of many, or that begins nowhere.

    Raises:
        Invalid: It is such a path.
    """
    if _PLACE.fullmatch(path) is None or {".", ".."} & set(path.split("/")):
        raise Invalid(f"'{path}' is neither an absolute path nor a URI with one: write all of it")
    if _PATTERN.search(path):
        raise Invalid(
            f"'{path}' has one of the characters {{}}[]*?\\, which make a pattern of paths: name "
            "a directory or a file, and choose files of a directory with PATTERN = '…'"
        )


def list_files(spark: SparkSession, path: str) -> list[SourceFile]:
    """The files directly in a directory, by name, or one file alone; hidden ones are left out.

    Args:
        spark: The session; a task of Spark's looks at them.
        path: The directory or the file.

    Raises:
        Invalid: The path is a pattern.
        NotFound: There is nothing.
    """
    refuse_pattern(path)
    try:
        # Their content is not asked for: Spark does not open them.
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        rows = reader.load(path).select("path", "length", "modificationTime").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise NotFound(f"'{path}' does not exist") from None
    files = [
        SourceFile(
            row["path"],
            row["length"],
            round(row["modificationTime"].astimezone(UTC).timestamp() * 1000),
        )
        for row in rows
    ]
    own = _place(path)
    direct = [
        file for file in files if own in (found := _place(file.path), found.rpartition("/")[0])
    ]
    return sorted(direct, key=lambda file: file.name)


def _place(path: str) -> str:
    """A path without the store's name, slashes put right."""
    found = _PLACE.fullmatch(path)
    return re.sub("/+", "/", found[1] if found else path).rstrip("/")


def select_files(
    files: Sequence[SourceFile], pattern: str | None, names: Sequence[str] | None
) -> list[SourceFile]:
    """The files whose names a pattern is found in, or that are named.

    Raises:
        Invalid: The pattern is no regular expression.
        NotFound: A file that is named is not there.
    """
    if names is not None:
        known = {file.name: file for file in files}
        missing = [name for name in names if name not in known]
        if missing:
            raise NotFound(f"FILES names '{missing[0]}', which is not there")
        return [known[name] for name in sorted(set(names))]
    if pattern is None:
        return list(files)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise Invalid(f"PATTERN: '{pattern}' is no regular expression: {error}") from None
    return [file for file in files if wanted.search(file.name)]
