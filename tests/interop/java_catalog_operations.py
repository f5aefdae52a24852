"""What Paimon's Java client does with databases, tables, views and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .java_rest_api import Java, full_names, names, pages, raises


def databases(java: Java) -> None:
    for name in ("a_one", "a_two", "b"):
        java.api.createDatabase(name, {"team": name})
    assert names(java.api.listDatabases()) == ["a_one", "a_two", "b", "sales"]
    assert pages(lambda token: java.api.listDatabasesPaged(1, token, "a%")) == [
        ["a_one"],
        ["a_two"],
    ]
    java.api.alterDatabase("a_one", ["team"], {"tier": "1"})
    database = java.api.getDatabase("a_one")
    assert str(database.getName()) == "a_one"
    assert dict(database.getOptions()) == {"tier": "1"}
    assert str(database.getLocation()).endswith("/warehouse/a_one.db")
    assert database.getCreatedAt() <= database.getUpdatedAt()
    java.api.dropDatabase("a_two")
    raises("DatabaseNotExistException", lambda: java.catalog.getDatabase("a_two"))
    raises("DatabaseNotExistException", lambda: java.catalog.dropDatabase("a_two", False, False))
    raises("DatabaseAlreadyExistException", lambda: java.catalog.createDatabase("b", False))
    java.catalog.createDatabase("b", True)
    java.make("b.orders")
    raises("DatabaseNotEmptyException", lambda: java.catalog.dropDatabase("b", False, False))
    java.catalog.dropDatabase("b", False, True)
    raises("DatabaseNotExistException", lambda: java.catalog.listTables("b"))
    java.api.dropDatabase("a_one")


def tables(java: Java) -> None:
    types = java.paimon.types.DataTypes
    orders = java.name("sales.orders")
    columns = {"id": types.BIGINT(), "day": types.STRING(), "amount": types.DECIMAL(10, 2)}
    made = java.schema(columns, ["id", "day"], ["day"], {"bucket": "2"}, "what was ordered")
    java.api.createTable(orders, made)
    raises("TableAlreadyExistException", lambda: java.catalog.createTable(orders, made, False))
    java.catalog.createTable(orders, made, True)
    loaded = java.api.getTable(orders)
    assert str(loaded.getName()) == "orders"
    assert [loaded.getSchemaId(), loaded.isExternal()] == [0, False]
    assert str(loaded.getPath()).endswith("/warehouse/sales.db/orders")
    stored = loaded.getSchema()
    assert [f"{each.name()} {each.type()}" for each in stored.fields()] == [
        "id BIGINT NOT NULL",
        "day STRING NOT NULL",
        "amount DECIMAL(10, 2)",
    ]
    assert [list(stored.primaryKeys()), list(stored.partitionKeys())] == [["id", "day"], ["day"]]
    assert [dict(stored.options()), str(stored.comment())] == [{"bucket": "2"}, "what was ordered"]

    for name in ("others", "returns"):
        java.api.createTable(java.name(f"sales.{name}"), made)
    assert names(java.api.listTables("sales")) == ["orders", "others", "returns"]
    assert pages(lambda token: java.api.listTablesPaged("sales", 1, token, "o%", "table")) == [
        ["orders"],
        ["others"],
    ]
    assert pages(lambda _: java.api.listTablesPaged("sales", 9, None, None, "format-table")) == [[]]
    details = pages(lambda token: java.api.listTableDetailsPaged("sales", 2, token, "o%", None))
    assert [[str(each.getName()) for each in page] for page in details] == [["orders", "others"]]
    assert details[0][0].getId() == loaded.getId()
    everywhere = pages(lambda token: java.api.listTablesPagedGlobally("s%", "o%", 1, token))
    assert full_names(everywhere) == [["sales.orders"], ["sales.others"]]
    if java.has("listTableDetails"):
        details = java.api.listTableDetails("sales")
        assert [str(each.getName()) for each in details] == ["orders", "others", "returns"]
    if java.has("getTableById"):
        assert str(java.api.getTableById(loaded.getId()).getName()) == "orders"
        raises("TableIdNotExistException", lambda: java.catalog.getTableById("none"))

    if java.has("replaceTable"):
        kept = java.schema({"id": types.BIGINT(), "day": types.STRING()}, (), ["day"])
        java.api.replaceTable(java.name("sales.returns"), kept)
        replaced = java.api.getTable(java.name("sales.returns"))
        assert [str(each.name()) for each in replaced.getSchema().fields()] == ["id", "day"]
        raises(
            "TableNotExistException",
            lambda: java.catalog.replaceTable(java.name("sales.none"), made, False),
        )
    java.api.renameTable(java.name("sales.others"), java.name("sales.new name"))
    raises("TableNotExistException", lambda: java.catalog.getTable(java.name("sales.others")))
    raises(
        "TableAlreadyExistException",
        lambda: java.catalog.renameTable(java.name("sales.new name"), orders, False),
    )
    for name in ("new name", "returns"):
        java.api.dropTable(java.name(f"sales.{name}"))
    raises(
        "TableNotExistException",
        lambda: java.catalog.dropTable(java.name("sales.returns"), False),
    )
    assert names(java.api.listTables("sales")) == ["orders"]
    raises("DatabaseNotExistException", lambda: java.catalog.listTables("none"))


def external_tables(java: Java) -> None:
    """What is dropped from the catalog stays on storage, and can be registered again."""
    path = str(java.room / "elsewhere/kept")
    types = java.paimon.types.DataTypes
    kept = java.name("sales.kept")
    java.api.createTable(kept, java.schema({"n": types.INT()}, options={"path": path}))
    assert java.api.getTable(kept).isExternal()
    java.api.dropTable(kept)
    java.api.registerTable(java.name("sales.again"), path)
    fields = java.api.getTable(java.name("sales.again")).getSchema().fields()
    assert [f"{each.name()} {each.type()}" for each in fields] == ["n INT"]
    raises(
        "TableAlreadyExistException",
        lambda: java.catalog.registerTable(java.name("sales.again"), path),
    )
    java.api.dropTable(java.name("sales.again"))


def reading_rights(java: Java) -> None:
    table = java.name("sales.orders")
    answer = java.api.authTableQuery(table, ["id"])
    if java.has("getTableById"):
        assert [list(answer.filter()), dict(answer.columnMasking())] == [[], {}]
    else:  # The older client's answer is the filters alone.
        assert list(answer) == []
    token = java.api.loadTableToken(table)
    assert dict(token.getToken()) == {}
    left = token.getExpiresAtMillis() - java.api.getTable(table).getCreatedAt()
    assert left >= 2 * 3_600_000
    missing = java.name("sales.none")
    raises("TableNotExistException", lambda: java.catalog.authTableQuery(missing, ["id"]))


def schema_changes(java: Java) -> None:
    types = java.paimon.types.DataTypes
    move = java.paimon.schema.SchemaChange.Move
    table = java.name("sales.changed")
    place = java.paimon.types.RowType([types.FIELD(10, "city", types.STRING())])
    columns = {"id": types.INT(), "a": types.INT(), "b": types.STRING(), "place": place}
    java.api.createTable(
        table, java.schema(columns, ["id"], options={"bucket": "1", "bucket-key": "id"})
    )
    change = java.schema_change
    java.api.alterTable(
        table,
        [
            change.setOption("snapshot.num-retained.max", "20"),
            change.setOption("alter-column-null-to-not-null.disabled", "false"),
            change.setOption("file.format.per.level", "0:avro"),
            change.removeOption("file.format.per.level"),
            change.updateComment("changed"),
            change.addColumn("c", types.INT()),
            change.addColumn("d", types.INT(), "the fourth"),
            change.addColumn("e", types.INT(), None, move.first("e")),
            change.addColumn(java.strings("place", "zip"), types.INT(), None, None),
        ],
    )
    java.api.alterTable(
        table,
        [
            change.renameColumn("c", "renamed"),
            change.renameColumn(java.strings("place", "zip"), "code"),
            change.updateColumnType("a", types.BIGINT()),
            change.updateColumnType(java.strings("place", "code"), types.BIGINT(), True),
            change.updateColumnNullability("a", False),
            change.updateColumnNullability(java.strings("a"), True),
            change.updateColumnComment("a", "the first"),
            change.updateColumnDefaultValue(java.strings("b"), "none"),
            change.updateColumnPosition(move.after("renamed", "id")),
            change.dropColumn("e"),
            change.dropColumn(java.strings("place", "city")),
        ],
    )
    loaded = java.api.getTable(table)
    assert loaded.getSchemaId() == 2
    fields = {str(each.name()): each for each in loaded.getSchema().fields()}
    assert list(fields) == ["id", "renamed", "a", "b", "place", "d"]
    kinds = [str(each.type().asSQLString()) for each in fields.values()]
    assert kinds == ["INT NOT NULL", "INT", "BIGINT", "STRING", "ROW<`code` BIGINT>", "INT"]
    assert str(fields["a"].description()) == "the first"
    assert str(fields["b"].defaultValue()) == "none"
    assert str(fields["d"].description()) == "the fourth"
    assert str(loaded.getSchema().comment()) == "changed"
    assert dict(loaded.getSchema().options()) == {
        "bucket": "1",
        "bucket-key": "id",
        "snapshot.num-retained.max": "20",
        "alter-column-null-to-not-null.disabled": "false",
    }

    def altering(made: Any) -> Callable[[], object]:
        return lambda: java.catalog.alterTable(table, [made], False)

    raises("ColumnAlreadyExistException", altering(change.addColumn("a", types.INT())))
    raises("ColumnNotExistException", altering(change.dropColumn("none")))
    # The client wraps what the rules forbid, and says why.
    raises(
        "RuntimeException",
        altering(change.dropColumn("id")),
        "Cannot drop partition key or primary key: [id]",
    )
    raises("RuntimeException", altering(change.setOption("bucket-key", "b")), "bucket-key")
    if java.has("rollbackSchema"):
        java.api.rollbackSchema(table, 0)
        assert java.api.getTable(table).getSchemaId() == 0
        left = [str(each.name()) for each in java.api.getTable(table).getSchema().fields()]
        assert left == ["id", "a", "b", "place"]
        java.api.alterTable(table, [change.dropPrimaryKey()])
        assert list(java.api.getTable(table).getSchema().primaryKeys()) == []
    java.api.dropTable(table)


def views(java: Java) -> None:
    for name in ("late", "recent", "other"):
        made = java.paimon.view.ViewSchema(
            java.fields(), "SELECT 1", {"spark": "SELECT 2"}, "a comment", {"team": "billing"}
        )
        java.api.createView(java.name(f"sales.{name}"), made)
    assert names(java.api.listViews("sales")) == ["late", "other", "recent"]
    assert pages(lambda token: java.api.listViewsPaged("sales", 2, token, None)) == [
        ["late", "other"],
        ["recent"],
    ]
    details = pages(lambda token: java.api.listViewDetailsPaged("sales", 2, token, "o%"))
    assert [[str(each.getName()) for each in page] for page in details] == [["other"]]
    everywhere = pages(lambda token: java.api.listViewsPagedGlobally("s%", None, 2, token))
    assert full_names(everywhere) == [["sales.late", "sales.other"], ["sales.recent"]]
    change = java.view_change
    recent = java.name("sales.recent")
    java.api.alterView(
        recent,
        [
            change.setOption("tier", "1"),
            change.removeOption("team"),
            change.updateComment("another"),
            change.addDialect("flink", "SELECT 3"),
            change.updateDialect("flink", "SELECT 4"),
            change.dropDialect("spark"),
        ],
    )
    java.api.renameView(recent, java.name("sales.newest"))
    view = java.api.getView(java.name("sales.newest"))
    assert str(view.getName()) == "newest"
    stored = view.getSchema()
    assert stored.fields().equals(java.fields())
    assert [str(stored.query()), str(stored.comment())] == ["SELECT 1", "another"]
    assert [dict(stored.dialects()), dict(stored.options())] == [
        {"flink": "SELECT 4"},
        {"tier": "1"},
    ]
    raises("ViewNotExistException", lambda: java.catalog.getView(recent))
    for name in ("late", "newest", "other"):
        java.api.dropView(java.name(f"sales.{name}"))
    assert names(java.api.listViews("sales")) == []


def functions(java: Java) -> None:
    definition = java.paimon.function.FunctionDefinition
    for name in ("area", "length", "width"):
        made = java.paimon.function.FunctionImpl(
            java.name(f"sales.{name}"),
            java.fields(),
            java.fields(),
            True,
            {"spark": definition.sql("l * l")},
            "a comment",
            {"team": "billing"},
        )
        java.api.createFunction(java.name(f"sales.{name}"), made)
    assert names(java.api.listFunctions("sales")) == ["area", "length", "width"]
    assert pages(lambda token: java.api.listFunctionsPaged("sales", 2, token, None)) == [
        ["area", "length"],
        ["width"],
    ]
    details = pages(lambda token: java.api.listFunctionDetailsPaged("sales", 2, token, "l%"))
    assert [[str(each.name()) for each in page] for page in details] == [["length"]]
    everywhere = pages(lambda token: java.api.listFunctionsPagedGlobally("s%", None, 2, token))
    assert full_names(everywhere) == [["sales.area", "sales.length"], ["sales.width"]]
    change = java.function_change
    area = java.name("sales.area")
    java.api.alterFunction(
        area,
        [
            change.setOption("tier", "1"),
            change.removeOption("team"),
            change.updateComment("another"),
            change.addDefinition("flink", definition.sql("l")),
            change.updateDefinition("flink", definition.sql("l * w")),
            change.dropDefinition("spark"),
        ],
    )
    function = java.api.getFunction(area)
    assert [str(function.name()), str(function.comment())] == ["area", "another"]
    assert function.isDeterministic()
    assert function.inputParams().equals(java.fields())
    assert dict(function.options()) == {"tier": "1"}
    assert {key: str(each.definition()) for key, each in function.definitions().items()} == {
        "flink": "l * w"
    }
    for name in ("area", "length", "width"):
        java.api.dropFunction(java.name(f"sales.{name}"))
    raises("FunctionNotExistException", lambda: java.catalog.getFunction(area))
