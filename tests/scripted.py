"""A decoder that says what it is told to: real caches and real logits, but a script instead of weights.

Every byte is a token, so a test can say exactly where tokens end. The cache itself remembers the ids (as
its keys), so that cutting, copying and sharing caches is part of what is tested.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modelcall.lab.engine import Config, Decoder
from modelcall.lab.kvcache import Floats, KVCache
from modelcall.lab.models import ChatModel, house_prompt
from modelcall.lab.tokenizer import Tokenizer

SPECIALS = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
END = 256 + SPECIALS.index("<|end|>")


def byte_tokenizer(merged: Sequence[bytes] = ()) -> Tokenizer:
    """Every byte is a token; so are ``merged``, after them."""
    ranks = {bytes([i]): i for i in range(256)} | {data: 256 + i for i, data in enumerate(merged)}
    return Tokenizer("bytes", r"(?s).", ranks, {name: len(ranks) + i for i, name in enumerate(SPECIALS)})


class ScriptedDecoder(Decoder):
    """Answers the last user turn with its reply in ``script``; unknown turns are echoed."""

    def __init__(self, script: Mapping[str, bytes], *, context: int = 512, step_s: float = 0.0) -> None:
        self.config = Config(262, 2, 1, 1, 1, 2, 1, context)
        self.dtype = np.dtype(np.float64)
        self.script, self.step_s = dict(script), step_s
        self.forwards = 0

    def forward(self, tokens: Any, cache: KVCache, **_: Any) -> Floats:
        """Remember the ids; the next byte of the reply gets logit 9, the one after its value 5."""
        ids = np.asarray(tokens)[0]
        cache.require(len(ids))
        cache.append(0, np.repeat(ids[None, None, :, None], 2, 3), np.zeros((1, 1, len(ids), 2)))
        cache.advance(len(ids))
        self.forwards += 1
        if self.step_s and len(ids) == 1:
            time.sleep(self.step_s)
        history = cache.keys[0, 0, 0, : len(cache), 0].astype(int).tolist()
        start = max((i for i, token in enumerate(history) if token == 259), default=-1) + 1
        users = [i for i in range(start) if history[i] == 258]
        turn = history[users[-1] + 1 : start - 1] if users else history
        text = bytes(token for token in turn if token < 256).decode("utf-8", "replace")
        reply = [*self.script.get(text, text.encode()), END]
        said = len(history) - start
        logits = np.zeros((1, 262))
        if start:
            token = reply[said] if said < len(reply) else END
        else:
            token = (history[-1] + 1) % 256  # no conversation: the alphabet
        logits[0, token] = 9.0
        logits[0, (token + 1) % 262] = 5.0
        return logits


def scripted_model(script: Mapping[str, bytes], *, name: str = "scripted", **options: Any) -> ChatModel:
    """A model that follows a script, with the house model's template."""
    decoder = ScriptedDecoder(script, **options)
    return ChatModel(name, decoder, byte_tokenizer(), house_prompt, frozenset({END, 256}), calls_tools=True)
