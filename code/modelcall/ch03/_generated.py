"""Tokens are a budget

Written by scripts/tangle.py from the "# @save" cells of chapters/03-tokens.ipynb: edit those.
"""

import base64
import hashlib
import io
import json
import math
import os
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import regex

from modelcall.lab import args
from modelcall.lab.paths import data_dir


# cell: Tokenizer
class Tokenizer(Protocol):
    """Text to ids and back. Ids are integers from 0 to ``size`` - 1."""

    @property
    def size(self) -> int:
        """The number of ids that a model has to provide for."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text that ids spell."""


# cell: WordTokenizer
class WordTokenizer:
    """The most frequent words and marks of a corpus; id 0 is all that is unknown.

    Letters, digits and underscores in a row are a word, any other character
    stands alone. Words of equal frequency are numbered in alphabetical order.

    Raises:
        TypeError: ``corpus`` or a text is not a string, ``size`` no integer.
        ValueError: ``size`` is below 1, a text is not valid Unicode, or an id
            to decode is outside the vocabulary.

    >>> small = WordTokenizer("to be or not to be", 4)
    >>> small.encode("to be free"), small.decode(small.encode("to be free"))
    ([3, 1, 2, 1, 0], 'to be <unk>')
    """

    def __init__(self, corpus: str, size: int):
        room = args.integer("size", size, at_least=1) - 1
        seen = Counter(re.findall(r"\w+|\W", args.text("corpus", corpus)))
        common = sorted(seen, key=lambda word: (-seen[word], word))[:room]
        self._words = ("<unk>", *common)
        self._ids = {word: i for i, word in enumerate(self._words) if i}
        self.size = len(self._words)

    def encode(self, text: str) -> list[int]:
        """Return one id per word or mark."""
        words = re.findall(r"\w+|\W", args.text("text", text))
        return [self._ids.get(word, 0) for word in words]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words; ``<unk>`` for each that was unknown."""
        known = args.integers("ids", ids, self.size - 1)
        return "".join(self._words[i] for i in known)


# cell: ByteTokenizer
class ByteTokenizer:
    """UTF-8 bytes as ids; 256 of them say everything.

    Raises:
        TypeError: a text is not a string, or ids are not integers.
        ValueError: a text is not valid Unicode, or an id is above 255.

    >>> ByteTokenizer().encode("dé"), ByteTokenizer().decode([100, 195, 169])
    ([100, 195, 169], 'dé')
    """

    size = 256

    def encode(self, text: str) -> list[int]:
        """Return one id per byte of UTF-8."""
        return list(args.text("text", text).encode())

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text; bytes that are not UTF-8 become U+FFFD."""
        return bytes(args.integers("ids", ids, 255)).decode("utf-8", "replace")


# cell: prefill_flops
def prefill_flops(
    parameters: float, tokens: int, layers: int, width: int
) -> float:
    """Return the floating-point operations to read a prompt, in causal attention.

    Two per parameter and token, and two per layer, unit of width and pair of
    positions that see each other: scores and weighted sums, halved as a
    position sees only earlier ones. The two tables count as the rest, though
    reading hardly multiplies by them: a few percent too much. Method: Kaplan et
    al. (2020), section 2.1.

    Raises:
        TypeError: an argument is not a number.
        ValueError: an argument is negative, NaN or infinite.

    >>> prefill_flops(1e9, 1000, 10, 100)
    2002000000000.0
    """
    read = args.count("tokens", tokens)
    per_token = 2.0 * args.real("parameters", parameters, 0.0, args.LARGEST)
    per_pair = 2.0 * args.count("layers", layers) * args.count("width", width)
    return per_token * read + per_pair * read**2


# cell: CL100K
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\Z|\s*[\r\n]|\s+(?!\S)|\s"
)


# cell: ASCII
# CL100K where all characters are ASCII, in the syntax of ``re``.
ASCII = re.compile(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\nA-Za-z0-9]?+[A-Za-z]++|[0-9]{1,3}+"
    r"| ?[^\sA-Za-z0-9]++[\r\n]*+|\s++\Z|\s*[\r\n]|\s+(?!\S)|\s",
    re.ASCII,
)
LINES = re.compile(r"(?<=\n)(?=\S)")


