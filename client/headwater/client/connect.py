"""One call to reach a catalog, wherever it is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.catalog.model.data_token import check_storage_options
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.table_storage import DEFAULT_TIMEOUT_MILLIS

if TYPE_CHECKING:
    from headwater.catalog.sql import SqlCatalog
    from headwater.client.transport import Timeouts

__all__ = ["DATABASE_FILE", "WAREHOUSE_FOLDER", "connect", "database_of"]

DATABASE_FILE = "headwater.db"
"""The database's file in the folder of an embedded catalog."""

WAREHOUSE_FOLDER = "warehouse"
"""The folder of an embedded catalog's tables, beside its database."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def connect(
    target: str | os.PathLike[str],
    *,
    warehouse: str | None = None,
    token: str | None = None,
    location: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    timeouts: Timeouts | None = None,
    runtime: Runtime = SYSTEM_RUNTIME,
) -> Lake:
    """Reach a catalog, and find out at once if that does not work.

    Args:
        target: One of

            - a folder: an embedded catalog, with its database (`DATABASE_FILE`) and its tables
              (`WAREHOUSE_FOLDER`) in it, made if it is not there;
            - a SQL database's URL, such as ``sqlite:///catalog.db`` or
              ``postgresql+psycopg://user@host/name``: the same with a database of your own; the
              tables lie at `location`;
            - a server's address, ``http://…`` or ``https://…``.
        warehouse: The warehouse's name. An embedded catalog's is ``main`` unless given; a server
            with one warehouse needs none.
        token: The server's bearer token.
        location: With a SQL URL, where the warehouse's tables lie: a folder or an ``s3://`` URI.
        options: Options of file access, such as ``s3.endpoint`` and ``s3.access-key``; with a
            server also ``header.*`` (request headers) and ``table-default.*`` (options of tables
            created).
        timeouts: The timeouts for a server.
        runtime: Clock and names.

    Raises:
        Forbidden: The server does not know the token.
        Invalid: The target or the arguments contradict each other, or the database needs an
            upgrade.
        NotFound: The server has no such warehouse.
        Unavailable: The server or the database cannot be reached.
    """
    text = os.fspath(target)
    scheme = _URL.match(text)
    _check_options(text, options or {})
    match scheme[1].lower() if scheme else "":
        case "http" | "https":
            _refuse(text, location=location)
            # Here and in `_embedded`: a process needs one kind of catalog, and to import both
            # takes longer than most of what it asks of either.
            from headwater.client.rest import RestCatalog

            rest = RestCatalog(
                text,
                warehouse=warehouse,
                token=token,
                options=options,
                timeouts=timeouts,
                runtime=runtime,
            )
            rest.connect()
            if timeouts is None or timeouts.outage is None:
                rest = rest.patient(DEFAULT_TIMEOUT_MILLIS / 1000)
            return Lake(rest, rest.runtime)
        case "" | "file":
            _refuse(text, token=token)
            database, place = database_of(text, location)
            catalog = _embedded(database, warehouse, place, options, runtime)
            return Lake(catalog, catalog.runtime)
        case "s3" | "s3a":
            raise Invalid(
                f"{text} can hold tables, but a catalog needs a database: "
                f"connect('sqlite:///catalog.db', location='{text}')"
            )
    # Not the URL: it may hold a password.
    _refuse("a SQL database", token=token)
    database, place = database_of(text, location)
    catalog = _embedded(database, warehouse, place, options, runtime)
    return Lake(catalog, catalog.runtime)


def database_of(target: str, location: str | os.PathLike[str] | None) -> tuple[str, str]:
    """The URL of an embedded catalog's database and its warehouse's location; raises Invalid."""
    scheme = _URL.match(target)
    if scheme is None or scheme[1].lower() == "file":
        _refuse(target, location=location)
        return _folder(target)
    if location is None:
        raise Invalid(
            "a SQL database needs location=, the folder or URI where the warehouse's tables lie"
        )
    return target, os.fspath(location)


def _check_options(target: str, options: Mapping[str, str]) -> None:
    if not target.lower().startswith(("http://", "https://")):
        check_storage_options(options, "the catalog")
        return
    from headwater.client.requests import DATA_TOKENS, HEADER_PREFIX, TABLE_DEFAULT_PREFIX

    prefixes = (HEADER_PREFIX, TABLE_DEFAULT_PREFIX)
    check_storage_options(options, "the catalog", also=(DATA_TOKENS,), prefixes=prefixes)


def _refuse(target: str, **arguments: object) -> None:
    given = sorted(name for name, value in arguments.items() if value is not None)
    if given:
        raise Invalid(f"{' and '.join(f'{name}=' for name in given)} cannot be used with {target}")


def _folder(text: str) -> tuple[str, str]:
    path = Path(text.removeprefix("file://")).expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise Invalid(f"{path} is a file; an embedded catalog is a folder") from None
    except OSError as error:
        raise Unavailable(f"cannot make the folder {path}: {error.strerror}") from error
    return f"sqlite:///{path / DATABASE_FILE}", str(path / WAREHOUSE_FOLDER)


def _embedded(
    database_url: str,
    warehouse: str | None,
    location: str,
    options: Mapping[str, str] | None,
    runtime: Runtime,
) -> SqlCatalog:
    from headwater.catalog.sql import SqlCatalog
    from headwater.migrations import upgrade

    if database_url.startswith("sqlite"):
        upgrade(database_url)
    return SqlCatalog.open(
        database_url,
        warehouse="main" if warehouse is None else warehouse,
        location=location,
        storage_options=options,
        runtime=runtime,
        create=True,
    )
