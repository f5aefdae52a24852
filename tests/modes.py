"""Parameters of tests, of which `make test` takes the essential ones."""

from __future__ import annotations

from collections.abc import Container, Iterable

import pytest
from _pytest.mark import ParameterSet

__all__ = ["essential"]


def essential(values: Iterable[object], chosen: Container[object]) -> list[ParameterSet]:
    """Each value as a parameter, with the marker ``modes`` unless it is one of those chosen."""
    return [
        pytest.param(value, marks=() if value in chosen else pytest.mark.modes) for value in values
    ]
