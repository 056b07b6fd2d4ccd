"""Bad input: every mistake has its documented status and OpenAI's shape, and the server serves on."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serving import TOOLS, Running, serving

MESSAGE = {"role": "user", "content": "hi"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One server for all of these."""
    with serving(context=128) as running:
        yield running


@pytest.fixture(autouse=True)
def serves_on(server: Running) -> Iterator[None]:
    """After each mistake the next request is answered."""
    yield
    assert server.chat().json()["choices"][0]["message"]["content"] == "Hello there."


def check(answer: Any, status: int, code: str | None, param: str | None) -> str:
    """Check an error's shape and return its message."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json" and answer.headers["x-request-id"]
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param), error
    return str(error["message"])


CASES: list[tuple[dict[str, Any], str, str | None, str]] = [
    ({"messages": []}, "invalid_value", "messages", "at least 1"),
    ({"messages": None}, "invalid_type", "messages", "list"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "invalid_value", "messages[0].role", "'assistant'"),
    ({"messages": [{"role": "user"}]}, "invalid_value", "messages[0]", "content must be"),
    ({"messages": [{"role": "user", "content": 5}]}, "invalid_type", "messages[0].content", "string"),
    ({"messages": [MESSAGE, {"content": "x"}]}, "missing_required_parameter", "messages[1].role", "required"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
     "invalid_value", "messages[0].content[0].type", "text"),
    ({"messages": [MESSAGE | {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}]},
     "invalid_value", "messages[0]", "belong to the assistant"),
    ({"messages": [MESSAGE | {"tool_call_id": "1"}]}, "invalid_value", "messages[0]", "role 'tool'"),
    ({"messages": [MESSAGE | {"audio": {}}]}, "invalid_value", "messages[0].audio", "None"),
    ({"model": 5}, "invalid_type", "model", "string"),
    ({"temperature": -0.1}, "invalid_value", "temperature", "greater than or equal to 0"),
    ({"temperature": 2.1}, "invalid_value", "temperature", "less than or equal to 2"),
    ({"temperature": "1"}, "invalid_type", "temperature", "number"),
    ({"temperature": True}, "invalid_type", "temperature", "number"),
    ({"top_p": 0}, "invalid_value", "top_p", "greater than 0"),
    ({"top_p": 1.5}, "invalid_value", "top_p", "less than or equal to 1"),
    ({"top_k": -1}, "invalid_value", "top_k", "greater"),
    ({"top_k": 1.5}, "invalid_type", "top_k", "integer"),
    ({"seed": 2**63}, "invalid_value", "seed", "less"),
    ({"seed": "abc"}, "invalid_type", "seed", "integer"),
    ({"max_tokens": 0}, "invalid_value", "max_tokens", "greater"),
    ({"max_tokens": -5}, "invalid_value", "max_tokens", "greater"),
    ({"max_tokens": 5, "max_completion_tokens": 5}, "invalid_value", None, "same limit"),
    ({"n": 0}, "invalid_value", "n", "greater"),
    ({"n": 9}, "invalid_value", "n", "less"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "invalid_value", "stop", "at most 4"),
    ({"stop": ""}, "invalid_value", "stop", "at least 1"),
    ({"stop": ["a", ""]}, "invalid_value", "stop[1]", "at least 1"),
    ({"stop": "x" * 257}, "invalid_value", "stop", "at most 256"),
    ({"stop": 5}, "invalid_type", "stop", "string"),
    ({"logprobs": 1}, "invalid_type", "logprobs", "boolean"),
    ({"top_logprobs": 3}, "invalid_value", None, "only allowed when logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs", "less than or equal to 20"),
    ({"stream": "yes"}, "invalid_type", "stream", "boolean"),
    ({"stream_options": {"include_usage": True}}, "invalid_value", None, "only allowed when stream"),
    ({"frequency_penalty": 0.5}, "invalid_value", "frequency_penalty", "less than or equal to 0"),
    ({"logit_bias": {"5": 1}}, "invalid_value", "logit_bias", "at most 0"),
    ({"response_format": {"type": "yaml"}}, "invalid_value", "response_format.type", "json_object"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
     "unsupported_value", "response_format.type", "json_object is"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]},
     "invalid_value", "tools[0].function.name", "pattern"),
    ({"tools": [{"type": "retrieval"}]}, "invalid_value", "tools[0].type", "function"),
    ({"tools": [*TOOLS, *TOOLS]}, "invalid_value", None, "same name"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": []}}}]},
     "invalid_type", "tools", "must be an object"),
    ({"tool_choice": "required"}, "invalid_value", None, "tools is empty"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
     "invalid_value", None, "not in tools"),
    ({"functions": []}, "unknown_parameter", "functions", "not permitted"),
    ({"max_tokens": 500},
     "context_length_exceeded", "messages", "the prompt has 4 tokens and max_tokens asks for 500 more"),
    ({"messages": [{"role": "user", "content": "x" * 200}]},
     "context_length_exceeded", "messages", "128 tokens"),
    ({"messages": [{"role": "user", "content": "x" * 126}]},
     "context_length_exceeded", "messages", "no room for a reply"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code", "param", "message"), CASES, ids=[json.dumps(case[0])[:50] for case in CASES]
)
def test_a_wrong_field_is_named(
    server: Running, fields: dict[str, Any], code: str, param: str | None, message: str
) -> None:
    for stream in (
        ({}, {"stream": True}) if "stream" not in fields and "stream_options" not in fields else ({},)
    ):
        assert message in check(server.chat(**(fields | stream)), 400, code, param)


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": ""}, "invalid_value", "prompt"),
        ({"prompt": []}, "invalid_value", "prompt"),
        ({"prompt": [300]}, "invalid_value", "prompt"),
        ({"prompt": ["a", ""]}, "invalid_value", "prompt[1]"),
        ({"prompt": [[1], [2]]}, "invalid_type", "prompt"),
        ({"prompt": None}, "invalid_type", "prompt"),
        ({}, "missing_required_parameter", "prompt"),
        ({"prompt": "a", "echo": True}, "invalid_value", "echo"),
        ({"prompt": "a", "best_of": 2}, "invalid_value", "best_of"),
        ({"prompt": "a", "suffix": "b"}, "invalid_value", "suffix"),
        ({"prompt": "a", "logprobs": 21}, "invalid_value", "logprobs"),
        ({"prompt": "a" * 200}, "context_length_exceeded", "prompt"),
        ({"prompt": "a", "messages": []}, "unknown_parameter", "messages"),
    ],
)
def test_a_wrong_completion_is_named(server: Running, fields: dict[str, Any], code: str, param: str) -> None:
    check(server.client.post("/v1/completions", json={"model": "scripted"} | fields), 400, code, param)


def test_models_and_paths_that_are_not_there(server: Running) -> None:
    message = check(server.chat(model="gpt-9"), 404, "model_not_found", "model")
    assert "'gpt-9' is not served here; there is scripted" in message
    check(server.client.get("/v1/models/gpt-9"), 404, "model_not_found", "model")
    check(server.client.get("/v1/embeddings"), 404, "unknown_path", None)
    check(server.client.get("/v1/chat/completions"), 405, "method_not_allowed", None)
    check(server.client.post("/v1/models"), 405, "method_not_allowed", None)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"nonsense", "invalid_json"),
        (b"[]", "invalid_type"),
        (b"null", "invalid_type"),
        (b'"text"', "invalid_type"),
        (b'{"model": "scripted", "temperature": NaN}', "invalid_json"),
        (b'{"model": "scripted", "temperature": -Infinity}', "invalid_json"),
        (b'{"a": "\xff"}', "invalid_json"),
        (b'{"a": "\\ud800"}', "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"a":' * 50_000, "invalid_json"),
        (b'{"seed": ' + b"9" * 50_000 + b"}", "invalid_json"),
    ],
)
def test_what_is_no_json_object(server: Running, raw: bytes, code: str) -> None:
    for path in ("/v1/chat/completions", "/v1/completions"):
        answer = server.client.post(path, content=raw, headers={"content-type": "application/json"})
        check(answer, 400, code, None)


def test_numbers_too_large_for_a_float(server: Running) -> None:
    raw = json.dumps({"model": "scripted", "messages": [MESSAGE]})[:-1] + ', "temperature": 1e999}'
    answer = server.client.post(
        "/v1/chat/completions", content=raw, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400 and answer.json()["error"]["code"] in (
        "invalid_value",
        "invalid_json",
        "invalid_type",
    )
    assert math.isinf(1e999)


def test_another_content_type(server: Running) -> None:
    answer = server.client.post(
        "/v1/chat/completions", content=b"a=b", headers={"content-type": "text/plain"}
    )
    check(answer, 415, "unsupported_media_type", None)


def test_a_body_of_ten_megabytes(server: Running) -> None:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x" * 10_000_000}]}
    check(server.client.post("/v1/chat/completions", json=body), 413, "body_too_large", None)


@pytest.mark.parametrize("value", ["0", "-5", "1.5", "soon", "99999999999", "٣"])
def test_a_wrong_deadline(server: Running, value: str) -> None:
    answer = server.client.post(
        "/v1/chat/completions",
        json={"model": "scripted", "messages": [MESSAGE]},
        headers={"X-Request-Deadline-Ms": value.encode()},  # type: ignore[dict-item]
    )
    assert "must be an integer from 1 to" in check(answer, 400, "invalid_value", None)


@pytest.mark.parametrize(
    "raw",
    [b"\x00\x01\x02", b"GET\r\n\r\n", b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n"],
)
def test_what_is_no_http(server: Running, raw: bytes) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        sock.sendall(raw + b"\r\n\r\n")
        assert sock.recv(100).startswith((b"HTTP/1.1 400", b""))


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "model", "messages", "stream", "temperature", "top_p", "top_k", "seed",
    "max_tokens", "max_completion_tokens", "n", "stop", "logprobs", "top_logprobs",
    "tools", "tool_choice", "response_format", "stream_options", "logit_bias",
    "user", "prompt", "ignore_eos",
]  # fmt: skip


@settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.dictionaries(st.sampled_from(FIELDS), ANY_JSON, max_size=3), st.booleans())
def test_any_values_get_an_answer(server: Running, fields: dict[str, Any], chat: bool) -> None:
    base: dict[str, Any] = {"model": "scripted", "max_tokens": 3}
    base |= {"messages": [MESSAGE]} if chat else {"prompt": "a"}
    path = "/v1/chat/completions" if chat else "/v1/completions"
    raw = json.dumps(base | fields).encode()
    answer = server.client.post(path, content=raw, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 404), answer.text
    if answer.status_code != 200:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