def splitter(pattern: str = CL100K) -> Callable[[str], list[str]]:
    """Return the function that cuts a text into pieces by a pattern.

    What the pattern does not match is left out of the pieces.

    Raises:
        TypeError: ``pattern`` is not a string.
        ValueError: it has groups, or is no pattern.

    >>> splitter()("It's 1234!")
    ['It', "'s", ' ', '123', '4', '!']
    """
    try:
        compiled = regex.compile(args.text("pattern", pattern))
    except regex.error as error:
        raise ValueError(f"pattern: {error}; {args.found(pattern)}") from None
    if compiled.groups:
        raise ValueError(f"pattern: holds groups; {args.found(pattern)}")
    slow: Callable[[str], list[str]] = compiled.findall

    def by_line(text: str) -> list[str]:
        if text.isascii():
            return ASCII.findall(text)
        lines = LINES.split(text)
        cut = (ASCII.findall(x) if x.isascii() else slow(x) for x in lines)
        return [piece for pieces in cut for piece in pieces]

    return by_line if pattern == CL100K else slow


# cell: Places
Places = npt.NDArray[np.int64]
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
# Ids 0 to 255, as in GPT-2 and cl100k_base: first the bytes that print.
BYTE_ORDER = bytes([*PRINTABLE, *sorted(set(range(256)) - set(PRINTABLE))])
WIDE = 2**32  # a pair of ids in one integer: left * WIDE + right


def _alternate(places: Places, before: Places) -> Places:
    """Keep the 1st, 3rd, ... of matches that overlap: "aaa" holds one "aa"."""
    index = np.arange(len(places))
    fresh = before != np.concatenate([[-1], places[:-1]])
    start = np.maximum.accumulate(np.where(fresh, index, 0))
    kept: Places = places[(index - start) % 2 == 0]
    return kept


# cell: class-_Row-All-pieces-in-411b34
class _Row:
    """All pieces in a row, -1 between them; joined symbols are jumped over."""

    def __init__(self, pieces: Mapping[str, int]):
        spelt = [piece.encode() for piece in pieces]
        # No UTF-8 text holds the byte FF, so it can stand between pieces.
        row = np.frombuffer(b"\xff".join([b"", *spelt, b""]), np.uint8)
        number = np.full(256, -1)
        number[list(BYTE_ORDER)] = np.arange(256)
        number[0xFF] = -1
        self.ids = number[row]
        self.before = np.arange(len(row)) - 1
        self.after = np.arange(len(row)) + 1
        sizes = [len(piece) + 1 for piece in spelt]
        self.weight = np.repeat([0, *pieces.values()], [1, *sizes])

    def pairs(self, places: Places) -> Counter[int]:
        """Count the pairs that start at ``places``, weighted."""
        left, right = self.ids[places], self.ids[self.after[places]]
        inside = (left >= 0) & (right >= 0)
        codes = left[inside] * WIDE + right[inside]
        kinds, which = np.unique(codes, return_inverse=True)
        sums = np.bincount(which, self.weight[places][inside], len(kinds))
        pairs = zip(kinds.tolist(), sums.astype(np.int64).tolist(), strict=True)
        return Counter(dict(pairs))


# cell: def-_join-row-_Row-left-6847c7
def _join(row: _Row, left: int, right: int, new: int) -> Counter[int]:
    """Replace a pair by a new id; return how the counts changed."""
    at = np.flatnonzero(row.ids == left)
    at = at[row.ids[row.after[at]] == right]
    if left == right:
        at = _alternate(at, row.before[at])
    second = row.after[at]
    changed: Counter[int] = Counter()
    around = np.concatenate([row.before[at], at, second])
    changed.subtract(row.pairs(np.unique(around)))
    row.ids[at], row.ids[second] = new, -1
    row.after[at] = row.after[second]
    row.before[row.after[at]] = at
    around = np.concatenate([row.before[at], at])
    changed.update(row.pairs(np.unique(around)))
    return changed


