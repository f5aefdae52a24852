"""Files, indexes and splits, grouped by the bucket that they belong to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias, TypeVar

__all__ = ["Bucket", "by_bucket"]

Bucket: TypeAlias = tuple[bytes, int]
"""Serialised partition values, and the bucket's number."""


class _InBucket(Protocol):
    @property
    def partition(self) -> bytes: ...

    @property
    def bucket(self) -> int: ...


_Item = TypeVar("_Item", bound=_InBucket)


def by_bucket(items: Iterable[_Item]) -> dict[Bucket, list[_Item]]:
    """The items of each bucket; buckets, and the items of each, in the order in which they come."""
    found: dict[Bucket, list[_Item]] = {}
    for item in items:
        found.setdefault((item.partition, item.bucket), []).append(item)
    return found
