"""Publications that have all changes of tables, and those that leave some out."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import psycopg
import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase
from tests.cdc.postgres.logs import as_text, contents
from tests.cdc.waiting import until

from headwater.cdc.model.tables import TableName
from headwater.cdc.postgres.publications import (
    EarlierWriters,
    create_publication,
    publication_findings,
    publish_tables,
)
from headwater.cdc.postgres.server import Address
from headwater.cdc.postgres.slots import LogSource, create_slot, log_position
from headwater.cdc.postgres.source import PostgresSource
from headwater.cdc.postgres.transactions import open_log
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.errors import Conflict, Forbidden, Invalid

pytestmark = pytest.mark.postgresql

T, U, P = (TableName("public", table) for table in ("t", "u", "p"))


@pytest.fixture
def tables(postgres: PostgresDatabase) -> PostgresDatabase:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE TABLE u (id int PRIMARY KEY, v text)",
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    )
    return postgres


def findings(database: PostgresDatabase, *tables: TableName) -> list[str]:
    return [str(finding) for finding in publication_findings(database.connection, "pub", tables)]


def test_a_publication_of_all_tables_has_those_that_are_created_later(
    tables: PostgresDatabase,
) -> None:
    create_publication(tables.connection, "pub", None)
    tables.run("CREATE TABLE later (id int PRIMARY KEY)")
    assert findings(tables, T, U, P, TableName("public", "later")) == []
    with pytest.raises(Conflict, match="already exists"):
        create_publication(tables.connection, "pub", None)
    tables.run("DROP PUBLICATION pub")
    assert findings(tables, T) == [
        'publication pub: it does not exist; CREATE PUBLICATION "pub" FOR ALL TABLES WITH '
        "(publish_via_partition_root)"
    ]


def test_tables_are_added_to_a_publication(tables: PostgresDatabase) -> None:
    create_publication(tables.connection, "pub", [])
    assert publish_tables(tables.connection, "pub", [T, P], set()) == ([P, T], {})
    assert publish_tables(tables.connection, "pub", [T, P], set()) == ([], {})
    assert findings(tables, T, P) == []
    assert findings(tables, T, U) == [
        'publication pub: it does not have the table public.u; ALTER PUBLICATION "pub" ADD TABLE '
        '"public"."u"'
    ]
    # It may have been dropped or renamed since its definition was read.
    assert publish_tables(tables.connection, "pub", [TableName("public", "missing")], set()) == (
        [],
        {},
    )


def test_tables_are_added_when_earlier_changes_of_them_can_be_seen(
    tables: PostgresDatabase,
) -> None:
    """A transaction that has changed a table before is committed afterwards."""
    create_publication(tables.connection, "pub", [U])
    start = create_slot(tables.connection, tables.name)
    source = LogSource(tables.url, "the test's server", tables.name, "pub")
    with tables.connect() as session, tables.connect() as other:
        session.execute("INSERT INTO t VALUES (1)")
        other.autocommit = True
        writers = EarlierWriters(other)
        # Changes of other tables do not matter.
        assert writers.remaining({U: "published"}, 0) == {}
        assert publish_tables(other, "pub", [T], set()) == ([T], {})
        for _ in range(2):
            (why,) = writers.remaining({T: "published"}, 0).values()
            assert "changed public.t before it was published have not ended" in why
        with tables.connect() as later:
            # It does not matter either.
            later.execute("INSERT INTO t VALUES (4)")
            session.execute("INSERT INTO t VALUES (2)")
            session.commit()
            assert writers.remaining({T: "published"}, 0) == {}
            assert writers.remaining({T: "published otherwise"}, 0).keys() == {T}
            later.rollback()
            assert writers.remaining({T: "published otherwise"}, 0) == {}
        seen = tables.rows("SELECT id FROM t")
        session.execute("INSERT INTO t VALUES (3)")
    assert seen == [(1,), (2,)]
    reader = open_log(source, tables.connection, start, is_selected=lambda _: True, convert=as_text)
    reader.follow({T: None})
    batch = reader.read_until(log_position(tables.connection))
    reader.close()
    # The first row is in what was seen only.
    assert [row["id"] for _, row in contents([batch], "t").rows] == ["2", "3"]


def test_reads_of_others_wait_for_no_later_transactions_while_a_table_is_awaited(
    tables: PostgresDatabase,
) -> None:
    with (
        closing(PostgresSource(Address.from_url(tables.url), "shop")) as source,
        closing(source.open_log(source.start(), 1 << 20, lambda _: True)),
        tables.connect() as earlier,
        tables.connect() as later,
    ):
        earlier.execute("INSERT INTO t VALUES (1)")
        later.execute("INSERT INTO u VALUES (1)")
        wanted = source.tables({T})
        for _ in range(2):
            assert source.publish(wanted).awaited.keys() == {T}
            assert source.remote_reads().may_be_committed == frozenset()
        earlier.commit()
        published = source.publish(wanted)
        assert [table.name for table in published.followed] == [T]
        ((number,),) = later.execute("SELECT pg_current_xact_id()::text::bigint")
        assert source.remote_reads().may_be_committed == frozenset({number})


AUTOVACUUM = """
    SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.relation = 't'::regclass AND l.granted AND a.backend_type = 'autovacuum worker'
