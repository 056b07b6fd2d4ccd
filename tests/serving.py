"""A server on a script, for the tests of the protocol."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from tests.scripted import scripted_model

from modelcall.lab.server import Server, listen, make_app

CALL = '{"tool": "get_order", "arguments": {"order_id": "A-1"}}'
SCRIPT: Mapping[str, bytes] = {
    "hi": b"Hello there.",
    "utf8": "naïve ☃ 🙂".encode(),
    "bad utf8": b"a\xff\xe2\x98b",
    "stop": b"one two three END four",
    "blocked": b"the password is swordfish, friend",
    "order": CALL.encode(),
    "half order": CALL[:-9].encode(),
    "not an order": b'{"tool": "none", "arguments": {}}',
    "json": b'Sure! {"a": 1}',
    "long": b"x" * 5000,
    "empty": b"",
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_order",
            "description": "Look up an order",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
        },
    }
]


@dataclass
class Running:
    """A running server: its address, a client, and the application inside."""

    url: str
    client: httpx.Client
    server: Server

    def chat(self, text: str = "hi", **fields: Any) -> httpx.Response:
        """Ask one question, greedily unless told otherwise."""
        body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0}
        return self.client.post("/v1/chat/completions", json=body | fields)

    def metric(self, line: str) -> float:
        """One number of /metrics, by the beginning of its line; 0 if it is not there."""
        for row in self.client.get("/metrics").text.splitlines():
            if row.startswith(line + " "):
                return float(row.rsplit(" ", 1)[1])
        return 0.0

    def until(self, true: Callable[[], bool], what: str, seconds: float = 5.0) -> None:
        """Wait for something to become true."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"waited {seconds} s for {what}"
            time.sleep(0.01)


def events(text: str) -> list[dict[str, Any]]:
    """The JSON of a stream's events, the last of which has to be [DONE]."""
    rows = text.split("\n\n")
    assert rows[-1] == "" and rows[-2] == "data: [DONE]", text[-200:]
    assert all(row.startswith("data: ") and "\n" not in row for row in rows[:-1])
    return [json.loads(row.removeprefix("data: ")) for row in rows[:-2]]


def text_of(chunks: Sequence[Mapping[str, Any]], index: int = 0) -> str:
    """The content of one choice of a chat stream."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


@contextlib.contextmanager
def serving(
    script: Mapping[str, bytes] = SCRIPT,
    *,
    step_s: float = 0.0,
    context: int = 512,
    max_waiting: int = 16,
    blocked: Sequence[str] = (),
    grace_s: float = 0.0,
) -> Iterator[Running]:
    """Run a server in a thread."""
    import threading

    model = scripted_model(script, step_s=step_s, context=context)
    assert model.decoder.dtype == np.float64
    sock = listen()
    server = Server(make_app([model], max_waiting=max_waiting, blocked=blocked), grace_s=grace_s)
    thread = threading.Thread(target=server.run, args=([sock],))
    thread.start()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        end = time.monotonic() + 10
        while not server.started and time.monotonic() < end:
            time.sleep(0.005)
        with httpx.Client(base_url=url, timeout=10, trust_env=False) as client:
            yield Running(url, client, server)
    finally:
        server.should_exit = True
        thread.join(15)
        sock.close()
        assert not thread.is_alive(), "the server did not stop"
