"""The marker of a warehouse in an object store, where no folder says that it is there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pyarrow as pa
import pytest
from tests import plain_http
from tests.conftest import NewSqlite

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.outbox.warehouse_marker import KEPT_SECONDS
from headwater.catalog.table.table import Table
from headwater.server.probes import WarehouseStorage
from headwater.storage.errors import Forbidden, HeadwaterError, Unavailable
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.runtime import Runtime
from headwater.storage.schema.table_schema import Schema

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ORDERS, MORE = Identifier("sales", "orders"), Identifier("sales", "more")
SCHEMA = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
KEY = f"main/{WAREHOUSE_MARKER}"

Open = Callable[..., SqlCatalog]
