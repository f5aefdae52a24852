"""The settings of traces: ``HEADWATER_TRACES_…`` variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from headwater.storage.errors import Invalid, Unsupported

__all__ = ["TraceSettings", "load_trace_settings"]

_PREFIX = "HEADWATER_TRACES_"
# A name that is nearly the prefix's is meant for it, too.
_BEGINNING = "HEADWATER_TRAC"
_PATH = "/v1/traces"
_DISABLED = "OTEL_SDK_DISABLED"


class TraceSettings(BaseSettings):
    """The settings of traces; they are off without an endpoint.

    Attributes:
        endpoint: The collector that spans are sent to by OTLP over HTTP, such as
            ``http://collector:4318/v1/traces``; without a path, that one is meant.
        sample_ratio: The share of traces that are recorded where a caller has not decided, from 0
            to 1.
        headers: Sent with each request to the endpoint, credentials among them. As a variable: a
            JSON object.
        service_name: The service's name in traces.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="forbid")

    endpoint: str | None = None
    sample_ratio: float = Field(default=1.0, ge=0, le=1)
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    service_name: str = Field(default="headwater", min_length=1)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        given = sorted(self.model_fields_set - {"endpoint"})
        if self.endpoint is None:
            if given:
                raise ValueError(
                    f"{_PREFIX}{given[0].upper()} is set, but traces are off; give "
                    f"{_PREFIX}ENDPOINT, too"
                )
            return self
        try:
            parts = urlsplit(self.endpoint)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            is_address = False
        if not is_address or parts.username is not None or parts.query or parts.fragment:
            raise ValueError(
                f"{_PREFIX}ENDPOINT is not the address of a collector; write it as "
                f"http://collector:4318{_PATH}, and credentials into {_PREFIX}HEADERS"
            )
        return self

    @property
    def address(self) -> str | None:
        """The endpoint with its path."""
        if self.endpoint is None or urlsplit(self.endpoint).path.strip("/"):
            return self.endpoint
        return self.endpoint.rstrip("/") + _PATH

    def plain_headers(self) -> dict[str, str]:
        """The headers with their secrets; never log them."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}


def load_trace_settings(values: Mapping[str, object] | None = None) -> TraceSettings:
    """The settings: `values` first, then the environment, then the defaults.

    Raises:
        Invalid: A value is wrong, two contradict each other, or a variable has no meaning; the
            message is one sentence.
        Unsupported: Traces are on, and OpenTelemetry is not installed.
    """
    known = {f"{_PREFIX}{name.upper()}" for name in TraceSettings.model_fields}
    unknown = sorted(
        name for name in os.environ if name.upper().startswith(_BEGINNING) and name not in known
    )
    if unknown:
        raise Invalid(f"{unknown[0]} is no setting of traces; there are {', '.join(sorted(known))}")
    try:
        settings = TraceSettings(**(values or {}))  # type: ignore[arg-type]  # it is validated
    except SettingsError as error:
        raise Invalid(f"the settings of traces cannot be read: {error}") from error
    except ValidationError as error:
        # Not chained: pydantic's own text quotes the input, credentials included.
        raise Invalid(
            "; ".join(_sentence(item["loc"], item["msg"]) for item in error.errors())
        ) from None
    if settings.endpoint is None:
        return settings
    if os.environ.get(_DISABLED, "").strip().lower() == "true":
        raise Invalid(f"{_PREFIX}ENDPOINT is set, but {_DISABLED} switches traces off; unset one")
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise Unsupported("traces need OpenTelemetry: pip install 'headwater[tracing]'")
    return settings


def _sentence(location: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    if not location:
        return message
    return f"setting '{_PREFIX}{str(location[0]).upper()}': {message}"
