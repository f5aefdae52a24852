"""Traces of requests and of the steps that they take, sent to an OpenTelemetry collector.

OpenTelemetry is imported where traces are switched on, and not before. A span holds names,
numbers and kinds of errors: no token, no value of a query, no row and no text of an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.server.logs import REQUEST_ID
from headwater.server.operation_metrics import WAREHOUSE
from headwater.server.trace_settings import TraceSettings
from headwater.server.version import VERSION
from headwater.storage.errors import CorruptData, HeadwaterError, Unavailable
from headwater.storage.steps import Attributes, Members

__all__ = ["Traces", "Tracing"]

_PREFIX = "headwater."
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
# Begun by no request.
_ROOTS = frozenset({"sweep"})
_FAILED = 500
# The last spans are sent as the server stops: it must not wait long for a collector that is away.
_COLLECTOR_SECONDS = 3


class Tracing:
    """Makes spans and sends them; a `headwater.storage.steps.Watch`.

    Args:
        settings: With an endpoint.
    """

    def __init__(self, settings: TraceSettings) -> None:
        from opentelemetry import context, trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._context, self._trace = context, trace
        self._propagator = TraceContextTextMapPropagator()
        exporter = OTLPSpanExporter(
            endpoint=settings.address,
            headers=settings.plain_headers(),
            timeout=_COLLECTOR_SECONDS,
        )
        self._provider: Any = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
            resource=Resource.create(
                {"service.name": settings.service_name, "service.version": VERSION}
            ),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Any = self._provider.get_tracer("headwater", VERSION)

    def close(self) -> None:
        """Send what there is, and stop; once is enough."""
        provider, self._provider = self._provider, None
        if provider is not None:
            provider.shutdown()

    @contextmanager
    def request(self, scope: Scope) -> Iterator[Any]:
        """The span of a request, as a part of the caller's trace if the caller says which."""
        headers = Headers(scope=scope)
        carrier = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        parent = self._propagator.extract(carrier, context=self._context.Context())
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        kind = self._trace.SpanKind.SERVER
        attributes = {"http.request.method": method, **_request_id()}
        with self._current(method, parent, attributes, kind=kind) as span:
            yield span

    def answered(self, span: Any, scope: Scope, status: int) -> None:
        """Say of a request's span what is known at its end."""
        route = scope.get("route")
        template = str(getattr(route, "path", ""))
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        if template:
            span.update_name(f"{method} {template}")
            span.set_attribute("http.route", template)
            span.set_attribute(f"{_PREFIX}operation", str(getattr(route, "unique_id", "none")))
        warehouse = scope["state"].get(WAREHOUSE)
        if warehouse:
            span.set_attribute(f"{_PREFIX}warehouse", warehouse)
        span.set_attribute("http.response.status_code", status)
        if status >= _FAILED:
            span.set_status(self._trace.StatusCode.ERROR)

    def step(self, name: str, attributes: Attributes) -> AbstractContextManager[object]:
        """The span of a step, as a part of the current one; none where nothing is traced."""
        return self._step(name, attributes)

    @contextmanager
    def _step(self, name: str, attributes: Attributes) -> Iterator[None]:
        is_traced = self._trace.get_current_span().get_span_context().is_valid
        if not is_traced and name not in _ROOTS:
            yield
            return
        named = {f"{_PREFIX}{key}": value for key, value in attributes.items()}
        with self._current(name, None, {**named, **_request_id()}):
            yield

    def current(self) -> object:
        """The span of the step that this is called in."""
        return self._trace.get_current_span()

    def together(
        self, name: str, members: Members, attributes: Attributes
    ) -> AbstractContextManager[object]:
        """The span of what is done for several at once.

        It is a part of the first one's trace; the others are linked with it, both ways.
        """
        return self._together(name, members, attributes)

    @contextmanager
    def _together(self, name: str, members: Members, attributes: Attributes) -> Iterator[None]:
        spans: list[Any] = [
            member
            for member in dict.fromkeys(members)
            if isinstance(member, self._trace.Span) and member.get_span_context().is_valid
        ]
        if not spans:
            with self.apart():
                yield
            return
        first, *others = sorted(spans, key=lambda span: not span.is_recording())
        parent = self._trace.set_span_in_context(first, self._context.Context())
        links = [self._trace.Link(span.get_span_context()) for span in others]
        named: dict[str, Any] = {f"{_PREFIX}{key}": value for key, value in attributes.items()}
        named[f"{_PREFIX}together"] = len(spans)
        ids = _request_ids(spans)
        if ids:
            named[f"{_PREFIX}request_ids"] = ids
        with self._current(name, parent, named, links=links) as span:
            for other in others:
                other.add_link(span.get_span_context())
            yield

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let the steps of a block be no part of the current one."""
        token = self._context.attach(self._context.Context())
        try:
            yield
        finally:
            self._context.detach(token)

    @contextmanager
    def _current(
        self, name: str, parent: Any, attributes: dict[str, Any], **more: Any
    ) -> Iterator[Any]:
        with self._tracer.start_as_current_span(
            name,
            context=parent,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
            **more,
        ) as span:
            try:
                yield span
            except Exception as error:
                # Its text may tell of values.
                span.set_attribute("error.type", type(error).__name__)
                expected = isinstance(error, HeadwaterError) and not isinstance(
                    error, Unavailable | CorruptData
                )
                if not expected:
                    span.set_status(self._trace.StatusCode.ERROR)
                raise


class Traces:
    """ASGI middleware that makes a span for each request; it is there only while traces are on.

    Args:
        app: The application inside.
        tracing: Makes spans.
    """

    def __init__(self, app: ASGIApp, *, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._tracing.request(scope) as span:
            try:
                await self._app(scope, receive, answer)
            finally:
                self._tracing.answered(span, scope, status)


def _request_id() -> dict[str, str]:
    request_id = REQUEST_ID.get()
    return {} if request_id is None else {f"{_PREFIX}request_id": request_id}


def _request_ids(spans: Sequence[Any]) -> list[str]:
    found = (getattr(span, "attributes", None) or {} for span in spans)
    ids = (attributes.get(f"{_PREFIX}request_id") for attributes in found)
    return [str(request_id) for request_id in ids if request_id is not None]
