"""The version that this installation is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]

try:
    VERSION = version("headwater")
except PackageNotFoundError:  # run from a checkout that was never installed
    VERSION = "0"
