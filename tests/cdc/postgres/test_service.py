"""Pipelines from PostgreSQL as users start them, and what is said where they cannot start."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import yaml
from tests.cdc.postgres.conftest import PostgresDatabase
from tests.cdc.service.conftest import headwater
from tests.cdc.waiting import until
from tests.conftest import postgresql_server

from headwater.cdc.pipeline.state import BatchPlan, PipelineState
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, HeadwaterError, NotFound

__all__ = ["headwater"]

pytestmark = pytest.mark.postgresql

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]
_IN_USE = "SELECT FROM pg_replication_slots WHERE slot_name = 'taken' AND active"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of a lake with an empty database ``lake``."""
    with connect(tmp_path / "lake") as lake:
        lake.create_database("lake")
    return tmp_path / "lake"


@pytest.fixture
def lake(place: Path) -> Iterator[Lake]:
    with connect(place) as lake:
        yield lake


@pytest.fixture
def store(postgres: PostgresDatabase) -> PostgresDatabase:
    """A database with a table ``orders`` of two rows."""
    postgres.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)",
        "INSERT INTO orders VALUES (1, 'pen'), (2, 'cup')",
    )
    return postgres


@pytest.fixture
def options(store: PostgresDatabase) -> dict[str, Any]:
    """The options of a pipeline that follows it."""
    return {
        "source": store.url,
        "include": "public.*",
        "target": "lake",
        "name": f"shop-{store.name}",
        "batch_seconds": 0.2,
    }


@pytest.fixture
def new_user(store: PostgresDatabase) -> Iterator[Callable[..., str]]:
    """Makes a user that may create schemas, by statements about ``{}``; the URL for it."""
    users = []

    def make(*statements: str) -> str:
        user = f"u{uuid4().hex[:12]}"
        users.append(user)
        store.run(f"CREATE ROLE {user} LOGIN", *(text.format(user) for text in statements))
        return store.url.replace("headwater@", f"{user}@")

    yield make
    store.drop_slots()
    for user in users:
        store.run(f"DROP OWNED BY {user} CASCADE", f"DROP ROLE {user}")


def items(lake: Lake) -> list[tuple[int, str]]:
    rows = lake.table("lake.orders").scan().to_arrow().sort_by("id").to_pylist()
    return [(row["id"], row["item"]) for row in rows]


def created(lake: Lake, store: PostgresDatabase) -> tuple[list[str], list[Any], list[Any]]:
    """The lake's tables, and the source's slots and publications."""
    slots = store.rows("SELECT slot_name, slot_type FROM pg_replication_slots ORDER BY 1")
    publications = store.rows("SELECT pubname FROM pg_publication ORDER BY 1")
    return lake.list_tables("lake"), list(slots), list(publications)


def rejected(lake: Lake, store: PostgresDatabase, options: dict[str, Any], *texts: str) -> None:
    """Check that a pipeline is not started, and that nothing is created."""
    before = created(lake, store)
    with pytest.raises(HeadwaterError) as error:
        lake.cdc.postgres(**options)
    for text in texts:
        assert text in error.value.message
    assert "\n" not in error.value.message
    assert created(lake, store) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "mysql://u@h"}, "which 'postgres' does not follow; use headwater cdc mysql"),
        ({"source": "postgresql://u@127.0.0.1:1/d"}, "at 127.0.0.1:1/d cannot be reached ("),
        ({"include": "nothing.*"}, "pattern 'nothing.*': it matches no table of the source"),
        ({"target": "away"}, "target 'away': it is not a database of the lake; create it"),
        ({"publication": "none"}, 'publication none: it does not exist; CREATE PUBLICATION "none"'),
        (
            {"slot": "none", "publication": "every"},
            "replication slot none: it does not exist; SELECT pg_create_logical_replication_slot(",
        ),
        ({"publication": "lacks"}, "publication lacks: it does not have the table public.orders"),
        ({"publication": "inserts"}, "it leaves out operations: update, delete, truncate; ALTER"),
        ({"publication": "filters"}, "publication filters: it has a row filter for public.orders"),
        ({"publication": "columns"}, "it has a list of columns for public.orders"),
    ],
    ids=str,
)
def test_wrong_options_create_nothing(
    lake: Lake,
    store: PostgresDatabase,
    options: dict[str, Any],
    changed: dict[str, Any],
    message: str,
) -> None:
    store.run(
        "CREATE PUBLICATION every FOR ALL TABLES",
        "CREATE PUBLICATION lacks",
        "CREATE PUBLICATION inserts FOR ALL TABLES WITH (publish = 'insert')",
        "CREATE PUBLICATION filters FOR TABLE orders WHERE (id > 1)",
        "CREATE PUBLICATION columns FOR TABLE orders (id)",
    )
    rejected(lake, store, {**options, **changed}, message)


