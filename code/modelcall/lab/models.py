"""The book's models by name, ready to be asked: weights, tokenizer, chat template, end tokens.

========== ==================================================== ======================================
name       what it is                                           where it comes from
========== ==================================================== ======================================
house      the house model after instruction and abstention     ``data/house_model``
house-base the same before that tuning                          ``data/house_model``
house-draft a tenth of the size, for speculative decoding       ``data/house_model``
smollm2    SmolLM2-135M-Instruct                                ``modelcall fetch smollm2``
========== ==================================================== ======================================

A chat template turns messages into one prompt. Control tokens enter it by their ids only, so that no
message can open a turn by spelling one out.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from modelcall.lab import fetch, safetensors, smollm2
from modelcall.lab.engine import Config, Decoder
from modelcall.lab.gguf import GgufFile
from modelcall.lab.model_errors import ModelError, TokenizerError, WeightsError
from modelcall.lab.paths import data_dir
from modelcall.lab.tokenizer import Tokenizer

__all__ = ["MODELS", "ChatModel", "Function", "Message", "house_prompt", "load", "smollm2_prompt"]

HOUSE_STAGES: Final = {"house": "tuned", "house-base": "base", "house-draft": "draft"}
MODELS: Final = (*HOUSE_STAGES, "smollm2")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn: ``role`` is system, user, assistant or tool; ``calls`` are (tool, arguments as JSON text)."""

    role: str
    content: str = ""
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A tool on offer: its name and the names of its parameters."""

    name: str
    parameters: tuple[str, ...] = ()


Template = Callable[[Tokenizer, Sequence[Message], Sequence[Function]], list[int]]


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that can be asked.

    Attributes:
        name: as in :data:`MODELS`.
        decoder, tokenizer: the parts.
        template: turns messages and tools into a prompt.
        end_tokens: ids that end a reply.
        calls_tools: whether it was trained to call tools.
    """

    name: str
    decoder: Decoder
    tokenizer: Tokenizer
    template: Template
    end_tokens: frozenset[int]
    calls_tools: bool = False
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def window(self) -> int:
        """Tokens of prompt and reply together."""
        return self.decoder.config.context

    def prompt(self, messages: Sequence[Message], tools: Sequence[Function] = ()) -> list[int]:
        """Return the token ids of a conversation, ready for the assistant's reply."""
        return self.template(self.tokenizer, messages, tools)


def call_text(name: str, arguments: str) -> str:
    """Return a tool call as the house model writes it; ``arguments`` is the text of a JSON object.

    >>> call_text("get_order", '{"order_id": "A-1"}')
    '{"tool": "get_order", "arguments": {"order_id": "A-1"}}'
    """
    return f'{{"tool": {json.dumps(name)}, "arguments": {arguments}}}'


def house_prompt(tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Function]) -> list[int]:
    """Template of the house model: each turn opens with its role's token, only the assistant closes it.

    Tools are announced in a system turn after the caller's own.
    """

    def turn(role: str, text: str) -> list[int]:
        return [tokenizer.special(f"<|{role}|>"), *tokenizer.encode(text)]

    ids: list[int] = []
    announced = not tools
    for message in messages:
        if not announced and message.role != "system":
            ids += turn("system", _announcement(tools))
            announced = True
        text = message.content
        for name, arguments in message.calls:
            text += call_text(name, arguments)
        ids += turn(message.role, text)
        if message.role == "assistant":
            ids.append(tokenizer.special("<|end|>"))
    if not announced:
        ids += turn("system", _announcement(tools))
    return [*ids, tokenizer.special("<|assistant|>")]


def _announcement(tools: Sequence[Function]) -> str:
    return "Tools: " + ", ".join(f"{tool.name}({', '.join(tool.parameters)})" for tool in tools) + "."


def smollm2_prompt(tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Function]) -> list[int]:
    """Template of SmolLM2, as its file states it; it announces no tools."""
    del tools
    ids = []
    for part in smollm2.chat_parts([(message.role, message.content) for message in messages]):
        ids += [tokenizer.specials[part]] if part in tokenizer.specials else tokenizer.encode(part)
    return ids


