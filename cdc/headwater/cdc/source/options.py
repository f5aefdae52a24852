"""Options that all kinds of sources have, read in one way."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from headwater.storage.errors import Invalid

__all__ = ["SourceUrl", "parse_choices", "parse_url", "read_url", "url_options"]

_Choice = TypeVar("_Choice", bound=StrEnum)
_Encryption = TypeVar("_Encryption")


@dataclass(frozen=True)
class SourceUrl(Generic[_Encryption]):
    """What the URL of a source says.

    Attributes:
        host, port, user, password: As in the URL.
        database: The database; empty without one.
        encryption: What its options say.
    """

    host: str
    port: int
    user: str
    password: str
    database: str
    encryption: _Encryption


def read_url(text: str, subject: str, form: str) -> URL:
    """Read a URL.

    Args:
        text: The URL.
        subject: What it is called in messages, which may not have its password.
        form: How such a URL is written.

    Raises:
        Invalid: It is not a URL.
    """
    try:
        return make_url(text)
    except ArgumentError:
        raise Invalid(f"{subject} is not a URL; write {form}") from None
    except ValueError:
        # Its message may have a part of the password.
        raise Invalid(
            f"{subject} is not a URL: its port is not a number, or its password has characters "
            f"that a URL has otherwise, as '@' is %40, ':' is %3A and '/' is %2F; write {form}"
        ) from None


def parse_url(
    text: str,
    password: str | None,
    *,
    form: str,
    schemes: Mapping[str, int],
    kind: str,
    encryption: Callable[[Mapping[str, str | tuple[str, ...]]], _Encryption],
    database_problem: Callable[[str | None], str | None],
) -> SourceUrl[_Encryption]:
    """Read the URL of a source.

    Args:
        text: The URL.
        password: The password, where the URL does not have it.
        form: How such a URL is written.
        schemes: Its schemes, with the port that is meant without one.
        kind: What the schemes are of.
        encryption: Reads the URL's options; Invalid.
        database_problem: What is wrong with the database; None if nothing is.

    Raises:
        Invalid: It is not such a URL.
    """
    url = read_url(text, f"source '{_hidden(text)}'", form)
    if url.drivername not in schemes:
        raise Invalid(f"source '{_hidden(text)}': '{url.drivername}' is not {kind}")
    problem = _problem(url, password) or database_problem(url.database)
    options: _Encryption | None = None
    try:
        options = encryption(url.query)
    except Invalid as error:
        problem = problem or error.message
    if problem is not None or options is None or not url.host or not url.username:
        raise Invalid(f"source '{_hidden(text)}': {problem}; write {form}")
    known = password or (url.password if isinstance(url.password, str) else "")
    port = url.port or schemes[url.drivername]
    return SourceUrl(url.host, port, url.username, known, url.database or "", options)


def _problem(url: URL, password: str | None) -> str | None:
    if not url.host:
        return "the host is missing"
    if not url.username:
        return "the user is missing"
    if url.port is not None and not 0 < url.port < 1 << 16:
        return f"the port is {url.port}, and not between 1 and 65535"
    return "the password is given twice" if url.password and password else None


def _hidden(text: str) -> str:
    """A URL without its password, however malformed it is."""
    return re.sub(r"(//[^:/@]*):.*@", r"\1@", text, flags=re.DOTALL)


def parse_choices(text: str, choices: type[_Choice]) -> frozenset[_Choice]:
    """Read the option ``type_mapping``, names with commas between them; Invalid.

    Args:
        text: The names.
        choices: Those that the kind of source has.
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    known = {choice.value: choice for choice in choices}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Invalid(
            f"type_mapping '{unknown[0]}' is not known; the names are {', '.join(sorted(known))}"
        )
    return frozenset(known[name] for name in names)


def url_options(
    options: Mapping[str, str | tuple[str, ...]], known: Collection[str]
) -> Mapping[str, str]:
    """The options of a URL, each of which it has once.

    Args:
        options: The options; one that the URL has twice has several values.
        known: The names that there are.

    Raises:
        Invalid: An option is not known, or is there twice.
    """
    texts: dict[str, str] = {}
    for name, value in options.items():
        if name not in known:
            raise Invalid(f"the option '{name}' is not known")
        if not isinstance(value, str):
            raise Invalid(f"the option '{name}' is there twice")
        texts[name] = value
    return texts
