"""Claims about tokens whose value is a table: each function here fills one from the chapter's functions.

A ledger expression has no loops over names and no tables of results, so these do both and compute nothing of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelcall import ch03
from modelcall.lab.samples import sample

__all__ = [
    "attention_growth",
    "completed_call",
    "densities",
    "ids_of",
    "inflations",
    "letters_and_characters",
    "prefill_growth",
    "row_offsets",
    "single_bytes",
    "token_counts",
    "trace_tokens",
]

# parameters, layers, width
SHAPES = {"Llama-3-70B shape, causal attention": (70.553706496e9, 80, 8192)}


def ids_of(text: str) -> list[int]:
    """Return the ids of a text in ``cl100k_base``.

    >>> ids_of("def")
    [755]
    """
    return ch03.load_encoding("cl100k_base").encode(text)


def attention_growth(factor: int) -> float:
    """Return how many times as much the attention scores of a prompt cost that is so much longer."""
    short, long = (ch03.prefill_flops(0, 1000 * times, 80, 8192) for times in (1, factor))
    return long / short


def prefill_growth(model: str, before: int, after: int) -> float:
    """Return how many times as much it costs a model to read a longer prompt."""
    parameters, layers, width = SHAPES[model]
    short, long = (ch03.prefill_flops(parameters, n, layers, width) for n in (before, after))
    return long / short


def single_bytes(encoding: str) -> int:
    """Return the number of byte values that are tokens by themselves."""
    return sum(len(token) == 1 for token in ch03.load_encoding(encoding).ranks)


def letters_and_characters(name: str) -> dict[str, float]:
    """Return the letters in a word of a sample, and the characters in a token."""
    words = [word for word in _letters(sample(name)) if word]
    return {
        "letters per word": sum(map(len, words)) / len(words),
        "characters per cl100k token": densities([name], [name])[name],
    }


def _letters(text: str) -> list[str]:
    return "".join(char if char.isalpha() else " " for char in text).split()


def row_offsets(ids: Sequence[int], width: int, value_bytes: int) -> dict[str, int]:
    """Return where the rows of ids begin."""
    return {str(token): ch03.row_offset_bytes(token, width, value_bytes) for token in ids}


def densities(
    labels: Sequence[str], samples: Sequence[str], encoding: str = "cl100k_base"
) -> dict[str, float]:
    """Return characters per token of samples, under the names that a claim gives them."""
    tokenizer = ch03.load_encoding(encoding)
    found = [ch03.measure(sample(name), tokenizer).chars_per_token for name in samples]
    return dict(zip(labels, found, strict=True))


def inflations(base: float, labels: Sequence[str], others: Sequence[float]) -> dict[str, float]:
    """Return how many percent more tokens texts of other densities need."""
    found = [ch03.inflation_percent(base, density) for density in others]
    return dict(zip(labels, found, strict=True))


def token_counts(encoding: str, texts: Sequence[str]) -> dict[str, int]:
    """Return the number of ids of each text."""
    tokenizer = ch03.load_encoding(encoding)
    return {text: len(tokenizer.encode(text)) for text in texts}


def trace_tokens(characters: int, labels: Sequence[str], samples: Sequence[str]) -> dict[str, float]:
    """Return the tokens of samples, scaled to a number of characters."""
    return {label: characters / density for label, density in densities(labels, samples).items()}


def completed_call(argument: str) -> str:
    """Return a tool call with an argument as it was printed, quoted and closed."""
    return f'{{"command": "{argument}"}}'
