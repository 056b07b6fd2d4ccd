"""A toy inference server: a core that follows a script, behind real HTTP on loopback.

Everything between the core and the socket is real: a decode loop that takes one piece at a time, a cap on
new tokens, a window, a filter, and an envelope of OpenAI's form with a finish reason and counts. Only the
core is not: it scores the next piece of a text that the page wrote for it, so that a page can order a right
and a wrong answer and still see each of them cut, refused and delivered. Tokens are whitespace-separated
words of the prompt and the script's own pieces.

``watch`` is told of every step with the stage it belongs to. Not done: streams, sampling, more than one
request with the same watcher at a time. The server that runs models is ``modelcall.lab.server``.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

__all__ = ["Watch", "toy_server"]

Watch = Callable[[int, str, str, str], None]
MOST_BYTES = 1_000_000


def silent(stage: int, sender: str, receiver: str, label: str) -> None:
    """Watch without a word."""


class Core:
    """The tier without rights: scores for the next piece, given how many it has written. Nothing else."""

    def __init__(self, script: Sequence[str]) -> None:
        self.pieces = [*dict.fromkeys(script), ""]  # its vocabulary; the last entry ends a text
        self._script = [*script, ""]

    def scores(self, written: int) -> list[float]:
        """Return one logit for each entry of the vocabulary."""
        wanted = self._script[min(written, len(self._script) - 1)]
        return [1.0 if piece == wanted else 0.0 for piece in self.pieces]


def generate(
    core: Core, prompt_tokens: int, cap: int, window: int, blocked: Sequence[str], watch: Watch
) -> tuple[str, int, str]:
    """Decode greedily; return the text, the number of new tokens, and the finish reason."""
    watch(2, "server", "core", "prompt ids")
    text, written = "", 0
    while True:
        if written >= cap or prompt_tokens + written >= window:
            return text, written, "length"
        scores = core.scores(written)
        watch(2, "core", "server", "one score per entry")
        piece = core.pieces[max(range(len(scores)), key=scores.__getitem__)]
        watch(2, "server", "server", "pick one id")
        if not piece:
            return text, written, "stop"
        if any(word in text + piece for word in blocked):
            return "", written, "content_filter"
        text, written = text + piece, written + 1
        watch(2, "server", "core", "append it")


@contextlib.contextmanager
def toy_server(
    scripts: Mapping[str, Sequence[str]],
    *,
    window: int = 64,
    blocked: Sequence[str] = (),
    broken: Mapping[str, str] | None = None,
    watch: Watch = silent,
) -> Iterator[str]:
    """Run the server in a thread; yield the address to POST to.

    Args:
        scripts: the pieces that each model writes, by the name that requests give.
        window: tokens that a request may take, in and out.
        blocked: strings that no reply may contain.
        broken: names of models that fail on the way: "503", or "cut", which hangs up inside the body.
        watch: called as ``watch(stage, sender, receiver, label)``.

    >>> with toy_server({"yes": ["o", "k"]}) as url:
    ...     url.startswith("http://127.0.0.1:")
    True
    """
    faults = dict(broken or {})

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name is the base class's
            try:
                size = int(self.headers.get("Content-Length") or 0)
                if not 0 <= size <= MOST_BYTES:
                    raise ValueError(f"a body of {size} bytes")
                request = json.loads(self.rfile.read(size))
                name = request["model"]
                if faults.get(name) == "503":
                    return self._send(503, {"error": {"message": "overloaded"}})
                self._send(200, _reply(request, scripts[name], window, blocked, watch), faults.get(name))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self._send(400, {"error": {"message": f"{type(error).__name__}: {error}"}})

        def _send(self, code: int, body: Mapping[str, Any], fault: str | None = None) -> None:
            data = json.dumps(body).encode()
            with contextlib.suppress(OSError):  # a caller that has gone needs no answer
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)

        def log_message(self, format: str, *values: object) -> None:
            return

    # The server of http.server looks up its own name, which can take seconds; this one does not.
    class Listener(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Listener(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_address[1]}/v1/chat/completions"
        finally:
            listener.shutdown()
            thread.join()


def _reply(
    request: Mapping[str, Any], script: Sequence[str], window: int, blocked: Sequence[str], watch: Watch
) -> dict[str, Any]:
    prompt = sum(len(message["content"].split()) for message in request["messages"])
    cap = request["max_tokens"]
    if prompt >= window:
        raise ValueError(f"{prompt} prompt tokens do not fit a window of {window}")
    text, written, finish = generate(Core(script), prompt, cap, window, blocked, watch)
    watch(3, "server", "server", "text, reason, counts")
    watch(3, "server", "runtime", "envelope")
    return {
        "object": "chat.completion",
        "model": request["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": written},
    }
