"""A whole table on an S3-compatible store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headwater.client import connect

KEYS = {"s3.access-key": "test", "s3.secret-key": "test"}


def test_a_table_lives_on_an_object_store(s3_endpoint: str, tmp_path: Path) -> None:
    options = {"s3.endpoint": s3_endpoint, **KEYS}
    database = f"sqlite:///{tmp_path}/catalog.db"
    rows = pa.table({"id": list(range(100)), "v": [f"v{i}" for i in range(100)]})
    with connect(database, location="s3://lake/warehouse", options=options) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", rows.schema, primary_keys=["id"], options={"bucket": "2"})
        assert table.info.path == "s3://lake/warehouse/db.db/t"
        table.write(rows)
        table.write(pa.table({"id": [3, 200], "v": ["new", "added"]}))
        table.delete("id < 3")
        table.create_tag("kept")
        table.compact()
        table.expire_snapshots(retain_min=1, retain_max=1)
    with connect(database, location="s3://lake/warehouse", options=options) as lake:
        table = lake.table("db.t")
        found = dict(zip(*table.scan(["id", "v"]).to_arrow().to_pydict().values(), strict=True))
        assert found == {3: "new", 200: "added"} | {i: f"v{i}" for i in range(4, 100)}
        assert table.scan(tag="kept").count() == len(found)
        assert [snapshot.id for snapshot in table.snapshots()] == [4]
        lake.drop_table("db.t")
        assert lake.list_tables("db") == []
