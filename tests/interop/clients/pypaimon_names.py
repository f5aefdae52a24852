"""What pypaimon writes to tables of given names: catalog options and names in, one answer out."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

NUMBERS = pa.schema([pa.field("n", pa.int64())])


def main() -> None:
    options, names = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    catalog = CatalogFactory.create({**options, "metastore": "rest"})
    catalog.create_database("sales", True)
    for name in names:
        catalog.create_table(f"sales.{name}", Schema.from_pyarrow_schema(NUMBERS), True)
        builder = catalog.get_table(f"sales.{name}").new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pa.table({"n": [len(name)]}, schema=NUMBERS))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
    print("written")


main()
