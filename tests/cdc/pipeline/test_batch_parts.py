"""Parts of batches that are given up: nothing of them is committed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.pipeline.append_part import AppendPart
from headwater.cdc.pipeline.batch_part import AbortedError
from headwater.cdc.pipeline.log_rows import ReadAgainError
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.targets import Targets
from headwater.client import Lake
from headwater.storage.types.data_type import parse_type

TABLE = SourceTable(TableName("shop", "t"), (SourceColumn("a", "int", parse_type("INT")),))


@pytest.mark.parametrize("gives_up", ["abort", "read_again"])
def test_a_part_that_waits_is_given_up(lake: Lake, gives_up: str) -> None:
    settings = PipelineSettings("shop", "mysql://test", "lake", ("shop.*",))
    targets = Targets(lake, settings)
    targets.create("lake.t", TABLE)
    part = AppendPart(lake.table("lake.t"), targets.mapping("lake.t", TABLE), settings)
    with ThreadPoolExecutor(1) as threads:
        committed = threads.submit(part.commit, "user", 1, dict)
        assert not committed.done()
        if gives_up == "abort":
            part.abort()
        else:
            part.read_again("rows are not known")
        error = AbortedError if gives_up == "abort" else ReadAgainError
        with pytest.raises(error):
            committed.result()
    assert lake.table("lake.t").latest_snapshot() is None
