"""Stub."""

from enum import StrEnum


class Narrowing(StrEnum):
    KEEP = "keep"
    FAIL = "fail"


def schema_changes(*a, **k):
    return []


def changes_to(*a, **k):
    return []