# cell: Ranks
Ranks = Mapping[bytes, int]


def merge_bytes(piece: bytes, ranks: Ranks) -> list[int]:
    """Encode one piece: join the pair of lowest rank, leftmost first, until none.

    ``ranks`` must hold every byte of the piece. Takes time n log n in the
    length of the piece. Method: byte-pair encoding with a priority queue.

    Raises:
        KeyError: a byte of the piece has no rank.

    >>> merge_bytes(b"aaab", {b"a": 0, b"b": 1, b"aa": 2, b"aab": 3})
    [2, 0, 1]
    """
    n, rank_of = len(piece), ranks.get
    left, right = list(range(-1, n)), [*range(1, n + 1), 0]
    pairs = ((rank_of(piece[i : i + 2]), i, i + 2) for i in range(n - 1))
    heap = [pair for pair in pairs if pair[0] is not None]
    heapify(heap)
    while heap:
        _, start, end = heappop(heap)
        middle = right[start]
        if right[middle] != end:
            continue  # one of its parts is gone
        right[start], left[end], right[middle] = end, start, n
        for i, j in ((left[start], end), (start, right[end])):
            if i >= 0 and j and (rank := rank_of(piece[i:j])) is not None:
                heappush(heap, (rank, i, j))
    ids, start = [], 0
    while start < n:
        ids.append(ranks[piece[start : right[start]]])
        start = right[start]
    return ids


# cell: CACHE_PIECES
CACHE_PIECES, CACHE_LENGTH = 100_000, 64


class _Pieces(dict[str, tuple[int, ...]]):
    """The ids of pieces met before; when full, it forgets and starts again."""

    def __init__(self, ranks: Ranks):
        super().__init__()
        self.ranks = ranks

    def __missing__(self, piece: str) -> tuple[int, ...]:
        data = piece.encode()
        rank = self.ranks.get(data)
        merged = merge_bytes(data, self.ranks) if rank is None else (rank,)
        ids = tuple(merged)
        if len(piece) <= CACHE_LENGTH:
            if len(self) >= CACHE_PIECES:
                self.clear()
            self[piece] = ids
        return ids


# cell: Names
Names = Iterable[str] | Literal["all"]
Specials = Mapping[str, int]


def split_specials(
    text: str, specials: Iterable[str], allowed: Names, disallowed: Names
) -> list[str]:
    """Cut a text at allowed special tokens; they stand at the odd places.

    Raises:
        TypeError: names are one string other than ``"all"``, or not strings.
        ValueError: the text spells a disallowed token; ``"all"`` disallows what
            is not allowed.

    >>> split_specials("a<end>b", ["<end>"], "all", "all")
    ['a', '<end>', 'b']
    """
    every = set(specials)
    given = {"allowed_special": allowed, "disallowed_special": disallowed}
    for argument, names in given.items():
        if names != "all" and args.items(argument, names, empty=True):
            args.texts(argument, names)
    control = every if allowed == "all" else every & set(allowed)
    refused = every - control if disallowed == "all" else set(disallowed)
    if spelt := sorted(name for name in refused if name in text):
        raise ValueError(f"text: holds {spelt[0]!r}; allow it, or disallow none")
    if not control:
        return [text]
    longest_first = sorted(control, key=len, reverse=True)
    return re.split(f"({'|'.join(map(re.escape, longest_first))})", text)


