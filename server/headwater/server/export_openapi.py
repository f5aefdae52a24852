"""The OpenAPI document as a file."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.server.app import create_app
from headwater.server.settings import ServerSettings

__all__ = ["export"]


def export(path: Path | None = None) -> str:
    """The document as JSON text, written to `path` if that is given.

    The text does not depend on the machine or on what is installed beside it.
    """
    settings = ServerSettings(
        host="127.0.0.1", warehouses={"main": "./warehouse"}, tokens=(), client_options={}
    )
    text = json.dumps(create_app({}, settings).openapi(), indent=2, ensure_ascii=False) + "\n"
    if path is not None:
        path.write_text(text, encoding="utf-8")
    return text
