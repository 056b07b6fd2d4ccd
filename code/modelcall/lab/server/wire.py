"""Events to JSON: the bodies of OpenAI's API, whole and in chunks.

The end token is a token the model produced and time was spent on: ``completion_tokens`` counts it, once
for each reply that ended by itself. It has no text and no entry among the log probabilities. ``logprob``
is natural and the model's own, before temperature and any mask; ``bytes`` lets a client join characters
that tokens split.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable
from typing import Any

from modelcall.lab.generation import Step
from modelcall.lab.server.job import Delta, Done, Finish
from modelcall.lab.server.toolcalls import Part
from modelcall.lab.tokenizer import Tokenizer

__all__ = ["ChatWire", "CompletionWire", "event", "usage"]


def event(data: object) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n\n"


def usage(done: Done) -> dict[str, Any]:
    """Return the token counts."""
    return {
        "prompt_tokens": done.prompt,
        "completion_tokens": done.completion,
        "total_tokens": done.prompt + done.completion,
        "prompt_tokens_details": {"cached_tokens": done.cached},
    }


def _token(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    data = tokenizer.piece(token)
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


class ChatWire:
    """Bodies of ``/v1/chat/completions`` for one request."""

    kind = "chat.completion"

    def __init__(
        self, model: str, tokenizer: Tokenizer, fingerprint: str, *, logprobs: bool, counts: bool
    ) -> None:
        self._tokenizer, self._logprobs, self._counts = tokenizer, logprobs, counts
        self.id = "chatcmpl-" + secrets.token_hex(12)
        self._base = {
            "id": self.id,
            "object": self.kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": fingerprint,
        }
        self._calls: dict[int, str] = {}
        self._so_far: dict[str, int] | None = None

    def count_in_chunks(self, prompt_tokens: int) -> None:
        """Give every chunk the counts so far."""
        self._so_far = {"prompt_tokens": prompt_tokens, "completion_tokens": 0, "total_tokens": prompt_tokens}

    def _chunk(self, index: int, delta: dict[str, Any], reason: str | None, steps: tuple[Step, ...]) -> bytes:
        choice: dict[str, Any] = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        if self._logprobs and steps:
            choice["logprobs"] = {"content": self._entries(steps), "refusal": None}
        chunk = self._base | {"object": self.kind + ".chunk", "choices": [choice]}
        return event(chunk | {"usage": self._so_far} if self._counts else chunk)

    def _entries(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        entries = []
        for step in steps:
            assert step.logprob is not None
            top = [_token(self._tokenizer, token, logprob) for token, logprob in step.top]
            entries.append(_token(self._tokenizer, step.token, step.logprob) | {"top_logprobs": top})
        return entries

    def _call(self, index: int, part: Part) -> dict[str, Any]:
        """Return the delta of a tool call; the first has the name, the others arguments."""
        if part.kind == "call":
            self._calls[index] = "call_" + secrets.token_hex(12)
            function = {"name": part.data, "arguments": ""}
            return {
                "tool_calls": [
                    {"index": 0, "id": self._calls[index], "type": "function", "function": function}
                ]
            }
        return {"tool_calls": [{"index": 0, "function": {"arguments": part.data}}]}

    def start(self, choices: int) -> bytes:
        """Return the first chunk of each choice."""
        delta = {"role": "assistant", "content": ""}
        return b"".join(self._chunk(index, delta, None, ()) for index in range(choices))

    def delta(self, item: Delta) -> bytes:
        """Return the chunks of a delta; its tokens go with the first."""
        parts = [
            {"content": part.data} if part.kind == "text" else self._call(item.index, part)
            for part in item.parts
        ]
        chunks, steps = b"", item.steps
        if self._so_far is not None:
            total = self._so_far["prompt_tokens"] + item.tokens
            self._so_far |= {"completion_tokens": item.tokens, "total_tokens": total}
        for delta in parts or [{"content": ""}]:
            chunks += self._chunk(item.index, delta, None, steps)
            steps = ()
        return chunks

    def finish(self, item: Finish) -> bytes:
        """Return the last chunk of a choice."""
        return self._chunk(item.index, {}, item.reason, ())

    def end(self, done: Done) -> bytes:
        """Return the end of the stream."""
        last = b""
        if self._counts:
            last = event(self._base | {"object": self.kind + ".chunk", "choices": [], "usage": usage(done)})
        return last + b"data: [DONE]\n\n"

    def whole(self, events: Iterable[object]) -> dict[str, Any]:
        """Return the body of a reply that is not streamed."""
        choices: dict[int, dict[str, Any]] = {}
        steps: dict[int, list[Step]] = {}
        body: dict[str, Any] = self._base | {"choices": []}
        for item in events:
            if isinstance(item, Delta):
                message = choices.setdefault(item.index, {"text": "", "calls": []})
                steps.setdefault(item.index, []).extend(item.steps)
                for part in item.parts:
                    if part.kind == "text":
                        message["text"] += part.data
                    elif part.kind == "call":
                        message["calls"].append([part.data, ""])
                    else:
                        message["calls"][-1][1] += part.data
            elif isinstance(item, Finish):
                message = choices.get(item.index, {"text": "", "calls": []})
                body["choices"].append(self._choice(item, message, steps.get(item.index, [])))
            elif isinstance(item, Done):
                body["usage"] = usage(item)
        return body

    def _choice(self, item: Finish, message: dict[str, Any], steps: list[Step]) -> dict[str, Any]:
        reply: dict[str, Any] = {"role": "assistant", "content": message["text"], "refusal": None}
        if message["calls"]:
            reply["content"] = message["text"] or None
            reply["tool_calls"] = [
                {
                    "id": "call_" + secrets.token_hex(12),
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for name, arguments in message["calls"]
            ]
        logprobs = {"content": self._entries(steps), "refusal": None} if self._logprobs else None
        return {"index": item.index, "message": reply, "logprobs": logprobs, "finish_reason": item.reason}


class CompletionWire(ChatWire):
    """Bodies of ``/v1/completions``: the same, with plain text and the older form of log probabilities."""

    kind = "text_completion"

    def __init__(
        self, model: str, tokenizer: Tokenizer, fingerprint: str, *, logprobs: bool, counts: bool
    ) -> None:
        super().__init__(model, tokenizer, fingerprint, logprobs=logprobs, counts=counts)
        self.id = self._base["id"] = "cmpl-" + secrets.token_hex(12)
        self._offsets: dict[int, int] = {}

    def _legacy(self, index: int, steps: Iterable[Step]) -> dict[str, Any]:
        """Return the four parallel lists; offsets are in characters of the choice's text."""
        lists: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for step in steps:
            text = self._tokenizer.piece(step.token).decode("utf-8", "replace")
            offset = self._offsets.get(index, 0)
            lists["tokens"].append(text)
            lists["token_logprobs"].append(step.logprob)
            top = {
                _token(self._tokenizer, token, 0.0)["token"]: logprob for token, logprob in reversed(step.top)
            }
            lists["top_logprobs"].append(dict(reversed(top.items())))
            lists["text_offset"].append(offset)
            self._offsets[index] = offset + len(text)
        return lists

    def _chunk(self, index: int, delta: dict[str, Any], reason: str | None, steps: tuple[Step, ...]) -> bytes:
        choice: dict[str, Any] = {
            "index": index,
            "text": delta.get("content", ""),
            "logprobs": self._legacy(index, steps) if self._logprobs and steps else None,
            "finish_reason": reason,
        }
        chunk = self._base | {"choices": [choice]}
        return event(chunk | {"usage": self._so_far} if self._counts else chunk)

    def start(self, choices: int) -> bytes:
        """Nothing opens a completion."""
        return b""

    def end(self, done: Done) -> bytes:
        """Return the end of the stream."""
        last = event(self._base | {"choices": [], "usage": usage(done)}) if self._counts else b""
        return last + b"data: [DONE]\n\n"

    def _choice(self, item: Finish, message: dict[str, Any], steps: list[Step]) -> dict[str, Any]:
        return {
            "index": item.index,
            "text": message["text"],
            "logprobs": self._legacy(item.index, steps) if self._logprobs else None,
            "finish_reason": item.reason,
        }
