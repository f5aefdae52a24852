"""Chain tables in Spark, and CALL sys.compact_chain_table."""

from __future__ import annotations

import pytest
from tests.spark.conftest import Rows, rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@pytest.fixture
def chain(lake: SparkLake) -> SparkLake:
    """The table db.c: two chains, of which one has a whole partition."""
    lake.sql(
        "CREATE TABLE db.c (region STRING, day STRING, item STRING, v INT, n INT) "
        "PARTITIONED BY (region, day) TBLPROPERTIES ('primary-key' = 'region,day,item', "
        "'chain-table.enabled' = 'true', 'chain-table.chain-partition-keys' = 'day', "
        "'bucket' = '2', 'bucket-key' = 'item', 'sequence.field' = 'v', "
        "'partition.timestamp-pattern' = '$day', 'partition.timestamp-formatter' = 'yyyyMMdd', "
        "'scan.fallback-snapshot-branch' = 'whole', 'scan.fallback-delta-branch' = 'delta')"
    )
    table = lake.catalog.table("db.c")
    table.create_branch("whole")
    table.create_branch("delta")
    lake.sql(
        "INSERT INTO db.`c$branch_whole` VALUES ('EU', '20260101', 'apple', 1, 10), "
        "('EU', '20260101', 'pear', 1, 20)"
    )
    lake.sql(
        "INSERT INTO db.`c$branch_delta` VALUES ('EU', '20260102', 'apple', 2, 11), "
        "('EU', '20260103', 'fig', 3, NULL), ('US', '20260102', 'fig', 2, 5), "
        "('US', '20260103', 'kiwi', 3, 6)"
    )
    lake.sql("DELETE FROM db.`c$branch_delta` WHERE region = 'US' AND item = 'kiwi'")
    return lake


WHOLE = [("EU", "20260101", "apple", 1, 10), ("EU", "20260101", "pear", 1, 20)]
THIRD = [
    ("EU", "20260103", "apple", 2, 11),
    ("EU", "20260103", "fig", 3, None),
    ("EU", "20260103", "pear", 1, 20),
    ("US", "20260103", "fig", 2, 5),
]


def query(lake: SparkLake, text: str) -> Rows:
    return sorted(rows(lake.sql(text)), key=repr)


def compact(lake: SparkLake, arguments: str) -> bool:
    ((result,),) = lake.sql(f"CALL sys.compact_chain_table({arguments})").collect()
    assert isinstance(result, bool)
    return result


def test_queries_see_the_chains(chain: SparkLake) -> None:
    assert query(chain, "SELECT * FROM db.c WHERE day = '20260103'") == THIRD
    assert query(chain, "SELECT region, sum(n) FROM db.c GROUP BY region") == [
        ("EU", 92),
        ("US", 10),
    ]
    assert query(chain, "SELECT count(*) FROM db.c WHERE item = 'fig' AND n IS NULL") == [(1,)]


def test_a_partition_is_made_whole(chain: SparkLake) -> None:
    everything = query(chain, "SELECT * FROM db.c")
    # Part of the partition columns names a partition of each chain.
    assert compact(chain, "table => 'db.c', partition => 'day=\"20260103\"'")
    assert query(chain, "SELECT * FROM db.`c$branch_whole`") == sorted([*WHOLE, *THIRD], key=repr)
    assert query(chain, "SELECT * FROM db.c") == everything
    assert not compact(chain, "table => 'db.c', partition => 'day=20260103'")
    assert not compact(chain, "table => 'db.c', partition => 'day=20260109'")
    # Streams and reads of changes see the rows.
    kinds = query(chain, "SELECT commit_kind FROM db.`c$branch_whole$snapshots`")
    assert kinds == [("APPEND",), ("APPEND",)]


def test_a_whole_partition_is_made_anew(chain: SparkLake) -> None:
    assert compact(chain, "'db.c', 'region=EU,day=20260103'")
    chain.sql("INSERT INTO db.`c$branch_delta` VALUES ('EU', '20260103', 'pear', 4, 21)")
    assert query(chain, "SELECT n FROM db.c WHERE day = '20260103' AND item = 'pear'") == [(20,)]
    others = query(chain, "SELECT * FROM db.c WHERE day <> '20260103' OR region = 'US'")
    assert compact(chain, "'db.c', 'region=EU,day=20260103', true")
    assert query(chain, "SELECT * FROM db.c WHERE region = 'EU' AND day = '20260103'") == [
        *THIRD[:2],
        ("EU", "20260103", "pear", 4, 21),
    ]
    assert query(chain, "SELECT * FROM db.c WHERE day <> '20260103' OR region = 'US'") == others
    # A whole partition without changes stays as it is.
    assert not compact(chain, "'db.c', 'region=EU,day=20260101', true")
    assert query(chain, "SELECT * FROM db.c WHERE region = 'EU' AND day = '20260101'") == WHOLE


def test_rows_that_changes_delete_leave_no_whole_partition_behind(chain: SparkLake) -> None:
    assert compact(chain, "'db.c', 'region=US,day=20260103'")
    chain.sql("DELETE FROM db.`c$branch_delta` WHERE region = 'US'")
    assert compact(chain, "'db.c', 'region=US,day=20260103', true")
    assert query(chain, "SELECT * FROM db.c WHERE region = 'US'") == []
    assert query(chain, "SELECT * FROM db.`c$branch_whole`") == WHOLE


def test_other_tables_and_partitions_are_refused(chain: SparkLake) -> None:
    for name in ("c$branch_whole", "c$branch_delta"):
        with pytest.raises(Invalid, match="not a chain table, or one of its branches"):
            compact(chain, f"'db.{name}', 'day=20260103'")
    with pytest.raises(Invalid, match="one partition at a time, not 2"):
        compact(chain, "'db.c', 'day=20260103;day=20260102'")
    with pytest.raises(Invalid, match="must not be blank"):
        compact(chain, "'db.c', ''")
    chain.sql("ALTER TABLE db.c ALTER COLUMN n SET DEFAULT 3")
    with pytest.raises(Unsupported, match="column 'n' would become its default"):
        compact(chain, "'db.c', 'day=20260103'")
