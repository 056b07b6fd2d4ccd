"""Claims about tokens whose value is a table: each function here fills one from the chapter's functions.

A ledger expression has no loops over names and no tables of results, so these do both and compute nothing of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelcall import ch03
from modelcall.lab.samples import sample

__all__ = [
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

LLAMA_70B = {"parameters": 70.553706496e9, "layers": 80, "width": 8192}


def ids_of(text: str) -> list[int]:
    """Return the ids of a text in ``cl100k_base``.

    >>> ids_of("def")
    [755]
    """
    return ch03.load_encoding("cl100k_base").encode(text)


def prefill_growth(before: int, after: int, whole: bool = True) -> float:
    """Return how many times as much a longer prompt costs, as a whole or in its attention scores."""
    shape = {**LLAMA_70B, "parameters": LLAMA_70B["parameters"] if whole else 0.0}
    layers, width = int(shape["layers"]), int(shape["width"])
    short, long = (ch03.prefill_flops(shape["parameters"], n, layers, width) for n in (before, after))
    return long / short


def single_bytes(encoding: str) -> int:
    """Return the number of byte values that are tokens by themselves."""
    return sum(len(token) == 1 for token in ch03.load_encoding(encoding).ranks)


def letters_and_characters(name: str) -> dict[str, float]:
    """Return the letters in a word of a sample, and the characters in a token."""
    words = [word for word in _letters(sample(name)) if word]
    return {
        "letters per word": sum(map(len, words)) / len(words),
        "characters per cl100k token": densities({name: name})[name],
    }


def _letters(text: str) -> list[str]:
    return "".join(char if char.isalpha() else " " for char in text).split()


def row_offsets(ids: Sequence[int], width: int, value_bytes: int) -> dict[str, int]:
    """Return where the rows of ids begin."""
    return {str(token): ch03.row_offset_bytes(token, width, value_bytes) for token in ids}


def densities(samples: Mapping[str, str]) -> dict[str, float]:
    """Return characters per token of samples, under the names that a claim gives them."""
    encoding = ch03.load_encoding("cl100k_base")
    return {label: ch03.measure(sample(name), encoding).chars_per_token for label, name in samples.items()}


def inflations(base: float, others: Mapping[str, float]) -> dict[str, float]:
    """Return how many percent more tokens texts of other densities need."""
    return {label: ch03.inflation_percent(base, density) for label, density in others.items()}


def token_counts(texts: Sequence[str]) -> dict[str, int]:
    """Return the number of ids of each text."""
    return {text: len(ids_of(text)) for text in texts}


def trace_tokens(characters: int, samples: Mapping[str, str]) -> dict[str, float]:
    """Return the tokens of samples, scaled to a number of characters."""
    return {label: characters / density for label, density in densities(samples).items()}


def completed_call(argument: str) -> str:
    """Return a tool call with an argument as it was printed, quoted and closed."""
    return f'{{"command": "{argument}"}}'
