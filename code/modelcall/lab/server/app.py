"""The HTTP side: paths, bodies, streams, errors; everything that touches a model is the worker's.

A stream's status line is sent only once the worker has taken the request, so that whatever goes wrong
before is an HTTP error and not an event in a stream. While an answer is awaited, the connection is
watched: when the client hangs up, the job is cancelled and the decode loop ends after the token it is at.

``X-Request-Deadline-Ms`` is this server's own header: the time the caller gives the whole reply, from
the arrival of the request, waiting included. When it has passed, decoding stops and the answer is 504.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import pydantic_core
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from modelcall.lab.server import build, errors, metrics, openapi
from modelcall.lab.server.job import Delta, Done, Event, Failed, Finish, Job, Outbox
from modelcall.lab.server.schema import ChatRequest, Common, CompletionRequest
from modelcall.lab.server.wire import ChatWire, CompletionWire, event
from modelcall.lab.server.worker import Worker

__all__ = ["BODY_MAX_BYTES", "DEADLINE_HEADER", "App"]

BODY_MAX_BYTES: Final = 1 << 20
DRAIN_MAX_BYTES: Final = 64 << 20
BODY_TIMEOUT_S: Final = 30.0
DEADLINE_HEADER: Final = "x-request-deadline-ms"
DEADLINE_MAX_MS: Final = 3_600_000

Request_ = TypeVar("Request_", ChatRequest, CompletionRequest)


class App:
    """The application.

    Args:
        served: the models by name.
        max_waiting: see :class:`~modelcall.lab.server.worker.Worker`.
        fingerprint: reported as ``system_fingerprint``.

    Attributes:
        asgi: what uvicorn runs.
        worker, metrics: for those who want to look inside.
    """

    def __init__(self, served: Mapping[str, build.Served], *, max_waiting: int, fingerprint: str) -> None:
        self.served = dict(served)
        self.fingerprint = fingerprint
        self.created = int(time.time())
        self.metrics = metrics.Metrics()
        self.worker = Worker(self.metrics, max_waiting)
        self.closing = False
        self._openapi = openapi.describe(list(self.served))
        routes = [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/completions", self.complete, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{name}", self.model, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/metrics", self.show_metrics, methods=["GET"]),
            Route("/openapi.json", self.describe, methods=["GET"]),
        ]
        self.asgi = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={
                errors.ApiError: self._api_error,
                HTTPException: self._http_error,
                Exception: self._crash,
            },
        )
        # A path with a slash too many is not there; a redirect would go wherever the Host header says.
        self.asgi.router.redirect_slashes = False

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(self.worker.close)

    def _count(self, request: Request, status: int) -> None:
        known = {route.path for route in self.asgi.routes if isinstance(route, Route)}
        path = request.url.path
        if path not in known:
            path = "/v1/models/{name}" if path.startswith("/v1/models/") else "other"
        self.metrics.add("modelcall_requests_total", path=path, status=str(status))

    def _answer(self, request: Request, body: object, status: int = 200, **headers: str) -> Response:
        self._count(request, status)
        return JSONResponse(body, status, headers={"x-request-id": _request_id(request), **headers})

    async def _api_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.ApiError)
        return self._answer(request, error.body(), error.status, **error.headers)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, method = request.url.path, request.method
        text = {404: f"there is no {path}", 405: f"{path} does not take {method}"}.get(error.status_code)
        answer = errors.ApiError(
            error.status_code,
            text or str(error.detail),
            code={404: "unknown_path", 405: "method_not_allowed"}.get(error.status_code),
            headers=error.headers,
        )
        return await self._api_error(request, answer)

    async def _crash(self, request: Request, error: Exception) -> Response:
        message = f"the server failed: {type(error).__name__}"
        answer = errors.ApiError(500, message, kind="server_error", code="internal_error")
        return await self._api_error(request, answer)

    async def health(self, request: Request) -> Response:
        """Answer 200 while requests are taken, 503 once the server is shutting down."""
        running, waiting = self.worker.counts()
        status = "closing" if self.closing else "ok"
        body = {"status": status, "models": list(self.served), "running": running, "waiting": waiting}
        return self._answer(request, body, 503 if self.closing else 200)

    async def show_metrics(self, request: Request) -> Response:
        """Answer the counters."""
        self._count(request, 200)
        return Response(self.metrics.text(), headers={"content-type": metrics.CONTENT_TYPE})

    async def describe(self, request: Request) -> Response:
        """Answer the OpenAPI description."""
        return self._answer(request, self._openapi)

    def _entry(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self.created, "owned_by": "modelcall"}

    async def models(self, request: Request) -> Response:
        """Answer the list of models."""
        return self._answer(request, {"object": "list", "data": [self._entry(name) for name in self.served]})

    async def model(self, request: Request) -> Response:
        """Answer one model's entry."""
        return self._answer(request, self._entry(self._served(request.path_params["name"]).model.name))

    def _served(self, name: str) -> build.Served:
        if name not in self.served:
            there = ", ".join(self.served)
            raise errors.not_found(
                f"the model {name!r} is not served here; there is {there}",
                code="model_not_found",
                param="model",
            )
        return self.served[name]

    async def chat(self, request: Request) -> Response | EventStream:
        """Answer ``POST /v1/chat/completions``."""
        data = await _validated(request, ChatRequest)
        return await self._run(request, data, build.chat_job, ChatWire, logprobs=bool(data.logprobs))

    async def complete(self, request: Request) -> Response | EventStream:
        """Answer ``POST /v1/completions``."""
        data = await _validated(request, CompletionRequest)
        wants = data.logprobs is not None
        return await self._run(request, data, build.completion_job, CompletionWire, logprobs=wants)

    async def _run(
        self,
        request: Request,
        data: Request_,
        make: Callable[[build.Served, Request_, Outbox], Job],
        form: type[ChatWire],
        *,
        logprobs: bool,
    ) -> Response | EventStream:
        arrived = time.monotonic()
        deadline_ms = _deadline(request)
        served = self._served(data.model)
        outbox = Outbox(eager=bool(data.stream))
        # Encoding a long prompt takes milliseconds, and other clients are waiting.
        job = await asyncio.to_thread(make, served, data, outbox)
        job.arrived_s = arrived
        if deadline_ms is not None:
            job.deadline_ms, job.deadline_s = deadline_ms, arrived + deadline_ms / 1000
        self.worker.submit(job)
        tokenizer = served.model.tokenizer
        wire = form(data.model, tokenizer, self.fingerprint, logprobs=logprobs, counts=data.usage_in_stream)
        if data.usage_in_chunks:
            wire.count_in_chunks(sum(map(len, job.prompts)))
        watch = asyncio.create_task(_watch(request.receive, job))
        try:
            events = await _next(job)
            failed = next((item for item in events if isinstance(item, Failed)), None)
            if failed is not None:
                raise failed.error
            if not data.stream:
                return self._answer(request, wire.whole(events))
        finally:
            if not data.stream or watch.done():
                watch.cancel()
        self._count(request, 200)
        choices = job.n * len(job.prompts)
        return EventStream(job, wire, events, watch, choices, _request_id(request))


