"""Options of tables as keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping


def option_names(options: Mapping[str, str]) -> dict[str, str]:
    """Options by their names, of which ``_`` stands for ``-`` and ``__`` for ``.``."""
    return {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
