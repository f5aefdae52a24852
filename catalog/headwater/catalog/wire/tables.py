"""The JSON of the Paimon REST catalog, as models that the server and `RestCatalog` share.

Names on the wire are camelCase. Fields nobody here knows are ignored in requests and responses,
because clients and servers add some from release to release; a snapshot's JSON is the exception,
it is passed through untouched. Source: ``docs/static/rest-catalog-open-api.yaml`` and the classes
in ``org.apache.paimon.rest.requests`` and ``…responses``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from headwater.catalog.model.audit import Audited, AuditFields
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.wire.examples import AUDIT, ORDERS, SCHEMA, example
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import SchemaChange, schema_change_json
from headwater.storage.schema.table_schema import Schema, TableSchema, highest_field_id

__all__ = [
    "ERROR_KIND_HEADER",
    "TABLE_ID",
    "TABLE_ID_HEADER",
    "AlterTableRequest",
    "AuditedModel",
    "AuthTableQueryRequest",
    "AuthTableQueryResponse",
    "ConfigResponse",
    "CreateTableRequest",
    "Empty",
    "ErrorResponse",
    "GetTableResponse",
    "GetTableTokenResponse",
    "IdentifierModel",
    "JsonObject",
    "ListBranchesResponse",
    "ListTableDetailsResponse",
    "ListTablesGloballyResponse",
    "ListTablesResponse",
    "Listed",
    "OwnRequest",
    "Paged",
    "RegisterTableRequest",
    "RenameTableRequest",
    "ReplaceTableRequest",
    "WireModel",
    "audit_fields",
    "without_nulls",
]

_TABLE: dict[str, JsonValue] = {
    "id": "0b5e8d4c-6c1f-4f43-9a53-0a3f7e6f2a11",
    "database": "sales",
    "name": "orders",
    "path": "file:///lake/sales.db/orders",
    "isExternal": False,
    "schemaId": 0,
    "schema": SCHEMA,
    "highestFieldId": 2,
    "schemaTimeMillis": 1767225600000,
    **AUDIT,
}

T = TypeVar("T")

JsonObject: TypeAlias = dict[str, JsonValue]

ERROR_KIND_HEADER = "x-headwater-error"
"""The response header that names an error's class, because several share an HTTP status."""
TABLE_ID_HEADER = "x-headwater-table-id"
"""The request header with the id of the table that a name in the request means.

A server rejects the request if another table has that name.
"""
TABLE_ID = r"[0-9A-Za-z-]{1,64}"
"""The ids that this header can have."""


class WireModel(BaseModel):
    """Base of all of them: camelCase on the wire, unknown fields ignored, frozen.

    Fields without a value are sent as null, as Java sends them: pypaimon needs them present.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
    )


class OwnRequest(WireModel):
    """Base of requests that only Headwater has: an unknown field is refused.

    One that limits what is asked for, and is misspelt, would otherwise leave it without a limit.
    """

    model_config = ConfigDict(extra="forbid")


class Empty(WireModel):
    """An empty request or response, ``{}``."""

    model_config = example({})


class ErrorResponse(WireModel):
    """The body of every error.

    Attributes:
        message: The message: what was wrong, where, and what to do.
        resource_type: The kind of resource that the error is about; clients choose the exception by
            it.
        resource_name: The resource's name, such as a snapshot's id or a tag's name, not its
            table's.
        code: The HTTP status; clients go by this one.
    """

    model_config = example(
        {
            "message": "table sales.orders does not exist",
            "resourceType": "TABLE",
            "resourceName": "sales.orders",
            "code": 404,
        }
    )

    message: str
    resource_type: str | None = None
    resource_name: str | None = None
    code: int


class ConfigResponse(WireModel):
    """Options that a client merges with its own: defaults < its own < overrides."""

    model_config = example({"defaults": {}, "overrides": {"prefix": "main"}})

    defaults: dict[str, str | None] = Field(default_factory=dict)
    overrides: dict[str, str | None] = Field(default_factory=dict)

    def merge(self, own: Mapping[str, str]) -> dict[str, str]:
        """The client's options laid between defaults and overrides; null takes no part."""
        merged = {**self.defaults, **own, **self.overrides}
        return {key: value for key, value in merged.items() if value is not None}