"""


def test_tables_are_added_while_autovacuum_works_on_them(tables: PostgresDatabase) -> None:
    user = f"owner_{tables.name}"
    create_publication(tables.connection, "pub", [U])
    tables.run(
        f"CREATE ROLE {user} LOGIN REPLICATION",
        f"ALTER TABLE t OWNER TO {user}",
        f"ALTER PUBLICATION pub OWNER TO {user}",
        # As slow as it can be: it has not ended when the test has.
        "ALTER TABLE t SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)",
        "INSERT INTO t SELECT n, repeat('long ', 200) FROM generate_series(1, 20000) AS n",
        "DELETE FROM t WHERE id % 2 = 0",
        f'GRANT CREATE ON DATABASE "{tables.name}" TO {user}',
        "ALTER SYSTEM SET autovacuum_naptime = '1s'",
        "SELECT pg_reload_conf()",
    )
    try:
        url = tables.url.replace("headwater@", f"{user}@")
        with psycopg.connect(url, autocommit=True) as connection:
            until(lambda: tables.value(AUTOVACUUM))
            assert publish_tables(connection, "pub", [T], set()) == ([T], {})
            assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
    finally:
        tables.run(
            "ALTER SYSTEM RESET autovacuum_naptime",
            "SELECT pg_reload_conf()",
            f"DROP OWNED BY {user} CASCADE",
            f"DROP ROLE {user}",
        )


def has_rows(follower: Follower, count: int) -> bool:
    return len(follower.rows("t")) == count


@pytest.mark.parametrize(
    ("publication", "is_locked", "reason"),
    [
        (None, False, "transactions that have changed public.later"),
        ("pub", False, "transactions that have changed public.later"),
        (None, True, "another session has locked it"),
    ],
)
def test_others_are_followed_while_a_table_waits_for_earlier_changes(
    tables: PostgresDatabase,
    follower: Follower,
    publication: str | None,
    is_locked: bool,
    reason: str,
) -> None:
    follower.publication = publication
    tables.run("CREATE PUBLICATION pub FOR TABLE t, u, p WITH (publish_via_partition_root)")
    follower.change(look_seconds=0.1)
    follower.once()
    tables.run("CREATE TABLE later (id int PRIMARY KEY)")
    name = TableName("public", "later")
    with tables.connect() as session:
        if is_locked:
            session.execute("LOCK TABLE later")
        session.execute("INSERT INTO later VALUES (1)")
        if publication is not None:
            tables.run("ALTER PUBLICATION pub ADD TABLE later")
        with RunningPipeline(follower.pipeline()) as running:
            until(lambda: name in running.status().tables)
            assert reason in (running.status().tables[name].reason or "")
            for count in range(1, 4):
                tables.run(f"INSERT INTO t VALUES ({count})")
                until(partial(has_rows, follower, count))
            assert name in running.status().tables
            assert not follower.lake.table_exists("lake.later")
            session.commit()
            until(lambda: follower.lake.table_exists("lake.later") and follower.rows("later"))
    follower.once()
    follower.check("t", "later")


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("FOR TABLE t WHERE (id > 1)", "it has a row filter for public.t"),
        ("FOR TABLE t (id)", "it has a list of columns for public.t"),
        ("FOR ALL TABLES WITH (publish = 'insert, update')", "delete, truncate"),
        ("FOR TABLE p, t", "rows of the partitioned table public.p as those of its"),
        ("FOR TABLE p1, t", "rows of the partitioned table public.p as those of its"),
        ("FOR TABLE p1, t WITH (publish_via_partition_root)", "does not have the table public.p"),
        ("FOR TABLE p1 WHERE (id > 1), t", "it has a row filter for public.p"),
        ("FOR TABLES IN SCHEMA other", "it does not have the table public.t"),
    ],
)
def test_publications_that_leave_changes_out_are_found(
    tables: PostgresDatabase, definition: str, problem: str
) -> None:
    tables.run("CREATE SCHEMA other", f"CREATE PUBLICATION pub {definition}")
    assert any(problem in finding for finding in findings(tables, T, P))


def test_a_publication_with_generated_columns_is_found(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    if int(postgres.value("SHOW server_version_num")) < 180_000:
        pytest.xfail("publish_generated_columns is new in 18")
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id + 1) STORED)",
        "CREATE TABLE u (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id + 1) VIRTUAL)",
        "INSERT INTO t VALUES (1)",
        "CREATE PUBLICATION pub FOR ALL TABLES WITH (publish_via_partition_root, "
        "publish_generated_columns = stored)",
    )
    remedy = 'ALTER PUBLICATION "pub" SET (publish_generated_columns = none)'
    follower.publication = "pub"
    with pytest.raises(Invalid) as error:
        follower.once()
    assert str(error.value).endswith(
        "publication pub: it sends generated columns of public.t (publish_generated_columns = "
        f"stored), which the lake does not have; {remedy}"
    )
    assert findings(postgres, U) == []
    postgres.run(remedy)
    follower.once()
    follower.check("t", "u")
    postgres.run(remedy.replace("none", "stored"), "INSERT INTO t VALUES (2)")
    follower.once()
    assert remedy in (follower.states()["t"].reason or "")


@pytest.mark.parametrize(
    "definition",
    [
        "FOR TABLE t, u WHERE (id > 1)",
        "FOR TABLES IN SCHEMA public",
        "FOR ALL TABLES",
        "FOR TABLE p1 WHERE (id > 1), t",
    ],
)
def test_what_concerns_other_tables_is_no_finding(
    tables: PostgresDatabase, definition: str
) -> None:
    tables.run(f"CREATE PUBLICATION pub {definition}")
    assert findings(tables, T) == []


def test_a_user_without_the_privilege_is_told_to_use_a_given_one(tables: PostgresDatabase) -> None:
    user = f"owner_{tables.name}"
    tables.run(f"CREATE ROLE {user} LOGIN")
    try:
        with psycopg.connect(tables.url.replace("headwater@", f"{user}@")) as connection:
            for choice in (None, [T]):
                with pytest.raises(Forbidden, match="let an administrator do it"):
                    create_publication(connection, "pub", choice)
                connection.rollback()
    finally:
        tables.run(f"DROP ROLE {user}")
