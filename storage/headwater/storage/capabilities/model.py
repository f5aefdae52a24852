"""The form of the table of capabilities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property

__all__ = ["ALL", "Operation", "Option", "Refusal", "Values", "numbers_from", "one_of", "unset"]


class Operation(Flag):
    """A use of a table that an option may forbid."""

    READ = auto()
    STREAM = auto()
    WRITE = auto()
    COMPACT = auto()
    EXPIRE = auto()
    REMOVE_ORPHANS = auto()
    MARK_DONE = auto()
    CHANGE = auto()

    @property
    def verb(self) -> str:
        """The words for "Headwater does not yet … tables with"; the last of several counts."""
        return _VERBS[max(self, key=lambda one: one.value)]

    @property
    def names(self) -> str:
        """All of them, as the documentation calls them."""
        rest = self & ~ALL if ALL in self else self
        names = ["all that touches rows or their files"] if ALL in self else []
        return ", ".join([*names, *(name for one, name in _NAMES.items() if one in rest)])


ALL = Operation.READ | Operation.STREAM | Operation.WRITE | Operation.COMPACT | Operation.EXPIRE
"""The operations that touch the rows of a table, or the files that hold them."""
_VERBS: Mapping[Operation, str] = {
    Operation.READ: "read",
    Operation.STREAM: "stream changes of",
    Operation.WRITE: "write",
    Operation.COMPACT: "compact",
    Operation.EXPIRE: "expire snapshots of",
    Operation.REMOVE_ORPHANS: "remove orphan files of",
    Operation.MARK_DONE: "mark partitions as complete of",
    Operation.CHANGE: "update or delete rows of",
}
_NAMES: Mapping[Operation, str] = {
    Operation.READ: "reading",
    Operation.STREAM: "streams and changes",
    Operation.WRITE: "writing",
    Operation.COMPACT: "compaction",
    Operation.EXPIRE: "expiry",
    Operation.REMOVE_ORPHANS: "removal of orphan files",
    Operation.MARK_DONE: "marking partitions as complete",
    Operation.CHANGE: "updates, merges and deletes",
}


@dataclass(frozen=True)
class Values:
    """Some values of an option.

    Attributes:
        text: The words for them.
        include: True for a value, stripped and in lower case, that is one of them.
    """

    text: str
    include: Callable[[str], bool]


def one_of(*names: str) -> Values:
    """These values, whatever their case."""
    return Values(", ".join(f"`{name}`" for name in names), frozenset(names).__contains__)


def numbers_from(least: int) -> Values:
    """Numbers of at least so much."""

    def include(text: str) -> bool:
        try:
            return int(text) >= least
        except ValueError:
            return False

    return Values(f"{least} or more", include)


def unset() -> Values:
    """No value, or a blank one."""
    return Values("unset", lambda text: not text)


@dataclass(frozen=True)
class Refusal:
    """Operations that an option forbids.

    Attributes:
        operations: The forbidden operations.
        unless: The values with which they are allowed.
        because: The reason, or what to do instead, as the end of a sentence; may be empty.
        keyed: True if only tables with a primary key are meant, False if only those without.
        unless_option: Another option and the values of it with which they are allowed, too.
    """

    operations: Operation
    unless: Values
    because: str = ""
    keyed: bool | None = None
    unless_option: tuple[str, Values] | None = None

    @property
    def exceptions(self) -> str:
        """The values with which the operations are allowed, for the documentation."""
        if self.unless_option is None:
            return self.unless.text
        other, allowed = self.unless_option
        return f"{self.unless.text}; or `{other}` is {allowed.text}"

    def allows(self, value: str, options: Mapping[str, str]) -> bool:
        """True if the option's value, or the other option's, is one that forbids nothing."""
        if self.unless.include(value.strip().lower()):
            return True
        if self.unless_option is None:
            return False
        other, allowed = self.unless_option
        return other in options and allowed.include(options[other].strip().lower())


@dataclass(frozen=True)
class Option:
    """A table option and what this engine does about it.

    Attributes:
        key: Its name; ``<column>`` and ``#`` in it stand for any text.
        note: This engine's support for it, or why it means nothing to this engine.
        is_honoured: True if this engine follows it, in the values that it does not refuse.
        refusals: The operations that it forbids.
        default: The value of a table that does not set it; None if that forbids nothing.
        aliases: Older names for it.
    """

    key: str
    note: str
    is_honoured: bool = False
    refusals: tuple[Refusal, ...] = ()
    default: str | None = None
    aliases: tuple[str, ...] = ()

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        parts = re.split(r"<\w+>|#", self.key)
        return re.compile(".+".join(map(re.escape, parts))) if len(parts) > 1 else None

    @property
    def is_pattern(self) -> bool:
        """True if the key stands for many."""
        return self._pattern is not None

    def names(self, key: str) -> bool:
        """True if a key is this option's."""
        if key == self.key or key in self.aliases:
            return True
        return self._pattern is not None and self._pattern.fullmatch(key) is not None

    def forbidden(
        self, value: str, operation: Operation, options: Mapping[str, str], *, keyed: bool
    ) -> Refusal | None:
        """The refusal of one of the operations by a value of the option; None without one."""
        for refusal in self.refusals:
            concerns = refusal.keyed is None or refusal.keyed is keyed
            if concerns and refusal.operations & operation and not refusal.allows(value, options):
                return refusal
        return None