class EventStream:
    """A response of server-sent events; an ASGI application of its own, to see every disconnect."""

    def __init__(
        self,
        job: Job,
        wire: ChatWire,
        events: list[Event],
        watch: asyncio.Task[None],
        choices: int,
        request_id: str,
    ) -> None:
        self._job, self._wire, self._events, self._watch = job, wire, events, watch
        self._choices, self._request_id = choices, request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        del scope, receive
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-request-id", self._request_id.encode("ascii")),
        ]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            data, ended = self._wire.start(self._choices), False
            events: Iterable[Event] = self._events
            while not ended:
                for item in events:
                    if isinstance(item, Delta):
                        data += self._wire.delta(item)
                    elif isinstance(item, Finish):
                        data += self._wire.finish(item)
                    elif isinstance(item, Done):
                        data += self._wire.end(item)
                        ended = True
                    elif isinstance(item, Failed):
                        # The status is sent; clients look for an event with an error in it.
                        data += event(item.error.body())
                        ended = True
                if data:
                    await send({"type": "http.response.body", "body": data, "more_body": not ended})
                    data = b""
                if not ended:
                    events = await _next(self._job)
        finally:
            self._job.cancel("disconnect")
            self._watch.cancel()


def _request_id(request: Request) -> str:
    found: str | None = getattr(request.state, "request_id", None)
    if found is None:
        found = request.state.request_id = "req_" + secrets.token_hex(12)
    return found


async def _watch(receive: Receive, job: Job) -> None:
    """Cancel the job when the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
    job.cancel("disconnect")


async def _next(job: Job) -> list[Event]:
    """Return the job's next events, or its deadline's error once that has passed."""
    if job.deadline_s is None:
        return await job.outbox.take()
    try:
        return await asyncio.wait_for(job.outbox.take(), max(0.0, job.deadline_s - time.monotonic()))
    except TimeoutError:
        job.cancel("deadline")
        return [Failed(errors.deadline_exceeded(job.deadline_ms))]


def _deadline(request: Request) -> int | None:
    text = request.headers.get(DEADLINE_HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not 1 <= int(text) <= DEADLINE_MAX_MS:
        raise errors.invalid(
            f"X-Request-Deadline-Ms must be an integer from 1 to {DEADLINE_MAX_MS}, found {text!r}"
        )
    return int(text)


async def _body(request: Request) -> bytes:
    """Read the body; one that is too large is read to its end all the same, or the client sees no answer."""
    data, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= BODY_MAX_BYTES:
                    data += chunk
                elif size > DRAIN_MAX_BYTES:
                    break
    except TimeoutError:
        raise errors.body_too_slow(BODY_TIMEOUT_S) from None
    except ClientDisconnect:
        raise errors.invalid("the client hung up", code="client_disconnected") from None
    if size > BODY_MAX_BYTES:
        raise errors.body_too_large(BODY_MAX_BYTES)
    return bytes(data)


Model = TypeVar("Model", bound=Common)


async def _validated(request: Request, kind: type[Model]) -> Model:
    kind_of_body = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
    raw = await _body(request)
    if kind_of_body != "application/json":
        raise errors.ApiError(
            415, f"the body must be application/json, not {kind_of_body!r}", code="unsupported_media_type"
        )
    packed = request.headers.get("content-encoding", "identity")
    if packed.lower() != "identity":
        raise errors.ApiError(
            415, f"the body must not be compressed, found {packed!r}", code="unsupported_media_type"
        )
    try:
        data = pydantic_core.from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise errors.invalid(f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(data, dict):
        raise errors.invalid("the body must be a JSON object", code="invalid_type")
    try:
        return _model(kind, data)
    except ValidationError as error:
        raise errors.from_validation([dict(item) for item in error.errors(include_url=False)]) from None


def _model(kind: type[Model], data: dict[str, Any]) -> Model:
    result: BaseModel = kind.model_validate(data)
    assert isinstance(result, kind)
    return result
