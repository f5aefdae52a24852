"""The options of warehouses in the database, encrypted and under other keys."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.conftest import NewSqlite

from headwater.catalog.sql.admin.sealed_options import KEYS, KEYS_FILE, OptionKeys, option_keys
from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.open_database import opened_database
from headwater.storage.errors import CorruptData, Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME

OPTIONS = {"s3.endpoint": "http://store", "s3.secret-key": "the-secret"}
ONE, TWO = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))


@pytest.fixture
def file(tmp_path: Path, new_sqlite: NewSqlite) -> Path:
    new_sqlite(tmp_path / "headwater.db")
    return tmp_path / "headwater.db"


@pytest.fixture
def database(file: Path) -> Iterator[SqlDatabase]:
    with opened_database(f"sqlite:///{file}") as opened:
        yield opened


def of(database: SqlDatabase, keys: str = "") -> Warehouses:
    return Warehouses(database, SYSTEM_RUNTIME, option_keys({KEYS: keys}))


def stored(file: Path) -> str:
    with closing(sqlite3.connect(file)) as opened:
        return "".join(row[0] for row in opened.execute("SELECT options FROM hw_warehouses"))


def test_secrets_are_stored_encrypted_and_read_again(
    database: SqlDatabase, file: Path, tmp_path: Path
) -> None:
    warehouses = of(database, f"k1:{ONE}")
    warehouses.add("lake", str(tmp_path / "lake"), OPTIONS)
    assert "the-secret" not in stored(file)
    assert warehouses.get("lake").options == OPTIONS
    changed = warehouses.set("lake", {"s3.secret-key": "another"}, ["s3.endpoint"])
    assert changed.options == {"s3.secret-key": "another"}
    assert "another" not in stored(file)
    assert [info.options for info in warehouses.list().items] == [changed.options]
    for keys, words in (("", "'k1'"), (f"k2:{TWO}", "'k1'")):
        with pytest.raises(Invalid, match=words):
            of(database, keys).get("lake")
    with pytest.raises(CorruptData, match="cannot be decrypted"):
        of(database, f"k1:{TWO}").get("lake")


def test_each_text_is_another_and_one_warehouse_s_alone(
    database: SqlDatabase, file: Path, tmp_path: Path
) -> None:
    warehouses = of(database, f"k1:{ONE}")
    for name in ("lake", "pond"):
        warehouses.add(name, str(tmp_path / name), OPTIONS)
    with closing(sqlite3.connect(file)) as opened:
        texts = [row[0] for row in opened.execute("SELECT options FROM hw_warehouses")]
        assert len(set(texts)) == 2
        opened.execute(
            "UPDATE hw_warehouses SET options = "
            "(SELECT options FROM hw_warehouses WHERE name = 'lake') WHERE name = 'pond'"
        )
        opened.commit()
    assert warehouses.get("lake").options == OPTIONS
    with pytest.raises(CorruptData):
        warehouses.get("pond")


def test_a_key_is_replaced_while_both_are_known(
    database: SqlDatabase, file: Path, tmp_path: Path
) -> None:
    of(database).add("old", str(tmp_path / "old"), OPTIONS)
    assert "the-secret" in stored(file)
    of(database, f"k1:{ONE}").add("lake", str(tmp_path / "lake"), OPTIONS)
    both = of(database, f"k2:{TWO},k1:{ONE}")
    before = both.get("lake").updated_at
    assert both.rotate_key() == 2
    assert both.rotate_key() == 0
    assert "the-secret" not in stored(file)
    only = of(database, f"k2:{TWO}")
    assert [info.options for info in only.list().items] == [OPTIONS, OPTIONS]
    # It is no change of the warehouse.
    assert only.get("lake").updated_at == before
    with pytest.raises(Invalid, match=KEYS):
        of(database).rotate_key()


def test_keys_come_from_a_variable_or_a_file(tmp_path: Path) -> None:
    keys = OptionKeys({"k1": bytes([1]) * 32, "k2": bytes([2]) * 32})
    assert option_keys({}) == OptionKeys()
    assert option_keys({KEYS: f"k1:{ONE}, k2:{TWO}"}) == keys
    (tmp_path / "keys").write_text(f"k1:{ONE}\nk2:{TWO}\n")
    assert option_keys({KEYS_FILE: str(tmp_path / "keys")}) == keys
    assert ONE not in repr(keys)
    for wrong in (ONE, f"k1:{ONE[:20]}", f"k 1:{ONE}", f"k1:{ONE},k1:{TWO}", "k1:é"):
        with pytest.raises(Invalid) as refused:
            option_keys({KEYS: wrong})
        assert ONE not in str(refused.value)
    with pytest.raises(Invalid, match="both set"):
        option_keys({KEYS: f"k1:{ONE}", KEYS_FILE: "keys"})
    with pytest.raises(Invalid, match="cannot be read"):
        option_keys({KEYS_FILE: str(tmp_path / "none")})