class IdentifierModel(WireModel):
    """A table's name."""

    model_config = example(ORDERS)

    database: str
    object: str

    @staticmethod
    def of(identifier: Identifier) -> IdentifierModel:
        """The wire form."""
        return IdentifierModel(database=identifier.database, object=identifier.name)

    def identifier(self) -> Identifier:
        """The name."""
        return Identifier(self.database, self.object)

    def identifier_in(self, database: str) -> Identifier:
        """The name, which must be one of the database in the request's path; raises Invalid."""
        if self.database != database:
            raise Invalid(f"the path names database '{database}', the body '{self.database}'")
        return self.identifier()


class AuditedModel(WireModel):
    """The authors of a thing and of its last change; times are milliseconds since the epoch.

    Names that are not known are empty and never null: Paimon's Java client puts them into a table's
    options, where null does harm (``AuditRESTResponse.java``).
    """

    owner: str | None = ""
    created_at: int | None = 0
    created_by: str | None = ""
    updated_at: int | None = 0
    updated_by: str | None = ""

    def audit(self) -> AuditFields:
        """The owner and the authors, None where the wire has an empty name."""
        return AuditFields(
            owner=self.owner or None,
            created_at=self.created_at or 0,
            created_by=self.created_by or None,
            updated_at=self.updated_at or 0,
            updated_by=self.updated_by or None,
        )


def audit_fields(info: Audited) -> AuditFields:
    """The wire form of an owner and of authors."""
    return AuditFields(
        owner=info.owner or "",
        created_at=info.created_at,
        created_by=info.created_by or "",
        updated_at=info.updated_at,
        updated_by=info.updated_by or "",
    )


class CreateTableRequest(WireModel):
    """``POST …/tables``; the schema's own rules are checked by `Schema.from_json`."""

    model_config = example({"identifier": ORDERS, "schema": SCHEMA})

    identifier: IdentifierModel
    table_schema: JsonObject = Field(alias="schema")

    @staticmethod
    def of(identifier: Identifier, schema: Schema) -> CreateTableRequest:
        """The wire form."""
        return CreateTableRequest(
            identifier=IdentifierModel.of(identifier), schema=schema.to_json()
        )


class ReplaceTableRequest(WireModel):
    """``POST …/tables/{table}/replace``."""

    model_config = example({"schema": SCHEMA})

    table_schema: JsonObject = Field(alias="schema")

    @staticmethod
    def of(schema: Schema) -> ReplaceTableRequest:
        """The wire form."""
        return ReplaceTableRequest(schema=schema.to_json())


class RegisterTableRequest(WireModel):
    """``POST …/databases/{database}/register``; `path` is the table's directory."""

    model_config = example({"identifier": ORDERS, "path": "file:///lake/sales.db/orders"})

    identifier: IdentifierModel
    path: str


class AlterTableRequest(WireModel):
    """``POST …/tables/{table}``; each change is read by `schema_change_from_json`."""

    model_config = example(
        {
            "changes": [
                {"action": "addColumn", "fieldNames": ["note"], "dataType": "STRING"},
                {"action": "setOption", "key": "snapshot.num-retained.min", "value": "20"},
            ]
        }
    )

    changes: list[JsonObject]

    @staticmethod
    def of(changes: Sequence[SchemaChange]) -> AlterTableRequest:
        """The wire form."""
        return AlterTableRequest(changes=[schema_change_json(change) for change in changes])


class RenameTableRequest(WireModel):
    """``POST …/tables/rename``."""

    model_config = example(
        {
            "source": ORDERS,
            "destination": {"database": "archive", "object": "orders_2025"},
        }
    )

    source: IdentifierModel
    destination: IdentifierModel

    @staticmethod
    def of(source: Identifier, destination: Identifier) -> RenameTableRequest:
        """The wire form."""
        return RenameTableRequest(
            source=IdentifierModel.of(source), destination=IdentifierModel.of(destination)
        )


