"""Row filters and column masks, over every catalog: they are recorded, listed and dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.policies import ColumnMask, Policy, PolicyType, RowFilter
from headwater.catalog.table.table import Table
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    ResourceType,
)
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnType,
)
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, Json, parse_type

PEOPLE = Identifier("sales", "people")
COLUMNS: dict[str, Json] = {
    "id": "BIGINT NOT NULL",
    "region": "STRING",
    "phone": "STRING",
    "code": "VARCHAR(8)",
    "age": "INT",
    "born": "DATE",
    "salary": "DECIMAL(10, 2)",
    "tags": {"type": "ARRAY", "element": "STRING"},
}


def _reference(name: str) -> dict[str, Json]:
    return {"index": 99, "name": name, "type": "STRING"}


def _field(name: str) -> dict[str, Json]:
    return {"name": "FIELD_REF", "fieldRef": _reference(name)}


def _leaf(
    function: str, *literals: Json, transform: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    return {
        "kind": "LEAF",
        "transform": dict(transform or _field("region")),
        "function": function,
        "literals": list(literals),
    }


def _filter(document: Json, principal: str = "ada") -> Policy:
    return Policy(principal, RowFilter(json.dumps(document)))


def _mask(column: str, document: Json, principal: str = "ada") -> Policy:
    return Policy(principal, ColumnMask(column, json.dumps(document)))


EMEA = _filter(_leaf("EQUAL", "EMEA"))
HIDDEN = _mask("phone", {"name": "CONCAT", "inputs": ["****"]})


@pytest.fixture
def people(catalog: Catalog) -> Identifier:
    """A table whose readers ask what they may see."""
    catalog.databases.create("sales")
    fields = tuple(
        DataField(at, name, parse_type(document))
        for at, (name, document) in enumerate(COLUMNS.items())
    )
    catalog.tables.create(PEOPLE, Schema(fields, options={"query-auth.enabled": "true"}))
    return PEOPLE


def _names(catalog: Catalog, table: Identifier = PEOPLE) -> list[str]:
    return [policy.name for policy in catalog.policies.list(table).items]


def test_policies_are_listed_until_they_are_dropped(catalog: Catalog, people: Identifier) -> None:
    assert _names(catalog) == []
    catalog.policies.create(people, EMEA)
    catalog.policies.create(people, HIDDEN)
    catalog.policies.create(people, _mask("region", {"name": "NULL"}))
    catalog.policies.create(people, _filter(_leaf("IS_NOT_NULL"), "group:all of them"))
    assert _names(catalog) == [
        "COLUMN_MASKING:ada:phone",
        "COLUMN_MASKING:ada:region",
        "ROW_FILTER:ada",
        "ROW_FILTER:group:all of them",
    ]
    catalog.policies.drop(people, PolicyType.COLUMN_MASKING, "ada", "phone")
    catalog.policies.drop(people, PolicyType.ROW_FILTER, "group:all of them")
    assert _names(catalog) == ["COLUMN_MASKING:ada:region", "ROW_FILTER:ada"]


def test_columns_are_found_by_name_and_stored_as_the_table_has_them(
    catalog: Catalog, people: Identifier
) -> None:
    catalog.policies.create(people, EMEA)
    catalog.policies.create(
        people, _mask("phone", {"name": "UPPER", "inputs": [_reference("code")], "x": 1})
    )
    mask, row_filter = (policy.rule for policy in catalog.policies.list(people).items)
    assert isinstance(row_filter, RowFilter)
    assert json.loads(row_filter.predicate)["transform"] == {
        "name": "FIELD_REF",
        "fieldRef": {"index": 1, "name": "region", "type": "STRING"},
    }
    assert isinstance(mask, ColumnMask)
    assert json.loads(mask.transform) == {
        "name": "UPPER",
        "inputs": [{"index": 3, "name": "code", "type": "VARCHAR(8)"}],
    }


def test_a_listing_is_narrowed_and_comes_in_pages(catalog: Catalog, people: Identifier) -> None:
    for principal in ("ada", "bob: the builder", "eve"):
        catalog.policies.create(people, _filter(_leaf("IS_NULL"), principal))
        for column in ("phone", "region"):
            catalog.policies.create(people, _mask(column, {"name": "NULL"}, principal))
    everything = list(catalog.policies.list(people).items)
    assert len(everything) == 9
    for size in (1, 2, 4, 9):
        found: list[Policy] = []
        token: str | None = None
        while True:
            page = catalog.policies.list(people, max_results=size, page_token=token)
            found += page.items
            token = page.next_token
            if token is None:
                break
        assert found == everything
    masks = catalog.policies.list(people, type=PolicyType.COLUMN_MASKING, column="phone").items
    assert [policy.principal for policy in masks] == ["ada", "bob: the builder", "eve"]
    assert [
        policy.name for policy in catalog.policies.list(people, principal="bob: the builder").items
    ] == [
        "COLUMN_MASKING:bob: the builder:phone",
        "COLUMN_MASKING:bob: the builder:region",
        "ROW_FILTER:bob: the builder",
    ]
    with pytest.raises(Invalid, match="COLUMN_MASKING"):
        catalog.policies.list(people, column="phone")
    with pytest.raises(Invalid, match="COLUMN_MASKING"):
        catalog.policies.list(people, type=PolicyType.ROW_FILTER, column="phone")
    with pytest.raises(Invalid, match="page token"):
        catalog.policies.list(people, page_token="nonsense")


@pytest.mark.parametrize("policy", [EMEA, HIDDEN], ids=["filter", "mask"])
def test_a_second_policy_of_the_same_identity_is_refused(
    catalog: Catalog, people: Identifier, policy: Policy
) -> None:
    catalog.policies.create(people, policy)
    before = catalog.policies.list(people)
    with pytest.raises(AlreadyExists) as caught:
        catalog.policies.create(
            people,
            _filter(_leaf("IS_NULL")) if policy is EMEA else _mask("phone", {"name": "NULL"}),
        )
    assert caught.value.resource_type is ResourceType.POLICY
    assert caught.value.resource_name == policy.name
    assert catalog.policies.list(people) == before


def test_dropping_what_is_not_there_is_an_error_unless_told(
    catalog: Catalog, people: Identifier
) -> None:
    catalog.policies.create(people, HIDDEN)
    for kind, principal, column in (
        (PolicyType.ROW_FILTER, "ada", None),
        (PolicyType.COLUMN_MASKING, "ada", "region"),
        (PolicyType.COLUMN_MASKING, "eve", "phone"),
    ):
        with pytest.raises(NotFound) as caught:
            catalog.policies.drop(people, kind, principal, column)
        assert caught.value.resource_type is ResourceType.POLICY
        catalog.policies.drop(people, kind, principal, column, ignore_if_not_exists=True)
    assert _names(catalog) == [HIDDEN.name]
    with pytest.raises(Invalid, match="column"):
        catalog.policies.drop(people, PolicyType.ROW_FILTER, "ada", "phone")
    with pytest.raises(Invalid, match="column"):
        catalog.policies.drop(people, PolicyType.COLUMN_MASKING, "ada")


def test_a_table_whose_readers_do_not_ask_takes_no_policy(
    catalog: Catalog, table: Identifier
) -> None:
    with pytest.raises(Conflict, match=r"'query-auth\.enabled'") as caught:
        catalog.policies.create(table, _mask("amount", {"name": "NULL"}))
    assert caught.value.resource_type is ResourceType.TABLE
    assert _names(catalog, table) == []


def test_a_missing_table_is_not_found(catalog: Catalog, people: Identifier) -> None:
    nowhere = Identifier("sales", "nowhere")
    for ask in (
        lambda: catalog.policies.list(nowhere),
        lambda: catalog.policies.create(nowhere, EMEA),
        lambda: catalog.policies.drop(nowhere, PolicyType.ROW_FILTER, "ada"),
        lambda: catalog.policies.drop(
            nowhere, PolicyType.ROW_FILTER, "ada", ignore_if_not_exists=True
        ),
    ):
        with pytest.raises(NotFound) as caught:
            ask()
        assert caught.value.resource_type is ResourceType.TABLE


ACCEPTED_FILTERS: list[Json] = [
    _leaf("EQUAL", 7, transform=_field("age")),
    _leaf("NOT_EQUAL", 12.5, transform=_field("salary")),
    _leaf("LESS_THAN", "2026-01-01", transform=_field("born")),
    _leaf("GREATER_OR_EQUAL", [2026, 1, 1], transform=_field("born")),
    _leaf("IN", "EMEA", "APAC"),
    _leaf("NOT_BETWEEN", 1, 5, transform=_field("age")),
    _leaf("LIKE", "%E_"),
    _leaf("IS_NULL", transform=_field("tags")),
    _leaf("FALSE", transform={"name": "NULL"}),
    _leaf("EQUAL", "EMEA", transform={"name": "UPPER", "inputs": [_reference("region")]}),
    _leaf(
        "EQUAL", "7", transform={"name": "CAST", "fieldRef": _reference("age"), "type": "STRING"}
    ),
    {
        "kind": "COMPOUND",
        "function": "OR",
        "children": [
            _leaf("IS_NULL"),
            {"kind": "COMPOUND", "function": "AND", "children": [_leaf("EQUAL", "EMEA")]},
        ],
    },
]


def test_a_filter_that_paimon_evaluates_is_taken(
    catalog: Catalog, people: Identifier, subtests: pytest.Subtests
) -> None:
    for document in ACCEPTED_FILTERS:
        with subtests.test(document=document):
            catalog.policies.create(people, _filter(document))
            (policy,) = catalog.policies.list(people).items
            # What was stored is taken again as it is.
            catalog.policies.drop(people, PolicyType.ROW_FILTER, "ada")
            catalog.policies.create(people, policy)
            assert catalog.policies.list(people).items == (policy,)
            catalog.policies.drop(people, PolicyType.ROW_FILTER, "ada")


REFUSED_FILTERS: list[tuple[str, str]] = [
    ("", "bytes"),
    ("nonsense", "not JSON"),
    ("null", "JSON object"),
    ("[]", "JSON object"),
    ("{}", "LEAF or COMPOUND"),
    ('{"a":' * 2000 + "1" + "}" * 2000, "."),
    (json.dumps({"kind": "COMPOUND", "function": "NOT", "children": [_leaf("IS_NULL")]}), "AND"),
    (json.dumps({"kind": "COMPOUND", "function": "AND", "children": []}), "children"),
    (json.dumps({"kind": "COMPOUND", "function": "AND", "children": [None]}), r"children\[0\]"),
    (json.dumps(_leaf("ARRAY_CONTAINS", "a", transform=_field("tags"))), "not supported"),
    (json.dumps(_leaf("EQUAL")), "1 literals"),
    (json.dumps(_leaf("EQUAL", None)), "IS_NULL"),
    (json.dumps(_leaf("IN")), "at least 1"),
    (json.dumps(_leaf("BETWEEN", "a")), "2 literals"),
    (json.dumps(_leaf("IS_NULL", 1)), "0 literals"),
    (json.dumps(_leaf("EQUAL", "seven", transform=_field("age"))), "INT"),
    (json.dumps(_leaf("EQUAL", {"a": 1}, transform=_field("age"))), "INT"),
    (json.dumps(_leaf("LIKE", "7", transform=_field("age"))), "string"),
    (json.dumps(_leaf("EQUAL", "a", transform=_field("tags"))), "ARRAY"),
    (json.dumps(_leaf("EQUAL", "a", transform={"name": "TRIM", "inputs": []})), "TRIM"),
    (json.dumps(_leaf("EQUAL", "a", transform={"name": "FIELD_REF"})), "name a column"),
    (json.dumps(_leaf("EQUAL", True, transform={"name": "NULL"})), "NULL compares with nothing"),
    (json.dumps(_leaf("IS_NULL", transform={"name": "NULL"})), "NULL compares with nothing"),
    ('{"kind":"LEAF","function":"EQUAL","literals":[0.12345678901234567890],'
     '"transform":{"name":"FIELD_REF","fieldRef":{"name":"salary"}}}', "digits"),
    ('{"kind":"LEAF","function":"EQUAL","literals":[NaN],'
     '"transform":{"name":"FIELD_REF","fieldRef":{"name":"age"}}}', "NaN"),
]  # fmt: skip


def test_a_filter_that_is_not_understood_is_refused(
    catalog: Catalog, people: Identifier, subtests: pytest.Subtests
) -> None:
    for text, match in REFUSED_FILTERS:
        with subtests.test(text=text):
            with pytest.raises(Invalid, match=match):
                catalog.policies.create(people, Policy("ada", RowFilter(text)))
            assert _names(catalog) == []


REFUSED_MASKS: list[tuple[str, Json, str]] = [
    ("age", {"name": "CONCAT", "inputs": ["0"]}, "own type"),
    ("code", {"name": "CONCAT", "inputs": ["0"]}, "own type"),
    ("id", {"name": "NULL"}, "cannot be NULL"),
    ("phone", {"name": "CONCAT", "inputs": []}, "at least 1"),
    ("phone", {"name": "CONCAT_WS", "inputs": ["-"]}, "at least 2"),
    ("phone", {"name": "LOWER", "inputs": ["a", "b"]}, "takes 1"),
    ("phone", {"name": "LOWER", "inputs": [_reference("age")]}, "not a string"),
    ("phone", {"name": "CAST", "fieldRef": _reference("age"), "type": "NOTHING"}, "NOTHING"),
    ("age", {"name": "CAST", "fieldRef": _reference("tags"), "type": "INT"}, "cannot be cast"),
    ("phone", {"name": "SUBSTRING", "inputs": ["a"]}, "SUBSTRING"),
    ("phone", None, "JSON object"),
]


def test_a_mask_that_does_not_give_the_columns_type_is_refused(
    catalog: Catalog, people: Identifier, subtests: pytest.Subtests
) -> None:
    for column, document, match in REFUSED_MASKS:
        with subtests.test(column=column, document=document):
            with pytest.raises(Invalid, match=match):
                catalog.policies.create(people, _mask(column, document))
            assert _names(catalog) == []


@pytest.mark.parametrize(
    ("column", "document"),
    [
        ("age", {"name": "NULL"}),
        ("tags", {"name": "NULL"}),
        ("id", {"name": "FIELD_REF", "fieldRef": _reference("id")}),
        ("code", {"name": "CAST", "fieldRef": _reference("phone"), "type": "VARCHAR(8)"}),
        ("phone", {"name": "CONCAT_WS", "inputs": ["-", _reference("region"), "***"]}),
        ("phone", {"name": "LOWER", "inputs": [_reference("phone")]}),
    ],
)
def test_a_mask_of_the_columns_type_is_taken(
    catalog: Catalog, people: Identifier, column: str, document: Json
) -> None:
    catalog.policies.create(people, _mask(column, document))
    assert _names(catalog) == [f"COLUMN_MASKING:ada:{column}"]


def test_a_missing_column_is_not_found(catalog: Catalog, people: Identifier) -> None:
    for policy in (
        _mask("nowhere", {"name": "NULL"}),
        _mask("phone", {"name": "UPPER", "inputs": [_reference("nowhere")]}),
        _filter(_leaf("IS_NULL", transform=_field("nowhere"))),
    ):
        with pytest.raises(NotFound) as caught:
            catalog.policies.create(people, policy)
        assert caught.value.resource_type is ResourceType.COLUMN
        assert caught.value.resource_name == "nowhere"


def test_a_principal_and_a_text_have_limits() -> None:
    for principal in ("", " ", "x" * 129):
        with pytest.raises(Invalid, match="principal"):
            Policy(principal, RowFilter("{}"))
    with pytest.raises(Invalid, match="bytes"):
        RowFilter("ü" * (30 * 1024 + 1))
    with pytest.raises(Invalid, match="column"):
        ColumnMask(" ", "{}")


def test_policies_follow_a_rename_and_go_with_the_table(
    catalog: Catalog, people: Identifier
) -> None:
    catalog.policies.create(people, EMEA)
    catalog.policies.create(people, HIDDEN)
    renamed = Identifier("sales", "staff")
    catalog.tables.rename(people, renamed)
    assert _names(catalog, renamed) == [HIDDEN.name, EMEA.name]
    schema = catalog.tables.get(renamed).schema.to_schema()
    catalog.tables.drop(renamed)
    catalog.tables.create(renamed, schema)
    assert _names(catalog, renamed) == []
    catalog.policies.create(renamed, EMEA)
    catalog.databases.drop("sales")


def test_a_schema_that_would_break_a_policy_is_refused(
    catalog: Catalog, people: Identifier
) -> None:
    catalog.policies.create(people, EMEA)
    catalog.policies.create(
        people, _mask("phone", {"name": "CONCAT", "inputs": [_reference("code")]})
    )
    before = catalog.tables.get(people).schema
    for change in (
        RemoveOption("query-auth.enabled"),
        SetOption("query-auth.enabled", "false"),
        DropColumn(("region",)),
        RenameColumn(("code",), "key"),
        DropColumn(("phone",)),
        UpdateColumnType(("phone",), AtomicType(Root.VARCHAR, length=99)),
    ):
        with pytest.raises(Invalid, match="polic"):
            catalog.tables.alter(people, [change])
    with pytest.raises(Invalid, match="polic"):
        catalog.tables.replace(people, Schema(before.fields[:2], options=dict(before.options)))
    assert catalog.tables.get(people).schema == before
    catalog.tables.alter(people, [AddColumn(("note",), AtomicType(Root.INT)), DropColumn(("age",))])
    assert _names(catalog) == ["COLUMN_MASKING:ada:phone", EMEA.name]


def test_a_schema_is_not_rolled_back_under_a_policy(catalog: Catalog, people: Identifier) -> None:
    catalog.tables.alter(people, [AddColumn(("note",), AtomicType(Root.INT))])
    catalog.policies.create(people, _filter(_leaf("IS_NULL", transform=_field("note"))))
    with pytest.raises(Invalid, match="ROW_FILTER:ada"):
        catalog.snapshots.rollback_schema(people, 0)
    assert catalog.tables.get(people).schema.id == 1
    catalog.policies.drop(people, PolicyType.ROW_FILTER, "ada")
    catalog.snapshots.rollback_schema(people, 0)


def test_no_branch_brings_a_schema_that_would_break_a_policy(
    catalog: Catalog, people: Identifier
) -> None:
    catalog.branches.create(people, "b")
    b = branch_of(people, "b")
    catalog.tables.alter(b, [DropColumn(("region",))])
    Table(catalog, catalog.tables.get(b), SYSTEM_RUNTIME).write({"id": [1]})
    catalog.policies.create(people, EMEA)
    with pytest.raises(Invalid, match="ROW_FILTER:ada"):
        catalog.branches.fast_forward(people, "b")
    assert catalog.tables.get(people).schema.id == 0
    assert catalog.snapshots.latest(people) is None
    catalog.policies.drop(people, PolicyType.ROW_FILTER, "ada")
    catalog.branches.fast_forward(people, "b")
    assert "region" not in catalog.tables.get(people).schema.field_by_name


def test_readers_of_a_branch_go_on_asking(catalog: Catalog, people: Identifier) -> None:
    catalog.branches.create(people, "b")
    catalog.branches.create(people, "open")
    b, open_ = branch_of(people, "b"), branch_of(people, "open")
    catalog.tables.alter(open_, [SetOption("query-auth.enabled", "false")])
    catalog.policies.create(people, EMEA)
    for change in (RemoveOption("query-auth.enabled"), SetOption("query-auth.enabled", "false")):
        with pytest.raises(Invalid, match="polic"):
            catalog.tables.alter(b, [change])
    catalog.tables.alter(b, [AddColumn(("note",), AtomicType(Root.INT))])
    catalog.tables.alter(open_, [AddColumn(("note",), AtomicType(Root.INT))])
    catalog.policies.drop(people, PolicyType.ROW_FILTER, "ada")
    catalog.tables.alter(b, [RemoveOption("query-auth.enabled")])


def test_a_branch_has_no_policies_of_its_own(catalog: Catalog, people: Identifier) -> None:
    catalog.branches.create(people, "b")
    b = Identifier("sales", "people$branch_b")
    with pytest.raises(Invalid, match="branch"):
        catalog.policies.create(b, EMEA)
    with pytest.raises(Invalid, match="branch"):
        catalog.policies.list(b)
    catalog.tables.alter(b, [DropColumn(("region",))])
    catalog.policies.create(people, EMEA)
