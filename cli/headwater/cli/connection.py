"""The connection of a command to a catalog: its options, and the lake that they open."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_type_hints

import typer

from headwater.storage.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from headwater.client import Lake

__all__ = [
    "DEFAULT_CATALOG",
    "DEFAULT_DATABASE",
    "Address",
    "DatabaseOption",
    "on_address",
    "on_lake",
]

DEFAULT_CATALOG = "http://127.0.0.1:8080"
"""The address of `headwater serve` by default."""

DEFAULT_DATABASE = "sqlite:///headwater.db"
"""The database of `headwater serve` by default."""

DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database-url",
        envvar="HEADWATER_DATABASE_URL",
        metavar="URL",
        help="The database, such as sqlite:///file.db, postgresql://user@host/name or "
        "mariadb://user@host/name.",
    ),
]
_PANEL = "The catalog"
_Catalog = Annotated[
    str,
    typer.Option(
        "--catalog",
        rich_help_panel=_PANEL,
        envvar="HEADWATER_CATALOG",
        metavar="ADDRESS",
        help="A server's URL, a SQL database's URL, or the folder of an embedded catalog.",
    ),
]
_Warehouse = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        rich_help_panel=_PANEL,
        envvar="HEADWATER_CATALOG_WAREHOUSE",
        metavar="NAME",
        help="The warehouse; needed only if the catalog has several.",
    ),
]
_Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        rich_help_panel=_PANEL,
        envvar="HEADWATER_CATALOG_TOKEN",
        metavar="TOKEN",
        help="The server's bearer token.",
    ),
]
_Location = Annotated[
    str | None,
    typer.Option(
        "--location",
        rich_help_panel=_PANEL,
        envvar="HEADWATER_CATALOG_LOCATION",
        metavar="LOCATION",
        help="With a SQL database's URL: the folder or URI of the tables.",
    ),
]


@dataclass(frozen=True)
class Address:
    """The options that say which catalog.

    Attributes:
        catalog: ``--catalog``.
        warehouse: ``--warehouse``.
        token: ``--token``.
        location: ``--location``.
    """

    catalog: str
    warehouse: str | None
    token: str | None
    location: str | None

    def open(self) -> Lake:
        """Reach the catalog.

        Raises:
            NotFound: The address is a folder or a file without a catalog; looking must not make
                one.
            Forbidden: The server wants a token, or another one.
        """
        return _open_lake(self.catalog, self.warehouse, self.token, self.location)


def on_lake(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command line command of a function whose first argument is a `Lake`.

    The command gets the options that say which lake, beside the arguments of its own. The lake is
    reached when the command first asks it for something: what is wrong with the arguments is said
    before that, if the command looks at them first.
    """

    def run(address: Address, **given: object) -> None:
        with ExitStack() as opened:
            lake = _UnopenedLake(lambda: opened.enter_context(address.open()))
            command(cast("Lake", lake), **given)

    return _with_address(command, run)


def on_address(command: Callable[..., None]) -> Callable[..., None]:
    """As `on_lake`, for a function whose first argument is an `Address`."""
    return _with_address(command, command)


def _with_address(command: Callable[..., None], run: Callable[..., None]) -> Callable[..., None]:
    """A function that takes the options of an address, and the arguments of a command."""
    # The lake's class is there for type checkers only: loading it takes a second.
    hints = get_type_hints(command, localns={"Lake": object}, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(item.replace(kind=keyword, annotation=hints[item.name]) for item in own),
        inspect.Parameter("catalog", keyword, default=DEFAULT_CATALOG, annotation=_Catalog),
        inspect.Parameter("warehouse", keyword, default=None, annotation=_Warehouse),
        inspect.Parameter("token", keyword, default=None, annotation=_Token),
        inspect.Parameter("location", keyword, default=None, annotation=_Location),
    ]

    @wraps(command)
    def taken(
        catalog: str,
        warehouse: str | None,
        token: str | None,
        location: str | None,
        **given: object,
    ) -> None:
        run(Address(catalog, warehouse, token, location), **given)

    taken.__annotations__ = {item.name: item.annotation for item in parameters} | {"return": None}
    # Typer reads the options from it.
    vars(taken)["__signature__"] = inspect.Signature(parameters)
    return taken


class _UnopenedLake:
    """A lake that is opened by the first look at it."""

    def __init__(self, open_lake: Callable[[], Lake]) -> None:
        self._open_lake = open_lake
        self._lake: Lake | None = None

    def __getattr__(self, name: str) -> object:
        if self._lake is None:
            self._lake = self._open_lake()
        return getattr(self._lake, name)


def _open_lake(
    catalog: str, warehouse: str | None, token: str | None, location: str | None
) -> Lake:
    """Connect as the options say.

    Raises:
        NotFound: The address is a folder or a file without a catalog; looking must not make one.
        Forbidden: The server wants a token, or another one.
    """
    # Here, because Arrow and Polars take a second to load, and most mistakes are found sooner.
    from headwater.catalog.sql.database.engine import database_exists
    from headwater.client import connect
    from headwater.client.connect import DATABASE_FILE

    folder = catalog.removeprefix("file://")
    if "://" not in folder and not Path(folder, DATABASE_FILE).expanduser().is_file():
        raise NotFound(f"the folder '{folder}' holds no catalog: it has no {DATABASE_FILE}")
    if catalog.startswith("sqlite") and not database_exists(catalog):
        raise NotFound(f"there is no file of {catalog}; 'headwater db upgrade' makes one")
    try:
        return connect(catalog, warehouse=warehouse, token=token, location=location)
    except Forbidden as error:
        if token is not None:
            raise
        raise Forbidden(f"{error.message}; here: --token or HEADWATER_CATALOG_TOKEN") from error
