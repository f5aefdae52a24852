"""Statements of Delta Lake and Iceberg are refused with the ones to write here."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.references import find_references
from headwater.spark.sql.query.splice import splice
from headwater.storage.errors import HeadwaterError, Invalid, Unsupported


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("OPTIMIZE t ZORDER BY (a)", "CALL sys.compact"),
        ("VACUUM t RETAIN 168 HOURS", "CALL sys.expire_snapshots.* CALL sys.remove_orphan_files"),
        ("RESTORE TABLE t TO VERSION AS OF 3", "CALL sys.rollback"),
        ("REORG TABLE t APPLY (PURGE)", "CALL sys.compact"),
        ("CONVERT TO DELTA parquet.`/x`", "AS SELECT"),
        ("GENERATE symlink_format_manifest FOR TABLE t", "through the catalog"),
        ("FSCK REPAIR TABLE t", "headwater fsck"),
        ("DESCRIBE HISTORY t", r"`t\$snapshots`"),
        ("DESC DETAIL t", r"`t\$files`"),
        ("CREATE TABLE u SHALLOW CLONE t", "CALL sys.copy.*a branch shares them"),
        ("CREATE TABLE u CLONE t", "CALL sys.copy"),
        ("ALTER TABLE t CREATE BRANCH b", "CALL sys.create_branch"),
        ("ALTER TABLE t DROP BRANCH b", "CALL sys.delete_branch"),
        ("ALTER TABLE t DROP TAG v", "DELETE TAG"),
        ("ALTER TABLE t ADD PARTITION FIELD days(ts)", "keeps its partition columns"),
        ("ALTER TABLE t WRITE ORDERED BY a", "clustering.columns"),
        ("ALTER TABLE t SET IDENTIFIER FIELDS a", "keeps its primary key"),
        ("CALL system.rollback_to_snapshot('d.t', 3)", r"CALL sys\.rollback\("),
        ("CALL cat.system.rewrite_data_files(table => 'd.t')", r"CALL sys\.compact\("),
        ("CALL system.expire_snapshots('d.t')", r"write CALL sys\.expire_snapshots\("),
    ],
)
def test_an_error_says_what_to_write(run: Run, written: str, instead: str) -> None:
    with pytest.raises(HeadwaterError, match=instead) as refused:
        run(written)
    assert isinstance(refused.value, Unsupported | Invalid)


def test_a_table_may_have_such_a_name(run: Run) -> None:
    run("CREATE TABLE history (orders INT COMMENT 'their number')")
    assert ("orders", "int", "their number") in run("DESCRIBE history")
    assert ("comment", "their number") in run("DESCRIBE history orders")


@pytest.mark.spark
def test_metadata_tables_and_functions_of_changes(
    context: SqlContext, run: Run, spark: SparkSession
) -> None:
    run("CREATE TABLE t (a INT)")
    context = replace(context, session=replace(context.session, spark=spark))
    for written in ("t.history", "db.t.snapshots", "main.db.t.history"):
        with pytest.raises(Invalid, match=r"write `t\$snapshots`"):
            splice(f"SELECT * FROM {written}", context)
    with pytest.raises(Invalid, match=r"write `t\$files`"):
        splice("SELECT * FROM t.data_files", context)
    # No table of the catalog: Spark may know it.
    assert not splice("SELECT * FROM u.history", context).relations
    with pytest.raises(Unsupported, match="paimon_incremental_query"):
        find_references("SELECT * FROM table_changes('t', 1, 2)")
