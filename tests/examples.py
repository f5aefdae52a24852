"""Numbers of examples: all where faults are looked for, fewer where a change is judged."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_SEARCHED = settings.get_profile("search").max_examples


def examples(number: int) -> int:
    """Of so many examples those that the profile takes which is in use; one at least.

    Args:
        number: The examples that `--hypothesis-profile=search` takes.
    """
    return max(1, number * settings().max_examples // _SEARCHED)
