"""Every operation that Paimon's Java client has, called by it on a running server.

Its ``RESTApi`` has one method for each; what goes wrong is asked of its ``RESTCatalog``, whose
exceptions say whether it understood the server's answer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway

from . import java_catalog_operations as catalog
from . import java_table_operations as table
from .conftest import TOKEN, serving
from .java_rest_api import Java
from .seen_operations import documented, seen_by

AREAS = (
    catalog.databases,
    catalog.tables,
    catalog.external_tables,
    catalog.reading_rights,
    catalog.schema_changes,
    catalog.views,
    catalog.functions,
    table.snapshots,
    table.branches,
    table.tags,
    table.partitions,
    table.consumers,
)


@pytest.mark.interop_java
def test_java_calls_every_operation_that_it_has(
    java_gateway: JavaGateway, java_version: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    with serving(
        tmp_path,
        HEADWATER_DATA_TOKEN_SECONDS="7200",
        HEADWATER_EXTERNAL_LOCATIONS=f"{tmp_path}/elsewhere",
    ) as service:
        java = Java(java_gateway, java_version, service.uri, TOKEN, tmp_path)
        java.api.createDatabase("sales", {})
        for area in AREAS:
            with subtests.test(area.__name__):
                area(java)
        assert java.not_called() == set()
        client = f"Paimon Java {java_version}"
        assert seen_by(client, service.uri, TOKEN) == documented(client)
