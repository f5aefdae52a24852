"""Comparison of a source's rows with the lake's, by key, in bounded memory.

Keys are matched by equality alone, since the two sides sort text in different ways. Rows are
divided into files by a hash of their key, and each file is then compared in memory: a grace hash
join. A row's values are compared by a digest of 128 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.sink.divided_rows import DividedRows, read_batches
from headwater.storage.errors import Invalid

__all__ = ["Comparison", "Difference", "Differences"]

DEFAULT_MEMORY_BYTES = 256 << 20

_DIGEST_SEEDS = {"digest 1": 1, "digest 2": 2}
_IS_SOURCE = "is source"
# Rows are copied as they are gathered, and grouping needs several times their bytes.
_COPIES = 8


class Difference(StrEnum):
    """How the rows of a key differ."""

    MISSING = "missing in the lake"
    EXTRA = "not in the source"
    DIFFERENT = "different"
    DUPLICATE_IN_SOURCE = "duplicated in the source"
    DUPLICATE_IN_LAKE = "duplicated in the lake"


@dataclass(frozen=True)
class Differences:
    """The result of a comparison.

    Attributes:
        source_rows: How many rows the source has.
        lake_rows: How many rows the lake has.
        equal_rows: How many keys both have once and with equal values.
        counts: How many keys have each difference; those that no key has are left out. A key that
            a side has several times is counted for that and for how its rows differ.
    """

    source_rows: int
    lake_rows: int
    equal_rows: int
    counts: Mapping[Difference, int]
    _file: Path
    _schema: pa.Schema

    def batches(self, *kinds: Difference) -> Iterator[pa.RecordBatch]:
        """Read the keys that differ, while the comparison is open.

        Args:
            kinds: The differences to read; none reads all.

        Yields:
            The key's columns and, as the last column, ``difference``; in no order.
        """
        if not self.counts:
            return
        wanted = pa.array(kinds or list(Difference), pa.string())
        for batch in read_batches(self._file):
            rows = batch.filter(pc.is_in(batch.columns[-1], wanted))
            if rows.num_rows:
                yield pa.RecordBatch.from_arrays(rows.columns, schema=self._schema)


class Comparison:
    """A comparison of two sets of rows, each of which is read once and in any order.

    Text, bytes, decimals and times are equal when they are the same value: 'a' differs from 'A',
    and NULL from an empty value. NaN equals NaN, and -0.0 equals 0.0. Arrays, rows and maps are
    compared in all their parts, and in the order of their elements.

    Args:
        key: The names of the key's columns.
        schema: The columns of both sides; with the key's alone, only keys are compared.
        memory_bytes: How much memory the comparison takes at most, beside the batches that are
            added. Rows of one key are never divided.
        directory: Where files are kept until it is closed; None takes the system's directory.

    Raises:
        Invalid: The schema lacks a column of the key.
    """

    def __init__(
        self,
        key: Sequence[str],
        schema: pa.Schema,
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        directory: str | None = None,
    ) -> None:
        absent = [name for name in key if name not in schema.names]
        if absent or not key:
            raise Invalid(
                f"cannot compare rows with the key ({', '.join(key)}): the columns are "
                f"{', '.join(schema.names)}; name columns of the key"
            )
        self._key = key
        self._schema = schema
        self._values = [name for name in schema.names if name not in key]
        self._digests = list(_DIGEST_SEEDS) if self._values else []
        self._folder = TemporaryDirectory(prefix="headwater-comparison-", dir=directory)
        self._key_columns = [f"key {number}" for number in range(len(key))]
        folder = Path(self._folder.name)
        self._rows = DividedRows(folder / "rows", self._key_columns, memory_bytes // _COPIES)
        self._counts = {True: 0, False: 0}
        self._differences: Differences | None = None

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the files."""
        self._rows.close()
        self._folder.cleanup()

    def add_source(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows of the source; Invalid when their columns are not those of the schema."""
        self._add(batches, "source", is_source=True)

    def add_lake(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows of the lake; Invalid when their columns are not those of the schema."""
        self._add(batches, "lake", is_source=False)

    def differences(self) -> Differences:
        """Compare the rows that were added; none may be added from then on."""
        if self._differences is None:
            self._differences = self._compare()
        return self._differences

    def _add(self, batches: Iterable[pa.RecordBatch], side: str, *, is_source: bool) -> None:
        for batch in batches:
            if self._differences is not None:
                raise Invalid(
                    f"cannot add rows of the {side}: the rows were compared already; begin "
                    "another comparison"
                )
            self._check(batch, side)
            if batch.num_rows:
                self._rows.add(self._prepared(batch, is_source=is_source))
                self._counts[is_source] += batch.num_rows

    def _check(self, batch: pa.RecordBatch, side: str) -> None:
        actual = {field.name: field.type for field in batch.schema}
        expected = {field.name: field.type for field in self._schema}
        problems = [f"column '{name}' is missing" for name in expected if name not in actual]
        problems += [f"column '{name}' is not known" for name in actual if name not in expected]
        problems += [
            f"column '{name}' is {actual[name]}, expected {type_}"
            for name, type_ in expected.items()
            if name in actual and actual[name] != type_
        ]
        if problems or len(actual) != batch.num_columns:
            reason = ", ".join(problems) or "two columns have the same name"
            raise Invalid(
                f"cannot compare rows of the {side}: {reason}; read the columns of the comparison"
            )

    def _prepared(self, batch: pa.RecordBatch, *, is_source: bool) -> pa.Table:
        """The keys of rows, the digests of their other values, and the side that has them."""
        arrays = [batch.column(name) for name in self._key]
        if self._values:
            frame = _frame([batch.column(name) for name in self._values])
            arrays += [frame.hash_rows(seed=seed).to_arrow() for seed in _DIGEST_SEEDS.values()]
        arrays.append(pa.repeat(is_source, batch.num_rows))
        return pa.table(arrays, [*self._key_columns, *self._digests, _IS_SOURCE])

    def _compare(self) -> Differences:
        fields = [self._schema.field(name) for name in self._key]
        schema = pa.schema([*fields, pa.field("difference", pa.string(), nullable=False)])
        counts: dict[Difference, int] = {}
        equal_rows = 0
        file = Path(self._folder.name, "differences")
        writer: pa.RecordBatchWriter | None = None
        for rows in self._rows.parts():
            groups = self._grouped(rows)
            equal_rows += int(groups.select(_is_equal()).to_series().sum())
            for kind, condition in _conditions().items():
                keys = groups.filter(condition).select(self._key_columns)
                if len(keys):
                    counts[kind] = counts.get(kind, 0) + len(keys)
                    arrays = [
                        keys.get_column(name).to_arrow().cast(field.type)
                        for name, field in zip(self._key_columns, fields, strict=True)
                    ]
                    arrays.append(pa.repeat(pa.scalar(str(kind), pa.string()), len(keys)))
                    writer = writer or pa.ipc.new_stream(str(file), schema)
                    writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        if writer is not None:
            writer.close()
        return Differences(
            self._counts[True], self._counts[False], equal_rows, counts, file, schema
        )

    def _grouped(self, rows: pa.Table) -> pl.DataFrame:
        """How often each side has each key, and whether all of its rows are the same."""
        is_source = pl.col(_IS_SOURCE)
        ranges = [
            value.name.suffix(suffix)
            for name in self._digests
            for value, suffix in ((pl.col(name).min(), " min"), (pl.col(name).max(), " max"))
        ]
        groups = pl.DataFrame(rows).group_by(self._key_columns)
        counted = groups.agg(
            is_source.sum().alias("source"), is_source.not_().sum().alias("lake"), *ranges
        )
        is_same = [pl.col(f"{name} min") == pl.col(f"{name} max") for name in self._digests]
        return counted.with_columns(pl.all_horizontal(pl.lit(value=True), *is_same).alias("same"))


def _conditions() -> Mapping[Difference, pl.Expr]:
    source, lake = pl.col("source"), pl.col("lake")
    return {
        Difference.MISSING: lake == 0,
        Difference.EXTRA: source == 0,
        Difference.DIFFERENT: (source > 0) & (lake > 0) & pl.col("same").not_(),
        Difference.DUPLICATE_IN_SOURCE: source > 1,
        Difference.DUPLICATE_IN_LAKE: lake > 1,
    }


def _is_equal() -> pl.Expr:
    return (pl.col("source") == 1) & (pl.col("lake") == 1) & pl.col("same")


def _frame(arrays: Sequence[pa.Array]) -> pl.DataFrame:
    """Columns, whose names may be any."""
    return pl.DataFrame(pa.table(arrays, [str(number) for number in range(len(arrays))]))
