"""A tokenizer as a model uses it: text to ids, ids to bytes, and special tokens that text cannot forge.

The byte-pair encoding itself is tiktoken's. This class adds what a server needs: every token's bytes
(:meth:`Tokenizer.piece`), and a strict line between text and control. :meth:`Tokenizer.encode` never
returns a special token, whatever the text says; they enter a prompt only by their ids.

What is not done here: training (``scripts/house_model``) and the encoder's algorithm, which the chapter
on tokens builds by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tiktoken

from modelcall.lab.model_errors import TokenizerError

__all__ = ["Tokenizer"]


class Tokenizer:
    """A byte-level vocabulary.

    Args:
        name: shown by ``repr``.
        pattern: the regular expression that cuts text into words, in the syntax of fancy-regex.
        ranks: the id of each ordinary token; merging prefers lower ids. Single bytes may be missing.
        specials: the ids of the special tokens.

    Raises:
        TokenizerError: ids are not unique or not 0 to n - 1.

    >>> bytes_only = Tokenizer("bytes", r"(?s).", {bytes([i]): i for i in range(256)}, {"<|end|>": 256})
    >>> bytes_only.encode("é<|end|>")[:3], bytes_only.decode([195, 169, 256]), bytes_only.size
    ([195, 169, 60], 'é', 257)
    """

    def __init__(
        self, name: str, pattern: str, ranks: Mapping[bytes, int], specials: Mapping[str, int]
    ) -> None:
        ids = sorted([*ranks.values(), *specials.values()])
        if ids != list(range(len(ids))):
            raise TokenizerError(
                f"tokenizer {name}: the ids of its {len(ids)} tokens are not 0 to {len(ids) - 1}"
            )
        self.name = name
        self.specials = dict(specials)
        self.size = len(ids)
        # The encoder needs all 256 bytes; one that the vocabulary lacks gets an id that is dropped later.
        lacking = [bytes([i]) for i in range(256) if bytes([i]) not in ranks]
        self._complete = not lacking
        self.encoding = tiktoken.Encoding(
            name,
            pat_str=pattern,
            mergeable_ranks=dict(ranks) | {data: self.size + i for i, data in enumerate(lacking)},
            special_tokens=dict(specials),
        )
        pieces = [b""] * self.size
        for data, i in ranks.items():
            pieces[i] = data
        self.pieces = tuple(pieces)

    def __repr__(self) -> str:
        """Name and size."""
        return f"<Tokenizer {self.name}: {self.size} tokens>"

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; never those of special tokens.

        Bytes that the vocabulary cannot say are left out, as the reference implementations do.
        """
        ids = self.encoding.encode_ordinary(text)
        return ids if self._complete else [i for i in ids if i < self.size]

    def special(self, name: str) -> int:
        """Return the id of a special token.

        Raises:
            TokenizerError: there is none of this name.
        """
        if name not in self.specials:
            raise TokenizerError(
                f"tokenizer {self.name} has no special token {name!r}; it has {[*self.specials]}"
            )
        return self.specials[name]

    def piece(self, token: int) -> bytes:
        """Return a token's bytes; a special token has none.

        Raises:
            TokenizerError: the id is not in the vocabulary.
        """
        if not 0 <= token < self.size:
            raise TokenizerError(
                f"tokenizer {self.name}: token id {token} is not one of 0 to {self.size - 1}"
            )
        return self.pieces[token]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of the ids; bytes that are no UTF-8 become U+FFFD, special tokens nothing."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")
