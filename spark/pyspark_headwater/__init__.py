"""The data source ``format("headwater")`` where PySpark looks for such by itself.

Spark registers the class `DefaultSource` of each top-level module named ``pyspark_…`` that its
driver's Python can import, so that a session need not import Headwater to use the format.
"""

from headwater.spark.data_source import HeadwaterSource as DefaultSource

__all__ = ["DefaultSource"]
