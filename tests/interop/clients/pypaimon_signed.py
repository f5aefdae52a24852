"""What pypaimon does with a catalog that it signs its requests to: options in, JSON out."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.api.rest_api import RESTApi

NUMBERS = pa.schema([pa.field("n", pa.int64())])


def main() -> None:
    options = json.loads(sys.argv[1])
    catalog = CatalogFactory.create({**options, "metastore": "rest"})
    catalog.create_database("sales", True)
    name = "sales.a~b c*d"
    catalog.create_table(name, Schema.from_pyarrow_schema(NUMBERS), True)
    table = catalog.get_table(name)
    for numbers in ([1, 2], [3]):
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pa.table({"n": numbers}, schema=NUMBERS))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    api = RESTApi(options)
    page = api.list_tables_paged("sales", 1, None, "a~b c*%")
    catalog.drop_table(name, True)
    print("answer " + json.dumps([sorted(rows["n"].to_pylist()), list(page.elements)]))


main()