def load(name: str, dtype: DTypeLike = np.float32, folder: Path | None = None) -> ChatModel:
    """Load a model.

    Args:
        name: one of :data:`MODELS`.
        dtype: of the arithmetic, float32 or float64.
        folder: read the house model's files from here instead of the book's own.

    Raises:
        ModelError: the name is unknown.
        WeightsError: a file is missing or damaged; the message has the hash expected and found.
        FetchError: SmolLM2 has not been fetched.
    """
    if name in HOUSE_STAGES:
        return _load_house(name, dtype, folder)
    if name == "smollm2":
        path = fetch.require(fetch.SMOLLM2)
        with GgufFile(path) as file:
            tokenizer = smollm2.load_tokenizer(file)
            decoder = smollm2.load_decoder(file, dtype)
        ends = frozenset({tokenizer.special("<|im_end|>"), tokenizer.special("<|endoftext|>")})
        return ChatModel(name, decoder, tokenizer, smollm2_prompt, ends)
    raise ModelError(f"no model {name!r}; there are {', '.join(MODELS)}")


def _load_house(name: str, dtype: DTypeLike, folder: Path | None) -> ChatModel:
    try:
        folder = data_dir("house_model") if folder is None else folder
    except FileNotFoundError as error:
        raise WeightsError(f"the house model's files are missing: {error}") from None
    stage = HOUSE_STAGES[name]
    configs = _json(folder / "config.json")
    if not isinstance(configs.get(stage), dict):
        raise WeightsError(f"{folder / 'config.json'}: has no configuration {stage!r}")
    tokenizer = _house_tokenizer(folder)
    path = folder / f"{stage}.safetensors"
    _check_hash(path)
    try:
        tensors = safetensors.load(path)
    except (OSError, safetensors.SafetensorsError) as error:
        raise WeightsError(f"{path}: {error}") from None
    decoder = Decoder(Config.from_hf(configs[stage]), tensors, dtype)
    if decoder.config.vocab_size != tokenizer.size:
        raise WeightsError(f"{path}: {decoder.config.vocab_size} output rows for {tokenizer.size} tokens")
    ends = frozenset({tokenizer.special("<|end|>"), tokenizer.special("<|endoftext|>")})
    return ChatModel(name, decoder, tokenizer, house_prompt, ends, calls_tools=True)


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WeightsError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise WeightsError(f"{path}: is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise WeightsError(f"{path}: expected a JSON object")
    return data


def _house_tokenizer(folder: Path) -> Tokenizer:
    """Read the pattern and special tokens, and the ranks: ``base64(bytes) rank``, one a line."""
    meta = _json(folder / "tokenizer.json")
    pattern, name, specials = (meta.get(key) for key in ("pattern", "ranks", "special_tokens"))
    if not isinstance(pattern, str) or not isinstance(name, str) or not isinstance(specials, dict):
        raise TokenizerError(f"{folder / 'tokenizer.json'}: needs pattern, ranks and special_tokens")
    path = folder / name
    _check_hash(path)
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in lines}
    except (OSError, ValueError, binascii.Error) as error:
        raise TokenizerError(f"{path}: is no rank file: {error}") from None
    return Tokenizer("house", pattern, ranks, specials)


def _check_hash(path: Path) -> None:
    """Compare a file with the entry of ``SHA256SUMS`` beside it.

    Raises:
        WeightsError: the file or its entry is missing, or the hashes differ.
    """
    if not path.is_file():
        raise WeightsError(f"{path}: is missing")
    sums = path.with_name("SHA256SUMS")
    try:
        rows = [line.split() for line in sums.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise WeightsError(f"{sums}: cannot be read: {error}") from None
    expected = next((row[0] for row in rows if row[1:] == [path.name]), None)
    found = fetch.file_sha256(path)
    if found != expected:
        raise WeightsError(f"{path}: sha256 is {found}, expected {expected or 'an entry in SHA256SUMS'}")
