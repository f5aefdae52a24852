"""Steps of work, told of to whoever watches them, such as a tracer.

While nobody watches, a step costs a look at a variable. What is told of a step names operations and
things of the catalog; it holds no row, no value of a query and no credential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

__all__ = [
    "Attributes",
    "Members",
    "Watch",
    "apart",
    "current_step",
    "in_this_step",
    "step",
    "together",
    "watching_steps",
]

P = ParamSpec("P")
T = TypeVar("T")

Attributes: TypeAlias = Mapping[str, str | int | bool]
"""The details of a step, by name."""

Members: TypeAlias = Sequence[object]
"""The steps for which something is done, from `current_step`; None where nobody watched."""

_NOTHING = nullcontext()


class Watch(Protocol):
    """Told of steps."""

    def step(self, name: str, attributes: Attributes) -> AbstractContextManager[object]:
        """The context in which a step happens, as a part of the current one."""
        ...

    def current(self) -> object:
        """The current step, to be named elsewhere."""
        ...

    def together(
        self, name: str, members: Members, attributes: Attributes
    ) -> AbstractContextManager[object]:
        """The context of a step that is a part of several others."""
        ...

    def apart(self) -> AbstractContextManager[object]:
        """The context in which there is no current step."""
        ...


_watch: Watch | None = None


def step(name: str, **attributes: str | int | bool) -> AbstractContextManager[object]:
    """The context of a step.

    Args:
        name: Its kind, in lower case: of those there are few.
        attributes: The things that it is about.
    """
    watch = _watch
    return _NOTHING if watch is None else watch.step(name, attributes)


def current_step() -> object:
    """The step that this is called in, for `together`; None while nobody watches."""
    return None if _watch is None else _watch.current()


def together(
    name: str, members: Members, **attributes: str | int | bool
) -> AbstractContextManager[object]:
    """The context of a step that is taken for several others at once.

    Args:
        name: Its kind.
        members: The others.
        attributes: The things that it is about.
    """
    watch = _watch
    return _NOTHING if watch is None else watch.together(name, members, attributes)


def apart() -> AbstractContextManager[object]:
    """The context of work that is no part of the current step."""
    return _NOTHING if _watch is None else _watch.apart()


def in_this_step(work: Callable[P, T]) -> Callable[P, T]:
    """Work for another thread, as a part of the step that this one is at; for one call."""
    if _watch is None:
        return work
    context = copy_context()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.run(work, *args, **kwargs)

    return run


@contextmanager
def watching_steps(watch: Watch) -> Iterator[None]:
    """Tell of the steps of this process while the block runs; of two that watch, the later."""
    global _watch
    before, _watch = _watch, watch
    try:
        yield
    finally:
        _watch = before
