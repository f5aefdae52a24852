"""Tables whose files have names and folders of their own, shared with other clients."""

from __future__ import annotations

from pathlib import Path

from headwater.client.lake import Lake
from headwater.storage.files.local import local_path

from .java_client import JavaClient
from .test_shared_tables import KEYS, AnyClient, create, expected, orders, same


def test_files_have_names_and_folders_of_their_own(lake: Lake, client: AnyClient) -> None:
    options = {
        "bucket": "1",
        "data-file.prefix": "rows_",
        "file.suffix.include.compression": "true",
    }
    java = isinstance(client, JavaClient)
    if java:
        options |= {
            "data-file.path-directory": "data/here",
            "metadata.stats-mode.per.level": "0:full",
        }
    name = create(lake, client, "names", "headwater", **{**KEYS, "options": options})
    table = lake.table(name)
    table.write(orders(range(60)))
    same(orders(range(60)), client.read(name))
    client.write(name, orders(range(40, 80), 1))
    everything = expected(orders(range(60)), orders(range(40, 80), 1))
    same(everything, table.refresh().scan().to_arrow())
    table.refresh().compact()
    same(everything, client.read(name))
    root = Path(local_path(table.storage.layout.location))
    written = list(root.rglob("*.parquet"))
    assert len(written) >= 9
    if java:
        assert all(path.name.startswith("rows_") for path in written)
        assert all(path.name.endswith(".zst.parquet") for path in written)
        assert all(path.relative_to(root).parts[:2] == ("data", "here") for path in written)
