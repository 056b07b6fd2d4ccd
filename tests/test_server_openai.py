"""The official client against the server: sync, async, streams, tools, errors, retries, hanging up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from tests.serving import TOOLS, Running, serving


def client_of(server: Running, **options: Any) -> openai.OpenAI:
    """A client that has no other settings than these."""
    return openai.OpenAI(
        base_url=server.url + "/v1", api_key="none", http_client=httpx.Client(trust_env=False), **options
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One server for most of these."""
    with serving() as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    """A client that does not retry."""
    with client_of(server, max_retries=0) as made:
        yield made


def ask(client: openai.OpenAI, text: str, **fields: Any) -> Any:
    """Ask one question, greedily."""
    return client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": text}], temperature=0, **fields
    )


def test_a_reply(client: openai.OpenAI) -> None:
    reply = ask(client, "utf8", logprobs=True, top_logprobs=2, seed=1, n=2)
    assert [choice.message.content for choice in reply.choices] == ["naïve ☃ 🙂"] * 2
    assert reply.choices[1].finish_reason == "stop" and reply.usage.prompt_tokens_details.cached_tokens >= 0
    entries = reply.choices[0].logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == "naïve ☃ 🙂"
    assert len(entries[0].top_logprobs) == 2 and reply._request_id.startswith("req_")


def test_a_stream(client: openai.OpenAI) -> None:
    chunks = list(ask(client, "hi", stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == "Hello there."
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-1].usage.completion_tokens == 13


def test_the_stream_helper_puts_the_reply_together(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="scripted",
        messages=[{"role": "user", "content": "order"}],
        temperature=0,
        tools=TOOLS,  # type: ignore[arg-type]
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls
    assert call is not None and json.loads(call[0].function.arguments) == {"order_id": "A-1"}
    assert final.choices[0].finish_reason == "tool_calls"


def test_tools_and_a_second_turn(client: openai.OpenAI) -> None:
    first = ask(client, "order", tools=TOOLS, tool_choice="auto", parallel_tool_calls=False)
    message = first.choices[0].message
    assert (
        first.choices[0].finish_reason == "tool_calls" and message.tool_calls[0].function.name == "get_order"
    )
    messages = [
        {"role": "user", "content": "order"},
        message,
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "{}"},
        {"role": "user", "content": "hi"},
    ]
    second = client.chat.completions.create(model="scripted", messages=messages, temperature=0, tools=TOOLS)  # type: ignore[arg-type]
    assert second.choices[0].message.content == "Hello there."


def test_json_mode(client: openai.OpenAI) -> None:
    reply = ask(client, "json", response_format={"type": "json_object"}, max_tokens=50)
    assert reply.choices[0].message.content.lstrip().startswith("{")


def test_completions(client: openai.OpenAI) -> None:
    reply = client.completions.create(model="scripted", prompt="abc", max_tokens=3, temperature=0, logprobs=1)
    logprobs = reply.choices[0].logprobs
    assert logprobs is not None and logprobs.tokens is not None and len(logprobs.tokens) == 3
    assert "".join(logprobs.tokens) == reply.choices[0].text
    parts = client.completions.create(
        model="scripted", prompt="abc", max_tokens=3, temperature=0, stream=True
    )
    assert "".join(part.choices[0].text for part in parts) == reply.choices[0].text


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.models.retrieve("scripted").owned_by == "modelcall"


def test_errors_have_their_classes(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        ask(client, "hi", max_tokens=99999)
    assert bad.value.code == "context_length_exceeded" and bad.value.param == "messages"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "hi"}])
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        ask(client, "hi", extra_body={"not_a_field": 1})


def test_the_async_client(server: Running) -> None:
    async def run() -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=server.url + "/v1", api_key="none", http_client=httpx.AsyncClient(trust_env=False)
        ) as client:

            async def one(stream: bool) -> str:
                reply: Any = await client.chat.completions.create(
                    model="scripted",
                    messages=[{"role": "user", "content": "hi"}],
                    temperature=0,
                    stream=stream,
                )
                if not stream:
                    return str(reply.choices[0].message.content)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in reply])

            return list(await asyncio.gather(*(one(bool(i % 2)) for i in range(6))))

    assert asyncio.run(run()) == ["Hello there."] * 6


def test_a_full_queue_is_retried_and_then_served() -> None:
    with serving({"long": b"x" * 60, "hi": b"ho"}, step_s=0.01, max_waiting=0) as server:
        with client_of(server, max_retries=0) as once, ask(once, "long", stream=True) as stream:
            next(iter(stream))
            with pytest.raises(openai.RateLimitError) as full:
                ask(once, "hi")
            assert full.value.code == "queue_full" and full.value.response.headers["retry-after"] == "1"
            with client_of(server, max_retries=3) as patient:
                assert ask(patient, "hi").choices[0].message.content == "ho"
        assert server.metric('modelcall_requests_total{path="/v1/chat/completions",status="429"}') >= 2


def test_closing_a_stream_stops_the_loop() -> None:
    with serving(step_s=0.01) as server, client_of(server, max_retries=0) as client:
        stream = ask(client, "long", stream=True, max_tokens=400)
        for _, _chunk in zip(range(3), stream, strict=False):
            pass
        stream.close()
        server.until(
            lambda: server.metric('modelcall_cancelled_total{reason="disconnect"}') == 1, "the cancellation"
        )
        assert server.metric("modelcall_decode_steps_total") < 300


def test_giving_up_in_asyncio_stops_the_loop() -> None:
    """A task that is cancelled, and a client's own timeout, hang up, streamed or not."""
    with serving(step_s=0.01) as server:

        async def run() -> None:
            http = httpx.AsyncClient(trust_env=False)
            async with openai.AsyncOpenAI(
                base_url=server.url + "/v1", api_key="none", http_client=http, max_retries=0
            ) as client:
                question: Any = {"model": "scripted", "messages": [{"role": "user", "content": "long"}]}
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.chat.completions.create(**question, max_tokens=400), 0.2)
                with pytest.raises(openai.APITimeoutError):
                    await client.chat.completions.create(**question, max_tokens=400, timeout=0.2)

        asyncio.run(run())
        server.until(
            lambda: server.metric('modelcall_cancelled_total{reason="disconnect"}') == 2,
            "both to be given up",
        )
        assert server.metric("modelcall_decode_steps_total") < 300


def test_deadlines_are_not_retried() -> None:
    with serving(step_s=0.01) as server, client_of(server, max_retries=3) as client:
        with pytest.raises(openai.InternalServerError) as late:
            ask(client, "long", extra_headers={"X-Request-Deadline-Ms": "60"})
        assert late.value.status_code == 504 and late.value.code == "deadline_exceeded"
        with pytest.raises(openai.APIError, match="X-Request-Deadline-Ms"):
            list(ask(client, "long", stream=True, extra_headers={"X-Request-Deadline-Ms": "60"}))
        line = 'modelcall_requests_total{path="/v1/chat/completions",status="504"}'
        assert server.metric(line) == 1
