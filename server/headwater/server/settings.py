"""The server's settings: frozen, typed, and checked as a whole before anything starts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from headwater.catalog.model.data_token import check_storage_options
from headwater.catalog.sql.admin.sealed_options import KEYS, KEYS_FILE, OptionKeys, option_keys
from headwater.server.audited_reads import AuditedReads
from headwater.server.connections import ConnectionLimits
from headwater.server.endpoint import origin
from headwater.server.sts import LONGEST_SECONDS
from headwater.storage.errors import Invalid
from headwater.storage.files.location import absolute_location
from headwater.storage.options import parse_bytes, parse_duration

__all__ = [
    "SIGNING_ALGORITHMS",
    "ServerSettings",
    "is_loopback",
    "is_safe_address",
    "load_settings",
]

SIGNING_ALGORITHMS = frozenset(
    {f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)}
    | {"EdDSA", "Ed25519"}
)
"""The algorithms of tokens that may be allowed: those that need the issuer's private key."""

_WAREHOUSE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return timedelta(milliseconds=parse_duration(value))
    except Invalid:
        raise ValueError(
            f"'{value}' is not a duration; write one as 30 s, 5 min, 12 h or 7 d"
        ) from None
    except OverflowError:
        raise ValueError(f"'{value}' is too long") from None


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta(0):
        raise ValueError("a duration cannot be negative")
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("the duration must be longer than nothing")
    return value


def _bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_bytes(value)
    except Invalid:
        raise ValueError(f"'{value}' is not a size; write one as 64 kb or 16 mb") from None


Duration = Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_not_negative)]
TimeLimit = Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_positive)]
Size = Annotated[int, BeforeValidator(_bytes)]


