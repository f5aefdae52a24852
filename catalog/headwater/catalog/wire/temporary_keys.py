"""The JSON of ``/management/v1/temporary-keys``. See `…catalog.wire`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import Field

from headwater.catalog.model.temporary_keys import TemporaryKey
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.principals import ScopeName
from headwater.catalog.wire.tables import OwnRequest, WireModel

__all__ = ["CreateTemporaryKeyRequest", "TemporaryKeyModel"]


class CreateTemporaryKeyRequest(OwnRequest):
    """``POST …/temporary-keys``.

    Attributes:
        lifetime_millis: The time until the key ends, unless the caller's credential ends sooner,
            milliseconds; null means the longest that this server gives.
        scopes: The kinds of request that it shall be good for, which the caller's credential must
            be good for; null means all of those but `manage`.
        warehouses: The only warehouses that it shall be good for, likewise; null means all of
            those.
    """

    model_config = example({"lifetimeMillis": 14400000, "scopes": ["read"], "warehouses": ["main"]})

    lifetime_millis: int | None = Field(default=None, gt=0)
    scopes: list[ScopeName] | None = Field(default=None, min_length=1)
    warehouses: list[str] | None = Field(default=None, min_length=1)


class TemporaryKeyModel(WireModel):
    """A temporary key, as Paimon's clients read it from the file of `dlf.token-path`.

    Attributes:
        access_key_id: The id that requests signed with it name.
        access_key_secret: The secret that they are signed with.
        security_token: The text that is sent and signed with each of them.
        expiration: The end, in UTC: yyyy-MM-ddTHH:mm:ssZ.
    """

    model_config = example(
        {
            "AccessKeyId": "6e2c1f0e-5b0c-4f6e-8d7e-0a4f1c3b2d19",
            "AccessKeySecret": "hw_…",
            "SecurityToken": "azE.…",
            "Expiration": "2026-04-01T00:00:00Z",
        }
    )

    access_key_id: str = Field(alias="AccessKeyId")
    access_key_secret: str = Field(alias="AccessKeySecret", repr=False)
    security_token: str = Field(alias="SecurityToken", repr=False)
    expiration: str = Field(alias="Expiration", pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")

    @staticmethod
    def of(key: TemporaryKey) -> TemporaryKeyModel:
        """The model of a key."""
        return TemporaryKeyModel.model_validate(key.document())

    def key(self) -> TemporaryKey:
        """The key."""
        end = datetime.strptime(self.expiration, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        millis = (end - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        return TemporaryKey(self.access_key_id, self.access_key_secret, self.security_token, millis)