def test_unknown_users_and_databases(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any]
) -> None:
    nobody = store.url.replace("headwater@", "nobody@")
    rejected(
        lake,
        store,
        {**options, "source": nobody},
        """rejects user 'nobody': role "nobody" does not exist; check the password""",
    )
    nowhere = store.url.rpartition("/")[0] + "/nowhere"
    rejected(lake, store, {**options, "source": nowhere}, 'database "nowhere" does not exist')


def test_slots_that_cannot_be_used(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any]
) -> None:
    """A slot of a replica that has the pipeline's name is left alone."""
    own = "headwater_mine"
    store.run("CREATE PUBLICATION every FOR ALL TABLES")
    for create, problem in (
        ("pg_create_physical_replication_slot('{}')", "it decodes the log with nothing and not"),
        (
            "pg_create_logical_replication_slot('{}', 'test_decoding')",
            "it decodes the log with test_decoding",
        ),
        (
            "pg_create_logical_replication_slot('{}', 'pgoutput', false, true)",
            "it sends transactions before they are committed (two_phase)",
        ),
    ):
        given = {**options, "slot": "given", "publication": "every"}
        for name, choice in (("given", given), (own, {**options, "name": "mine"})):
            store.run(f"SELECT {create.format(name)}")
            rejected(lake, store, choice, f"replication slot {name}: {problem}")
            store.run(f"SELECT pg_drop_replication_slot('{name}')")


def test_a_slot_in_use(lake: Lake, store: PostgresDatabase, options: dict[str, Any]) -> None:
    store.run(
        "CREATE PUBLICATION every FOR ALL TABLES",
        "SELECT pg_create_logical_replication_slot('taken', 'pgoutput')",
    )
    given = {**options, "slot": "taken", "publication": "every"}
    lake.create_database("second")
    with lake.cdc.postgres(**given):
        until(lambda: lake.table_exists("lake.orders") and len(items(lake)) == 2)
        until(lambda: store.rows(_IN_USE))
        other = {**given, "name": "other", "target": "second"}
        rejected(lake, store, other, "replication slot taken: it is in use by process ")
    assert lake.list_tables("second") == []


def test_a_server_that_logs_no_rows(lake: Lake, options: dict[str, Any]) -> None:
    with postgresql_server("wal_level=replica") as url:
        with psycopg.connect(f"{url}/postgres", autocommit=True) as server:
            server.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        changed = {**options, "source": f"{url}/postgres"}
        (finding,) = lake.cdc.check(**changed)
        assert finding.subject == "setting wal_level"
        with pytest.raises(HeadwaterError, match="setting wal_level: it is replica; ALTER SYSTEM"):
            lake.cdc.postgres(**changed)
    assert lake.list_tables("lake") == []


def test_missing_privileges_are_named(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any], new_user: Callable[..., str]
) -> None:
    rejected(
        lake,
        store,
        {**options, "source": new_user()},
        "privilege REPLICATION: user 'u",
        "privilege CREATE: user 'u",
        "table public.orders: user 'u",
        'GRANT SELECT ON "public"."orders" TO "u',
    )
    reads = ("ALTER ROLE {} REPLICATION", "GRANT SELECT ON orders TO {}")
    reader = new_user(*reads)
    creates = new_user(*reads, f"GRANT CREATE ON DATABASE {store.name} TO {{}}")
    rejected(
        lake, store, {**options, "source": creates}, "table public.orders: user 'u", "not own it"
    )
    # An administrator's publication needs neither the ownership nor the privilege.
    store.run("CREATE PUBLICATION every FOR ALL TABLES")
    given = {**options, "source": reader, "publication": "every"}
    assert lake.cdc.check(**given) == []
    assert lake.cdc.postgres(**given, once=True).wait()
    assert items(lake) == [(1, "pen"), (2, "cup")]


def test_an_owner_follows_its_tables(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any], new_user: Callable[..., str]
) -> None:
    """A table that another role creates later is quarantined; the others go on."""
    owner = new_user(
        "ALTER ROLE {} REPLICATION",
        "ALTER TABLE orders OWNER TO {}",
        f"GRANT CREATE ON DATABASE {store.name} TO {{}}",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {}",
    )
    options["source"] = owner
    assert lake.cdc.postgres(**options, once=True).wait()
    store.run("CREATE TABLE others (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (3, 'mug')")
    assert not lake.cdc.postgres(**options, once=True).wait()
    (status,) = lake.cdc.status()
    reasons = {table.source.table: table.reason for table in status.tables}
    assert "does not own it, and cannot publish it" in reasons["others"]
    assert (reasons["orders"], len(items(lake))) == (None, 3)
    store.run("ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM " + owner[13:].split("@")[0])