# cell: from-itertools-import-12c7d7
class _Encoder:
    """The way from text to ids; ``BytePairTokenizer`` adds the way back."""

    def __init__(self, pattern: str, ranks: Ranks, specials: Specials):
        self.ranks, self.specials = dict(ranks), dict(specials)
        self.pattern, self.split = pattern, splitter(pattern)
        self._pieces = _Pieces(self.ranks)

    def encode(
        self,
        text: str,
        allowed_special: Names = (),
        disallowed_special: Names = "all",
    ) -> list[int]:
        """Return the ids of a text; a special token in it must be named.

        Raises:
            TypeError: ``text`` is not a string, or names are not names.
            ValueError: it is not valid Unicode, or spells a disallowed special.
        """
        args.text("text", text)
        choice = allowed_special, disallowed_special
        ids: list[int] = []
        for i, part in enumerate(split_specials(text, self.specials, *choice)):
            ids += [self.specials[part]] if i % 2 else self._ordinary(part)
        return ids

    def _ordinary(self, text: str) -> list[int]:
        pieces = map(self._pieces.__getitem__, self.split(text))
        return list(chain.from_iterable(pieces))


# cell: def-_encode_bytes-207266
def _encode_bytes(
    encoder: _Encoder, spell: Callable[[list[int]], bytes], data: bytes
) -> list[int]:
    try:
        return encoder._ordinary(args.instance("data", data, bytes).decode())
    except UnicodeDecodeError as error:
        valid = error.start
    pieces = encoder.split(data[:valid].decode())
    ids = [i for piece in pieces for i in encoder._pieces[piece]]
    redo = len(encoder._pieces[pieces[-1]]) if pieces else 0
    if redo and not spell(ids[-redo:][:1]).strip(b" \n\t"):
        # White space before the bytes is taken in as well, token by token.
        while redo < len(ids) and not spell([ids[-redo - 1]]).strip(b" \n\t"):
            redo += 1
    kept = ids[: len(ids) - redo]
    rest = spell(ids[len(kept) :]) + data[valid:]
    whole = encoder.ranks.get(rest)
    return kept + (merge_bytes(rest, encoder.ranks) if whole is None else [whole])


# cell: from-typing-import-Any-2b4380
def _spellings(ranks: Ranks, specials: Specials) -> dict[int, bytes]:
    """Return the bytes of each id; every byte has one, no id has two."""
    spelt = {i: data for data, i in ranks.items()}
    spelt |= {i: name.encode() for name, i in specials.items()}
    if len(spelt) < len(ranks) + len(specials):
        raise ValueError("ranks, specials: an id is there twice")
    if lacking := [i for i in range(256) if bytes([i]) not in ranks]:
        raise ValueError(f"ranks: byte {lacking[0]} has none")
    return spelt


