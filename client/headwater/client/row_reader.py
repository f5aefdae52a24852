"""Rows that a server reads for a caller who is not shown all of a table."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.catalog.model.access import ReadRequest, RowStream
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.reads import ReadTableRequest, stream_of
from headwater.client.answers import ByteStream
from headwater.client.requests import Requests, table_path
from headwater.storage.errors import HeadwaterError, Unavailable

__all__ = ["RestRowReader"]


@dataclass(frozen=True)
class RestRowReader:
    """Implements `headwater.catalog.model.access.RowReader` over HTTP; it pickles.

    Attributes:
        requests: Speaks to the server.
        identifier: The table or branch.
    """

    requests: Requests
    identifier: Identifier

    def read(self, request: ReadRequest) -> RowStream:
        """The rows; the connection is given back when they are read or closed."""
        body = ReadTableRequest.of(request)
        content = self.requests.post_for_stream(
            body, *table_path(self.identifier), "read", of=self.identifier
        )
        try:
            reader = pa.ipc.open_stream(pa.PythonFile(content, mode="r"))
            stream = stream_of(reader)
        except (pa.ArrowException, OSError) as error:
            content.close()
            raise self._broken(content, error) from error
        except HeadwaterError:
            content.close()
            raise
        if request.limit == 0:
            content.close()
            return replace(stream, batches=iter(()))
        return replace(stream, batches=self._batches(reader, content))

    def _batches(
        self, reader: pa.RecordBatchReader, content: ByteStream
    ) -> Generator[pa.RecordBatch]:
        try:
            yield from reader
            # A stream that is cut off between two batches looks like one that has ended.
            content.expect_end()
        except (pa.ArrowException, OSError) as error:
            raise self._broken(content, error) from error
        finally:
            content.close()

    def _broken(self, content: ByteStream, error: Exception) -> Unavailable:
        return Unavailable(
            f"the server broke off while it read table {self.identifier} "
            f"({content.problem or error}); read it again"
        )
