"""Pipelines as users start, watch and command them."""

from headwater.cdc.service.lake_cdc import LakeCdc
from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.running import RunningPipeline
from headwater.cdc.service.sources import PASSWORD_VARIABLE
from headwater.cdc.service.status import PipelineStatus, TableStatus

__all__ = [
    "PASSWORD_VARIABLE",
    "LakeCdc",
    "PipelineOptions",
    "PipelineStatus",
    "RunningPipeline",
    "TableStatus",
]
