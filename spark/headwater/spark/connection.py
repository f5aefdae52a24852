"""The address of a catalog, and the settings of a Spark application that give it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from headwater.spark.driver_settings import driver_settings
from headwater.storage.errors import Invalid
from headwater.storage.options.quantities import parse_bytes

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = [
    "SETTINGS",
    "STREAM_PATIENCE",
    "Connection",
    "bitmap_cache_size",
    "patient_lake",
    "refuse_other_settings",
]

STREAM_PATIENCE = 60.0
"""How long a streaming query waits for a server that cannot be reached, in seconds.

A table's option ``commit.timeout`` comes before it.
"""

SETTINGS = "spark.headwater."
"""The prefix of the settings that name a catalog."""

_VARIABLES = {
    "uri": "HEADWATER_CATALOG",
    "warehouse": "HEADWATER_CATALOG_WAREHOUSE",
    "token": "HEADWATER_CATALOG_TOKEN",
    "location": "HEADWATER_CATALOG_LOCATION",
}
_BITMAPS = "bitmap-cache-size"
_BITMAP_BYTES = "16 mb"
_OWN = (*_VARIABLES, _BITMAPS)


@dataclass(frozen=True)
class Connection:
    """The catalog's address, for Spark's Python processes on the driver.

    Attributes:
        target: A folder, a SQL URL or an HTTP URL, as `headwater.client.connect` takes it.
        warehouse: The warehouse's name; None is the catalog's only one.
        token: The bearer token of an HTTP catalog.
        location: With a SQL URL, where the tables lie.
        storage: The options of file access; a secret as the token is.
        parallelism: The number of tasks that the session runs at once.
        patience: How long requests wait for a server that cannot be reached, in seconds, where the
            table does not say so; None leaves it to `headwater.client.connect`.
    """

    target: str
    warehouse: str | None = None
    token: str | None = field(default=None, repr=False)
    location: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    parallelism: int = 1
    patience: float | None = None

    @staticmethod
    def of(session: Connection | None, options: Mapping[str, str]) -> Connection:
        """The session's, unless a reader's or writer's own options say otherwise.

        Without either it is that of the settings that the Spark driver was started with.

        Raises:
            Invalid: None of them says where the catalog is, or a setting is not known.
        """
        warehouse, token = options.get("warehouse"), options.get("token")
        if "uri" in options:
            parallelism = 1 if session is None else session.parallelism
            return Connection(options["uri"], warehouse, token, parallelism=parallelism)
        if session is None:
            session = Connection.of_settings(driver_settings(SETTINGS), os.environ)
        return replace(
            session,
            warehouse=session.warehouse if warehouse is None else warehouse,
            token=session.token if token is None else token,
        )

    @staticmethod
    def of_settings(settings: Mapping[str, str], environment: Mapping[str, str]) -> Connection:
        """The catalog that ``spark.headwater.…`` and, where it is silent, the environment name.

        Args:
            settings: The settings, without their prefix.
            environment: The environment variables, `HEADWATER_CATALOG` and so on.

        Raises:
            Invalid: Neither says where the catalog is, or a setting is not known.
        """
        refuse_other_settings(settings)
        named = {
            name: settings.get(name) or environment.get(variable) or None
            for name, variable in _VARIABLES.items()
        }
        target = named["uri"]
        if target is None:
            raise Invalid(
                'format("headwater") does not know the catalog: start Spark with the setting '
                f"{SETTINGS}uri or the environment variable {_VARIABLES['uri']}, pass the option "
                "uri, or call headwater.spark.connect"
            )
        return Connection(
            target,
            named["warehouse"],
            named["token"],
            named["location"],
            {
                name: value
                for name, value in settings.items()
                if name not in (*_VARIABLES, _BITMAPS)
            },
            os.cpu_count() or 1,
        )

    def for_stream(self) -> Connection:
        """The same for a streaming query, which outlasts a restart of the server."""
        return replace(self, patience=STREAM_PATIENCE)

    def open(self) -> Lake:
        """Reach the catalog."""
        # Tasks unpickle connections but never open them, and do without the clients' modules.
        from headwater.client import connect
        from headwater.client.transport import Timeouts

        lake = connect(
            self.target,
            warehouse=self.warehouse,
            token=self.token,
            location=self.location,
            options=self.storage or None,
            timeouts=Timeouts(outage=self.patience),
        )
        return lake if self.patience is None else patient_lake(lake, self.patience)


def patient_lake(lake: Lake, seconds: float) -> Lake:
    """The same lake, whose requests wait longer for a catalog that cannot be reached."""
    from headwater.client import Lake

    return Lake(lake.catalog.patient(seconds), lake.runtime)


def bitmap_cache_size(settings: Mapping[str, str]) -> int:
    """The bytes that a session keeps of bitmaps of live rows; 0 for none.

    Args:
        settings: The settings, without their prefix.

    Raises:
        Invalid: The setting is not a size.
    """
    return parse_bytes(settings.get(_BITMAPS, _BITMAP_BYTES), f"{SETTINGS}{_BITMAPS}")


def refuse_other_settings(settings: Mapping[str, str]) -> None:
    """Refuse a setting ``spark.headwater.…`` that nothing reads.

    Args:
        settings: The settings, without their prefix.

    Raises:
        Invalid: The message names the setting.
    """
    bitmap_cache_size(settings)
    others = [name for name in settings if name not in _OWN]
    if not others:
        return
    from headwater.catalog.model.data_token import STORAGE_OPTIONS
    from headwater.client.requests import DATA_TOKENS, HEADER_PREFIX, TABLE_DEFAULT_PREFIX

    known = [*_OWN, *STORAGE_OPTIONS, DATA_TOKENS]
    for name in others:
        if name in known or name.startswith((HEADER_PREFIX, TABLE_DEFAULT_PREFIX)):
            continue
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {SETTINGS}{near[0]}? " if near else ""
        raise Invalid(
            f"Headwater has no setting {SETTINGS}{name}: {hint}Known are "
            f"{', '.join(SETTINGS + each for each in _OWN)}, "
            f"{SETTINGS}{HEADER_PREFIX}…, "
            f"{SETTINGS}{TABLE_DEFAULT_PREFIX}… and options of file access such as "
            f"{SETTINGS}s3.endpoint"
        )
