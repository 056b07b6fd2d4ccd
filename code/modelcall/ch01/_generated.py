"""One call, measured

Written by scripts/tangle.py from the "# @save" cells of chapters/01-on-ramp.ipynb: edit those.
"""

import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from modelcall.lab import args


# cell: TokenScore
@dataclass(frozen=True)
class TokenScore:
    """One returned token and its log probability under the model.

    The score says how expected the token was after the tokens before it. It
    says nothing about whether the sentence is true. ``logprob`` is a natural
    logarithm, finite and at most 0.

    Raises:
        TypeError: ``token`` is not a string, or ``logprob`` is not a number.
        ValueError: ``logprob`` is NaN, infinite or positive; ``token`` holds a
            lone surrogate.

    >>> TokenScore(" covered", -0.42)
    TokenScore(token=' covered', logprob=-0.42)
    """

    token: str
    logprob: float

    def __post_init__(self) -> None:
        args.text("token", self.token)
        args.real("logprob", self.logprob, -args.LARGEST, 0.0)


# cell: Completion
@dataclass(frozen=True)
class Completion:
    """The record of one model call, the same for every provider.

    Times are milliseconds from the start of the request. ``token_scores`` may
    be empty, for a server that sends none; otherwise there is one score for
    each output token. A call that ended before its first token has no
    ``ttft_ms``: the field is None, because 0.0 would be a measurement.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a negative count or time, a first token later than the
            total, or a number of scores that differs from ``output_tokens``.

    >>> scores = (TokenScore("no", -0.5),)
    >>> Completion("no", scores, 18, 1, 41.0, 41.0, "stop").finish_reason
    'stop'
    """

    text: str
    token_scores: tuple[TokenScore, ...]
    prompt_tokens: int
    output_tokens: int
    ttft_ms: float | None
    total_ms: float
    finish_reason: str | None = None
    request_id: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        args.text("text", self.text)
        for name in ("finish_reason", "request_id", "error"):
            if (value := getattr(self, name)) is not None:
                args.text(name, value)
        args.integer("prompt_tokens", self.prompt_tokens)
        args.integer("output_tokens", self.output_tokens)
        total = args.real("total_ms", self.total_ms, 0.0, args.LARGEST)
        if self.ttft_ms is not None or self.output_tokens:
            args.real("ttft_ms", self.ttft_ms, 0.0, total)
        scores = args.instances("token_scores", self.token_scores, TokenScore)
        object.__setattr__(self, "token_scores", scores)
        if len(scores) not in (0, self.output_tokens):
            wanted = f"expected {self.output_tokens} scores"
            raise ValueError(f"token_scores: {wanted}; got {len(scores)}")


# cell: END
END = "</w>"


def _mergeable(left: str, right: str) -> bool:
    """Say whether a merge leaves the end marker unmistakable."""
    merged = left + right
    spelt = merged.removesuffix(END) if right.endswith(END) else merged
    return END not in spelt


