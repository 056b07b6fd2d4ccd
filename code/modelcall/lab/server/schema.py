"""The requests that the server takes, as pydantic models; the OpenAPI description is made from them.

Strict: a number in quotes is no number, an unknown field is an error that names it. What OpenAI's API
has and this server cannot do is refused rather than ignored, unless it is set to the value that changes
nothing. Fields that only concern a vendor's bookkeeping (``user``, ``store``, ...) are accepted. Of a key
that stands twice in an object, the last counts, as in Python's own ``json``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["ChatRequest", "CompletionRequest", "Content", "WireMessage", "text_of"]

Zero = Annotated[float, Field(ge=0, le=0)]


class Strict(BaseModel):
    """No coercion, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TextPart(Strict):
    """A part of a message's content; text is the only kind the models read."""

    type: Literal["text"]
    text: str


Content = str | Annotated[list[TextPart], Field(max_length=1024)]


class CalledFunction(Strict):
    """What a tool call calls."""

    name: str
    arguments: str


class ToolCall(Strict):
    """A call that the assistant made earlier in the conversation."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class WireMessage(Strict):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=64)] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    # Clients send a reply back as they got it, with these set to null.
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None

    @model_validator(mode="after")
    def _fits_its_role(self) -> WireMessage:
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"tool_calls belong to the assistant, not to the role {self.role!r}")
        if self.tool_call_id is not None and self.role != "tool":
            raise ValueError(f"tool_call_id belongs to the role 'tool', not to {self.role!r}")
        if self.content is None and not (self.role == "assistant" and (self.tool_calls or self.refusal)):
            raise ValueError("content must be a string or a list of text parts")
        return self


class FunctionSpec(Strict):
    """A function on offer."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolSpec(Strict):
    """A tool on offer; functions are the only kind."""

    type: Literal["function"]
    function: FunctionSpec


class FunctionName(Strict):
    """The name in a named choice."""

    name: str


class NamedTool(Strict):
    """The choice of one tool."""

    type: Literal["function"]
    function: FunctionName


class ResponseFormat(Strict):
    """``text`` or ``json_object``; ``json_schema`` is recognized, and refused."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class StreamOptions(Strict):
    """Options of a stream."""

    include_usage: bool | None = None
    continuous_usage_stats: (
        Annotated[bool, Field(description="counts so far in every chunk; not part of OpenAI's API")] | None
    ) = None
    include_obfuscation: bool | None = None


class Common(Strict):
    """Fields that both endpoints share."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: (
        Annotated[int, Field(ge=0, le=1_000_000, description="0 is off; not part of OpenAI's API")] | None
    ) = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    n: Annotated[int, Field(ge=1, le=8)] | None = None
    stop: (
        Annotated[str, Field(min_length=1, max_length=256)]
        | Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=4)]
        | None
    ) = None
    ignore_eos: (
        Annotated[bool, Field(description="do not stop at an end token; not part of OpenAI's API")] | None
    ) = None
    # Only their neutral values are taken.
    frequency_penalty: Zero | None = None
    presence_penalty: Zero | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    # Of no consequence here.
    user: str | None = None

    @property
    def stops(self) -> list[str]:
        """The stop strings as a list."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    @property
    def usage_in_stream(self) -> bool:
        """Whether a stream ends with a chunk of token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def usage_in_chunks(self) -> bool:
        """Whether every chunk has the counts so far."""
        return bool(
            self.usage_in_stream and self.stream_options and self.stream_options.continuous_usage_stats
        )

    @model_validator(mode="after")
    def _options_fit(self) -> Common:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is only allowed when stream is true")
        return self


class ChatRequest(Common):
    """Body of ``POST /v1/chat/completions``."""

    messages: Annotated[list[WireMessage], Field(min_length=1, max_length=4096)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Annotated[list[ToolSpec], Field(max_length=64)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    @model_validator(mode="after")
    def _fields_fit(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs is only allowed when logprobs is true")
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens are the same limit; set one of them")
        names = [tool.function.name for tool in self.tools or ()]
        if len(set(names)) != len(names):
            raise ValueError("tools: two functions have the same name")
        if self.tool_choice not in (None, "none", "auto") and not names:
            raise ValueError("tool_choice asks for a tool, but tools is empty")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            raise ValueError(f"tool_choice names {self.tool_choice.function.name!r}, which is not in tools")
        return self


Prompt = Annotated[str, Field(min_length=1)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(min_length=1, max_length=1 << 16)]


class CompletionRequest(Common):
    """Body of ``POST /v1/completions``."""

    prompt: Prompt | TokenIds | Annotated[list[Prompt], Field(min_length=1, max_length=16)]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    # Only their neutral values are taken.
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None
    suffix: None = None


def text_of(content: Content | None) -> str:
    """Return the text of a message's content.

    >>> text_of([TextPart(type="text", text="a"), TextPart(type="text", text="b")])
    'ab'
    """
    if content is None:
        return ""
    return content if isinstance(content, str) else "".join(part.text for part in content)
