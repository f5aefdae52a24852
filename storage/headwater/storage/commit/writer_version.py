"""The name and version of this program in the snapshots that it makes."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["writer_version"]


@cache
def writer_version() -> str:
    """The name and version of this program; to look it up takes milliseconds."""
    try:
        return f"headwater-{version('headwater')}"
    except PackageNotFoundError:
        return "headwater"