def _merge(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """Merge each occurrence of ``pair``, left to right, without overlap."""
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


# cell: train_bpe
def train_bpe(corpus: Sequence[str], num_merges: int) -> list[tuple[str, str]]:
    """Learn up to ``num_merges`` merges, in the order in which they apply.

    Words are split at whitespace and weighted by how often they occur. The
    most frequent pair wins, and of equally frequent pairs the largest in
    string order. When every word has become one piece, no pair is left: the
    result is then shorter than asked for, and its length says so. Pairs are
    counted anew for each merge, which is slow and easy to check. Method:
    Sennrich, Haddow and Birch (2016).

    Raises:
        TypeError: ``corpus`` is one string or holds other things than strings;
            ``num_merges`` is no integer.
        ValueError: ``corpus`` has no word or holds a lone surrogate, or
            ``num_merges`` is negative.

    >>> train_bpe(["low lower lowest"], 2)
    [('o', 'w'), ('l', 'ow')]
    """
    wanted = args.integer("num_merges", num_merges)
    lines = args.texts("corpus", corpus)
    words = Counter(word for line in lines for word in line.split())
    if not words:
        raise ValueError(f"corpus: expected a word; {args.found(corpus)}")
    pieces = {word: [*word, END] for word in words}
    merges: list[tuple[str, str]] = []
    while len(merges) < wanted:
        counts: Counter[tuple[str, str]] = Counter()
        for word, weight in words.items():
            for pair in pairwise(pieces[word]):
                if _mergeable(*pair):
                    counts[pair] += weight
        if not counts:
            break
        best = max(counts, key=lambda p: (counts[p], p))
        merges.append(best)
        pieces = {word: _merge(pieces[word], best) for word in pieces}
    return merges


# cell: bpe_encode
def _replay(word: str, merges: Sequence[tuple[str, str]]) -> list[str]:
    """Split a word, even an empty one; no merge may spell the marker."""
    symbols = [*word, END]
    for pair in merges:
        symbols = _merge(symbols, pair) if _mergeable(*pair) else symbols
    return symbols


def bpe_encode(word: str, merges: Sequence[tuple[str, str]]) -> list[str]:
    """Split one word into pieces by replaying the merges in the order learned.

    The last piece ends in ``</w>``, and no other does. Characters that
    training never saw stay single.

    Raises:
        TypeError: ``word`` is not a string, or ``merges`` is not a sequence of
            pairs of strings.
        ValueError: ``word`` is empty, holds whitespace or holds a lone
            surrogate.

    >>> bpe_encode("low", [("o", "w"), ("l", "ow")])
    ['low', '</w>']
    """
    if args.text("word", word).split() != [word]:
        raise ValueError(
            f"word: expected one word, no whitespace; {args.found(word)}"
        )
    return _replay(word, args.text_pairs("merges", merges))


def count_tokens(sentence: str, merges: Sequence[tuple[str, str]]) -> int:
    """Count the pieces of a sentence; a word that occurs twice counts twice.

    Raises:
        TypeError: ``sentence`` is not a string, or ``merges`` is not a
            sequence of pairs of strings.
        ValueError: ``sentence`` holds a lone surrogate.

    >>> count_tokens("low low", [("o", "w"), ("l", "ow")])
    4
    """
    words = args.text("sentence", sentence).split()
    return sum(len(bpe_encode(word, merges)) for word in words)


# cell: bpe_decode
def bpe_decode(pieces: Sequence[str]) -> str:
    """Put words together again: the inverse of ``bpe_encode``, word after word.

    Words are joined by single spaces; the whitespace that stood between them
    was never encoded.

    Raises:
        TypeError: ``pieces`` is one string, or holds something else than
            strings.
        ValueError: ``pieces`` is empty, a piece holds the marker before its
            end, or the last word is open.

    >>> bpe_decode(["low", "</w>", "er</w>"])
    'low er'
    """
    piece, spelt = "", ""
    for i, piece in enumerate(args.texts("pieces", pieces)):
        body = piece.removesuffix(END)
        if END in body:
            raise ValueError(f"pieces[{i}]: {END} inside; {args.found(piece)}")
        spelt += body + (" " if piece.endswith(END) else "")
    if not piece.endswith(END):
        raise ValueError(f"pieces: no {END} at the end; {args.found(piece)}")
    return spelt[:-1]


# cell: Vocabulary
class Vocabulary:
    """Text to ids and back, with ids that no text can change.

    Ids 0 to 255 are the bytes. Then come the end marker, the characters of
    ``alphabet`` in order, and what each merge makes. Text is cut at single
    spaces, a marker stands for each cut, and a character without an entry
    becomes the bytes of its UTF-8 form, so any text comes back exactly.

    Raises:
        TypeError: an argument is not text, ids are not integers, or ``merges``
            are not pairs of strings.
        ValueError: a lone surrogate, an id outside the vocabulary, or ids
            whose bytes are not UTF-8.

    >>> small = Vocabulary("low", [("o", "w"), ("l", "ow")])
    >>> small.encode("low ø")
    [261, 256, 195, 184, 256]
    >>> small.decode([261, 256, 195, 184, 256])
    'low ø'
    """

    def __init__(self, alphabet: str, merges: Sequence[tuple[str, str]]):
        self.merges = tuple(args.text_pairs("merges", merges))
        letters = sorted(set("".join(args.text("alphabet", alphabet).split())))
        merged = [left + right for left, right in self.merges]
        self.pieces = tuple(dict.fromkeys([END, *letters, *merged]))
        self._ids = {piece: 256 + i for i, piece in enumerate(self.pieces)}

    def __len__(self) -> int:
        return 256 + len(self.pieces)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; none for an empty one."""
        ids: list[int] = []
        for word in args.text("text", text).split(" ") if text != "" else []:
            for piece in _replay(word, self.merges):
                known = piece in self._ids
                ids += [self._ids[piece]] if known else piece.encode()
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text that ids spell; a marker at the end adds no space."""
        spelt, piece = bytearray(), ""
        for token in args.integers("ids", ids, len(self) - 1):
            piece = self.pieces[token - 256] if token >= 256 else ""
            spelt += piece.replace(END, " ").encode() or bytes([token])
        try:
            return spelt.decode()[: -1 if piece.endswith(END) else None]
        except UnicodeDecodeError:
            wrong = f"ids: expected UTF-8; {args.found(ids)}"
            raise ValueError(wrong) from None


# cell: softmax
def softmax(logits: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Turn logits into probabilities at a temperature, in the same order.

    Temperature 0 is the greedy limit: the largest logits share the mass
    equally. An infinite temperature is uniform over the tokens that are not
    masked. A logit of ``-inf`` is a masked token and gets exactly 0.0. A
    difference of logits too large for a float counts as infinite.

    Raises:
        TypeError: a logit or the temperature is not a number.
        ValueError: ``logits`` is empty, holds NaN or ``+inf``, or masks every
            token; ``temperature`` is negative or NaN.

    >>> softmax([2.0, 2.0, -math.inf], temperature=0.5)
    [0.5, 0.5, 0.0]
    """
    scores = args.reals("logits", logits, at_most=args.LARGEST)
    t = args.real("temperature", temperature, at_least=0.0)
    top = max(scores)
    if top == -math.inf:
        raise ValueError(f"logits: every token is masked; {args.found(logits)}")
    if t == 0.0:
        weights = [1.0 if z == top else 0.0 for z in scores]
    else:
        gaps = [(z - top) / t if z > -math.inf else z for z in scores]
        weights = [math.exp(gap) for gap in gaps]
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


# cell: sample_token
def sample_token(probs: Sequence[float], rng: random.Random) -> int:
    """Draw the index of one token, taking one number from ``rng``.

    Method: inverse-CDF sampling. An index of probability 0 is never returned.
    Where rounding leaves the sum below the draw, the last index with a
    positive probability is.

    Raises:
        TypeError: a probability is not a number, or ``rng`` is not a
            ``random.Random``.
        ValueError: ``probs`` is empty, holds NaN or a negative value, or does
            not sum to 1 within 1e-9.

    >>> sample_token([0.0, 1.0, 0.0], random.Random(7))
    1
    """
    shares = args.distribution("probs", probs)
    if not isinstance(rng, random.Random):
        raise TypeError(f"rng: expected a random.Random; {args.found(rng)}")
    u = rng.random()
    reached = 0.0
    for index, share in enumerate(shares):
        reached += share
        if u < reached:
            return index
    return max(index for index, share in enumerate(shares) if share > 0.0)


# cell: entropy_bits
def entropy_bits(probs: Sequence[float]) -> float:
    """Return the Shannon entropy of a distribution in bits.

    Tokens of probability 0 add nothing.

    Raises:
        TypeError: a probability is not a number.
        ValueError: ``probs`` is empty, holds NaN or a negative value, or does
            not sum to 1 within 1e-9.

    >>> entropy_bits([0.5, 0.25, 0.25])
    1.5
    """
    shares = args.distribution("probs", probs)
    terms = (share * math.log2(share) for share in shares if share > 0.0)
    return max(0.0, -math.fsum(terms))


def sample_entropy_bits(samples: Iterable[Hashable]) -> float:
    """Return the entropy, in bits, of the shares of outcomes in ``samples``.

    As an estimate of the distribution's entropy it is low on average, by about
    (outcomes - 1) / (2 * draws * ln 2) bits (Miller 1955).

    Raises:
        TypeError: ``samples`` is one string, or cannot be iterated.
        ValueError: ``samples`` is empty.

    >>> sample_entropy_bits(["not", "always", "not", "always"])
    1.0
    """
    counts = Counter(args.items("samples", samples))
    drawn = counts.total()
    return entropy_bits([count / drawn for count in counts.values()])


# cell: top_k_support
def top_k_support(probs: Sequence[float], k: int) -> list[int]:
    """Return the indices of the ``k`` most probable tokens, best first.

    Equal probabilities rank by lower index, also at the border. A token of
    probability 0 is never kept, so fewer than ``k`` may be returned.

    Raises:
        TypeError: a probability is not a number, or ``k`` is not an integer.
        ValueError: ``probs`` is not a distribution, or ``k`` is less than 1.

    >>> top_k_support([0.2, 0.5, 0.2, 0.1], 2)
    [1, 0]
    """
    size = args.integer("k", k, at_least=1)
    shares = args.distribution("probs", probs)
    ranked = sorted(range(len(shares)), key=lambda index: -shares[index])
    return [index for index in ranked[:size] if shares[index] > 0.0]


def top_p_support(probs: Sequence[float], p: float) -> list[int]:
    """Return the nucleus: the fewest best tokens whose mass reaches ``p``.

    The token whose mass arrives at ``p`` exactly is the last one kept. Masses
    are correctly rounded sums. At ``p`` = 1 every token of positive
    probability is kept, and one token is kept however small ``p`` is. Ranking
    is that of ``top_k_support``. Method: Holtzman et al. (2020).

    Raises:
        TypeError: a probability or ``p`` is not a number.
        ValueError: ``probs`` is not a distribution, or ``p`` is not above 0
            and at most 1.

    >>> top_p_support([0.1, 0.5, 0.4], 0.9)
    [1, 2]
    """
    shares = args.distribution("probs", probs)
    if (mass := args.real("p", p, at_least=0.0, at_most=1.0)) == 0.0:
        raise ValueError(f"p: expected a mass above 0; {args.found(p)}")
    kept = top_k_support(shares, len(shares))
    if mass == 1.0:
        return kept

    def reached(size: int) -> float:
        return math.fsum(shares[index] for index in kept[:size])

    return kept[: 1 + bisect_left(range(1, len(kept)), mass, key=reached)]


# cell: restrict
def restrict(probs: Sequence[float], support: Iterable[int]) -> list[float]:
    """Return the distribution with all outside ``support`` at 0.0, scaled to 1.

    Raises:
        TypeError: a probability is not a number, or an index is not an
            integer.
        ValueError: ``probs`` is not a distribution, an index is out of range,
            or the support has no mass.

    >>> restrict([0.5, 0.25, 0.25], [0, 1])
    [0.6666666666666666, 0.3333333333333333, 0.0]
    """
    shares = args.distribution("probs", probs)
    last = len(shares) - 1
    kept = set(args.integers("support", args.items("support", support), last))
    total = math.fsum(shares[i] for i in kept)
    if total == 0.0:
        raise ValueError(f"support: it has no mass; {args.found(sorted(kept))}")
    return [p / total if i in kept else 0.0 for i, p in enumerate(shares)]
