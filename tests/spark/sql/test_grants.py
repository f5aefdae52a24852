"""GRANT, REVOKE, SHOW GRANTS and SHOW POLICIES, over a catalog that asks nobody."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.model.column import Column
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import ColumnSet
from headwater.catalog.model.policies import ColumnMask, Policy
from headwater.catalog.model.views import ViewSchema
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.grants.column_sets import less, together
from headwater.storage.errors import Conflict, HeadwaterError, Invalid, NotFound, Unsupported

if TYPE_CHECKING:
    from tests.spark.sql.conftest import Run

_SCHEMA = pa.schema([("id", pa.int64()), ("Phone", pa.string()), ("city", pa.string())])


@pytest.fixture
def people(run: Run, context: SqlContext) -> Run:
    """Statements over a catalog with the table ``db.people``."""
    options = {"query-auth.enabled": "true"}
    context.catalog.create_table("db.people", schema=_SCHEMA, options=options)
    return run


def _granted(run: Run, text: str) -> set[tuple[object, ...]]:
    """Principal, privilege, columns and object type of each row."""
    return {row[:4] for row in run(f"SHOW GRANTS {text}")}


def test_privileges_are_granted_and_revoked(people: Run) -> None:
    people("GRANT SELECT, update ON TABLE people TO ada, GROUP analysts, `bob@x.org`")
    people("GRANT ALL PRIVILEGES ON main.db.people TO USER carl EXPIRES IN '90 d'")
    people("REVOKE UPDATE ON people FROM ROLE analysts, 'bob@x.org'")
    people("REVOKE UPDATE ON people FROM `group:analysts`")
    rows = people("SHOW GRANTS ON TABLE people")
    assert [row[:5] for row in rows] == [
        ("ada", "SELECT", None, "TABLE", "db.people"),
        ("ada", "UPDATE", None, "TABLE", "db.people"),
        ("bob@x.org", "SELECT", None, "TABLE", "db.people"),
        ("carl", "ALL", None, "TABLE", "db.people"),
        ("group:analysts", "SELECT", None, "TABLE", "db.people"),
    ]
    assert [row[0] for row in rows if row[5] is not None] == ["carl"]
    for text in ("ON people TO ada", "ada ON TABLE people", "USER ada ON people"):
        assert {row[1] for row in people(f"SHOW GRANTS {text}")} == {"SELECT", "UPDATE"}


@pytest.mark.parametrize(
    ("privileges", "target", "shown"),
    [
        ("INSERT", "people", ("UPDATE", "TABLE")),
        ("MODIFY", "people", ("UPDATE", "TABLE")),
        ("ALTER_TABLE", "people", ("ALTER", "TABLE")),
        ("CREATE TABLE", "DATABASE db", ("CREATETABLE", "DATABASE")),
        ("CREATE_VIEW", "SCHEMA db", ("CREATEVIEW", "DATABASE")),
        ("DROP DATABASE", "NAMESPACE main.db", ("DROP", "DATABASE")),
        ("SELECT", "ALL IN DATABASE db", ("SELECT", "DATABASE_ALL")),
        ("CREATE SCHEMA", "CATALOG", ("CREATEDATABASE", "CATALOG")),
        ("CREATE DATABASE", "CATALOG main", ("CREATEDATABASE", "CATALOG")),
        ("SELECT", "ALL IN CATALOG", ("SELECT", "CATALOG_ALL")),
        ("SELECT", "VIEW v", ("SELECT", "VIEW")),
        ("GRANT", "FUNCTION db.f", ("GRANT", "FUNCTION")),
    ],
)
def test_words_of_other_systems_name_the_same_privileges(
    people: Run, context: SqlContext, privileges: str, target: str, shown: tuple[str, str]
) -> None:
    if "VIEW" in target:
        column = Column(0, "a", "INT")
        view = ViewSchema(columns=(column,), query="SELECT 1 AS a")
        context.catalog.catalog.views.create(Identifier("db", "v"), view)
    if "FUNCTION" in target:
        people(
            "CALL sys.create_function('db.f', '[]', "
            '\'[{"id": 0, "name": "a", "type": "INT"}]\')'
        )
    people(f"GRANT {privileges} ON {target} TO ada")
    (row,) = _granted(people, f"ON {target}")
    assert row == ("ada", shown[0], None, shown[1])
    people(f"REVOKE {privileges} ON {target} FROM ada")
    assert _granted(people, f"ON {target}") == set()


def test_columns_add_up_and_are_taken_away_one_by_one(people: Run) -> None:
    people("GRANT SELECT (id) ON TABLE people TO ada")
    people("GRANT SELECT (PHONE) ON TABLE people TO ada")
    assert _granted(people, "ON people") == {("ada", "SELECT", "id, Phone", "COLUMN")}
    people("REVOKE SELECT (id) ON TABLE people FROM ada")
    assert _granted(people, "ON people") == {("ada", "SELECT", "Phone", "COLUMN")}
    people("GRANT SELECT (* EXCEPT (id, phone)) ON people TO ada")
    assert _granted(people, "ON people") == {("ada", "SELECT", "* EXCEPT (id)", "COLUMN")}
    with pytest.raises(Invalid, match="these are all columns"):
        people("GRANT SELECT (id) ON people TO ada")
    with pytest.raises(Invalid, match="until another time"):
        people("GRANT SELECT (city) ON people TO ada EXPIRES IN '1 d'")
    for privilege in ("SELECT", "UPDATE, ALL"):
        with pytest.raises(Invalid, match="would still be kept to those: REVOKE SELECT"):
            people(f"GRANT {privilege} ON people TO bob, ada")
    assert {row[0] for row in _granted(people, "ON people")} == {"ada"}
    people("REVOKE SELECT ON people FROM ada")
    assert _granted(people, "ON people") == set()


def test_columns_need_readers_that_ask(people: Run) -> None:
    people("ALTER TABLE people UNSET TBLPROPERTIES ('query-auth.enabled')")
    with pytest.raises(Conflict, match=r"'query-auth\.enabled' to be true"):
        people("GRANT SELECT (id) ON people TO ada")


def test_a_revoke_never_leaves_what_it_takes_away(people: Run) -> None:
    people("GRANT ALL ON people TO ada")
    people("GRANT SELECT (id) ON people TO ada")
    with pytest.raises(Invalid, match=r"has ALL on TABLE db\.people, which UPDATE is a part of"):
        people("REVOKE UPDATE ON people FROM ada")
    people("REVOKE ALL ON people FROM ada")
    assert _granted(people, "ON people") == set()
    people("GRANT SELECT ON people TO ada")
    with pytest.raises(Invalid, match=r"has SELECT on TABLE db\.people, which SELECT on columns"):
        people("REVOKE SELECT (id) ON people FROM ada")
    people("REVOKE SELECT, SELECT (id), UPDATE ON people FROM ada")
    assert _granted(people, "ON people") == set()


def test_grants_of_what_holds_a_table_are_shown_with_it(people: Run) -> None:
    people("GRANT SELECT ON ALL IN DATABASE db TO ada")
    people("GRANT SELECT ON people TO bob")
    people("GRANT ALL ON ALL IN CATALOG TO bob")
    people("GRANT CREATE TABLE ON DATABASE db TO ada")
    assert _granted(people, "ON TABLE people") == {
        ("ada", "SELECT", None, None),
        ("bob", "SELECT", None, "TABLE"),
        ("bob", "ALL", None, None),
    }
    assert _granted(people, "ON DATABASE db") == {
        ("ada", "CREATETABLE", None, "DATABASE"),
        ("ada", "SELECT", None, "DATABASE_ALL"),
        ("bob", "ALL", None, None),
    }
    assert {row[1:5] for row in people("SHOW GRANTS TO ada")} == {
        ("CREATETABLE", None, "DATABASE", "db"),
        ("SELECT", None, "DATABASE_ALL", "db"),
        ("SELECT", None, "TABLE", "db.people"),
    }
    people("GRANT SELECT (id) ON people TO GROUP few")
    assert {row[1:5] for row in people("SHOW GRANTS TO GROUP few")} == {
        ("SELECT", "id", "COLUMN", "db.people")
    }


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("GRANT DELETE ON people TO ada", Unsupported, "is one privilege, UPDATE"),
        ("GRANT USE SCHEMA ON SCHEMA db TO ada", Unsupported, "nothing needs it"),
        ("GRANT FLY ON people TO ada", Invalid, "FLY is no privilege on TABLE, which has ALL"),
        ("GRANT SELECT ON DATABASE db TO ada", Invalid, "write ON ALL IN DATABASE"),
        ("GRANT DROP_TABLE ON DATABASE db TO ada", Invalid, "on DATABASE db write DROP"),
        ("GRANT UPDATE (id) ON people TO ada", Invalid, "only SELECT on a table has columns"),
        ("GRANT SELECT (nope) ON people TO ada", NotFound, "'nope' does not exist"),
        ("GRANT SELECT ON nobody TO ada", NotFound, "db.nobody does not exist"),
        ("GRANT SELECT ON CATALOG other TO ada", Invalid, "it is main"),
        ("GRANT SELECT ON people TO PUBLIC", Unsupported, "name those who are to have it"),
        ("GRANT SELECT ON people TO USER `group:g`", Invalid, "write GROUP and its name"),
        ("GRANT SELECT ON people TO ada WITH GRANT OPTION", Unsupported, "of its own"),
        ("REVOKE GRANT OPTION FOR SELECT ON people FROM ada", Unsupported, "of its own"),
        ("REVOKE SELECT ON people FROM ada CASCADE", Invalid, "'CASCADE' where the end"),
        ("GRANT analysts TO USER ada", Unsupported, "'headwater group'"),
        ("SHOW GRANTS", Invalid, "ON and a table, or TO and a principal"),
    ],
)
def test_what_cannot_be_granted_is_refused(
    people: Run, text: str, error: type[HeadwaterError], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        people(text)
    if "people" in text:
        assert people("SHOW GRANTS ON people") == []


def test_nothing_is_granted_when_a_part_is_refused(people: Run) -> None:
    with pytest.raises(Invalid, match="FLY"):
        people("GRANT SELECT, FLY ON people TO ada")
    with pytest.raises(Invalid, match="a principal has 1 to 128 characters"):
        people("GRANT SELECT ON people TO ada, ''")
    assert people("SHOW GRANTS ON people") == []


def test_policies_are_shown(people: Run, context: SqlContext) -> None:
    mask = '{"name": "CONCAT", "inputs": ["****"]}'
    context.catalog.catalog.policies.create(
        Identifier("db", "people"), Policy("group:support", ColumnMask("Phone", mask))
    )
    ((kind, principal, column, rule),) = people("SHOW POLICIES ON TABLE people")
    assert (kind, principal, column) == ("COLUMN_MASKING", "group:support", "Phone")
    assert "****" in str(rule)


_NAMES = ("a", "b", "c", "d")
_SETS = st.sets(st.sampled_from(_NAMES), min_size=1).flatmap(
    lambda names: st.sampled_from(
        [ColumnSet(tuple(sorted(names))), ColumnSet(excluded=tuple(sorted(names)))]
    )
)


@given(_SETS, _SETS)
def test_column_sets_are_sets(first: ColumnSet, second: ColumnSet) -> None:
    # A column that comes later is in all sets but those that name their columns.
    every = (*_NAMES, "later")
    one, other = ({name for name in every if each.holds(name)} for each in (first, second))
    left = less(first, second)
    assert {name for name in every if left is not None and left.holds(name)} == one - other
    if one | other == set(every):
        with pytest.raises(Invalid):
            together(first, second)
    else:
        both = together(first, second)
        assert {name for name in every if both.holds(name)} == one | other
