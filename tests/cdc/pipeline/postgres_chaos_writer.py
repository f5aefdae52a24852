"""A writer that changes the rows and the columns of 22 tables of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from tests.cdc.pipeline.chaos_writer import ChaosWriter

__all__ = ["TABLES", "PostgresChaosWriter", "create_tables"]

PLAIN = tuple(f"t{number}" for number in range(12))
LONG = ("l0", "l1")
TEXT_KEYS = ("k0", "k1")
PARTITIONED = ("p0", "p1")
FAMILY = ("parents", "children", "grandchildren", "notes")
TABLES = (*PLAIN, *LONG, *TEXT_KEYS, *PARTITIONED, *FAMILY)

_PLAIN_COLUMNS = "(id INT PRIMARY KEY, a INT, b TEXT, c TIMESTAMP(3), d BIGINT)"
# The log has all of their rows before, also values that are not stored beside them.
_FULL = ("t10", "t11", "l1", "k1")
_DEFINITIONS = {
    **{name: f"CREATE TABLE {name} {_PLAIN_COLUMNS}" for name in PLAIN},
    **{
        name: f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT, body TEXT, more TEXT)"
        for name in LONG
    },
    **{
        name: f"CREATE TABLE {name} (x INT, y VARCHAR(10), v NUMERIC, w TEXT, PRIMARY KEY (y, x))"
        for name in TEXT_KEYS
    },
    **{
        name: f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b TEXT) PARTITION BY RANGE (id)"
        for name in PARTITIONED
    },
    "parents": "CREATE TABLE parents (id INT PRIMARY KEY, code INT UNIQUE, v INT)",
    "children": "CREATE TABLE children (id INT PRIMARY KEY, parent INT REFERENCES parents (id) ON "
    "DELETE CASCADE ON UPDATE CASCADE, v INT)",
    "grandchildren": "CREATE TABLE grandchildren (id INT PRIMARY KEY, child INT REFERENCES "
    "children (id) ON DELETE CASCADE ON UPDATE CASCADE, v INT)",
    "notes": "CREATE TABLE notes (id INT PRIMARY KEY, code INT REFERENCES parents (code) ON DELETE "
    "SET NULL ON UPDATE CASCADE)",
}
_TYPES = ("INT", "BIGINT", "VARCHAR(20)", "TIMESTAMP(3)", "NUMERIC(10,2)", "TEXT")
# What a column becomes, and its values.
_CONVERSIONS = {
    "integer": (("BIGINT", "{0} + 1"), ("TEXT", "'n' || {0}"), ("NUMERIC(10,2)", "{0} / 4.0")),
    "bigint": (("INT", "({0} % 1000)::int"), ("TEXT", "{0}::text")),
    "text": (("VARCHAR(20)", "left({0}, 20)"), ("INT", "length({0})")),
    "character varying(20)": (("VARCHAR(80)", "{0}"), ("TEXT", "{0} || '+'")),
    "character varying(80)": (("TEXT", "{0}"),),
    "numeric(10,2)": (("NUMERIC(14,3)", "{0} * 1.001"), ("INT", "{0}::int")),
    "timestamp(3) without time zone": (("TIMESTAMP", "{0} + interval '1 microsecond'"),),
}
_KEYS = 500
_PART_KEYS = 200
_SESSION = "SET lock_timeout = '2s'"
_LONG_VALUE = "(SELECT string_agg(md5(({} + i)::text), '') FROM generate_series(1, 90) i)"
_COLUMNS = (
    "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = "
    "to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)

Columns = Sequence[tuple[str, str]]
PostgresSession = psycopg.Connection[Any]


def create_tables(session: PostgresSession) -> None:
    """Create the tables, with some rows."""
    for table, definition in _DEFINITIONS.items():
        for statement in _made(table, definition):
            session.execute(statement.encode())
        rows = {
            PLAIN: "g, g, 'old', NULL, 0 FROM generate_series(0, 300, 2) g",
            LONG: f"g, g, {_LONG_VALUE.format('g')}, {_LONG_VALUE.format('2 * g')} "
            "FROM generate_series(0, 100, 2) g",
            TEXT_KEYS: "g % 9, 'y' || g, g, 'old' FROM generate_series(0, 300, 2) g",
            PARTITIONED: "g, g, 'old' FROM generate_series(0, 300, 2) g",
            ("parents",): "g, g, 0 FROM generate_series(0, 100, 2) g",
            ("notes",): "g, g % 100 FROM generate_series(0, 200, 2) g",
            ("children", "grandchildren"): "g, g, 0 FROM generate_series(0, 100, 2) g",
        }
        (select,) = (select for tables, select in rows.items() if table in tables)
        session.execute(f"INSERT INTO {table} SELECT {select}".encode())


def _made(table: str, definition: str) -> Sequence[str]:
    """The statements that make a table."""
    made = [definition]
    if table in PARTITIONED:
        made += [
            _partition(table, 0, _PART_KEYS),
            f"CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT",
        ]
    made += [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL"
        for column in ("b", "body", "more", "w")
        if f" {column} TEXT" in definition
    ]
    if table in _FULL:
        made.append(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    return made


def _partition(table: str, start: int, end: int) -> str:
    return f"CREATE TABLE {table}_{start} PARTITION OF {table} FOR VALUES FROM ({start}) TO ({end})"


class PostgresChaosWriter(ChaosWriter[PostgresSession]):
    """Changes the tables of `create_tables`.

    Args:
        url: The database.
        seed: Of its choices.
    """

    failures = (psycopg.Error,)

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(seed, self._open)
        self._url = url

    def _open(self) -> PostgresSession:
        session = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        session.execute(_SESSION)
        return session

    def _execute(self, session: PostgresSession, statement: str) -> None:
        if not statement.startswith("COPY "):
            session.execute(statement.encode())
            return
        command, _, rows = statement.partition("\n")
        with session.cursor() as cursor, cursor.copy(command.encode()) as copy:
            copy.write(rows)

    def _repair(self, session: PostgresSession) -> None:
        rows = session.execute(
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND "
            "relkind IN ('r', 'p') AND NOT relispartition"
        )
        present = {name for (name,) in rows.fetchall()}
        for table in TABLES:
            if table in present:
                continue
            if f"{table}_away" in present:
                self._run(session, f"ALTER TABLE {table}_away RENAME TO {table}")
            else:
                self._run(session, *_made(table, _DEFINITIONS[table]))
        for name in present:
            if name.startswith("_"):
                self._run(session, f"DROP TABLE {name}")

    # Rows -------------------------------------------------------------------------------------

    def _change_rows(self, session: PostgresSession) -> None:
        numbers = self._random
        self._run(session, "BEGIN")
        for _ in range(numbers.choice((1, 2, 3, 5, 5, 30))):
            self._run(session, *self._row_statements(session))
        if numbers.random() < 0.2:
            self._run(session, "SAVEPOINT s", *self._row_statements(session))
            self._run(session, "SAVEPOINT r", *self._row_statements(session))
            self._run(session, numbers.choice(("ROLLBACK TO s", "ROLLBACK TO r", "RELEASE s")))
            self._run(session, *self._row_statements(session))
        self._run(session, "COMMIT" if numbers.random() < 0.9 else "ROLLBACK")

    def _row_statements(self, session: PostgresSession) -> Sequence[str]:
        numbers = self._random
        chance = numbers.random()
        if chance < 0.2:
            return [self._family_statement()]
        if chance < 0.3:
            return [self._text_key_statement()]
        if chance < 0.45:
            return self._long_statements()
        if chance < 0.55:
            return [self._partitioned_statement()]
        return [self._plain_statement(session)]

    def _plain_statement(self, session: PostgresSession) -> str:
        numbers = self._random
        table, key, kind = numbers.choice(PLAIN), numbers.randrange(_KEYS), numbers.random()
        columns = self._columns(session, table)
        others = [column for column in columns if column[0] != "id"]
        names = ", ".join(name for name, _ in columns)
        if kind < 0.35 or not others:
            keys = range(key, key + numbers.choice((1, 3, 40)))
            rows = ", ".join(
                f"({', '.join(str(i) if name == 'id' else self._value(t) for name, t in columns)})"
                for i in keys
            )
            sets = ", ".join(f"{name} = excluded.{name}" for name, _ in columns)
            return (
                f"INSERT INTO {table} ({names}) VALUES {rows} ON CONFLICT (id) DO UPDATE SET {sets}"
            )
        if kind < 0.45:
            start = 10_000 + numbers.randrange(1_000_000)
            keys = range(start, start + numbers.choice((5, 200)))
            rows = "".join(f"{i}\t{i % 7}\n" for i in keys)
            first = next((name for name, type_ in others if type_ != "timestamp"), None)
            if first is not None and others[0][1].startswith(("int", "big", "text", "num")):
                return f"COPY {table} (id, {others[0][0]}) FROM STDIN\n{rows}"
        if kind < 0.75:
            name, type_ = numbers.choice(others)
            value = self._value(type_)
            return f"UPDATE {table} SET {name} = {value} WHERE id BETWEEN {key} AND {key + 9}"
        if kind < 0.85:
            return f"DELETE FROM {table} WHERE id BETWEEN {key} AND {key + 3} OR id > 900000"
        return _moved(table, "id", f"id = {key}", "1000 + id")

    def _long_statements(self) -> Sequence[str]:
        """Change rows with values that the log leaves out when they stay."""
        numbers = self._random
        table, key = numbers.choice(LONG), numbers.randrange(110)
        long = _LONG_VALUE.format(numbers.randrange(10**6))
        made = (
            f"INSERT INTO {table} VALUES ({key}, 1, {long}, 'short') ON CONFLICT (id) DO UPDATE "
            "SET n = 0, more = excluded.body"
        )
        touched = f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {key} AND {key + 5}"
        moved = _moved(table, "id", f"id = {key}", str(numbers.randrange(110)))
        return numbers.choice(
            (
                [made],
                [touched],
                [made, touched],
                [moved],
                [made, touched, moved],
                [moved, touched],
                [f"UPDATE {table} SET body = {long} WHERE id = {key}", moved],
                [f"UPDATE {table} SET more = NULL WHERE id = {key}", touched],
                [f"DELETE FROM {table} WHERE id = {key}", made, touched],
                [f"UPDATE {table} SET body = more WHERE id = {key}"],
            )
        )

    def _text_key_statement(self) -> str:
        numbers = self._random
        table, key = numbers.choice(TEXT_KEYS), numbers.randrange(_KEYS)
        value = self._value("text")
        return numbers.choice(
            (
                f"INSERT INTO {table} VALUES ({key % 9}, 'y{key}', {numbers.random()}, {value}) "
                "ON CONFLICT (y, x) DO UPDATE SET v = excluded.v",
                _moved(table, "y", f"y = 'y{key}'", "'z' || (v % 1000)::int", also="x"),
                f"UPDATE {table} SET v = v + 1 WHERE x = {key % 9}",
                f"UPDATE {table} SET w = {value} WHERE y = 'y{key}'",
                f"DELETE FROM {table} WHERE y = 'y{key}'",
            )
        )

    def _partitioned_statement(self) -> str:
        numbers = self._random
        table, key = numbers.choice(PARTITIONED), numbers.randrange(1000)
        value = self._value("text")
        return numbers.choice(
            (
                f"INSERT INTO {table} (id, a, b) SELECT g, g, {value} FROM generate_series({key}, "
                f"{key + 20}) g ON CONFLICT (id) DO UPDATE SET b = excluded.b",
                f"UPDATE {table} SET a = a + 1 WHERE id BETWEEN {key} AND {key + 50}",
                _moved(table, "id", f"id = {key}", str(numbers.randrange(1000))),
                f"DELETE FROM {table} WHERE id BETWEEN {key} AND {key + 5}",
            )
        )

    def _family_statement(self) -> str:
        numbers = self._random
        key, other = numbers.randrange(100), numbers.randrange(100)
        nothing = "ON CONFLICT DO NOTHING"
        parent = f"(SELECT id FROM parents WHERE id >= {other} ORDER BY id LIMIT 1)"
        child = f"(SELECT id FROM children WHERE id >= {other} ORDER BY id LIMIT 1)"
        code = f"(SELECT code FROM parents WHERE code >= {other} ORDER BY code LIMIT 1)"
        return numbers.choice(
            (
                f"INSERT INTO parents VALUES ({key}, {key}, 0) {nothing}",
                f"INSERT INTO children (id, parent) VALUES ({key}, {parent}) {nothing}",
                f"INSERT INTO grandchildren (id, child) VALUES ({key}, {child}) {nothing}",
                f"INSERT INTO notes VALUES ({key}, {code}) {nothing}",
                f"DELETE FROM parents WHERE id = {key}",
                _moved("parents", "id", f"id = {key}", str(other)),
                _moved("parents", "code", f"code = {key}", str(other)),
                f"UPDATE children SET parent = {parent} WHERE parent = {key}",
                _moved("children", "id", f"id = {key}", str(other)),
                f"DELETE FROM children WHERE id = {key}",
            )
        )

    def _value(self, type_: str) -> str:
        number = self._random.randrange(10_000)
        if number % 10 == 0:
            return "NULL"
        if type_.startswith("timestamp"):
            return f"timestamp '2024-01-02 03:04:05' + interval '{number} seconds'"
        if type_ == "text" and number % 3 == 0:
            return _LONG_VALUE.format(number)
        if type_.startswith(("character", "text")):
            return f"'é {number}'"
        return str(number)

    def _columns(self, session: PostgresSession, table: str) -> Columns:
        return [(name, type_) for name, type_ in session.execute(_COLUMNS, [table]).fetchall()]

    # Prepared transactions --------------------------------------------------------------------

    def _prepare(self) -> None:
        name = f"x{self.changes}"
        with self._open() as session:
            self._run(session, "BEGIN")
            for _ in range(2):
                self._run(session, *self._row_statements(session))
            self._prepared.append(name)
            self._run(session, f"PREPARE TRANSACTION '{name}'")

    def _end_all_prepared(self, session: PostgresSession) -> None:
        for (name,) in session.execute("SELECT gid FROM pg_prepared_xacts ORDER BY 1").fetchall():
            end = self._random.choice(("COMMIT", "ROLLBACK"))
            self._run(session, f"{end} PREPARED '{name}'")

    # Columns and tables -----------------------------------------------------------------------

    def _change_schema(self, session: PostgresSession) -> None:
        """Change a table, perhaps in one transaction with its rows, perhaps in vain."""
        numbers = self._random
        changes: tuple[Callable[[PostgresSession, str], Sequence[str]], ...] = (
            *(self._add, self._add, self._drop, self._rename, self._swap, self._add_again),
            *(self._convert, self._convert, self._truncate, self._truncate_many, self._compact),
            *(self._rename_table, self._make_again, self._swap_tables, self._change_family),
            *(self._change_partitions, self._change_partitions),
        )
        change, table = numbers.choice(changes), numbers.choice(PLAIN)
        if numbers.random() < 0.6:
            self._run(session, *change(session, table))
            return
        self._run(session, "BEGIN")
        touched = f"UPDATE {table} SET id = id WHERE id BETWEEN 10 AND {numbers.randrange(300)}"
        if numbers.random() < 0.5:
            self._run(session, touched)
        if change != self._compact:
            self._run(session, *change(session, table))
        if numbers.random() < 0.5:
            self._run(session, touched, *self._row_statements(session))
        self._run(session, "COMMIT" if numbers.random() < 0.8 else "ROLLBACK")

    def _others(self, session: PostgresSession, table: str) -> Columns:
        return [column for column in self._columns(session, table) if column[0] != "id"]

    def _free(self, session: PostgresSession, table: str) -> str:
        used = {name for name, _ in self._columns(session, table)}
        return self._random.choice([name for name in "abcdefghij" if name not in used])

    def _add(self, session: PostgresSession, table: str) -> Sequence[str]:
        if len(self._columns(session, table)) > 8:
            return self._drop(session, table)
        type_, default = self._random.choice(_TYPES), ""
        if self._random.random() < 0.5:
            value = {"TIMESTAMP(3)": "'2020-01-01 00:00:00'", "INT": "id"}.get(type_, "'7'")
            value = value.replace("id", "(random() * 1000)::int")
            default = f" NOT NULL DEFAULT {value}"
        return [f"ALTER TABLE {table} ADD COLUMN {self._free(session, table)} {type_}{default}"]

    def _drop(self, session: PostgresSession, table: str) -> Sequence[str]:
        others = self._others(session, table)
        if len(others) < 2:
            return self._add(session, table)
        return [f"ALTER TABLE {table} DROP COLUMN {self._random.choice(others)[0]}"]

    def _add_again(self, session: PostgresSession, table: str) -> Sequence[str]:
        """Drop a column, and add another one of its name."""
        name, type_ = self._random.choice(self._others(session, table))
        return [
            f"ALTER TABLE {table} DROP COLUMN {name}",
            f"ALTER TABLE {table} ADD COLUMN {name} {type_}",
        ]

    def _rename(self, session: PostgresSession, table: str) -> Sequence[str]:
        name, _ = self._random.choice(self._others(session, table))
        return [f"ALTER TABLE {table} RENAME COLUMN {name} TO {self._free(session, table)}"]

    def _swap(self, session: PostgresSession, table: str) -> Sequence[str]:
        """Swap two columns' names."""
        others = self._others(session, table)
        if len(others) < 2:
            return self._add(session, table)
        (one, _), (two, _) = self._random.sample(others, 2)
        return _together(
            f"ALTER TABLE {table} RENAME COLUMN {one} TO swapped",
            f"ALTER TABLE {table} RENAME COLUMN {two} TO {one}",
            f"ALTER TABLE {table} RENAME COLUMN swapped TO {two}",
        )

    def _convert(self, session: PostgresSession, table: str) -> Sequence[str]:
        choices = [item for item in self._others(session, table) if item[1] in _CONVERSIONS]
        if not choices:
            return self._add(session, table)
        name, type_ = self._random.choice(choices)
        new, value = self._random.choice(_CONVERSIONS[type_])
        using = value.format(name)
        return [
            f"ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT",
            f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {new} USING {using}",
        ]

    def _truncate(self, _: PostgresSession, table: str) -> Sequence[str]:
        return [f"TRUNCATE {table}", f"INSERT INTO {table} (id) SELECT generate_series(1, 30)"]

    def _truncate_many(self, _: PostgresSession, table: str) -> Sequence[str]:
        others = self._random.choice(("parents CASCADE", "l0, k0", "p0"))
        return [f"TRUNCATE {table}, {others}"]

    def _compact(self, _: PostgresSession, table: str) -> Sequence[str]:
        """Write a table to another file, with the same rows."""
        return (
            [self._random.choice((f"VACUUM FULL {table}", f"CLUSTER {table} USING {table}_pkey"))]
            if self._random.random() < 0.5
            else [f"VACUUM {table}"]
        )

    def _rename_table(self, _: PostgresSession, table: str) -> Sequence[str]:
        away = f"{table}_away"
        change = f"UPDATE {away} SET id = id + 3000 WHERE id < {self._random.randrange(100)}"
        return [
            f"DELETE FROM {table} WHERE id BETWEEN 3000 AND 3100",
            f"ALTER TABLE {table} RENAME TO {away}",
            change,
            f"ALTER TABLE {away} RENAME TO {table}",
        ]

    def _swap_tables(self, _: PostgresSession, table: str) -> Sequence[str]:
        other = self._random.choice([name for name in PLAIN if name != table])
        return _together(
            f"ALTER TABLE {table} RENAME TO _swap",
            f"ALTER TABLE {other} RENAME TO {table}",
            f"ALTER TABLE _swap RENAME TO {other}",
        )

    def _make_again(self, _: PostgresSession, table: str) -> Sequence[str]:
        made = [f"DROP TABLE {table}", *_made(table, _DEFINITIONS[table])]
        rows = f"INSERT INTO {table} SELECT g, g, 'again', NULL, 7 FROM generate_series(1, 50, 3) g"
        return [*made, rows]

    def _change_family(self, session: PostgresSession, _: str) -> Sequence[str]:
        """Change columns of tables that foreign keys bind."""
        table = self._random.choice(("children", "grandchildren"))
        if "v" in {name for name, _ in self._columns(session, table)}:
            return [f"ALTER TABLE {table} DROP COLUMN v"]
        return [f"ALTER TABLE {table} ADD COLUMN v INT DEFAULT 3"]

    def _change_partitions(self, session: PostgresSession, _: str) -> Sequence[str]:
        """Add a partition with rows or without, or take one away."""
        table = self._random.choice(PARTITIONED)
        rows = session.execute(
            "SELECT relid::regclass::text FROM pg_partition_tree(%s) WHERE isleaf", [table]
        )
        present = {name for (name,) in rows.fetchall()}
        start = _PART_KEYS * self._random.randrange(5)
        end, name = start + _PART_KEYS, f"{table}_{start}"
        bounds = f"FOR VALUES FROM ({start}) TO ({end})"
        if name in present:
            taken = [f"ALTER TABLE {table} DETACH PARTITION {name}", f"DROP TABLE {name}"]
            return taken if self._random.random() < 0.5 else [f"DROP TABLE {name}"]
        gone = f"DELETE FROM {table} WHERE id >= {start} AND id < {end}"
        if self._random.random() < 0.4:
            return _together(f"DROP TABLE IF EXISTS {name}", gone, _partition(table, start, end))
        return _together(
            f"DROP TABLE IF EXISTS {name}",
            gone,
            f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)",
            f"INSERT INTO {name} (id, b) SELECT g, 'attached' FROM generate_series({start}, "
            f"{end - 100}) g",
            f"ALTER TABLE {table} ATTACH PARTITION {name} {bounds}",
        )


def _together(*statements: str) -> Sequence[str]:
    """Statements that are one for others, within a transaction or as one."""
    return ["; ".join(statements)]


def _moved(table: str, key: str, where: str, value: str, also: str | None = None) -> str:
    """Give a row another key that no other row has."""
    same = f" AND o.{also} = {table}.{also}" if also else ""
    return (
        f"UPDATE {table} SET {key} = {value} WHERE {where} AND NOT EXISTS (SELECT FROM {table} o "
        f"WHERE o.{key} = {value.replace('id', f'{table}.id').replace('(v', f'({table}.v')}{same})"
    )
