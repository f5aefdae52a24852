"""External tables and columns of types that Headwater keeps, with pypaimon as the other engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client import connect
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.data_type import parse_type, type_json

from .conftest import TOKEN, Client, serving

pytestmark = pytest.mark.interop
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """Where a folder outside the warehouse is that the server may work in."""
    (tmp_path / "server").mkdir()
    return tmp_path


def test_an_external_table_is_changed_by_either_side(room: Path) -> None:
    # A folder that a catalog which is nothing but files takes for a warehouse.
    folder = room / "outside"
    name = "shop.orders"
    options = {"bucket": "1", "path": str(folder / "shop.db" / "orders")}
    with serving(room / "server", HEADWATER_EXTERNAL_LOCATIONS=str(folder)) as service:
        pypaimon = Client("pypaimon", service, room)
        on_files = Client("pypaimon", service, room, folder=folder)
        pypaimon.create(name, ROWS, ["id"], (), options)
        # Unlike Paimon Java it asks the catalog for such a table's snapshots, which has none.
        on_files.write(name, pa.table({"id": [1], "note": ["a"]}, ROWS))
        with connect(service.uri, warehouse="main", token=TOKEN) as lake:
            table = lake.table(name)
            assert table.info.is_external
            table.write({"id": [2], "note": ["b"]})
            # Over REST by either side, and on the files alone.
            pypaimon.add_column(name, "amount", "INT")
            on_files.add_column(name, "price", "DOUBLE")
            table.alter(AddColumn(("born",), parse_type("DATE")))
            columns = ["id", "note", "amount", "price", "born"]
            assert [field.name for field in table.schema.fields] == columns
            assert [field.id for field in table.schema.fields] == [0, 1, 2, 3, 4]
            assert table.schema.id == 3
            table.write({"id": [1], "note": ["c"], "amount": [5], "price": [0.5]})
            wanted = {
                "id": [1, 2],
                "note": ["c", "b"],
                "amount": [5, None],
                "price": [0.5, None],
                "born": [None, None],
            }
            assert table.scan().to_arrow().sort_by("id").to_pydict() == wanted
            assert on_files.read(name).sort_by("id").to_pydict() == wanted
        kept = sorted(path.name for path in (folder / "shop.db/orders/schema").iterdir())
        assert kept == [f"schema-{number}" for number in range(4)]


def test_a_table_with_vectors_is_changed_by_either_side(room: Path) -> None:
    embedding = pa.list_(pa.float32(), 3)
    columns = pa.schema([*ROWS, ("embedding", embedding), ("more", pa.int32())])
    rows = pa.table(
        {
            "id": list(range(100)),
            "note": [f"n{i}" for i in range(100)],
            "embedding": pa.array([[i, 0.5, -i] for i in range(100)], embedding),
            "more": [i * 2 for i in range(100)],
        },
        columns,
    )
    with serving(room / "server") as service:
        pypaimon = Client("pypaimon", service, room)
        pypaimon.create("shop.vectors", columns)
        pypaimon.write("shop.vectors", rows)
        with connect(service.uri, warehouse="main", token=TOKEN) as lake:
            table = lake.table("shop.vectors")
            vector = {"type": "VECTOR", "element": "FLOAT", "length": 3}
            assert type_json(table.schema.column("embedding").type) == vector
            some = table.scan(columns=["more", "id"], where="more >= 150").to_arrow()
            assert some.sort_by("id").to_pydict() == {
                "more": list(range(150, 200, 2)),
                "id": list(range(75, 100)),
            }
            assert table.scan().to_arrow().sort_by("id").to_pydict() == rows.to_pydict()
            table.delete("id < 99")
            table.write({"id": [100], "embedding": pa.array([[1, 2, 3]], embedding)})
        found = pypaimon.read("shop.vectors").sort_by("id").select(["id", "embedding"])
        assert found.to_pydict() == {"id": [99, 100], "embedding": [[99, 0.5, -99], [1, 2, 3]]}
