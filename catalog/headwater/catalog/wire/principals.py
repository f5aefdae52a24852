"""The JSON of ``/management/v1`` about tokens and groups. See `…catalog.wire`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from headwater.catalog.model.groups import Membership
from headwater.catalog.model.tokens import NewToken, TokenInfo
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import OwnRequest, Paged, WireModel

__all__ = [
    "AddMemberRequest",
    "CreateTokenRequest",
    "CreateTokenResponse",
    "ListMembershipsResponse",
    "ListTokensResponse",
    "MembershipModel",
    "TokenModel",
]

ScopeName: TypeAlias = Literal["read", "write", "administer", "manage"]
KindName: TypeAlias = Literal["bearer", "dlf"]

_TOKEN: dict[str, JsonValue] = {
    "name": "nightly-spark",
    "createdAt": 1767225600000,
    "expiresAt": 1775001600000,
    "scopes": ["write"],
    "warehouses": ["main"],
    "accessKeyId": None,
}
_MEMBERSHIP: dict[str, JsonValue] = {"group": "analysts", "principal": "ada"}


class TokenModel(WireModel):
    """A token without its secret.

    Attributes:
        name: The name of its holder.
        created_at: The time of its creation, milliseconds since the epoch.
        expires_at: The time at which it ends, milliseconds since the epoch; null means never.
        scopes: The kinds of request that it is good for.
        warehouses: The only warehouses that it is good for; null means all.
        access_key_id: The id that requests signed with it name; null for a bearer token.
    """

    model_config = example(_TOKEN)

    name: str
    created_at: int
    expires_at: int | None = None
    scopes: list[ScopeName]
    warehouses: list[str] | None = None
    access_key_id: str | None = None

    @staticmethod
    def of(info: TokenInfo) -> TokenModel:
        """The model of what the catalog knows."""
        return TokenModel(
            name=info.name,
            created_at=info.created_at,
            expires_at=info.expires_at,
            scopes=sorted(scope.value for scope in info.scopes),
            warehouses=None if info.warehouses is None else sorted(info.warehouses),
            access_key_id=info.access_key_id,
        )


class CreateTokenRequest(OwnRequest):
    """``POST …/tokens``.

    Attributes:
        name: The name of its holder.
        lifetime_millis: The time until it expires, milliseconds; null means never.
        scopes: The kinds of request that it shall be good for.
        warehouses: The only warehouses that it shall be good for; null means all.
        kind: The way in which it shall prove who calls: sent with each request, or, as an access
            key, by signing each.
    """

    model_config = example(
        {
            "name": "nightly-spark",
            "lifetimeMillis": 7776000000,
            "scopes": ["write"],
            "warehouses": ["main"],
            "kind": "bearer",
        }
    )

    name: str
    lifetime_millis: int | None = Field(default=None, gt=0)
    scopes: list[ScopeName] = Field(default=["write"], min_length=1)
    warehouses: list[str] | None = Field(default=None, min_length=1)
    kind: KindName = "bearer"


class CreateTokenResponse(TokenModel):
    """The new token.

    Attributes:
        created_at: The time of its creation, milliseconds since the epoch.
        expires_at: The time at which it ends, milliseconds since the epoch; null means never.
        scopes: The kinds of request that it is good for.
        warehouses: The only warehouses that it is good for; null means all.
        access_key_id: The id that requests signed with it name; null for a bearer token.
        secret: The token itself, or the secret of the access key, which is shown this once.
    """

    model_config = example({**_TOKEN, "secret": "hw_…"})

    secret: str = Field(repr=False)

    @staticmethod
    def made(token: NewToken) -> CreateTokenResponse:
        """The model of a token that was just made."""
        return CreateTokenResponse(**dict(TokenModel.of(token.info)), secret=token.secret)


class ListTokensResponse(WireModel):
    """``GET …/tokens``.

    Attributes:
        tokens: The tokens by name, those that expired included.
    """

    model_config = example({"tokens": [_TOKEN]})

    tokens: list[TokenModel]


class MembershipModel(WireModel):
    """A principal's belonging to a group."""

    model_config = example(_MEMBERSHIP)

    group: str
    principal: str

    @staticmethod
    def of(membership: Membership) -> MembershipModel:
        """The model of what the catalog knows."""
        return MembershipModel(group=membership.group, principal=membership.principal)


class ListMembershipsResponse(Paged):
    """A page of memberships.

    Attributes:
        memberships: Members of groups, by group and principal.
    """

    model_config = example({"memberships": [_MEMBERSHIP], "nextPageToken": None})

    memberships: list[MembershipModel]


class AddMemberRequest(OwnRequest):
    """``POST …/groups/{group}/members``."""

    model_config = example({"principal": "ada"})

    principal: str
