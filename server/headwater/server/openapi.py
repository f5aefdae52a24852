"""The API's description, exported from the application itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.server.app import create_app
from headwater.server.settings import ServerSettings

__all__ = ["document", "export"]


def document() -> dict[str, Any]:
    """The OpenAPI document of the application."""
    settings = ServerSettings(
        host="127.0.0.1", warehouses={"main": "./warehouse"}, tokens=(), client_options={}
    )
    return create_app({}, settings).openapi()


def export(path: Path | None = None) -> str:
    """The document as JSON text, written to `path` if that is given.

    The text does not depend on the machine: keys keep their order and the version is fixed.
    """
    described = document()
    # The contract's own version; the installation's would drift with every release.
    described["info"]["version"] = "1"
    text = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
    if path is not None:
        path.write_text(text, encoding="utf-8")
    return text
