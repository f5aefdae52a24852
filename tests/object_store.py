"""An S3-compatible store of the tests, whose conditional puts are decided one after another."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from wsgiref.types import StartResponse, WSGIEnvironment

import boto3
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

_ONE_REQUEST = threading.Lock()


class _OneRequestAtATime:
    """Moto's application, which looks for an object and puts it in two steps of its own.

    Between them another thread's put may come, and both are told that they were first: a thing that
    S3 itself never says.
    """

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with _ONE_REQUEST:
            answer: Iterable[bytes] = self._application(environ, start_response)
            return answer


@contextmanager
def object_store() -> Iterator[str]:
    """The endpoint of a store that a thread of this process serves.

    Its objects are the process's and outlive it: `with_one_bucket` takes them away.
    """
    server = make_server(
        "127.0.0.1", 0, _OneRequestAtATime(), threaded=True, request_handler=MotoRequestHandler
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def with_one_bucket(endpoint: str, bucket: str) -> None:
    """Take away what the store of this process holds, and give it an empty bucket."""
    with _ONE_REQUEST:
        moto_api_backend.reset()
    boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    ).create_bucket(Bucket=bucket)