# cell: BytePairTokenizer
class BytePairTokenizer(_Encoder):
    """Byte-level BPE: a pattern, a rank for each byte string, special tokens.

    Its ids equal those of tiktoken for the same three. What it has encoded it
    remembers; that makes it faster and changes no result.

    Raises:
        TypeError: an argument is of another type.
        ValueError: a byte has no rank, an id is there twice, or the pattern
            has groups. What the pattern does not match is left out.

    >>> single = {bytes([i]): i for i in range(256)}
    >>> tiny = BytePairTokenizer("(?s).+", {**single, b"lo": 256}, {"<end>": 257})
    >>> tiny.encode("hello"), tiny.decode([104, 256, 257]), tiny.size
    ([104, 101, 108, 256], 'hlo<end>', 258)
    """

    def __init__(self, pattern: str, ranks: Ranks, specials: Specials):
        super().__init__(pattern, ranks, specials)
        self._bytes = _spellings(self.ranks, self.specials)
        self.size = max(self._bytes) + 1

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes that ids spell; a special token spells its name.

        Raises:
            TypeError: ``ids`` cannot be iterated.
            ValueError: an id is not in the vocabulary.
        """
        tokens: list[Any] = args.items("ids", ids, empty=True)
        try:
            return b"".join([self._bytes[token] for token in tokens])
        except KeyError:
            at = next(i for i, t in enumerate(tokens) if t not in self._bytes)
            found = args.found(tokens[at])
            raise ValueError(f"ids[{at}]: no token has it; {found}") from None

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def encode_bytes(self, data: bytes) -> list[int]:
        """Return the ids of any bytes, UTF-8 or not; specials count as text."""
        return _encode_bytes(self, self.decode_bytes, data)


# cell: UPPER
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{SHORT}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{SHORT}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


# cell: ENCODINGS
# name: file, SHA-256 of its content, pattern, special tokens
ENCODINGS: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        CL100K,
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
        }
        | {"<|fim_suffix|>": 100260, "<|endofprompt|>": 100276},
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        O200K,
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
}


# cell: import-base64-import-245c4f
def _read_ranks(name: str, file: str, digest: str) -> dict[bytes, int]:
    """Read the file of a published encoding, wherever on this machine it is."""
    places = {
        str(data_dir("tokenizer")),
        os.environ.get("TIKTOKEN_CACHE_DIR", ""),
    }
    folders = sorted(places - {""})
    paths = [Path(folder) / file for folder in folders]
    if not (found := [path for path in paths if path.is_file()]):
        where = f"{name}: no file {file} in {' or '.join(folders)}"
        raise FileNotFoundError(f"{where}; tiktoken can download it")
    data = found[0].read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{found[0]}: not the published ranks of {name}")
    lines = (line.split() for line in data.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


# cell: load_encoding
@cache
def load_encoding(name: str) -> BytePairTokenizer:
    """Load a published encoding, ``cl100k_base`` or ``o200k_base``, from disk.

    The ranks of the first travel with the book. Those of the second are found
    where tiktoken keeps its downloads, ``TIKTOKEN_CACHE_DIR``.

    Raises:
        ValueError: another name, or a file that is not the published one.
        FileNotFoundError: the ranks are not on this machine.

    >>> load_encoding("cl100k_base").encode("def get_user_id():")
    [755, 636, 3398, 851, 4658]
    """
    if name not in ENCODINGS:
        raise ValueError(
            f"name: expected {' or '.join(ENCODINGS)}; {args.found(name)}"
        )
    file, digest, pattern, specials = ENCODINGS[name]
    ranks = _read_ranks(name, file, digest)
    return BytePairTokenizer(pattern, ranks, specials)


# cell: train_byte_bpe
def train_byte_bpe(
    text: str, num_merges: int, pattern: str = CL100K
) -> BytePairTokenizer:
    """Learn up to ``num_merges`` byte strings; the 256 single bytes come first.

    It stops early when no pair is left. Two merges that make the same string
    share its id. Method: Sennrich, Haddow and Birch (2016), on bytes.

    Raises:
        TypeError: ``text`` is not a string, ``num_merges`` no integer.
        ValueError: ``num_merges`` is negative, or ``text`` not valid Unicode.

    >>> list(train_byte_bpe("low lower lowest", 3).ranks)[256:]
    [b'lo', b'low', b' low']
    """
    wanted = args.integer("num_merges", num_merges)
    row = _Row(Counter(splitter(pattern)(args.text("text", text))))
    tokens = [bytes([value]) for value in BYTE_ORDER]
    ranks = {token: i for i, token in enumerate(tokens)}
    counts = row.pairs(np.arange(len(row.ids) - 1))
    heap = [(-count, pair) for pair, count in counts.items()]
    heapify(heap)
    while heap and len(tokens) < 256 + wanted:
        count, pair = heappop(heap)
        if counts[pair] != -count:  # it fell since; put it back as it is now
            if counts[pair] > 0:
                heappush(heap, (-counts[pair], pair))
            continue
        left, right = divmod(pair, WIDE)
        token = tokens[left] + tokens[right]
        if (new := ranks.setdefault(token, len(tokens))) == len(tokens):
            tokens.append(token)
        for changed, by in _join(row, left, right, new).items():
            counts[changed] += by
            if by > 0:
                heappush(heap, (-counts[changed], changed))
    return BytePairTokenizer(pattern, ranks, {})


# cell: row_offset_bytes
def row_offset_bytes(token: int, width: int, value_bytes: int) -> int:
    """Return how many bytes into an embedding table the row of a token begins.

    Raises:
        TypeError: an argument is not an integer.
        ValueError: ``token`` is negative, or another argument is below 1.

    >>> row_offset_bytes(755, 4096, 2)
    6184960
    """
    row = args.integer("width", width, at_least=1)
    row *= args.integer("value_bytes", value_bytes, at_least=1)
    return args.integer("token", token) * row


def table_bytes(
    vocabulary: int, width: int, value_bytes: int, tables: int = 1
) -> int:
    """Return the bytes of an embedding table, or of two that are not tied.

    Raises:
        TypeError: an argument is not an integer.
        ValueError: ``tables`` is not 1 or 2, or an argument is below 1.

    >>> table_bytes(128_000, 4096, 2)
    1048576000
    """
    rows = args.integer("vocabulary", vocabulary, at_least=1)
    count = args.integer("tables", tables, at_least=1, at_most=2)
    return count * row_offset_bytes(rows, width, value_bytes)


# cell: lexer_tokens
def lexer_tokens(source: str) -> list[tuple[str, str]]:
    """Return Python's own tokens of a source as (kind, text), ends left out.

    Raises:
        TypeError: ``source`` is not a string.
        SyntaxError, tokenize.TokenError: it is not complete Python.

    >>> lexer_tokens("x = 1")
    [('NAME', 'x'), ('OP', '='), ('NUMBER', '1')]
    """
    lines = io.StringIO(args.text("source", source)).readline
    ends = {tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER}
    found = tokenize.generate_tokens(lines)
    return [
        (tokenize.tok_name[t.type], t.string) for t in found if t.type not in ends
    ]


# cell: Density
@dataclass(frozen=True)
class Density:
    """The size of a text in three units.

    >>> Density(characters=410, utf8_bytes=420, tokens=100).chars_per_token
    4.1
    """

    characters: int
    utf8_bytes: int
    tokens: int

    @property
    def chars_per_token(self) -> float:
        """Characters that one token covers."""
        return self.characters / self.tokens

    @property
    def bytes_per_token(self) -> float:
        """Bytes of UTF-8 that one token covers."""
        return self.utf8_bytes / self.tokens


def measure(text: str, tokenizer: Tokenizer) -> Density:
    """Count the characters, bytes and tokens of a text; specials are not allowed.

    Raises:
        TypeError: ``text`` is not a string.
        ValueError: it is empty, or the tokenizer refuses it.

    >>> measure("dé", ByteTokenizer())
    Density(characters=2, utf8_bytes=3, tokens=3)
    """
    if not args.text("text", text):
        raise ValueError(f"text: expected a character; {args.found(text)}")
    return Density(len(text), len(text.encode()), len(tokenizer.encode(text)))


# cell: inflation_percent
def inflation_percent(base: float, other: float) -> float:
    """Return how many percent more tokens a text of density ``other`` needs.

    Raises:
        TypeError: a density is not a number.
        ValueError: a density is not above 0, NaN or infinite.

    >>> inflation_percent(4.0, 2.0)
    100.0
    """
    _above_zero(base, other)
    return 100.0 * (base / other - 1.0)


def loss_percent(base: float, other: float) -> float:
    """Return by how many percent the density falls from ``base`` to ``other``.

    Raises:
        TypeError, ValueError: as ``inflation_percent``.

    >>> loss_percent(4.0, 2.0)
    50.0
    """
    _above_zero(base, other)
    return 100.0 * (base - other) / base


def _above_zero(base: float, other: float) -> None:
    for name, value in {"base": base, "other": other}.items():
        if args.real(name, value, 0.0, args.LARGEST) == 0.0:
            raise ValueError(f"{name}: expected above 0; {args.found(value)}")


# cell: JSON_MARKS
JSON_MARKS = '{}[]:,"\\'


def glue_tokens(
    tokenizer: BytePairTokenizer, marks: str = JSON_MARKS, at_least: int = 2
) -> list[bytes]:
    """Return the tokens that hold ``at_least`` of the marks, lowest id first.

    Raises:
        TypeError: ``marks`` is not a string, ``at_least`` no integer.
        ValueError: ``at_least`` is below 1, or ``marks`` is not valid Unicode.

    >>> len(glue_tokens(load_encoding("cl100k_base")))
    1232
    """
    among, needed = (
        args.text("marks", marks).encode(),
        args.integer("at_least", at_least),
    )
    if needed < 1:
        raise ValueError(f"at_least: expected 1 or more; {args.found(at_least)}")
    ranks = tokenizer.ranks
    held = [t for t in ranks if sum(byte in among for byte in t) >= needed]
    return sorted(held, key=lambda token: ranks[token])


# cell: estimate_tokens
def estimate_tokens(characters: int, chars_per_token: float = 4.0) -> int:
    """Guess a number of tokens from a number of characters, rounded up.

    Raises:
        TypeError: an argument is not a number.
        ValueError: ``characters`` is negative, or the rate not above 0.

    >>> estimate_tokens(8192)
    2048
    """
    rate = args.real("chars_per_token", chars_per_token, 0.0, args.LARGEST)
    if rate == 0.0:
        raise ValueError(f"chars_per_token: expected above 0; {args.found(rate)}")
    return math.ceil(args.count("characters", characters) / rate)


# cell: Part
@dataclass(frozen=True)
class Part:
    """A message or tool definition; ``needs`` names what it is void without."""

    name: str
    text: str
    pinned: bool = False
    needs: str = ""


@dataclass(frozen=True)
class Budget:
    """A window, what is kept free for the answer, and what each part adds.

    Raises:
        TypeError: a field is not an integer.
        ValueError: a field is negative, or nothing is left for a context.

    >>> Budget(window_tokens=4096, output_tokens=600).room_tokens
    3496
    """

    window_tokens: int
    output_tokens: int
    overhead_tokens: int = 4

    def __post_init__(self) -> None:
        args.plain(self)
        args.integer(
            "output_tokens", self.output_tokens, at_most=self.window_tokens - 1
        )

    @property
    def room_tokens(self) -> int:
        """The most tokens that the context may take."""
        return self.window_tokens - self.output_tokens

    def cost(self, parts: Iterable[Part], tokenizer: Tokenizer) -> int:
        """Return what parts take, their overhead included."""
        lengths = [len(tokenizer.encode(part.text)) for part in parts]
        return sum(lengths) + self.overhead_tokens * len(lengths)


# cell: ContextOverflow
class ContextOverflow(Exception):  # noqa: N818 - a state of the call, not a bug
    """What must be sent does not fit."""


# which of n parts goes first
POLICIES: dict[str, Callable[[int], int]] = {
    "oldest": lambda n: 0,
    "newest": lambda n: n - 1,
    "middle": lambda n: n // 2,
}


# cell: fit_context
def fit_context(
    parts: Sequence[Part],
    budget: Budget,
    tokenizer: Tokenizer,
    policy: str = "refuse",
) -> list[Part]:
    """Drop parts by a policy until the rest fits; "refuse" drops none.

    Raises:
        ValueError: an unknown policy.
        ContextOverflow: what may not be dropped does not fit.

    >>> long = [Part("rule", "a", pinned=True), Part("old", "b"), Part("new", "")]
    >>> tiny = Budget(window_tokens=12, output_tokens=2)
    >>> [p.name for p in fit_context(long, tiny, ByteTokenizer(), "oldest")]
    ['rule', 'new']
    """
    if policy not in ("refuse", *POLICIES):
        choices = ", ".join(["refuse", *POLICIES])
        raise ValueError(
            f"policy: expected one of {choices}; {args.found(policy)}"
        )
    kept = list(args.instances("parts", parts, Part))
    while (cost := budget.cost(kept, tokenizer)) > budget.room_tokens:
        free = [i for i, part in enumerate(kept) if not part.pinned]
        if policy == "refuse" or not free:
            room = f"{cost} tokens for a room of {budget.room_tokens}"
            raise ContextOverflow(
                f"{room}; {len(kept)} parts, {len(free)} may go"
            )
        del kept[free[POLICIES[policy](len(free))]]
    return kept


# cell: compact_context
def compact_context(
    parts: Sequence[Part],
    budget: Budget,
    tokenizer: Tokenizer,
    summarize: Callable[[Sequence[Part]], str],
) -> list[Part]:
    """Replace as few of the oldest parts as needed by one summary.

    Raises:
        ContextOverflow: it does not fit even with all of them summarized.

    >>> three = [Part("old", "b" * 9), Part("older", "c" * 9), Part("new", "d")]
    >>> tiny = Budget(window_tokens=25, output_tokens=5, overhead_tokens=1)
    >>> fitted = compact_context(three, tiny, ByteTokenizer(), lambda gone: "...")
    >>> [part.name for part in fitted]
    ['summary', 'older', 'new']
    """
    whole = list(args.instances("parts", parts, Part))
    free = [part for part in whole if not part.pinned]
    for size in range(len(free) + 1):
        kept, gone = whole, free[:size]
        if gone:
            at = whole.index(gone[0])
            short = Part("summary", summarize(gone))
            rest = [part for part in whole if part not in gone]
            kept = [*rest[:at], short, *rest[at:]]
        if budget.cost(kept, tokenizer) <= budget.room_tokens:
            return kept
    raise ContextOverflow(
        f"room of {budget.room_tokens} tokens; a summary is too long"
    )


# cell: damage
def damage(before: Sequence[Part], after: Sequence[Part]) -> dict[str, list[str]]:
    """Return the names of parts that are lost, and of those left without theirs.

    Raises:
        TypeError: an argument holds other things than parts.

    >>> call, result = Part("call", "x"), Part("result", "y", needs="call")
    >>> damage([call, result], [result])
    {'lost': ['call'], 'orphaned': ['result']}
    """
    kept = {part.name for part in args.instances("after", after, Part)}
    whole = args.instances("before", before, Part)
    lost = [part.name for part in whole if part.name not in kept]
    left = [part for part in whole if part.name in kept]
    return {"lost": lost, "orphaned": [p.name for p in left if p.needs in lost]}


# cell: close_json
def close_json(text: str) -> str:
    """Close the strings, arrays and objects that a JSON text leaves open.

    This is what "repairing" a cut reply means. It guesses; do not run the result.

    Raises:
        TypeError: ``text`` is not a string.

    >>> close_json('{"a": ["b')
    '{"a": ["b"]}'
    """
    inside = escaped = False
    open_ends: list[str] = []
    for char in args.text("text", text):
        if inside:
            closes = char == '"' and not escaped
            inside, escaped = not closes, char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in "{[":
            open_ends.append("}" if char == "{" else "]")
        elif char in "}]" and open_ends:
            open_ends.pop()
    body = text[:-1] if escaped else text
    return body + '"' * inside + "".join(reversed(open_ends))


# cell: cut_outcomes
def cut_outcomes(
    ids: Sequence[int],
    tokenizer: Tokenizer,
    read: Callable[[str], str | None],
) -> list[tuple[str, str | None]]:
    """Cut a reply after each token; return texts and what ``read`` makes of them.

    ``read`` returns None where it can make nothing of a text. The last entry is
    the reply as a whole.

    Raises:
        TypeError: ``ids`` are not integers.
        ValueError: an id is not in the vocabulary.

    >>> cut_outcomes([97, 98], ByteTokenizer(), lambda text: text.upper())
    [('a', 'A'), ('ab', 'AB')]
    """
    known = args.integers("ids", ids, tokenizer.size - 1)
    cuts = [tokenizer.decode(known[:n]) for n in range(1, len(known) + 1)]
    return [(text, read(text)) for text in cuts]


# cell: json_problem
def json_problem(text: str) -> str:
    """Return the reason why a text is not JSON, and "" if it is.

    Raises:
        TypeError: ``text`` is not a string.

    >>> json_problem('{"a": 1}'), json_problem('["{}' + chr(92) + ';"]')
    ('', 'Invalid \\\\escape')
    """
    try:
        json.loads(args.text("text", text))
    except json.JSONDecodeError as error:
        return error.msg.split(":")[0]
    return ""
