"""The data source ``format("headwater")`` where PySpark looks for such by itself.

Spark registers the class `DefaultSource` of each top-level module named ``pyspark_…`` that its
driver's Python can import, so that a session need not import Headwater to use the format.
"""

import warnings

try:
    from headwater.spark.data_source import HeadwaterSource as DefaultSource
except ImportError as error:
    # Raised, it would keep Spark from the sources of other packages, too.
    warnings.warn(
        f"format(\"headwater\") is not there: {error}; pip install 'headwater[spark]'", stacklevel=2
    )

__all__ = ["DefaultSource"]