class GetTableResponse(AuditedModel):
    """A table with its latest schema; `path` is not among the schema's options.

    Attributes:
        highest_field_id: The highest field id ever used; Headwater's addition.
        schema_time_millis: The creation time of this version of the schema; Headwater's addition.
    """

    model_config = example(_TABLE)

    id: str
    database: str | None = None
    name: str
    path: str
    is_external: bool = False
    schema_id: int
    table_schema: JsonObject = Field(alias="schema")
    highest_field_id: int | None = None
    schema_time_millis: int | None = None

    @staticmethod
    def of(info: TableInfo) -> GetTableResponse:
        """The wire form."""
        return GetTableResponse(
            id=info.id,
            database=info.identifier.database,
            name=info.identifier.name,
            path=info.path,
            is_external=info.is_external,
            schema_id=info.schema.id,
            schema=info.schema.to_schema().to_json(),
            highest_field_id=info.schema.highest_field_id,
            schema_time_millis=info.schema.time_millis,
            **audit_fields(info),
        )

    def info(self, database: str) -> TableInfo:
        """The table.

        A server that does not tell the highest field id ever used leaves columns dropped last
        uncounted, as in Paimon's own clients: only the server gives out new ids.
        """
        schema = Schema.from_json(self.table_schema)
        highest, time_millis = self.highest_field_id, self.schema_time_millis
        return TableInfo(
            id=self.id,
            identifier=Identifier(self.database or database, self.name),
            path=self.path,
            is_external=self.is_external,
            schema=TableSchema(
                id=self.schema_id,
                fields=schema.fields,
                highest_field_id=highest_field_id(schema.fields) if highest is None else highest,
                partition_keys=schema.partition_keys,
                primary_keys=schema.primary_keys,
                options=schema.options,
                comment=schema.comment,
                time_millis=(self.updated_at or 0) if time_millis is None else time_millis,
            ),
            **self.audit(),
        )


class Paged(WireModel):
    """A page of a listing; the token is null on the last one, and present: pypaimon wants it."""

    next_page_token: str | None = None


class Listed(Paged, Generic[T]):
    """A page of entries, which each listing calls by a name of its own on the wire."""

    items: list[T] | None = None

    @classmethod
    def of(cls, page: Page[T]) -> Self:
        """The wire form."""
        return cls(items=list(page.items), next_page_token=page.next_token)

    def page(self) -> Page[T]:
        """The page; an empty token means that no page follows."""
        return Page(tuple(self.items or ()), self.next_page_token or None)


class ListTablesResponse(Listed[str]):
    """Table names."""

    model_config = example({"tables": ["orders"], "nextPageToken": None})

    items: list[str] | None = Field(default=None, alias="tables")


class ListTableDetailsResponse(Listed[GetTableResponse]):
    """Tables with their schemas."""

    model_config = example({"tableDetails": [_TABLE], "nextPageToken": None})

    items: list[GetTableResponse] | None = Field(default=None, alias="tableDetails")


class ListTablesGloballyResponse(Listed[IdentifierModel]):
    """Tables of all databases."""

    model_config = example({"tables": [ORDERS], "nextPageToken": None})

    items: list[IdentifierModel] | None = Field(default=None, alias="tables")


class ListBranchesResponse(WireModel):
    """Branch names, without ``main``."""

    model_config = example({"branches": ["b"]})

    branches: list[str] | None = None


class GetTableTokenResponse(WireModel):
    """Credentials for a table's files, until a time in milliseconds since the epoch."""

    model_config = example(
        {
            "token": {"s3.access-key": "AKIA…", "fs.s3.accessKeyId": "AKIA…"},
            "expiresAtMillis": 1767311999000,
        }
    )

    token: dict[str, str]
    expires_at_millis: int


class AuthTableQueryRequest(WireModel):
    """``POST …/auth``: the columns that a query reads; null means all."""

    model_config = example({"select": ["order_id", "amount"]})

    select: list[str] | None = None


class AuthTableQueryResponse(WireModel):
    """The row filters and column masks the reader must apply, each a predicate as JSON text."""

    model_config = example({"filter": [], "columnMasking": {}})

    filter: list[str] | None = None
    column_masking: dict[str, str] | None = None


def without_nulls(values: Mapping[str, str | None] | None) -> dict[str, str]:
    """The entries of a map that have a value; an absent map is empty."""
    return {key: value for key, value in (values or {}).items() if value is not None}