class ServerSettings(BaseSettings):
    """The settings of ``headwater serve``, from arguments or ``HEADWATER_…`` variables.

    Attributes:
        host: The address to listen on. Without a token it must be a loopback address.
        port: The port to listen on; 0 takes a free one.
        database_url: The catalog's database: ``sqlite:///file.db`` or
            ``postgresql://user:password@host/name``.
        database_connections: The most connections to a PostgreSQL, MariaDB or MySQL server that are
            open at a time.
        database_wait_seconds: The longest time a request waits for one while all are in use, before
            it is answered 503.
        database_lock_timeout: The longest time a transaction waits for another's locks.
        database_idle_timeout: The longest time a transaction may be idle before the database ends
            it and releases its locks; on MySQL, any connection.
        database_statement_timeout: The longest time the database works on one statement; on MySQL,
            on one query.
        warehouses: Each warehouse's name and where its files lie: a folder or an ``s3://`` URI.
            As a variable: ``main=./warehouse,other=s3://bucket/path``; empty for only those in the
            database.
        external_locations: Locations where the server reads and writes the schema files of external
            tables, with its own rights. As a variable: absolute paths and URIs with commas between.
        tokens: Bearer tokens, any of which lets a caller in. As a variable: one, or several with
            commas between (``HEADWATER_TOKEN`` or ``HEADWATER_TOKENS``).
        management_tokens: Bearer tokens that let a caller use the management API, too, beside
            those of ``headwater token create --scope manage``. As a variable: as for `tokens`
            (``HEADWATER_MANAGEMENT_TOKEN`` or ``HEADWATER_MANAGEMENT_TOKENS``).
        allowed_locations: The places in which a warehouse may be added over HTTP: the server works
            there with its own rights. As a variable: absolute paths and URIs with commas between.
        allowed_endpoints: The object stores that such a warehouse may name as its endpoint, beside
            the one of `storage_options`: the server's own credentials may be sent there. As a
            variable: URLs such as ``https://minio:9000`` with commas between.
        trusted_proxies: The reverse proxies whose ``X-Forwarded-For`` says where a request comes
            from. As a variable: addresses and networks with commas between.
        require_token: Let nobody in without a token, although `tokens` names none: those made with
            ``headwater token create`` count.
        enforce_permissions: Let callers do only what was granted to them, unless their token is for
            administration.
        oidc_issuer: The URL of an OpenID Connect issuer whose access tokens let callers in, as the
            tokens name it.
        oidc_audience: The audience that such a token must be for.
        oidc_algorithms: The algorithms that it may be signed with, only such as need the issuer's
            private key. As a variable: with commas between.
        oidc_principal_claim: The claim with the name of the principal.
        oidc_groups_claim: The claim with the groups of the principal, beside those that the catalog
            keeps.
        oidc_clock_skew: The difference between the issuer's clock and the server's that is borne.
        oidc_administrators: The principals, and groups as ``group:NAME``, that administer and
            manage. As a variable: with commas between.
        workers: The number of processes that answer requests; each has its own connections to the
            database.
        undrop_retention: How long dropped tables can be restored, such as ``7 d``;
            0 deletes them at once.
        event_file: A file that events of the change feed are appended to; None for none.
        event_webhook: A URL that they are posted to; None for none.
        event_webhook_secret: The key by which those requests are signed.
        event_webhook_batch: The most events of such a request; 1 posts each by itself.
        event_source: The CloudEvents attribute ``source`` of events that are delivered.
        audit_reads: The reads that leave events in the change feed: ``none``, ``data`` or
            ``tables``.
        history_retention: How long the database keeps a snapshot at the least, though it
            expired, such as ``30 d``.
        event_retention: How long events of the change feed are kept, such as ``90 d``.
        sweep_interval: The interval of the sweep, which repairs what a crash left half done and
            deletes what has expired, such as ``1 min``; 0 means never.
        shutdown_timeout: The longest time that running requests may take once the server is told to
            stop, such as ``30 s``.
        max_body_size: The largest request body that is read, such as ``16 mb``.
        max_header_size: The largest head of a request, its URL and headers together, such as
            ``64 kb``.
        header_timeout: The longest time a client may take to send the head of a request, and may
            pause in the body.
        request_timeout: The longest time that answering a request may take, from the end of its
            body on; a longer one is answered 503, or 500 where it may have changed something.
        warehouse_threads: The most threads of each server process that requests about one warehouse
            have at a time, so that others go on when its storage hangs.
        warehouse_wait: The longest time a request waits for one of them, before it is answered 503.
        idle_timeout: The longest time a connection is kept open between two requests.
        max_connections: The most connections that each server process keeps open.
        max_connections_per_client: The most of them that may come from one address.
        max_requests_per_second: The most requests of one principal, or of one address where there
            has none, that each server process answers in a second, in the long run: ten seconds'
            worth may come at once. 0 does not limit them.
        log_format: ``json`` or ``text``.
        log_level: The least level that is logged.
        storage_options: Options for the server's own file access, such as ``s3.endpoint`` and
            ``s3.access-key``. As a variable: a JSON object.
        data_token_seconds: Give credentials of this lifetime for one table's files to clients that
            ask for its data token, from the store's security token service; None gives none.
            Clients ask again an hour before the end, so it is more than that.
        signed_request_seconds: Sign requests to the files of tables for clients, good for so many
            seconds, where a warehouse's store has no security token service; None signs none.
        read_concurrency: The most reads that each server process does at a time for callers who
            are not shown all of a table.
        read_batch_rows: The rows of a batch that it reads for them: with `read_concurrency` a bound
            of its memory.
        read_wait: The longest time that a read waits for its turn, before it is answered 503.
        secret_keys: The keys by which the storage options of the database's warehouses are
            encrypted; see `headwater.catalog.sql.admin.sealed_options`.
        secret_keys_file: A file with them instead.
        temporary_key_lifetime: The longest time that a temporary key is good; 0 gives out none, and
            ends those that were.
        client_options: Options that ``/v1/config`` adds to every client's, credentials included if
            they are put here. As a variable: a JSON object.
    """

    model_config = SettingsConfigDict(
        env_prefix="HEADWATER_", frozen=True, extra="forbid", populate_by_name=True
    )

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    database_url: SecretStr = SecretStr("sqlite:///headwater.db")
    database_connections: int = Field(default=30, ge=1, le=10_000)
    database_wait_seconds: float = Field(default=10.0, gt=0, le=600)
    database_lock_timeout: TimeLimit = timedelta(seconds=10)
    database_idle_timeout: TimeLimit = timedelta(seconds=5)
    database_statement_timeout: TimeLimit = timedelta(minutes=1)
    warehouses: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=lambda: {"main": "./warehouse"},
        validation_alias=AliasChoices("HEADWATER_WAREHOUSES", "HEADWATER_WAREHOUSE"),
    )
    external_locations: Annotated[tuple[str, ...], NoDecode] = ()
    tokens: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(), validation_alias=AliasChoices("HEADWATER_TOKENS", "HEADWATER_TOKEN")
    )
    management_tokens: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(),
        validation_alias=AliasChoices("HEADWATER_MANAGEMENT_TOKENS", "HEADWATER_MANAGEMENT_TOKEN"),
    )
    allowed_locations: Annotated[tuple[str, ...], NoDecode] = ()
    allowed_endpoints: Annotated[tuple[str, ...], NoDecode] = ()
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    require_token: bool = False
    enforce_permissions: bool = True
    oidc_issuer: str | None = None
    oidc_audience: str | None = None
    oidc_algorithms: Annotated[tuple[str, ...], NoDecode] = ("RS256", "ES256", "PS256", "Ed25519")
    oidc_principal_claim: str = Field(default="sub", min_length=1)
    oidc_groups_claim: str = Field(default="groups", min_length=1)
    oidc_clock_skew: Duration = Field(default=timedelta(seconds=30), le=timedelta(minutes=10))
    oidc_administrators: Annotated[tuple[str, ...], NoDecode] = ()
    workers: int = Field(default=1, ge=1, le=256)
    undrop_retention: Duration = timedelta(days=7)
    event_file: Path | None = None
    event_webhook: SecretStr | None = None
    event_webhook_secret: SecretStr | None = None
    event_webhook_batch: int = Field(default=1, ge=1, le=100)
    event_source: str = Field(default="/headwater", pattern=r"^[!-~]{1,200}$")
    audit_reads: AuditedReads = AuditedReads.NONE
    history_retention: TimeLimit = timedelta(days=30)
    event_retention: TimeLimit = timedelta(days=90)
    sweep_interval: Duration = timedelta(minutes=1)
    shutdown_timeout: Duration = timedelta(seconds=30)
    max_body_size: Size = Field(default=16 * 1024 * 1024, ge=1024, le=2**31)
    max_header_size: Size = Field(default=64 * 1024, ge=1024, le=16 * 1024 * 1024)
    header_timeout: TimeLimit = timedelta(seconds=10)
    request_timeout: TimeLimit = timedelta(minutes=2)
    warehouse_threads: int = Field(default=20, ge=1, le=1000)
    warehouse_wait: TimeLimit = timedelta(seconds=30)
    idle_timeout: TimeLimit = timedelta(seconds=75)
    max_connections: int = Field(default=1000, ge=1, le=100_000)
    max_connections_per_client: int = Field(default=250, ge=1, le=100_000)
    max_requests_per_second: float = Field(default=1000.0, ge=0, le=1_000_000)
    log_format: Literal["json", "text"] = "json"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    storage_options: dict[str, SecretStr] = Field(default_factory=dict)
    data_token_seconds: int | None = Field(default=None, gt=3600, le=366 * 24 * 3600)
    signed_request_seconds: int | None = Field(default=None, ge=60, le=3600)
    read_concurrency: int = Field(default=4, ge=1, le=1000)
    read_batch_rows: int = Field(default=16_384, ge=1, le=1_048_576)
    read_wait: TimeLimit = timedelta(minutes=1)
    secret_keys: SecretStr = SecretStr("")
    secret_keys_file: str = ""
    temporary_key_lifetime: Duration = Field(default=timedelta(hours=12), le=timedelta(days=7))
    client_options: dict[str, SecretStr] = Field(default_factory=dict)

    @field_validator("warehouses", mode="before")
    @classmethod
    def _named_locations(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [item.strip().partition("=") for item in value.split(",") if item.strip()]
        if not all(name and separator and location for name, separator, location in pairs):
            raise ValueError("write a warehouse as NAME=LOCATION, such as main=./warehouse")
        if len({name for name, _, _ in pairs}) < len(pairs):
            raise ValueError("a warehouse is named twice")
        return {name.strip(): location.strip() for name, _, location in pairs}

    @field_validator("tokens", "management_tokens", mode="before")
    @classmethod
    def _several_tokens(cls, value: object) -> object:
        return [item.strip() for item in value.split(",")] if isinstance(value, str) else value

    @field_validator(
        "external_locations",
        "allowed_locations",
        "allowed_endpoints",
        "trusted_proxies",
        "oidc_algorithms",
        "oidc_administrators",
        mode="before",
    )
    @classmethod
    def _several_locations(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return [item.strip() for item in value.split(",") if item.strip()]

    @field_validator("external_locations", "allowed_locations")
    @classmethod
    def _lead_somewhere(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            try:
                absolute_location(item)
            except Invalid as error:
                raise ValueError(
                    f"{error.message}; write locations with commas between them, as in "
                    "/lakes,s3://bucket/lakes"
                ) from None
        return value

    @field_validator("allowed_endpoints")
    @classmethod
    def _are_endpoints(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, item in enumerate(value, 1):
            try:
                origin(item)
            except Invalid as error:
                # It may hold credentials, so it is not quoted.
                raise ValueError(
                    f"entry {number}: {error.message}; write endpoints with commas between them"
                ) from None
        return value

    @field_validator("storage_options")
    @classmethod
    def _are_known(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        try:
            check_storage_options(value, "the server's own file access")
        except Invalid as error:
            raise ValueError(error.message) from None
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            try:
                ipaddress.ip_network(item)
            except ValueError as error:
                raise ValueError(f"{error}; write 10.0.0.7 or 10.0.0.0/24") from None
        return value

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for name in self.warehouses:
            if not _WAREHOUSE_NAME.fullmatch(name):
                raise ValueError(
                    f"'{name}' is not a warehouse name: use letters, digits, dots, dashes and "
                    "underscores, a letter or digit first"
                )
        seconds = self.data_token_seconds
        if seconds is not None and seconds > LONGEST_SECONDS:
            raise ValueError(
                f"setting 'data_token_seconds': a store's security token service gives credentials "
                f"for {LONGEST_SECONDS} s at most, not for {seconds} s"
            )
        tokens = [token.get_secret_value() for token in (*self.tokens, *self.management_tokens)]
        if any(not token.strip() for token in tokens):
            raise ValueError("a token is empty; leave it out or give it a value")
        if any(not token.isascii() for token in tokens):
            raise ValueError("a token must be ASCII, because it travels in an HTTP header")
        self._check_oidc()
        self._check_webhook()
        if not self.needs_token and not is_loopback(self.host):
            raise ValueError(
                f"without a token only this machine is served, but the host is '{self.host}'; "
                "give a token, require those of 'headwater token create' (--require-token), or "
                "listen on 127.0.0.1"
            )
        return self

    def _check_webhook(self) -> None:
        secret = self.event_webhook_secret
        if secret is not None and not secret.get_secret_value():
            raise ValueError("event_webhook_secret is empty; leave it out or give it a value")
        if self.event_webhook is None:
            if secret is not None:
                raise ValueError("event_webhook_secret needs an event_webhook")
            return
        # It is not repeated here: a part of it may be secret.
        address, _, _ = self.event_webhook.get_secret_value().partition("?")
        if not is_safe_address(address):
            raise ValueError(
                "event_webhook is not an https URL without a user and a fragment; http is for a "
                "receiver on this machine"
            )

    def _check_oidc(self) -> None:
        if self.oidc_issuer is None:
            if self.oidc_audience is not None or self.oidc_administrators:
                raise ValueError("oidc_audience and oidc_administrators need an oidc_issuer")
            return
        if not is_safe_address(self.oidc_issuer):
            raise ValueError(
                f"oidc_issuer '{self.oidc_issuer}' is not the https URL of an issuer; http is for "
                "one on this machine"
            )
        if not self.oidc_audience:
            raise ValueError(
                "oidc_issuer needs an oidc_audience: tokens for other services must not open this"
            )
        unsafe = sorted(set(self.oidc_algorithms) - SIGNING_ALGORITHMS)
        if unsafe or not self.oidc_algorithms:
            raise ValueError(
                f"oidc_algorithms: {', '.join(unsafe) or 'none'} cannot be allowed, but "
                f"{', '.join(sorted(SIGNING_ALGORITHMS))}"
            )

    @property
    def needs_token(self) -> bool:
        """Whether a caller must have a token."""
        has_tokens = bool(self.tokens) or bool(self.management_tokens)
        return self.require_token or has_tokens or self.oidc_issuer is not None

    @property
    def undrop_millis(self) -> int:
        """`undrop_retention` in milliseconds."""
        return self.undrop_retention // timedelta(milliseconds=1)

    @property
    def history_millis(self) -> int:
        """`history_retention` in milliseconds."""
        return self.history_retention // timedelta(milliseconds=1)

    @property
    def event_retention_millis(self) -> int:
        """`event_retention` in milliseconds."""
        return self.event_retention // timedelta(milliseconds=1)

    @property
    def connection_limits(self) -> ConnectionLimits:
        """The limits of each server process's connections."""
        return ConnectionLimits(
            self.max_connections,
            self.max_connections_per_client,
            self.max_header_size,
            self.header_timeout.total_seconds(),
            self.idle_timeout.total_seconds(),
        )

    def option_keys(self) -> OptionKeys:
        """The keys of warehouses' options and access keys' secrets; raises Invalid."""
        return option_keys(
            {KEYS: self.secret_keys.get_secret_value(), KEYS_FILE: self.secret_keys_file}
        )

    def plain_storage_options(self) -> dict[str, str]:
        """The storage options with their secrets; never log them."""
        return {key: value.get_secret_value() for key, value in self.storage_options.items()}

    def plain_client_options(self) -> dict[str, str]:
        """The client options with their secrets; never log them."""
        return {key: value.get_secret_value() for key, value in self.client_options.items()}


def load_settings(values: Mapping[str, object] | None = None) -> ServerSettings:
    """The settings: `values` first, then the environment, then the defaults.

    Raises:
        Invalid: A value is wrong, or two contradict each other; the message is one sentence.
    """
    try:
        return ServerSettings(**(values or {}))  # type: ignore[arg-type]  # the validation is the check
    except SettingsError as error:
        raise Invalid(f"the settings cannot be read: {error}") from error
    except ValidationError as error:
        # Not chained: pydantic's own text quotes the input, tokens included.
        sentences = [_sentence(item["loc"], item["msg"]) for item in error.errors()]
        raise Invalid("; ".join(sentences)) from None


def _sentence(location: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    if not location:
        return message
    return f"setting '{'.'.join(str(part) for part in location)}': {message}"


def is_safe_address(address: str) -> bool:
    """Whether nobody on the way can answer in a URL's place: https, or this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return False
    if not host or parts.query or parts.fragment or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    name = host.strip().strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