def test_row_level_security_is_named(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any], new_user: Callable[..., str]
) -> None:
    reader = new_user("ALTER ROLE {} REPLICATION", "GRANT SELECT ON orders TO {}")
    store.run(
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY", "CREATE PUBLICATION every FOR ALL TABLES"
    )
    changed = {**options, "source": reader, "publication": "every"}
    rejected(lake, store, changed, "row level security hides rows from user 'u", "BYPASSRLS")


def test_a_table_that_a_publication_does_not_have_is_quarantined(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any]
) -> None:
    """One that is created later, and one that is taken out of it."""
    store.run(
        "CREATE TABLE extras (id INT PRIMARY KEY)",
        "CREATE PUBLICATION chosen FOR TABLE orders, extras",
    )
    options["publication"] = "chosen"
    assert lake.cdc.postgres(**options, once=True).wait()
    store.run(
        "CREATE TABLE later (id INT PRIMARY KEY)",
        "ALTER PUBLICATION chosen DROP TABLE extras",
        "INSERT INTO orders VALUES (3, 'mug')",
    )
    assert not lake.cdc.postgres(**options, once=True).wait()
    (status,) = lake.cdc.status()
    reasons = {table.source.table: table.reason for table in status.tables}
    assert "publication chosen: it does not have the table public.later" in str(reasons["later"])
    assert "publication chosen: it does not have the table public.extras" in str(reasons["extras"])
    assert (reasons["orders"], len(items(lake))) == (None, 3)
    store.run("ALTER PUBLICATION chosen SET (publish = 'insert')")
    with pytest.raises(Conflict, match="publication chosen: it leaves out operations: update"):
        lake.cdc.postgres(**options, once=True).wait()
    store.run("DROP PUBLICATION chosen")
    with pytest.raises(Conflict, match=r"'chosen' .* does not exist: .* resnapshot --all"):
        lake.cdc.postgres(**options, once=True).wait()


def test_tables_that_cannot_be_followed_are_named_together(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any]
) -> None:
    store.run(
        "CREATE TABLE keyless (a INT)",
        "CREATE UNLOGGED TABLE fast (id INT PRIMARY KEY)",
        "CREATE EXTENSION postgres_fdw",
        "CREATE SERVER away FOREIGN DATA WRAPPER postgres_fdw",
        "CREATE FOREIGN TABLE far (id INT) SERVER away",
        "CREATE TABLE silent (id INT PRIMARY KEY)",
        "ALTER TABLE silent REPLICA IDENTITY NOTHING",
        "CREATE TABLE late (id INT PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE computed (a INT, g INT GENERATED ALWAYS AS (a) STORED PRIMARY KEY)",
        "CREATE TABLE classes (id INT PRIMARY KEY, c REGCLASS)",
        "CREATE TABLE cdc_state (id INT PRIMARY KEY)",
        "CREATE SCHEMA other",
        "CREATE TABLE other.orders (id INT PRIMARY KEY)",
    )
    options["include"] = "*.*"
    rejected(
        lake,
        store,
        options,
        "table public.keyless: it has no primary key; add a primary key, follow it with",
        "table public.fast: it is unlogged",
        "table public.far: it is a foreign table",
        "table public.silent: its replica identity is NOTHING",
        "table public.late: its primary key is deferrable",
        "table public.computed: a column of its primary key is generated",
        "column public.classes.c: column type 'regclass' is not followed",
        "table lake.cdc_state of the lake is where pipelines keep their state",
        "table public.orders: it and other.orders are both table lake.orders of the lake",
    )
    assert all(finding.problem and finding.remedy for finding in lake.cdc.check(**options))
    options["include"] = ["public.orders", "public.keyless"]
    options["tables_without_key"] = "append"
    rejected(
        lake,
        store,
        options,
        "table public.keyless: it has no primary key, and the log does not have its deleted rows",
        'ALTER TABLE "public"."keyless" REPLICA IDENTITY FULL',
    )
    store.run("ALTER TABLE keyless REPLICA IDENTITY FULL")
    assert lake.cdc.check(**options) == []


