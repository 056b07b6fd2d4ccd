"""The endpoint cells of chapter 1, which the page runs on the house server, run here on a stand-in server.

The code is read from the notebook, and the server is named as a reader names one, by the environment.
It speaks the OpenAI-compatible streaming protocol on the loopback interface and can be told to misbehave.
"""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from modelcall.ch01 import Completion, TokenScore

NOTEBOOK = Path(__file__).resolve().parent.parent / "chapters" / "01-on-ramp.ipynb"
TOKENS = [("Not", -0.25), (" after", -0.5), (" 30", -0.125), (" days", 0.0), (".", -1.5)]
PAUSE_S = 0.08


@dataclass
class StandIn:
    """What the server sends, and what it received."""

    status: int = 200
    end: str = "[DONE]"
    error: str = ""
    scores: bool = True
    usage: dict[str, int] | None = field(
        default_factory=lambda: {"prompt_tokens": 12, "completion_tokens": 5}
    )
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    base_url: str = ""

    async def reply(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        if self.status != 200:
            return JSONResponse({"error": "overloaded"}, status_code=self.status)
        return StreamingResponse(self.events(), media_type="text/event-stream")

    async def events(self) -> AsyncIterator[str]:
        yield ": a comment, which a client must skip\n\n"
        yield self.event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}])
        await asyncio.sleep(PAUSE_S)
        for text, logprob in TOKENS:
            choice: dict[str, Any] = {"index": 0, "delta": {"content": text}, "finish_reason": None}
            if self.scores:
                choice["logprobs"] = {"content": [{"token": text, "logprob": logprob, "top_logprobs": []}]}
            yield self.event([choice])
            if self.error:
                yield f"data: {json.dumps({'error': {'message': self.error}})}\n\n"
        await asyncio.sleep(PAUSE_S)
        yield self.event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        yield self.event(None, usage=self.usage)  # some servers send null where others send an empty list
        if self.end:
            yield f"data: {self.end}\n\n"

    def event(self, choices: list[dict[str, Any]] | None, **more: Any) -> str:
        chunk = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(chunk)}\n\n"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Serve a ``StandIn`` on a free port, and point the cells' environment at it."""
    answers = StandIn()
    app = Starlette(routes=[Route("/v1/chat/completions", answers.reply, methods=["POST"])])
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the stand-in server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    answers.base_url = f"http://127.0.0.1:{port}/v1"
    monkeypatch.setenv("MODELCALL_BASE_URL", answers.base_url)
    monkeypatch.setenv("MODELCALL_MODEL", "their-model")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield answers
    server.should_exit = True
    thread.join(timeout=20)
    assert not thread.is_alive()


PLACES = ('os.environ.get("MODELCALL_BASE_URL")', "def stream_call", "answer = Completion(")


def cell_sources() -> list[str]:
    """The cells that name the server, read a stream and make the record of it."""
    cells = [cell.source for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code"]
    found = [[source for source in cells if place in source] for place in PLACES]
    assert [len(sources) for sources in found] == [1, 1, 1]
    return [source for [source] in found]


def namespace() -> dict[str, Any]:
    return {
        "TokenScore": TokenScore,
        "Completion": Completion,
        "httpx": httpx,
        "os": os,
        "textwrap": textwrap,
        "house_url": "http://127.0.0.1:9",
    }


def run_cells() -> dict[str, Any]:
    names = namespace()
    for source in cell_sources():
        exec(compile(source, str(NOTEBOOK), "exec"), names)
    return names


def test_the_page_ran_them_on_the_house_server() -> None:
    """Without the environment's word, the address is that of the house server."""
    cells = [cell for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells if "answer = Completion(" in cell.source)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MODELCALL_BASE_URL", "MODELCALL_MODEL", "OPENAI_API_KEY"):
            patch.delenv(name, raising=False)
        names = namespace()
        exec(cell_sources()[0], names)
    assert names["url"] == "http://127.0.0.1:9/v1/chat/completions"
    assert names["request"]["model"] == "house" and names["options"]["trust_env"] is False


def test_a_streamed_reply_becomes_a_record(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_cells()["answer"]
    assert answer.text == "Not after 30 days."
    assert answer.token_scores == tuple(TokenScore(text, logprob) for text, logprob in TOKENS)
    assert (answer.prompt_tokens, answer.output_tokens) == (12, 5)
    assert (answer.finish_reason, answer.request_id) == ("stop", "chatcmpl-7")
    printed = capsys.readouterr().out
    assert "5 scores for 5 counted tokens" in printed and answer.text in printed


def test_the_clock_stops_at_the_first_text_and_at_the_end(stand_in: StandIn) -> None:
    answer = run_cells()["answer"]
    # The chunk that carries only the role comes at once; text comes a pause later, the end one more.
    assert answer.ttft_ms >= 1000 * PAUSE_S
    assert answer.total_ms >= answer.ttft_ms + 1000 * PAUSE_S * 0.9


def test_the_request_asks_for_a_stream_with_scores_and_counts(stand_in: StandIn) -> None:
    run_cells()
    (body,) = stand_in.bodies
    assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
    assert (
        body["model"] == "their-model"
        and body["logprobs"] is True
        and body["seed"] == 7
        and body["max_tokens"] == 24
    )
    assert body["messages"] == [{"role": "user", "content": "Can a customer get a refund after 45 days?"}]
    assert stand_in.headers[0]["authorization"] == "Bearer secret"


def test_scores_that_do_not_match_the_count_are_left_out(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.usage = {"prompt_tokens": 12, "completion_tokens": 7}
    answer = run_cells()["answer"]
    assert (answer.token_scores, answer.output_tokens) == ((), 7)
    assert "5 scores for 7 counted tokens" in capsys.readouterr().out


def test_an_end_token_that_is_counted_and_not_scored_is_not_text(stand_in: StandIn) -> None:
    stand_in.usage = {"prompt_tokens": 12, "completion_tokens": 6}
    answer = run_cells()["answer"]
    assert (len(answer.token_scores), answer.output_tokens) == (5, 5)


def test_a_server_without_scores_still_gives_a_record(stand_in: StandIn) -> None:
    stand_in.scores = False
    assert run_cells()["answer"].token_scores == ()


def test_a_server_that_keeps_its_counts_is_found_out_by_name(stand_in: StandIn) -> None:
    stand_in.usage = None
    with pytest.raises(TypeError, match=r"^prompt_tokens: expected an integer; got None"):
        run_cells()


def test_a_refusal_by_status_is_no_reply(stand_in: StandIn) -> None:
    stand_in.status = 503
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        run_cells()


def test_an_error_in_the_middle_of_a_stream_is_no_reply(stand_in: StandIn) -> None:
    stand_in.error = "out of memory"
    with pytest.raises(RuntimeError, match=r"the server gave up: .*out of memory"):
        run_cells()


def test_a_stream_may_end_without_its_last_line(stand_in: StandIn) -> None:
    stand_in.end = ""
    assert run_cells()["answer"].text == "Not after 30 days."


def test_the_cell_waits_a_minute_at_most(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    stream = httpx.stream

    def spy(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs)
        return stream(*args, **kwargs)

    monkeypatch.setattr(httpx, "stream", spy)
    run_cells()
    assert seen[0]["timeout"] == 60.0


def test_no_server_is_an_error_of_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELCALL_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(httpx.ConnectError):
        run_cells()
