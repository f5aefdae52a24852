"""Rules for the columns that a row's bucket is computed from."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.errors import Invalid
from headwater.storage.options import BucketFunction
from headwater.storage.types.atomic_type import Root
from headwater.storage.types.data_type import DataType
from headwater.storage.types.type_parts import root_of

__all__ = ["check_bucket_function"]

_NUMBERS = (Root.INT, Root.BIGINT)
_UNHASHED = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def check_bucket_function(function: BucketFunction, types: Sequence[DataType]) -> None:
    """Refuse a bucket key that a bucket function has no number for.

    Paimon's own writers fail at the first row. Source: ``ModBucketFunction.java``,
    ``HiveBucketFunction.java``.

    Args:
        function: The function.
        types: The types of the bucket key.

    Raises:
        Invalid: The message names the function and what it takes.
    """
    roots = list(map(root_of, types))
    named = ", ".join(map(str, types))
    if function is BucketFunction.MOD and (len(roots) != 1 or roots[0] not in _NUMBERS):
        raise Invalid(
            "'bucket-function.type' = 'mod' needs a bucket key of one INT or BIGINT column, "
            f"not of {named}"
        )
    if function is BucketFunction.HIVE and any(root in _UNHASHED for root in roots):
        raise Invalid(
            f"'bucket-function.type' = 'hive' takes no TIMESTAMP in a bucket key, but it is {named}"
        )
