"""stub"""

from pyspark.sql.datasource import DataSourceStreamReader


class StreamReader(DataSourceStreamReader):
    def __init__(self, *a: object) -> None: ...
