"""Grants, revokes, groups, drops, and renames of tables and columns in any order: every answer is
the model's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests import plain_http

from headwater.catalog.model.principal import Scope
from headwater.catalog.permissions import GRANTABLE, Access, Grant, PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

pytestmark = pytest.mark.modes

PEOPLE = ("ada", "bob")
GRANTEES = (*PEOPLE, "group:analysts")
DATABASES = ("d1", "d2")
NAMES = ("t1", "t2", "t3")
# What columns are called; cat may select all but the second of each table.
COLUMN_NAMES = ("id", "phone", "mobile")
KEPT_MILLIS = 10_000
# The operations that are compared, and the rights that each needs on its table.
CALLS: dict[str, tuple[str, str, dict[str, Any] | None, set[Access]]] = {
    "get": ("GET", "", None, set()),
    "snapshot": ("GET", "/snapshot", None, set()),
    "read": ("POST", "/auth", {"select": None}, {Access.SELECT}),
    "commit": ("POST", "/commit", {}, {Access.UPDATE}),
    "alter": ("POST", "", {"changes": []}, {Access.ALTER}),
    "replace": ("POST", "/replace", {}, {Access.UPDATE, Access.ALTER}),
    "policies": ("GET", "/policies", None, {Access.GRANT}),
}
_TARGETS = st.one_of(
    st.just((TargetType.CATALOG_ALL, "", "")),
    st.tuples(st.just(TargetType.DATABASE), st.sampled_from(DATABASES), st.just("")),
    st.tuples(st.just(TargetType.DATABASE_ALL), st.sampled_from(DATABASES), st.just("")),
    st.tuples(st.just(TargetType.TABLE), st.sampled_from(DATABASES), st.sampled_from(NAMES)),
)


class PermissionMachine(RuleBasedStateMachine):
    """A server with permissions beside sets of grants; a table is known by its number."""

    serve: Callable[..., str]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.millis = 1_700_000_000_000
        # Who was granted what, on which thing, until when.
        self.grants: dict[tuple[TargetType, Any, str, Access], int | None] = {}
        self.members: set[str] = set()
        self.tables: dict[tuple[str, str], int] = {}
        self.owners: dict[int, str] = {}
        self.columns: dict[int, list[str]] = {}
        # By table and principal, which of a table's two columns it may select, or all but which.
        self.ranges: dict[tuple[int, str], tuple[int, bool]] = {}
        self.made = 0

    @initialize()
    def start(self) -> None:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        runtime = Runtime(
            lambda: self.millis,
            SYSTEM_RUNTIME.new_uuid,
            SYSTEM_RUNTIME.sleep,
            monotonic=lambda: self.millis / 1000,
        )
        self.catalog = SqlCatalog.open(
            f"sqlite:///{folder}/c.db",
            warehouse="main",
            location=str(folder / "lake"),
            create=True,
            runtime=runtime,
        )
        self.stack.callback(self.catalog.close)
        database = self.catalog.operation.database
        self.groups = Groups(database)
        tokens = Tokens(database, runtime)
        self.secrets = {who: tokens.create(who).secret for who in (*PEOPLE, "cat")}
        self.secrets["admin"] = tokens.create("admin", scopes=[Scope.ADMINISTER]).secret
        for name in DATABASES:
            self.catalog.databases.create(name)
        parts = {"runtime": runtime, "find_token": tokens.find}
        self.address = self.serve(self.catalog, parts=parts, require_token=True)
        self.client = self.stack.enter_context(plain_http.Client())
        for name in NAMES[:2]:
            self.make("d1", name, "admin")
        # So few steps may rename no column, and this is the one that must stay hidden.
        self.rename_column_of("admin", ("d1", "t1"), 1)

    def teardown(self) -> None:
        self.stack.close()

    def call(self, who: str, method: str, path: str, body: object = None) -> Any:
        headers = {"authorization": f"Bearer {self.secrets[who]}"}
        return self.client.request(
            method, f"{self.address}/v1/main{path}", json=body, headers=headers
        )

    def make(self, database: str, name: str, who: str) -> None:
        new = {
            "identifier": {"database": database, "object": name},
            "schema": {
                "fields": [
                    {"id": at, "name": column, "type": "BIGINT"}
                    for at, column in enumerate(COLUMN_NAMES[:2])
                ],
                "options": {"query-auth.enabled": "true"},
            },
        }
        answer = self.call(who, "POST", f"/databases/{database}/tables", new)
        if (database, name) not in self.tables and self.may(
            who, {Access.CREATETABLE}, TargetType.DATABASE, database
        ):
            assert answer.status_code == 200, answer.text
            self.made += 1
            self.tables[database, name] = self.made
            self.owners[self.made] = who
            self.columns[self.made] = list(COLUMN_NAMES[:2])
            some = {
                "resource": {"type": "COLUMN", "database": database, "table": name},
                "access": "SELECT",
                "principal": "cat",
                "columns": {"excludedColumnNames": [COLUMN_NAMES[1]]},
            }
            answer = self.call("admin", "POST", "/permissions/grant", some)
            assert answer.status_code == 200, answer.text
        else:
            assert answer.status_code in (403, 404, 409), answer.text

    def names_of(self, who: str) -> set[str]:
        return {who} | ({"group:analysts"} if who in self.members else set())

    def selectable(self, who: str, database: str, thing: int) -> set[str]:
        """The columns of a table that somebody may select."""
        ranges = [
            each for (at, name), each in self.ranges.items()
            if at == thing and name in self.names_of(who)
        ]  # fmt: skip
        if not ranges:
            whole = Access.SELECT in self.rights(who, TargetType.TABLE, database, thing)
            return set(self.columns[thing]) if whole else set()
        left = {0, 1}
        for column, excluded in ranges:
            left &= {0, 1} - {column} if excluded else {column}
        return {self.columns[thing][each] for each in left}

    def sees(self, who: str, database: str, thing: int) -> bool:
        return bool(self.rights(who, TargetType.TABLE, database, thing)) or any(
            at == thing and name in self.names_of(who) for at, name in self.ranges
        )

    def rights(self, who: str, type_: TargetType, database: str, thing: int = 0) -> set[Access]:
        """The rights on a database, or on a table by its number."""
        found: set[Access] = set()
        places: set[tuple[TargetType, object]] = {
            (TargetType.CATALOG_ALL, ""),
            (TargetType.DATABASE_ALL, database),
        }
        places.add((type_, thing or database))
        if type_ is TargetType.DATABASE:
            places.discard((TargetType.DATABASE_ALL, database))
        for (kind, place, grantee, access), end in self.grants.items():
            is_over = end is not None and end <= self.millis
            if (kind, place) in places and grantee in self.names_of(who) and not is_over:
                found |= GRANTABLE[kind] if access is Access.ALL else {access}
        if thing and self.owners[thing] == who:
            found |= GRANTABLE[type_]
        return found & GRANTABLE[type_]

    def may(self, who: str, any_of: set[Access], type_: TargetType, database: str) -> bool:
        return who == "admin" or bool(self.rights(who, type_, database) & any_of)

    @rule(
        grantee=st.sampled_from(GRANTEES),
        on=_TARGETS,
        access=st.sampled_from(list(Access)),
        lasts=st.sampled_from([None, None, 5_000]),
    )
    def grant(
        self, grantee: str, on: tuple[TargetType, str, str], access: Access, lasts: int | None
    ) -> None:
        self.change("grant", grantee, on, access, lasts)

    @rule(grantee=st.sampled_from(GRANTEES), on=_TARGETS, access=st.sampled_from(list(Access)))
    def revoke(self, grantee: str, on: tuple[TargetType, str, str], access: Access) -> None:
        self.change("revoke", grantee, on, access, None)

    def change(
        self,
        verb: str,
        grantee: str,
        target: tuple[TargetType, str, str],
        access: Access,
        lasts: int | None,
    ) -> None:
        type_, database, table = target
        if access not in GRANTABLE[type_] or (table and (database, table) not in self.tables):
            return
        place = self.tables[database, table] if table else database
        names = {"database": database or None, "table": table or None}
        body: dict[str, object] = {
            "resource": {"type": type_.value, **names},
            "access": access.value,
            "principal": grantee,
        }
        if verb == "grant" and lasts is not None:
            wanted = PermissionTarget(type_, database or None, table or None)
            self.catalog.permissions.grant(
                Grant(wanted, access, grantee, expires_at=self.millis + lasts)
            )
        else:
            answer = self.call("admin", "POST", f"/permissions/{verb}", body)
            assert answer.status_code == 200, answer.text
        key = (type_, place, grantee, access)
        if verb == "grant":
            self.grants[key] = None if lasts is None else self.millis + lasts
        else:
            self.grants.pop(key, None)

    @rule(
        who=st.sampled_from(PEOPLE),
        database=st.sampled_from(DATABASES),
        name=st.sampled_from(NAMES),
    )
    def create(self, who: str, database: str, name: str) -> None:
        self.make(database, name, who)

    @rule(who=st.sampled_from((*PEOPLE, "admin")), data=st.data())
    def rename(self, who: str, data: st.DataObject) -> None:
        self.move(who, data, drops=False)

    @rule(
        grantee=st.sampled_from(GRANTEES),
        data=st.data(),
        column=st.sampled_from([0, 1, None]),
        excluded=st.booleans(),
    )
    def keep_to_columns(
        self, grantee: str, data: st.DataObject, column: int | None, *, excluded: bool
    ) -> None:
        if not self.tables:
            return
        at = data.draw(st.sampled_from(sorted(self.tables)))
        thing = self.tables[at]
        body: dict[str, object] = {
            "resource": {"type": "COLUMN", "database": at[0], "table": at[1]},
            "access": "SELECT",
            "principal": grantee,
        }
        if column is None:
            self.ranges.pop((thing, grantee), None)
        else:
            kind = "excludedColumnNames" if excluded else "columnNames"
            body["columns"] = {kind: [self.columns[thing][column]]}
            self.ranges[thing, grantee] = column, excluded
        verb = "revoke" if column is None else "grant"
        answer = self.call("admin", "POST", f"/permissions/{verb}", body)
        assert answer.status_code == 200, answer.text

    @rule(
        who=st.sampled_from(("admin", *PEOPLE)),
        data=st.data(),
        column=st.sampled_from([1, 0]),
    )
    def rename_column(self, who: str, data: st.DataObject, column: int) -> None:
        if not self.tables:
            return
        at = data.draw(st.sampled_from(sorted(self.tables)))
        self.rename_column_of(who, at, column)

    def rename_column_of(self, who: str, at: tuple[str, str], column: int) -> None:
        thing = self.tables[at]
        columns = self.columns[thing]
        (name,) = set(COLUMN_NAMES) - set(columns)
        change = {"action": "renameColumn", "fieldNames": [columns[column]], "newName": name}
        path = f"/databases/{at[0]}/tables/{at[1]}"
        answer = self.call(who, "POST", path, {"changes": [change]})
        rights = self.rights(who, TargetType.TABLE, at[0], thing)
        allowed = who == "admin" or Access.ALTER in rights
        assert (answer.status_code == 200) == allowed, answer.text
        if allowed:
            columns[column] = name

    @rule(who=st.sampled_from((*PEOPLE, "admin")), data=st.data())
    def drop(self, who: str, data: st.DataObject) -> None:
        self.move(who, data, drops=True)

    def move(self, who: str, data: st.DataObject, *, drops: bool) -> None:
        if not self.tables:
            return
        at = data.draw(st.sampled_from(sorted(self.tables)))
        thing = self.tables[at]
        rights = set(Access) if who == "admin" else self.rights(who, TargetType.TABLE, at[0], thing)
        if drops:
            answer = self.call(who, "DELETE", f"/databases/{at[0]}/tables/{at[1]}")
            allowed = Access.DROP in rights
        else:
            to = (data.draw(st.sampled_from(DATABASES)), data.draw(st.sampled_from(NAMES)))
            if to in self.tables:
                return
            source, destination = ({"database": place[0], "object": place[1]} for place in (at, to))
            body = {"source": source, "destination": destination}
            answer = self.call(who, "POST", "/tables/rename", body)
            allowed = Access.ALTER in rights
            if at[0] != to[0]:
                creates = self.may(who, {Access.CREATETABLE}, TargetType.DATABASE, to[0])
                allowed = allowed and Access.DROP in rights and creates
        assert (answer.status_code == 200) == allowed, answer.text
        if not allowed:
            return
        del self.tables[at]
        if drops:
            self.ranges = {key: each for key, each in self.ranges.items() if key[0] != thing}
            self.grants = {
                key: end
                for key, end in self.grants.items()
                if (key[0], key[1]) != (TargetType.TABLE, thing)
            }
        else:
            self.tables[to] = thing

    @rule(who=st.sampled_from(PEOPLE))
    def join_or_leave(self, who: str) -> None:
        if who in self.members:
            self.groups.remove("analysts", who)
        else:
            self.groups.add("analysts", who)
        self.members ^= {who}
        # As long as the server may go on with what it knew.
        self.millis += KEPT_MILLIS

    @rule(millis=st.sampled_from([1_000, 4_999, 20_000]))
    def wait(self, millis: int) -> None:
        self.millis += millis

    @invariant()
    def answers_are_the_models(self) -> None:
        for who in PEOPLE if hasattr(self, "client") else ():
            for database in DATABASES:
                seen = [
                    name
                    for (at, name), thing in sorted(self.tables.items())
                    if at == database and self.sees(who, database, thing)
                ]
                lists = Access.LIST in self.rights(who, TargetType.DATABASE, database)
                every = sorted(name for at, name in self.tables if at == database)
                on_database = self.rights(who, TargetType.DATABASE, database)
                inside = self.inside(who, database)
                answer = self.call(who, "GET", f"/databases/{database}/tables")
                if seen or on_database or inside:
                    assert answer.json()["tables"] == (every if lists else seen), (who, database)
                else:
                    assert answer.status_code == 404, (who, database, answer.text)
                for name in NAMES:
                    self.check_table(who, database, name)

    @invariant()
    def a_hidden_column_stays_hidden(self) -> None:
        for (database, name), thing in self.tables.items() if hasattr(self, "client") else ():
            shown, hidden = self.columns[thing]
            for columns, status in (([shown], 200), ([hidden], 403), (None, 403)):
                path = f"/databases/{database}/tables/{name}/auth"
                answer = self.call("cat", "POST", path, {"select": columns})
                assert answer.status_code == status, (database, name, columns, answer.text)

    def inside(self, who: str, database: str) -> bool:
        places = {(TargetType.CATALOG_ALL, ""), (TargetType.DATABASE_ALL, database)}
        return any(
            (kind, place) in places
            and grantee in self.names_of(who)
            and (end is None or end > self.millis)
            for (kind, place, grantee, _), end in self.grants.items()
        )

    def check_table(self, who: str, database: str, name: str) -> None:
        thing = self.tables.get((database, name))
        rights = self.rights(who, TargetType.TABLE, database, thing) if thing else set()
        is_seen = thing is not None and self.sees(who, database, thing)
        columns = self.selectable(who, database, thing) if thing else set()
        if thing and len(columns) < 2:
            rights -= {Access.SELECT, Access.ALL}
        for call, (method, path, body, needed) in CALLS.items():
            answer = self.call(who, method, f"/databases/{database}/tables/{name}{path}", body)
            told = f"{who} {call} {database}.{name} with {sorted(rights)}: {answer.text}"
            if not is_seen:
                assert (answer.status_code, answer.json()["resourceType"]) == (404, "TABLE"), told
            elif needed <= rights:
                # What is wrong with it otherwise is told.
                assert answer.status_code != 403, told
                assert answer.status_code != 404 or call == "snapshot", told
            else:
                assert answer.status_code == 403, told
        for column in self.columns[thing] if thing and is_seen else ():
            path = f"/databases/{database}/tables/{name}/auth"
            answer = self.call(who, "POST", path, {"select": [column]})
            told = f"{who} {column} of {database}.{name}, of {columns}: {answer.text}"
            assert answer.status_code == (200 if column in columns else 403), told


def test_every_answer_is_the_models(serve: Callable[..., str]) -> None:
    machine = type("Machine", (PermissionMachine,), {"serve": staticmethod(serve)})
    few = settings(max_examples=4, stateful_step_count=12, deadline=None, derandomize=True)
    run_state_machine_as_test(machine, settings=few)
