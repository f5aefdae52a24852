"""The data that is measured with: orders of 7 columns, and upserts to them, as Arrow files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

__all__ = ["KEYS", "UPSERTS", "OrderFiles", "make_orders"]

KEYS: Mapping[str, tuple[str, ...]] = {
    "bigint": ("order_id",),
    "string": ("order_id",),
    "two-column": ("region", "order_id"),
}
"""The columns of each kind of key."""

UPSERTS = 3
_STATUS = ("new", "paid", "packed", "shipped", "delivered", "returned")
_BATCH_ROWS = 65536
_START = 1_735_689_600_000_000


@dataclass(frozen=True)
class OrderFiles:
    """Arrow IPC files of orders.

    Attributes:
        base: Orders in an order that is not that of their keys.
        upserts: Each has new versions of a tenth of them, another tenth each time.
        rows: Rows of `base`.
    """

    base: Path
    upserts: tuple[Path, ...]
    rows: int

    @property
    def all(self) -> tuple[Path, ...]:
        """The base, then the upserts."""
        return (self.base, *self.upserts)


def make_orders(folder: Path, kind: str, rows: int) -> OrderFiles:
    """Write orders whose key is of a kind of `KEYS`."""
    numbers = pl.select(number=pl.int_range(rows, dtype=pl.Int64))
    # 7,919 is a prime that divides no power of ten, so this permutes the keys.
    base = _with_values(numbers.select(order=pl.col("number") * 7919 % rows), kind, 0)
    files = OrderFiles(
        folder / f"{kind}-{rows}.arrow",
        tuple(folder / f"{kind}-{rows}-upsert-{number}.arrow" for number in range(1, UPSERTS + 1)),
        rows,
    )
    _write(base, files.base)
    tenth = numbers.head(rows // 10)
    for version, path in enumerate(files.upserts, 1):
        keys = tenth.select(order=pl.col("number") * 10 + version)
        _write(_with_values(keys, kind, version), path)
    return files


def _write(rows: pl.DataFrame, path: Path) -> None:
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    plain = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    with pa.ipc.new_file(path, pa.schema(plain)) as file:
        file.write_table(table.cast(pa.schema(plain)), max_chunksize=_BATCH_ROWS)


def _with_values(keys: pl.DataFrame, kind: str, version: int) -> pl.DataFrame:
    order = pl.col("order")

    def number(salt: int, below: int) -> pl.Expr:
        return (order.hash(salt + 100 * version) % below).cast(pl.Int64)

    text = pl.format("order-{}", order.cast(pl.String).str.zfill(12))
    return keys.select(
        order_id=text if kind == "string" else order,
        region=(order % 100).cast(pl.Int32),
        customer=pl.format("customer-{}", number(1, 50_000)),
        status=number(2, len(_STATUS)).replace_strict(
            dict(enumerate(_STATUS)), return_dtype=pl.String
        ),
        ordered_at=(number(3, 31_536_000) * 1_000_000 + _START).cast(pl.Datetime("us")),
        amount=number(4, 1_000_000).cast(pl.Float64) / 100,
        product_id=number(5, 10_000_000),
    )