def test_states_of_other_sources(
    lake: Lake, store: PostgresDatabase, options: dict[str, Any]
) -> None:
    PipelineState.open(lake, "lake", options["name"]).record(BatchPlan(0, None, "0-1-9"))
    with pytest.raises(Conflict, match=r"PostgreSQL, which has no position '0-1-9'.* --all"):
        lake.cdc.postgres(**options, once=True).wait()
    assert created(lake, store)[1:] == ([], [])
    assert not lake.cdc.resnapshot(name=options["name"])
    assert lake.cdc.postgres(**options, once=True).wait()
    store.drop_slots()
    with pytest.raises(NotFound, match=r"does not exist: changes are missing; .*resnapshot --all"):
        lake.cdc.postgres(**options, once=True).wait()


# Commands -----------------------------------------------------------------------------------------


def test_a_pipeline_is_started_watched_and_stopped(
    lake: Lake, place: Path, store: PostgresDatabase, options: dict[str, Any]
) -> None:
    with lake.cdc.postgres(**options) as pipeline, connect(place) as other:
        until(lambda: lake.table_exists("lake.orders") and len(items(lake)) == 2)
        store.run("INSERT INTO orders VALUES (3, 'mug')")
        until(lambda: len(items(lake)) == 3)
        (status,) = other.cdc.status()
        assert status.is_running
        assert (status.name, status.problem) == (options["name"], None)
        other.cdc.stop()
        assert pipeline.wait()
    (status,) = lake.cdc.status()
    # The server itself may have written to its log meanwhile.
    assert not status.is_running
    assert status.lag_seconds is not None


def test_the_commands_take_every_option(
    headwater: Headwater, place: Path, store: PostgresDatabase, tmp_path: Path
) -> None:
    store.run(
        "CREATE TABLE times (id INT PRIMARY KEY, at TIMESTAMP, tags INT[], "
        "twice INT GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO times VALUES (1, 'infinity', '{1,2}')",
        "CREATE PUBLICATION every FOR ALL TABLES",
        "SELECT pg_create_logical_replication_slot('given', 'pgoutput')",
    )
    catalog = ("--catalog", str(place))
    source = ("--source", store.url, "--include", "public.*", "--target", "lake")
    rows = ("--type-mapping", "array-to-string", "--table-option", "bucket=2")
    log = ("--slot", "given", "--publication", "every")
    check = headwater("cdc", "check", *catalog, *source, *rows, *log)
    assert check.returncode == 0, check.stderr
    (_, note) = check.stdout.splitlines()
    assert note.startswith("note: column public.times.twice\tit is generated, and not")
    follow = headwater(
        *("cdc", "postgres", *catalog, *source, *rows, *log, "--name", "shop", "--once"),
        *("--batch-seconds", "0.2", "--batch-bytes", "1000", "--memory-bytes", "1000"),
        *("--range-rows", "1", "--readers", "1", "--writers", "1", "--lock-seconds", "1"),
        *("--on-drop", "drop", "--narrowing", "fail", "--tables-without-key", "append"),
    )
    assert (follow.returncode, follow.stderr) == (1, "")
    assert "has the value 'infinity', which TIMESTAMP(6) of the lake" in follow.stdout
    assert headwater("cdc", "resnapshot", *catalog, "public.times").returncode == 0
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump({
        "source": store.url, "include": "public.*", "target": "lake", "name": "shop",
        "type-mapping": "array-to-string", "bad-dates": "null", "slot": "given",
        "publication": "every", "batch-seconds": 0.2,
    }))  # fmt: skip
    result = headwater("cdc", "run", str(file), *catalog, "--once")
    assert (result.returncode, result.stderr) == (0, "")
    status = headwater("cdc", "status", *catalog, "--json").stdout.splitlines()
    assert [json.loads(line)["phase"] for line in status] == ["streaming", "streaming"]
    verify = headwater("cdc", "verify", *catalog)
    assert verify.returncode == 0, verify.stdout
    assert "public.orders: equal; 2 rows at the source, 2 in the lake" in verify.stdout
    assert "no process runs pipeline" in headwater("cdc", "stop", *catalog).stderr


def test_a_command_of_the_other_kind(
    headwater: Headwater, place: Path, store: PostgresDatabase
) -> None:
    given = ("--catalog", str(place), "--include", "a.*", "--target", "lake", "--source")
    result = headwater("cdc", "mysql", *given, store.url)
    assert (result.returncode, "use headwater cdc postgres" in result.stderr) == (1, True)
    result = headwater("cdc", "postgres", *given, "mysql://u@h")
    assert (result.returncode, "use headwater cdc mysql" in result.stderr) == (1, True)
