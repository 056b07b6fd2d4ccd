"""From a validated request to a job: the prompt, the limits, the mask; and what is refused on the way.

Limits: the prompt and ``max_tokens`` must fit the model's window together. Without ``max_tokens`` a reply
may have 256 tokens, or what is left of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from modelcall.lab.generation import Mask
from modelcall.lab.jsonmask import JsonMask, Vocabulary
from modelcall.lab.models import ChatModel, Function, Message
from modelcall.lab.sampling import Sampling
from modelcall.lab.server.errors import ApiError, invalid
from modelcall.lab.server.job import Job, Outbox
from modelcall.lab.server.schema import (
    ChatRequest,
    Common,
    CompletionRequest,
    NamedTool,
    WireMessage,
    text_of,
)
from modelcall.lab.server.toolcalls import call_head

__all__ = ["DEFAULT_MAX_TOKENS", "Served", "chat_job", "completion_job"]

DEFAULT_MAX_TOKENS: Final = 256


@dataclass(slots=True)
class Served:
    """A model with what the server prepares once for it.

    Attributes:
        model: the model.
        blocked: strings that no reply may contain; it is cut before the first, with ``content_filter``.
    """

    model: ChatModel
    blocked: Sequence[str] = ()
    longest_token_bytes: int = field(init=False)
    _vocabulary: Vocabulary | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Measure the vocabulary."""
        self.longest_token_bytes = max(map(len, self.model.tokenizer.pieces))

    def json_mask(self, heads: Sequence[bytes] = ()) -> JsonMask:
        """Return a fresh mask for one reply; the vocabulary's trie is built at the first call."""
        if self._vocabulary is None:
            self._vocabulary = Vocabulary(self.model.tokenizer.pieces, self.model.end_tokens)
        return JsonMask(self._vocabulary, self.model.tokenizer.pieces, heads)

    def check_size(self, texts: Sequence[str], param: str) -> None:
        """Refuse text that cannot fit, before time is spent on encoding it.

        Raises:
            ApiError: even in the longest tokens it is over the window.
        """
        size = sum(len(text.encode("utf-8")) for text in texts)
        if size > self.model.window * self.longest_token_bytes:
            at_least = -(-size // self.longest_token_bytes)
            raise _too_long(self.model, f"the prompt has at least {at_least} tokens", param)


def _too_long(model: ChatModel, what: str, param: str) -> ApiError:
    # Client libraries tell this error from others by these words.
    message = f"this model's maximum context length is {model.window} tokens; {what}"
    return invalid(message, param=param, code="context_length_exceeded")


def _limit(model: ChatModel, prompts: Sequence[Sequence[int]], asked: int | None, param: str) -> int:
    longest = max(map(len, prompts))
    left = model.window - longest
    if left < 1:
        raise _too_long(model, f"the prompt has {longest} tokens and leaves no room for a reply", param)
    if asked is not None and asked > left:
        raise _too_long(model, f"the prompt has {longest} tokens and max_tokens asks for {asked} more", param)
    return min(left, DEFAULT_MAX_TOKENS) if asked is None else asked


def _sampling(request: Common) -> Callable[[int], Sampling]:
    def of(index: int) -> Sampling:
        return Sampling(
            temperature=1.0 if request.temperature is None else request.temperature,
            top_k=request.top_k or 0,
            top_p=1.0 if request.top_p is None else request.top_p,
            seed=request.seed,
            stream=index,
        )

    return of


def _message(wire: WireMessage) -> Message:
    calls = tuple((call.function.name, call.function.arguments) for call in wire.tool_calls or ())
    role = "system" if wire.role == "developer" else wire.role
    return Message(role, text_of(wire.content) or wire.refusal or "", calls)


def _mask(served: Served, request: ChatRequest, tools: Sequence[str]) -> Callable[[], Mask] | None:
    heads = [call_head(name).encode("utf-8") + b"{" for name in tools]
    if isinstance(request.tool_choice, NamedTool):
        heads = [call_head(request.tool_choice.function.name).encode("utf-8") + b"{"]
    if heads and request.tool_choice not in (None, "auto"):
        return lambda: served.json_mask(heads)
    if request.response_format is not None and request.response_format.type == "json_object":
        return served.json_mask
    return None


def chat_job(served: Served, request: ChatRequest, outbox: Outbox) -> Job:
    """Return the job of a chat.

    Raises:
        ApiError: the prompt does not fit, or what is asked for is not offered.
    """
    model = served.model
    if request.response_format is not None and request.response_format.type == "json_schema":
        raise invalid(
            "json_schema is not offered; json_object is, and gives a JSON object of any shape",
            param="response_format.type",
            code="unsupported_value",
        )
    offered = [] if request.tool_choice == "none" else list(request.tools or ())
    if offered and not model.calls_tools:
        raise invalid(
            f"{model.name} was not trained to call tools", param="tools", code="unsupported_parameter"
        )
    functions = []
    for tool in offered:
        properties = (tool.function.parameters or {}).get("properties", {})
        if not isinstance(properties, dict):
            raise invalid("parameters.properties must be an object", param="tools", code="invalid_type")
        functions.append(Function(tool.function.name, tuple(properties)))
    messages = [_message(message) for message in request.messages]
    texts = [message.content for message in messages]
    texts += [part for message in messages for call in message.calls for part in call]
    texts += [part for function in functions for part in (function.name, *function.parameters)]
    served.check_size(texts, "messages")
    prompt = model.prompt(messages, functions)
    asked = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
    names = [function.name for function in functions]
    return Job(
        model=model,
        prompts=[prompt],
        outbox=outbox,
        max_tokens=_limit(model, [prompt], asked, "messages"),
        sampling=_sampling(request),
        end_tokens=frozenset() if request.ignore_eos else model.end_tokens,
        n=request.n or 1,
        top=(request.top_logprobs or 0) if request.logprobs else None,
        stop=request.stops,
        blocked=served.blocked,
        tools=names,
        mask=_mask(served, request, names),
    )


def completion_job(served: Served, request: CompletionRequest, outbox: Outbox) -> Job:
    """Return the job of a completion; the prompt is read as it is, without a template.

    Raises:
        ApiError: a prompt is empty, does not fit, or holds a token id that the model does not have.
    """
    model = served.model
    prompts: list[list[int]] = []
    if isinstance(request.prompt, str) or isinstance(request.prompt[0], str):
        texts = (
            [request.prompt] if isinstance(request.prompt, str) else [str(text) for text in request.prompt]
        )
        for text in texts:
            served.check_size([text], "prompt")
        prompts = [model.tokenizer.encode(text) for text in texts]
    else:
        prompts = [[int(token) for token in request.prompt]]
        worst = max(prompts[0])
        if worst >= model.tokenizer.size:
            raise invalid(f"token id {worst} is not one of 0 to {model.tokenizer.size - 1}", param="prompt")
    if not all(prompts):
        raise invalid("a prompt without tokens cannot be continued", param="prompt")
    return Job(
        model=model,
        prompts=prompts,
        outbox=outbox,
        max_tokens=_limit(model, prompts, request.max_tokens, "prompt"),
        sampling=_sampling(request),
        end_tokens=frozenset() if request.ignore_eos else model.end_tokens,
        n=request.n or 1,
        top=request.logprobs,
        stop=request.stops,
        blocked=served.blocked,
    )
