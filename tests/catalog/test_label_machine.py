"""Labels belong to things, not to names, whatever is renamed, dropped, restored and made anew."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.examples import examples

from headwater.catalog.labels import Entity, EntityType, Label
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewSchema
from headwater.catalog.sql import SqlCatalog
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

NAMES = ("a", "b", "a.b")
TABLE, VIEW = EntityType.TABLE, EntityType.VIEW
SCHEMA = Schema((DataField(0, "v", AtomicType(Root.INT)),))

kinds = st.sampled_from([TABLE, VIEW])
names = st.sampled_from(NAMES)
keys = st.sampled_from(["domain", "owner"])


class Labelled(RuleBasedStateMachine):
    """Tables and views of one database, each with a dictionary of the labels it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.things: dict[tuple[EntityType, str], dict[str, str]] = {}
        self.dropped: dict[str, dict[str, str]] = {}

    @initialize()
    def start(self) -> None:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.catalog = SqlCatalog.open(
            f"sqlite:///{folder}/c.db",
            warehouse="main",
            location=str(folder / "lake"),
            create=True,
            undrop_millis=3_600_000,
        )
        self.stack.callback(self.catalog.close)
        self.catalog.databases.create("sales")

    def teardown(self) -> None:
        self.stack.close()

    @rule(kind=kinds, name=names)
    def create(self, kind: EntityType, name: str) -> None:
        if (kind, name) in self.things:
            return
        if kind is TABLE:
            self.catalog.tables.create(Identifier("sales", name), SCHEMA)
        else:
            self.catalog.views.create(Identifier("sales", name), ViewSchema((), "SELECT 1"))
        self.things[kind, name] = {}

    @precondition(lambda self: self.things)
    @rule(data=st.data(), key=keys, value=st.sampled_from(["", "sales", "finance"]))
    def label(self, data: st.DataObject, key: str, value: str) -> None:
        kind, name = data.draw(st.sampled_from(sorted(self.things)))
        self.catalog.labels.set(Entity(kind, f"sales.{name}"), Label(key, value))
        self.things[kind, name][key] = value

    @precondition(lambda self: self.things)
    @rule(data=st.data(), key=keys)
    def unset(self, data: st.DataObject, key: str) -> None:
        kind, name = data.draw(st.sampled_from(sorted(self.things)))
        self.catalog.labels.unset(Entity(kind, f"sales.{name}"), key)
        self.things[kind, name].pop(key, None)

    @precondition(lambda self: self.things)
    @rule(data=st.data(), new=names)
    def rename(self, data: st.DataObject, new: str) -> None:
        kind, name = data.draw(st.sampled_from(sorted(self.things)))
        if (kind, new) in self.things:
            return
        parts = self.catalog.tables if kind is TABLE else self.catalog.views
        parts.rename(Identifier("sales", name), Identifier("sales", new))
        self.things[kind, new] = self.things.pop((kind, name))

    @precondition(lambda self: self.things)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        kind, name = data.draw(st.sampled_from(sorted(self.things)))
        labels = self.things.pop((kind, name))
        identifier = Identifier("sales", name)
        if kind is TABLE:
            self.dropped[self.catalog.tables.get(identifier).id] = labels
            self.catalog.tables.drop(identifier)
        else:
            self.catalog.views.drop(identifier)

    @precondition(lambda self: self.dropped)
    @rule(data=st.data(), name=names)
    def restore(self, data: st.DataObject, name: str) -> None:
        table_id = data.draw(st.sampled_from(sorted(self.dropped)))
        if (TABLE, name) in self.things:
            self.catalog.dropped_tables.purge(table_id)
            del self.dropped[table_id]
            return
        self.catalog.dropped_tables.restore(table_id, Identifier("sales", name))
        self.things[TABLE, name] = self.dropped.pop(table_id)

    @invariant()
    def each_thing_has_its_labels(self) -> None:
        for (kind, name), expected in self.things.items():
            found = self.catalog.labels.list(Entity(kind, f"sales.{name}")).items
            assert {label.key: label.value for label in found} == expected


def test_labels_belong_to_things() -> None:
    run_state_machine_as_test(
        Labelled,
        settings=settings(max_examples=examples(10), stateful_step_count=25, deadline=None),
    )
