"""An OpenAPI 3.1 description of the server, made from the pydantic models of its requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from modelcall import __version__
from modelcall.lab.server.schema import ChatRequest, CompletionRequest

__all__ = ["describe"]

_ERRORS = {
    "400": "The request is wrong, or asks for what is not offered",
    "404": "The model is not served here",
    "408": "The body did not arrive in time",
    "413": "The body is too large",
    "415": "The body is not application/json",
    "429": "Too many requests are waiting; Retry-After says when to come back",
    "503": "The server is shutting down",
    "504": "The deadline of X-Request-Deadline-Ms has passed",
}


def _object(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


def _schemas() -> dict[str, Any]:
    """Return the schemas of the answers."""
    text, number, integer = {"type": "string"}, {"type": "number"}, {"type": "integer"}
    maybe_text = {"type": ["string", "null"]}
    reason = {"type": ["string", "null"], "enum": ["stop", "length", "content_filter", "tool_calls", None]}
    entry = _object(
        ["token", "logprob", "bytes"], token=text, logprob=number, bytes={"type": "array", "items": integer}
    )
    usage = _object(
        ["prompt_tokens", "completion_tokens", "total_tokens"],
        prompt_tokens=integer,
        completion_tokens=integer,
        total_tokens=integer,
        prompt_tokens_details=_object(["cached_tokens"], cached_tokens=integer),
    )
    function = _object(["name", "arguments"], name=text, arguments=text)
    call = _object(["id", "type", "function"], id=text, type={"const": "function"}, function=function)
    message = _object(
        ["role", "content"],
        role={"const": "assistant"},
        content=maybe_text,
        refusal=maybe_text,
        tool_calls={"type": "array", "items": call},
    )
    logprobs = {
        "anyOf": [
            _object(
                ["content"], content={"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}}
            ),
            {"type": "null"},
        ]
    }
    choice = _object(
        ["index", "message", "finish_reason"],
        index=integer,
        message=message,
        logprobs=logprobs,
        finish_reason=reason,
    )
    text_choice = _object(["index", "text", "finish_reason"], index=integer, text=text, finish_reason=reason)
    base = {"id": text, "object": text, "created": integer, "model": text, "system_fingerprint": text}
    model = _object(
        ["id", "object", "created", "owned_by"], id=text, object=text, created=integer, owned_by=text
    )
    error = _object(
        ["message", "type", "param", "code"], message=text, type=text, param=maybe_text, code=maybe_text
    )
    return {
        "TokenLogprob": entry,
        "Usage": usage,
        "Model": model,
        "Error": _object(["error"], error=error),
        "ChatCompletion": _object(
            [*base, "choices", "usage"],
            **base,
            choices={"type": "array", "items": choice},
            usage={"$ref": "#/components/schemas/Usage"},
        ),
        "Completion": _object(
            [*base, "choices", "usage"],
            **base,
            choices={"type": "array", "items": text_choice},
            usage={"$ref": "#/components/schemas/Usage"},
        ),
    }


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _post(request: str, answer: str, summary: str) -> dict[str, Any]:
    ok = _json(_ref(answer), "The reply; with stream set, server-sent events that end with [DONE]")
    ok["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    deadline = {
        "name": "X-Request-Deadline-Ms",
        "in": "header",
        "required": False,
        "description": "Milliseconds from arrival within which the whole reply has to be complete",
        "schema": {"type": "integer", "minimum": 1, "maximum": 3_600_000},
    }
    return {
        "summary": summary,
        "parameters": [deadline],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(request)}}},
        "responses": {"200": ok} | {status: _json(_ref("Error"), text) for status, text in _ERRORS.items()},
    }


def _get(schema: dict[str, Any], summary: str, **others: dict[str, Any]) -> dict[str, Any]:
    answers = {"200": _json(schema, summary)} | {
        code.removeprefix("s"): value for code, value in others.items()
    }
    return {"get": {"summary": summary, "responses": answers}}


def describe(models: Sequence[str]) -> dict[str, Any]:
    """Return the description; ``models`` are the names that ``model`` may take.

    >>> sorted(describe(["house"])["paths"])[:3]
    ['/health', '/metrics', '/openapi.json']
    """
    _, requests = models_json_schema(
        [(ChatRequest, "validation"), (CompletionRequest, "validation")],
        ref_template="#/components/schemas/{model}",
    )
    schemas = requests["$defs"] | _schemas()
    for name in ("ChatRequest", "CompletionRequest"):
        schemas[name]["properties"]["model"]["enum"] = list(models)
    health = _object(
        ["status", "models", "running", "waiting"],
        status={"enum": ["ok", "closing"]},
        models={"type": "array", "items": {"type": "string"}},
        running={"type": "integer"},
        waiting={"type": "integer"},
    )
    listing = _object(
        ["object", "data"], object={"const": "list"}, data={"type": "array", "items": _ref("Model")}
    )
    one = _get(_ref("Model"), "One model", s404=_json(_ref("Error"), _ERRORS["404"]))
    one["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    numbers = {"description": "Counters", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The Model Call: house server",
            "version": __version__,
            "description": "A server for the book's models that speaks OpenAI's protocol.",
        },
        "paths": {
            "/v1/chat/completions": {
                "post": _post("ChatRequest", "ChatCompletion", "Continue a conversation")
            },
            "/v1/completions": {"post": _post("CompletionRequest", "Completion", "Continue a text")},
            "/v1/models": _get(listing, "The models served"),
            "/v1/models/{name}": one,
            "/health": _get(health, "Whether requests are taken", s503=_json(health, "Shutting down")),
            "/metrics": {"get": {"summary": "Counters for Prometheus", "responses": {"200": numbers}}},
            "/openapi.json": _get({"type": "object"}, "This description"),
        },
        "components": {"schemas": schemas},
    }
