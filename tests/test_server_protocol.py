"""What the server answers when all is well: bodies, streams, log probabilities, tools, counts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.serving import SCRIPT, TOOLS, Running, events, serving, text_of


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One server for all of these."""
    with serving(blocked=["swordfish"]) as running:
        yield running


def test_a_reply(server: Running) -> None:
    answer = server.chat()
    body = answer.json()
    assert answer.status_code == 200 and answer.headers["x-request-id"].startswith("req_")
    choice = body["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "Hello there.", "refusal": None}
    assert choice["finish_reason"] == "stop" and choice["logprobs"] is None
    assert body["object"] == "chat.completion" and body["model"] == "scripted"
    # 4 tokens of template and "hi"; 12 bytes and the end token, which is counted once.
    assert body["usage"]["prompt_tokens"] == 4 and body["usage"]["completion_tokens"] == 13
    assert body["usage"]["total_tokens"] == 17


def test_a_stream_is_the_same_reply(server: Running) -> None:
    chunks = events(server.chat("utf8", stream=True).text)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text_of(chunks) == "naïve ☃ 🙂"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop" and chunks[-1]["choices"][0]["delta"] == {}
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks[:-1])
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"} and "usage" not in chunks[0]
    assert len({chunk["id"] for chunk in chunks}) == 1
    # Every byte is a token, and no character was shown in halves.
    assert "\ufffd" not in "".join(json.dumps(chunk, ensure_ascii=False) for chunk in chunks)


def test_bytes_that_are_no_text(server: Running) -> None:
    assert server.chat("bad utf8").json()["choices"][0]["message"]["content"] == "a\ufffd\ufffdb"
    assert text_of(events(server.chat("bad utf8", stream=True).text)) == "a\ufffd\ufffdb"


def test_usage_in_a_stream(server: Running) -> None:
    chunks = events(server.chat(stream=True, stream_options={"include_usage": True}).text)
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 13
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_counts_in_every_chunk(server: Running) -> None:
    """Load generators ask for them."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = events(server.chat(stream=True, stream_options=options).text)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == [*range(13), 12, 13] and {chunk["usage"]["prompt_tokens"] for chunk in chunks} == {4}


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities(server: Running, stream: bool) -> None:
    answer = server.chat("utf8", logprobs=True, top_logprobs=2, stream=stream)
    if stream:
        found = [choice["logprobs"] for chunk in events(answer.text) for choice in chunk["choices"]]
        entries = [entry for item in found if item for entry in item["content"]]
    else:
        entries = answer.json()["choices"][0]["logprobs"]["content"]
    assert bytes(byte for entry in entries for byte in entry["bytes"]) == "naïve ☃ 🙂".encode()
    total = math.exp(9) + math.exp(5) + 260
    for entry in entries:
        assert math.isclose(entry["logprob"], 9 - math.log(total))
        best, second = entry["top_logprobs"]
        assert best == {key: entry[key] for key in ("token", "logprob", "bytes")}
        assert math.isclose(second["logprob"], 5 - math.log(total))


def test_in_a_stream_a_token_comes_with_its_last_character(server: Running) -> None:
    chunks = events(server.chat("utf8", logprobs=True, stream=True).text)
    for chunk in chunks:
        choice = chunk["choices"][0]
        if choice["logprobs"]:
            data = bytes(byte for entry in choice["logprobs"]["content"] for byte in entry["bytes"])
            assert data.decode("utf-8") == choice["delta"]["content"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stop", ["END", ["zzz", " three", "END"], "e END"])
def test_stop_strings_over_several_tokens(server: Running, stop: Any, stream: bool) -> None:
    answer = server.chat("stop", stop=stop, stream=stream, logprobs=True)
    expected = SCRIPT["stop"].decode().split({"END": "END", "e END": "e END"}.get(str(stop), " three"))[0]
    if stream:
        chunks = events(answer.text)
        assert text_of(chunks) == expected and chunks[-1]["choices"][0]["finish_reason"] == "stop"
    else:
        choice = answer.json()["choices"][0]
        assert choice["message"]["content"] == expected and choice["finish_reason"] == "stop"
        assert len(choice["logprobs"]["content"]) == len(expected)
        # What was generated is counted, the stop string's tokens too.
        last = {"END": "END", "e END": "e END"}.get(str(stop), " three")
        assert answer.json()["usage"]["completion_tokens"] == len(expected) + len(last)


def test_limits_and_the_end_of_the_window(server: Running) -> None:
    for field in ("max_tokens", "max_completion_tokens"):
        body = server.chat("hi", **{field: 5}).json()
        assert body["choices"][0]["message"]["content"] == "Hello" and body["usage"]["completion_tokens"] == 5
        assert body["choices"][0]["finish_reason"] == "length"
    assert server.chat("hi", max_tokens=13).json()["choices"][0]["finish_reason"] == "stop"
    assert server.chat("long").json()["usage"]["completion_tokens"] == 256
    body = server.chat("long", max_tokens=512 - 6).json()
    assert body["usage"]["total_tokens"] == 512 and body["choices"][0]["finish_reason"] == "length"


def test_an_empty_reply(server: Running) -> None:
    body = server.chat("empty").json()
    assert body["choices"][0]["message"]["content"] == "" and body["usage"]["completion_tokens"] == 1
    assert text_of(events(server.chat("empty", stream=True).text)) == ""


def test_the_end_token_can_be_ignored(server: Running) -> None:
    body = server.chat("hi", ignore_eos=True, max_tokens=20).json()
    assert body["usage"]["completion_tokens"] == 20 and body["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_a_blocked_word_ends_the_reply(server: Running, stream: bool) -> None:
    answer = server.chat("blocked", stream=stream)
    assert "swordfish" not in answer.text and "friend" not in answer.text
    choice = events(answer.text)[-1]["choices"][0] if stream else answer.json()["choices"][0]
    assert choice["finish_reason"] == "content_filter"


def test_tool_calls(server: Running) -> None:
    body = server.chat("order", tools=TOOLS).json()
    choice = body["choices"][0]
    call = choice["message"]["tool_calls"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    assert call["type"] == "function" and call["id"].startswith("call_")
    assert call["function"]["name"] == "get_order"
    assert json.loads(call["function"]["arguments"]) == {"order_id": "A-1"}


def test_tool_calls_in_a_stream(server: Running) -> None:
    chunks = events(server.chat("order", tools=TOOLS, stream=True).text)
    parts = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert parts[0]["function"] == {"name": "get_order", "arguments": ""} and parts[0]["id"]
    assert all("id" not in part and part["index"] == 0 for part in parts[1:])
    assert json.loads("".join(part["function"]["arguments"] for part in parts)) == {"order_id": "A-1"}
    assert text_of(chunks) == "" and chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_what_is_no_complete_call(server: Running) -> None:
    half = server.chat("half order", tools=TOOLS).json()["choices"][0]
    assert half["finish_reason"] == "stop"
    assert half["message"]["tool_calls"][0]["function"]["arguments"] == '{"order_id"'
    cut = server.chat("order", tools=TOOLS, max_tokens=44).json()["choices"][0]
    assert cut["finish_reason"] == "length"
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut["message"]["tool_calls"][0]["function"]["arguments"])
    # A whole call whose end token there was no room for: the limit is what ended the reply.
    whole = server.chat("order", tools=TOOLS, max_tokens=len(SCRIPT["order"])).json()["choices"][0]
    assert whole["finish_reason"] == "length"
    assert whole["message"]["tool_calls"][0]["function"]["arguments"] == '{"order_id": "A-1"}'
    other = server.chat("not an order", tools=TOOLS).json()["choices"][0]
    assert other["finish_reason"] == "stop" and other["message"]["content"] == SCRIPT["not an order"].decode()
    plain = server.chat("order").json()["choices"][0]
    assert plain["finish_reason"] == "stop" and "tool_calls" not in plain["message"]
    none = server.chat("order", tools=TOOLS, tool_choice="none").json()["choices"][0]
    assert none["finish_reason"] == "stop"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_order"}}])
def test_a_tool_can_be_required(server: Running, choice: Any) -> None:
    """The model would say something else; the mask makes the reply begin as a call and stay JSON."""
    other = {"type": "function", "function": {"name": "get_weather"}}
    body = server.chat(
        "hi", tools=[*TOOLS, other], tool_choice=choice, max_tokens=60, temperature=1, seed=2
    ).json()
    call = body["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["arguments"].startswith("{")
    if choice != "required":
        assert call["name"] == "get_order"


def test_tool_results_can_be_sent_back(server: Running) -> None:
    first = server.chat("order", tools=TOOLS).json()["choices"][0]["message"]
    call = first["tool_calls"][0]
    messages = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "order"},
        first | {"annotations": None, "audio": None, "function_call": None},
        {"role": "tool", "tool_call_id": call["id"], "content": [{"type": "text", "text": "{}"}]},
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
    ]
    body = server.chat(messages=messages, tools=TOOLS).json()
    assert body["choices"][0]["message"]["content"] == "Hello there."


def test_json_mode(server: Running) -> None:
    """The script wants to chat; the mask leaves it nothing but JSON."""
    for seed in range(5):
        fields: dict[str, Any] = {"response_format": {"type": "json_object"}, "temperature": 1, "seed": seed}
        body = server.chat("json", max_tokens=200, **fields).json()
        text = body["choices"][0]["message"]["content"]
        assert text.lstrip().startswith("{")
        if body["choices"][0]["finish_reason"] == "stop":
            assert isinstance(json.loads(text), dict)
    assert (
        server.chat("json", response_format={"type": "text"}).json()["choices"][0]["message"]["content"][0]
        == "S"
    )


def test_several_choices(server: Running) -> None:
    fields: dict[str, Any] = {"n": 3, "temperature": 2, "seed": 5, "max_tokens": 30, "top_k": 20}
    body = server.chat("hi", **fields).json()
    texts = [choice["message"]["content"] for choice in body["choices"]]
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2] and len(set(texts)) == 3
    chunks = events(server.chat("hi", stream=True, **fields).text)
    assert [text_of(chunks, index) for index in range(3)] == texts
    assert sum(choice["finish_reason"] is not None for chunk in chunks for choice in chunk["choices"]) == 3
    assert body["usage"]["prompt_tokens"] == 4


def test_a_seed_repeats_a_reply_and_another_does_not(server: Running) -> None:
    def text(seed: int | None, **fields: Any) -> str:
        body = server.chat("hi", temperature=2, seed=seed, max_tokens=40, **fields).json()
        return str(body["choices"][0]["message"]["content"])

    assert text(1) == text(1) != text(2)
    assert text(None) != text(None)
    assert text(1, top_k=1) == text(2, top_p=0.001) == "Hello there."


def test_completions(server: Running) -> None:
    def complete(**fields: Any) -> Any:
        body = {"model": "scripted", "temperature": 0, "max_tokens": 4}
        return server.client.post("/v1/completions", json=body | fields)

    body = complete(prompt="abc", logprobs=2).json()
    assert body["object"] == "text_completion" and body["choices"][0]["text"] == "defg"
    lists = body["choices"][0]["logprobs"]
    assert (
        len(lists["tokens"])
        == len(lists["token_logprobs"])
        == len(lists["top_logprobs"])
        == len(lists["text_offset"])
    )
    assert lists["text_offset"] == [0, 1, 2, 3] and "".join(lists["tokens"]) == "defg"
    chunks = events(complete(prompt="abc", logprobs=2, stream=True).text)
    sent = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"]]
    assert [offset for part in sent if part for offset in part["text_offset"]] == [0, 1, 2, 3]
    assert sum(part is not None for part in sent) > 1
    ids = list(b"abc")
    assert complete(prompt=ids).json()["choices"][0]["text"] == body["choices"][0]["text"]
    two = complete(prompt=["abc", "xyz"], n=2).json()
    assert [choice["index"] for choice in two["choices"]] == [0, 1, 2, 3]
    assert two["choices"][0]["text"] == two["choices"][1]["text"] == body["choices"][0]["text"]
    chunks = events(complete(prompt="abc", stream=True, stream_options={"include_usage": True}).text)
    assert "".join(c["choices"][0]["text"] for c in chunks[:-1]) == body["choices"][0]["text"]
    assert chunks[-1]["usage"] == body["usage"] | {
        "prompt_tokens_details": chunks[-1]["usage"]["prompt_tokens_details"]
    }


def test_a_prompt_that_begins_alike_is_found_in_the_cache(server: Running) -> None:
    long = "a question that no other test asks, of some length"
    first = server.chat(long).json()["usage"]
    again = server.chat(long).json()["usage"]
    assert again["prompt_tokens_details"]["cached_tokens"] == again["prompt_tokens"] - 1
    assert first["prompt_tokens_details"]["cached_tokens"] < 5
    other = server.chat(long[:-6] + "nature").json()
    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] == 1 + len(long) - 6
    assert other["choices"][0]["message"]["content"] == long[:-6] + "nature"
    # The next turn of a conversation finds the whole of the last, reply included.
    messages = [
        {"role": "user", "content": long},
        {"role": "assistant", "content": long},
        {"role": "user", "content": "hi"},
    ]
    turn = server.chat(messages=messages).json()
    assert turn["usage"]["prompt_tokens_details"]["cached_tokens"] >= again["prompt_tokens"] + len(long)
    assert turn["choices"][0]["message"]["content"] == "Hello there."


def test_models_and_health(server: Running) -> None:
    listing = server.client.get("/v1/models").json()
    assert [item["id"] for item in listing["data"]] == ["scripted"] and listing["object"] == "list"
    assert server.client.get("/v1/models/scripted").json() == listing["data"][0]
    assert server.client.get("/health").json() == {
        "status": "ok",
        "models": ["scripted"],
        "running": 0,
        "waiting": 0,
    }


def test_metrics_are_read_by_prometheus_own_parser(server: Running) -> None:
    server.chat()
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    ttft = families["modelcall_time_to_first_token_seconds"]
    buckets = [sample.value for sample in ttft.samples if sample.name.endswith("_bucket")]
    count = next(sample.value for sample in ttft.samples if sample.name.endswith("_count"))
    assert buckets == sorted(buckets) and buckets[-1] == count > 0
    before = server.metric("modelcall_decode_steps_total")
    server.chat()
    assert server.metric("modelcall_decode_steps_total") == before + 13


def test_answers_fit_the_openapi_description(server: Running) -> None:
    description = server.client.get("/openapi.json").json()
    assert description["openapi"].startswith("3.1")

    def check(name: str, value: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    request = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
    check("ChatRequest", request)
    with pytest.raises(jsonschema.ValidationError):
        check("ChatRequest", request | {"temperature": 3})
    check("ChatCompletion", server.chat("order", tools=TOOLS, logprobs=True, top_logprobs=3).json())
    check(
        "Completion", server.client.post("/v1/completions", json={"model": "scripted", "prompt": "a"}).json()
    )
    check("Error", server.chat(n=0).json())
