"""One call, measured

Written by scripts/tangle.py from the "# @save" cells of chapters/01-on-ramp.ipynb: edit those.
"""

import math
import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from itertools import pairwise
from statistics import NormalDist
from typing import Self

from modelcall.lab import args


# cell: TokenScore
@dataclass(frozen=True)
class TokenScore:
    """One returned token and its log probability, a natural logarithm.

    Raises:
        TypeError: ``token`` is not a string, or ``logprob`` is not a number.
        ValueError: ``logprob`` is NaN, infinite or positive; ``token`` is not
            valid Unicode.

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

    Times count from the request. ``token_scores`` is empty if the server sends
    none. ``ttft_ms`` is None if no token came; 0.0 would be a measurement.

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
        last = args.real("total_ms", self.total_ms, 0.0, args.LARGEST)
        if self.ttft_ms is not None or self.output_tokens:
            args.real("ttft_ms", self.ttft_ms, 0.0, last)
        scores = args.instances("token_scores", self.token_scores, TokenScore)
        object.__setattr__(self, "token_scores", scores)
        if (n := self.output_tokens) != (got := len(scores)) > 0:
            raise ValueError(f"token_scores: expected {n} scores; got {got}")


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

    Words are split at whitespace. The result is shorter than asked for when
    every word has become one piece. Pairs are counted anew for each merge:
    slow, and easy to check. Method: Sennrich, Haddow and Birch (2016).

    Raises:
        TypeError: ``corpus`` is one string or holds other things than strings;
            ``num_merges`` is no integer.
        ValueError: ``corpus`` has no word or is not valid Unicode, or
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
        ValueError: ``word`` is empty, holds whitespace or is not valid
            Unicode.

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
        TypeError, ValueError: as ``bpe_encode``, but whitespace is allowed.

    >>> count_tokens("low low", [("o", "w"), ("l", "ow")])
    4
    """
    words = args.text("sentence", sentence).split()
    return sum(len(bpe_encode(word, merges)) for word in words)


# cell: bpe_decode
def bpe_decode(pieces: Sequence[str]) -> str:
    """Join pieces to words, and words by single spaces: ``bpe_encode`` inverted.

    Raises:
        TypeError: ``pieces`` is one string, or holds other things than strings.
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
    spaces, and a marker stands for each cut, so any text comes back exactly.

    Raises:
        TypeError: an argument is not text, ids are not integers, or ``merges``
            are not pairs of strings.
        ValueError: text that is not valid Unicode, an id outside the
            vocabulary, or ids whose bytes are not UTF-8.

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
            raise ValueError(f"ids: expected UTF-8; {args.found(ids)}") from None


# cell: softmax
def softmax(logits: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Turn logits into probabilities at a temperature, in the same order.

    Temperature 0 and infinity are the two limits; a logit of ``-inf`` is a
    masked token and gets exactly 0.0. A difference of logits too large for a
    float counts as infinite.

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

    An index of probability 0 is never returned. Where rounding leaves the sum
    below the draw, the last index with a positive probability is.

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

    Ties rank by lower index. A token of probability 0 is never kept, so fewer
    than ``k`` may be returned.

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

    The token whose mass arrives at ``p`` exactly is the last one kept. At
    ``p`` = 1 every token of positive probability is kept. Ranking is that of
    ``top_k_support``. Method: Holtzman et al. (2020).

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


# cell: token_confidence
def token_confidence(logprob: float) -> float:
    """Return the probability behind a reported log probability, exp(logprob).

    Raises:
        TypeError: ``logprob`` is not a number.
        ValueError: ``logprob`` is NaN, infinite or positive.

    >>> token_confidence(0.0)
    1.0
    """
    return math.exp(args.real("logprob", logprob, -args.LARGEST, 0.0))


# cell: semantic_entropy_bits
def semantic_entropy_bits(
    answers: Sequence[str], same_meaning: Callable[[str, str], bool]
) -> float:
    """Return the entropy of sampled answers over what they mean, in bits.

    An answer joins the first group whose first member says the same, so
    ``same_meaning`` should be an equivalence. Method: the discrete form of Farquhar
    et al. (2024), which weights groups by their number of answers.

    Raises:
        TypeError: ``answers`` is one string, or holds other things than strings.
        ValueError: ``answers`` is empty.

    >>> semantic_entropy_bits(["Y!", "Y.", "N.", "N!"], lambda a, b: a[0] == b[0])
    1.0
    """
    groups: list[str] = []
    found = []
    for i, answer in enumerate(args.items("answers", answers)):
        text = args.text(f"answers[{i}]", answer)
        fits = (k for k, first in enumerate(groups) if same_meaning(first, text))
        found.append(next(fits, len(groups)))
        if found[-1] == len(groups):
            groups.append(text)
    return sample_entropy_bits(found)


# cell: wilson_interval
def wilson_interval(
    successes: int, trials: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the success rates that ``successes`` of ``trials`` do not contradict.

    The two ends are the rates at which the score test just fails to reject (Wilson,
    1927). Without trials the range is (0.0, 1.0).

    Raises:
        TypeError: a count is not an integer, or ``confidence`` is not a number.
        ValueError: a negative count or one above 2**53, more successes than trials,
            or ``confidence`` not inside (0, 1).

    >>> [round(end, 2) for end in wilson_interval(2, 4)]
    [0.15, 0.85]
    """
    n = args.count("trials", trials)
    k = args.count("successes", successes)
    level = args.real("confidence", confidence)
    if k > n:
        raise ValueError(f"successes: expected at most trials = {n}; got {k}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"confidence: expected a number in (0, 1); got {level!r}")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    rate, pull = k / n, z * z / n
    middle = (rate + pull / 2.0) / (1.0 + pull)
    half = z * math.sqrt(rate * (1.0 - rate) / n + pull / (4.0 * n)) / (1.0 + pull)
    low = 0.0 if k == 0 else max(0.0, middle - half)
    return low, 1.0 if k == n else min(1.0, middle + half)


# cell: CalibrationBin
@dataclass(frozen=True)
class CalibrationBin:
    """The answers whose stated confidence lies in [low, high).

    The top bin of a table includes its upper end. ``stated`` is the sum of the
    confidences. An empty bin has no accuracy: the value is NaN, never 0.0.

    Raises:
        TypeError: a field is not a number.
        ValueError: a range outside [0, 1] or the wrong way round, or more correct
            or more stated than ``count``.

    >>> CalibrationBin(0.5, 1.0, count=4, correct=3, stated=3.2).accuracy
    0.75
    """

    low: float
    high: float
    count: int
    correct: int
    stated: float

    def __post_init__(self) -> None:
        args.plain(self)
        args.real("high", self.high, self.low, 1.0)
        args.integer("correct", self.correct, at_most=self.count)
        args.real("stated", self.stated, 0.0, self.count)

    @property
    def mean_confidence(self) -> float:
        return self.stated / self.count if self.count else math.nan

    @property
    def accuracy(self) -> float:
        return self.correct / self.count if self.count else math.nan


# cell: graded_answers
def graded_answers(pairs: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Check (confidence, outcome) pairs; an outcome is right, 1, or wrong, 0.

    Raises:
        TypeError: no sequence of pairs, or a confidence that is no number.
        ValueError: no pairs, a confidence outside [0, 1], or an outcome other than
            0 and 1.

    >>> graded_answers([(0.9, True)])
    [(0.9, 1)]
    """
    checked = []
    for i, pair in enumerate(args.items("pairs", pairs)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"pairs[{i}]: expected (number, outcome); got {pair!r}")
        right = args.outcome(f"pairs[{i}][1]", pair[1])
        stated = args.real(f"pairs[{i}][0]", pair[0], 0.0, 1.0)
        checked.append((stated, right))
    return checked


# cell: calibration_table
def calibration_table(
    pairs: Sequence[tuple[float, int]],
    edges: Sequence[float] = (0.0, 0.6, 0.9, 1.0),
) -> list[CalibrationBin]:
    """Sort graded answers into bins: each lands in just one, and empty bins stay.

    Raises:
        TypeError, ValueError: as ``graded_answers``; or ``edges`` do not rise from
            0 to 1.

    >>> [b.count for b in calibration_table([(0.0, 0), (0.6, 1), (1.0, 1)])]
    [1, 1, 1]
    """
    ends = args.reals("edges", edges)
    if ends[0] != 0.0 or ends[-1] != 1.0 or any(a >= b for a, b in pairwise(ends)):
        expected = "expected numbers rising from 0 to 1"
        raise ValueError(f"edges: {expected}; got {edges!r}")
    bins: list[list[tuple[float, int]]] = [[] for _ in ends[1:]]
    for stated, right in graded_answers(pairs):
        bins[min(bisect_right(ends, stated), len(bins)) - 1].append((stated, right))
    table = []
    for (low, high), b in zip(pairwise(ends), bins, strict=True):
        total = math.fsum(stated for stated, _ in b)
        correct = sum(right for _, right in b)
        table.append(CalibrationBin(low, high, len(b), correct, total))
    return table


# cell: expected_calibration_error
def expected_calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """Return the count-weighted mean of |mean confidence - accuracy| over the bins.

    Raises:
        TypeError: ``bins`` are not bins.
        ValueError: the bins hold no answer. Reference: Guo et al. (2017).

    >>> expected_calibration_error([CalibrationBin(0.0, 1.0, 2, 1, stated=1.5)])
    0.25
    """
    table = args.instances("bins", bins, CalibrationBin)
    total = sum(b.count for b in table)
    if not total:
        raise ValueError(f"bins: expected some answers in them; got {bins!r}")
    return math.fsum(abs(b.stated - b.correct) for b in table) / total


def brier_score(pairs: Sequence[tuple[float, int]]) -> float:
    """Return the mean squared distance of confidence and outcome; 0 is perfect.

    Raises:
        TypeError, ValueError: as ``graded_answers``. Reference: Brier (1950).

    >>> brier_score([(0.5, 1), (0.5, 0)])
    0.25
    """
    squares = [(stated - right) ** 2 for stated, right in graded_answers(pairs)]
    return math.fsum(squares) / len(squares)


# cell: POLICY
# (supported, confident, may retrieve) -> action
POLICY: dict[tuple[bool, bool, bool], str] = {
    (True, True, True): "answer",
    (True, True, False): "answer",
    (True, False, True): "retrieve",
    (True, False, False): "abstain",
    (False, True, True): "abstain",
    (False, True, False): "abstain",
    (False, False, True): "retrieve",
    (False, False, False): "abstain",
}


# cell: decide_response
def decide_response(
    confidence: float,
    evidence_score: float,
    threshold: float = 0.7,
    *,
    evidence_threshold: float = 0.5,
    retrievals_left: int = 1,
) -> str:
    """Return "answer", "retrieve" or "abstain": the row of ``POLICY`` that applies.

    ``confidence`` should be calibrated; a token probability is not. Both scores and
    both thresholds lie in [0, 1], and a score equal to its threshold passes. With
    ``retrievals_left`` at 0 the result is never "retrieve".

    Raises:
        TypeError: a score is not a number, or ``retrievals_left`` is not an
            integer.
        ValueError: a score or threshold outside [0, 1] or NaN, or a negative
            ``retrievals_left``.

    >>> decide_response(0.6, 1.0), decide_response(0.6, 1.0, retrievals_left=0)
    ('retrieve', 'abstain')
    """
    sure = args.real("confidence", confidence, 0.0, 1.0)
    backed = args.real("evidence_score", evidence_score, 0.0, 1.0)
    enough = args.real("threshold", threshold, 0.0, 1.0)
    support = args.real("evidence_threshold", evidence_threshold, 0.0, 1.0)
    may_retrieve = args.integer("retrievals_left", retrievals_left) > 0
    return POLICY[backed >= support, sure >= enough, may_retrieve]


# cell: settle_response
def settle_response(
    assess: Callable[[int], tuple[float, float]],
    *,
    retrievals: int = 2,
    threshold: float = 0.7,
    evidence_threshold: float = 0.5,
) -> tuple[str, int]:
    """Retrieve until the rule decides; return its action and the retrievals used.

    ``assess(used)`` returns (confidence, evidence score) after that many
    retrievals.

    Raises:
        TypeError, ValueError: as ``decide_response``, or a bad ``retrievals``.

    >>> settle_response(lambda used: (0.6, 1.0))
    ('abstain', 2)
    """
    budget = args.integer("retrievals", retrievals)
    for used in range(budget + 1):
        sure, backed = assess(used)
        action = decide_response(
            sure,
            backed,
            threshold,
            evidence_threshold=evidence_threshold,
            retrievals_left=budget - used,
        )
        if action != "retrieve":
            return action, used
    raise RuntimeError("POLICY says retrieve although no retrieval is left")


# cell: break_even_confidence
def break_even_confidence(wrong_usd: float, handoff_usd: float) -> float:
    """Return the confidence from which answering costs no more than handing off.

    A right answer costs nothing. 0.0 means that handing off never pays.
    Reference: Chow (1970).

    Raises:
        TypeError: a cost is not a number.
        ValueError: a cost is negative, NaN or infinite.

    >>> break_even_confidence(8.0, 2.0)
    0.75
    """
    wrong = args.real("wrong_usd", wrong_usd, 0.0, args.LARGEST)
    handoff = args.real("handoff_usd", handoff_usd, 0.0, args.LARGEST)
    return 1.0 - handoff / wrong if wrong > handoff else 0.0


# cell: word_tokens
def word_tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of a text.

    Raises:
        TypeError, ValueError: as ``args.text``.

    >>> word_tokens("No. Not now!")
    ['No', '.', 'Not', 'now', '!']
    """
    return re.findall(r"\w+|[^\w\s]", args.text("text", text))


# cell: NgramModel
class NgramModel:
    """A next-token model that counts: the longest context seen in training decides.

    Tokens are those of ``word_tokens``. ``order`` is the length of the longest
    context in tokens. It has no smoothing: after a known context, an unseen token
    has probability 0.

    >>> model = NgramModel().fit("to be or not to be")
    >>> model.next_probs("or not")
    {'to': 1.0}
    """

    END = "<end>"

    def __init__(self, order: int = 12) -> None:
        self.order = args.integer("order", order, at_least=1)
        self.counts: dict[tuple[str, ...], Counter[str]] = {}

    def fit(self, text: str, weight: int = 1) -> Self:
        """Add the text's counts, ``weight`` times over, and return the model."""
        times = args.integer("weight", weight, at_least=1)
        tokens = [*word_tokens(text), self.END]
        for i, token in enumerate(tokens):
            for start in range(max(0, i - self.order), i + 1):
                after = self.counts.setdefault(tuple(tokens[start:i]), Counter())
                after[token] += times
        return self

    def next_probs(self, context: str) -> dict[str, float]:
        """Return the next token's probabilities; ValueError before any fit."""
        tokens = word_tokens(context)
        for start in range(max(0, len(tokens) - self.order), len(tokens) + 1):
            if seen := self.counts.get(tuple(tokens[start:])):
                return {token: k / seen.total() for token, k in seen.most_common()}
        raise ValueError("model: expected a model that has been fitted")


# cell: continue_text
def continue_text(
    model: NgramModel, prompt: str, max_tokens: int = 24
) -> list[tuple[str, float]]:
    """Return the greedy continuation: the likeliest tokens, with probabilities.

    Ties go to the token seen first. Stops at the model's end mark, which is not
    returned, or after ``max_tokens``.

    Raises:
        TypeError, ValueError: ``model`` is no ``NgramModel`` or is empty,
            ``prompt`` is no text, or ``max_tokens`` is negative.

    >>> continue_text(NgramModel().fit("a b c"), "a", max_tokens=1)
    [('b', 1.0)]
    """
    written: list[tuple[str, float]] = []
    args.instance("model", model, NgramModel)
    text = args.text("prompt", prompt)
    for _ in range(args.integer("max_tokens", max_tokens)):
        token, probability = next(iter(model.next_probs(text).items()))
        if token == model.END:
            break
        written.append((token, probability))
        text += " " + token
    return written


# cell: ToolCall
@dataclass(frozen=True)
class ToolCall:
    """A tool call as a model proposed it. By itself it can do nothing.

    ``tool`` may be anything that a model can write: judging it is the gateway's
    work. TypeError if ``arguments`` is no mapping from names.
    """

    tool: str
    arguments: Mapping[str, float]

    def __post_init__(self) -> None:
        args.mapping("arguments", self.arguments)


@dataclass(frozen=True)
class Gateway:
    """The granted tools, and for each argument of each tool its closed range.

    No text reaches this class: the verdict depends on the grant and the call alone.
    TypeError or ValueError if ``granted`` is no such table of ranges.

    >>> Gateway({"read": {"id": (1, 999)}}).judge(ToolCall("read", {"id": 17}))
    'allowed'
    """

    granted: Mapping[str, Mapping[str, tuple[float, float]]]

    def __post_init__(self) -> None:
        args.range_tables("granted", self.granted)

    def judge(self, call: ToolCall) -> str:
        """Return "allowed", or why not. What is not granted by name is denied."""
        named = isinstance(call.tool, str)
        ranges = self.granted.get(call.tool) if named else None
        if ranges is None:
            return f"denied: {call.tool} is not granted"
        if call.arguments.keys() != ranges.keys():
            wanted, got = sorted(ranges), sorted(call.arguments)
            return f"rejected: expected arguments {wanted}; got {got}"
        for name, (low, high) in ranges.items():
            if not args.inside(value := call.arguments[name], low, high):
                expected = f"must be a number from {low:g} to {high:g}"
                return f"rejected: {name} {expected}; {args.found(value)}"
        return "allowed"


# cell: simulate_decode
def simulate_decode(
    prompt_tokens: int,
    output_tokens: int,
    *,
    prefill_ms_per_token: float = 0.4,
    decode_ms_per_token: float = 18.0,
    jitter_ms: float = 1.5,
    seed: int = 0,
    fixed_ms: float = 8.0,
) -> list[float]:
    """Return the arrival time in ms of each output token of one simulated call.

    The first token arrives after ``fixed_ms`` (what no prompt changes, such as the
    queue) plus the prefill; each later one after ``decode_ms_per_token``, give or
    take up to ``jitter_ms``. No output tokens give an empty list.

    Raises:
        TypeError: a count or the seed is not an integer, or a time is not a number.
        ValueError: a negative count, seed or time, a count above 2**53, NaN,
            infinity, or jitter larger than the step itself.

    >>> simulate_decode(100, 3, jitter_ms=0.0)
    [48.0, 66.0, 84.0]
    """
    n = args.count("output_tokens", output_tokens)
    read = args.count("prompt_tokens", prompt_tokens)
    clock = args.real("fixed_ms", fixed_ms, 0.0, args.LARGEST)
    pace, step = prefill_ms_per_token, decode_ms_per_token
    clock += read * args.real("prefill_ms_per_token", pace, 0.0, args.LARGEST)
    step = args.real("decode_ms_per_token", step, 0.0, args.LARGEST)
    jitter = args.real("jitter_ms", jitter_ms, 0.0, step)
    rng = random.Random(args.integer("seed", seed))
    times = [clock] if n else []
    for _ in range(n - 1):
        clock += step + rng.uniform(-jitter, jitter)
        times.append(clock)
    return times


# cell: tpot_ms
def tpot_ms(token_times_ms: Sequence[float]) -> float:
    """Return the mean gap in ms between arrivals; NaN for fewer than two.

    Raises:
        TypeError: not a sequence of numbers.
        ValueError: a time is negative, NaN or infinite, or the times go backwards.

    >>> tpot_ms([48.0, 66.0, 84.0])
    18.0
    """
    name, most = "token_times_ms", args.LARGEST
    given = args.items(name, token_times_ms, empty=True)
    if not given:
        return math.nan
    times = args.reals(name, given, at_least=0.0, at_most=most)
    if any(after < before for before, after in pairwise(times)):
        raise ValueError(f"token_times_ms: expected times in order; got {times!r}")
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else math.nan


# cell: PriceSnapshot
@dataclass(frozen=True)
class PriceSnapshot:
    """What a provider charged on one day, in USD per million tokens, and says who.

    Raises:
        TypeError: a price is not a number, or ``checked`` is not a date.
        ValueError: a price is negative, NaN or infinite, or ``origin`` is blank.

    >>> PriceSnapshot(50.0, 400.0, date(2026, 7, 20), "a list").call_usd(800, 200)
    0.12
    """

    input_usd_per_million: float
    output_usd_per_million: float
    checked: date
    origin: str

    def __post_init__(self) -> None:
        for name in ("input_usd_per_million", "output_usd_per_million"):
            args.real(name, getattr(self, name), 0.0, args.LARGEST)
        if not isinstance(self.checked, date):
            raise TypeError(f"checked: expected a date; got {self.checked!r}")
        if not args.text("origin", self.origin).strip():
            raise ValueError(f"origin: expected a price list; got {self.origin!r}")

    def call_usd(self, prompt_tokens: int, output_tokens: int) -> float:
        """Return the price in USD of one call."""
        read = args.count("prompt_tokens", prompt_tokens)
        written = args.count("output_tokens", output_tokens)
        usd = read * self.input_usd_per_million
        usd += written * self.output_usd_per_million
        return usd / 1e6


# cell: cost_per_resolved_usd
def cost_per_resolved_usd(
    call_usd: float,
    success_rate: float,
    *,
    max_tries: int | None = None,
    handoff_usd: float = 0.0,
) -> float:
    """Return the mean cost in USD of one resolved task, tries being independent.

    With ``max_tries`` None, tries go on until one succeeds. Otherwise a person
    takes over after the last failed try, for ``handoff_usd``.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a cost is negative, NaN or infinite; ``success_rate`` is outside
            [0, 1], or 0 without a limit on tries (the cost has no bound);
            ``max_tries`` is negative.

    >>> cost_per_resolved_usd(0.12, 0.6)
    0.2
    >>> cost_per_resolved_usd(0.12, 0.5, max_tries=1, handoff_usd=2.0)
    1.12
    """
    price = args.real("call_usd", call_usd, 0.0, args.LARGEST)
    rate = args.real("success_rate", success_rate, 0.0, 1.0)
    handoff = args.real("handoff_usd", handoff_usd, 0.0, args.LARGEST)
    if max_tries is None:
        if rate == 0.0:
            raise ValueError("success_rate: without max_tries, expected > 0; got 0")
        return price / rate
    tries = args.integer("max_tries", max_tries)
    paid = math.fsum((1.0 - rate) ** i for i in range(tries))
    return price * paid + (1.0 - rate) ** tries * handoff


# cell: Mechanism
class Mechanism(Enum):
    """The eight ends of the search, from the easiest to check to the hardest."""

    RULES = "ordinary code"
    QUERY = "SQL or typed API"
    RETRIEVAL = "search"
    SOLVER = "solver"
    HUMAN = "a person, or a redesign"
    CALL = "one model call"
    WORKFLOW = "fixed workflow"
    AGENT = "bounded agent"


@dataclass(frozen=True)
class Question:
    """A question; each answer leads to a mechanism or to the key of a question."""

    text: str
    branches: Mapping[str, Mechanism | str]


# cell: QUESTIONS
_END = Mechanism
QUESTIONS: dict[str, Question] = {
    "rules": Question("Do stable rules cover it?",
                      {"yes": _END.RULES, "no": "data"}),
    "data": Question("Does a database hold it?",
                     {"yes": _END.QUERY, "no": "evidence"}),
    "evidence": Question("Is finding the passage hard?",
                         {"yes": _END.RETRIEVAL, "no": "goal"}),
    "goal": Question("Is the objective explicit?",
                     {"yes": _END.SOLVER, "no": "judgment"}),
    "judgment": Question("Judgment on text or images?",
                         {"no": _END.HUMAN, "yes": "next_step"}),
    "next_step": Question("What decides the next step?",
                          {"none": _END.CALL, "known": _END.WORKFLOW,
                           "observed": _END.AGENT}),
}


# cell: choose_mechanism
def choose_mechanism(
    answers: Mapping[str, str | bool],
) -> tuple[Mechanism, list[tuple[str, str]]]:
    """Walk ``QUESTIONS``; return the mechanism and the answers given on the way.

    True and False stand for "yes" and "no". Only the questions that come up need an
    answer.

    Raises:
        TypeError: ``answers`` is no mapping from the keys of questions.
        ValueError: a key that is no question, or a question that comes up without
            one of its answers.

    >>> choose_mechanism({"rules": False, "data": True})
    (<Mechanism.QUERY: 'SQL or typed API'>, [('rules', 'no'), ('data', 'yes')])
    """
    for key in args.mapping("answers", answers):
        if key not in QUESTIONS:
            expected = f"expected keys among {list(QUESTIONS)}"
            raise ValueError(f"answers: {expected}; got {key!r}")
    at: Mechanism | str = next(iter(QUESTIONS))
    trail: list[tuple[str, str]] = []
    while not isinstance(at, Mechanism):
        given, branches = answers.get(at), QUESTIONS[at].branches
        answer = ("no", "yes")[given] if isinstance(given, bool) else given
        if not isinstance(answer, str) or answer not in branches:
            expected = f"expected one of {list(branches)}"
            raise ValueError(f"answers[{at!r}]: {expected}; {args.found(given)}")
        trail.append((at, answer))
        at = branches[answer]
    return at, trail


# cell: AgentProposal
@dataclass(frozen=True)
class AgentProposal:
    """What somebody who wants an agent has to write down first.

    ``baseline`` names the best design without one, and ``baseline_right`` says for
    each measured case whether it got it right. ``next_action`` maps an observation
    to the action it calls for; ``listed_in_advance`` says whether all observations
    are known before the run. TypeError names a field of another type.
    """

    name: str
    baseline: str
    baseline_right: Mapping[str, bool]
    next_action: Mapping[str, str]
    listed_in_advance: bool

    def __post_init__(self) -> None:
        args.plain(self)
        args.mapping("baseline_right", self.baseline_right, bool)
        args.mapping("next_action", self.next_action, str)


def agent_objections(proposal: AgentProposal) -> list[str]:
    """Return what the two tests hold against a proposal; an empty list is a pass.

    Raises:
        TypeError: ``proposal`` is none.

    >>> next_action = {"a": "go", "b": "stop"}
    >>> agent_objections(AgentProposal("x", "y", {"z": False}, next_action, False))
    []
    """
    found = []
    args.instance("proposal", proposal, AgentProposal)
    if not proposal.baseline.strip() or not proposal.baseline_right:
        found.append("counterfactual baseline: no measured design without an agent")
    elif all(proposal.baseline_right.values()):
        name = proposal.baseline
        found.append(f"counterfactual baseline: {name} fails on no measured case")
    if len(set(proposal.next_action.values())) < 2:
        found.append("branch value: no observation changes the next action")
    elif proposal.listed_in_advance:
        known = "the observations can be listed, so a fixed branch does"
        found.append(f"branch value: {known}")
    return found


# cell: Permission
@dataclass(frozen=True, order=True)
class Permission:
    """A level of the permission scale: what it allows, its risk, its control."""

    level: int
    name: str = field(compare=False)
    capability: str = field(compare=False)
    failure: str = field(compare=False)
    control: str = field(compare=False)
    owner: str = field(compare=False)


_PERMISSIONS = """
shadow|runs; nobody acts on it|effort without use|kept apart|product team
draft|writes for a person|waved through unread|edit rate, sources|support lead
scoped read|reads named records|sees or repeats too much|scoped keys, log|data owner
approved act|prepares; a person releases|approval by habit|spot checks|operations
reversible act|acts; can be undone|many small wrongs|rate limit, undo|service owner
delegated act|acts within a budget|loss beyond recall|cap, kill switch|risk owner
"""
PERMISSIONS: tuple[Permission, ...] = tuple(
    Permission(level, *row.split("|"))
    for level, row in enumerate(_PERMISSIONS.strip().splitlines())
)


# cell: Rung
@dataclass(frozen=True)
class Rung:
    """What one step of the mechanism scale adds to a task, on top of those below.

    Raises:
        TypeError: ``name`` is not text, or a quantity is not a number.
        ValueError: a quantity is negative, NaN or infinite.

    >>> Rung("one model call", 1, 0.0, 0.5, 1).review_minutes
    0.5
    """

    name: str
    extra_calls: float
    expected_retries: float
    review_minutes: float
    blast_radius_records: int

    def __post_init__(self) -> None:
        args.text("name", self.name)
        for name in ("extra_calls", "expected_retries", "review_minutes"):
            args.real(name, getattr(self, name), 0.0, args.LARGEST)
        args.integer("blast_radius_records", self.blast_radius_records)


@dataclass(frozen=True, order=True)
class MechanismLevel:
    """A level of the mechanism scale. It does not compare with a ``Permission``."""

    level: int
    rung: Rung = field(compare=False)


# cell: cost_parts
def cost_parts(
    rungs: Sequence[Rung],
    call_cost: float = 0.02,
    reviewer_cost_per_minute: float = 1.0,
) -> list[tuple[str, float, float]]:
    """Return (name, USD for calls and retries, USD for review) per task and rung.

    Raises:
        TypeError: a cost is not a number, or ``rungs`` are not rungs.
        ValueError: no rungs, or a cost that is negative, NaN or infinite.

    >>> cost_parts([Rung("one model call", 1, 0.0, 0.5, 1)])
    [('one model call', 0.02, 0.5)]
    """
    call = args.real("call_cost", call_cost, 0.0, args.LARGEST)
    wage = reviewer_cost_per_minute
    wage = args.real("reviewer_cost_per_minute", wage, 0.0, args.LARGEST)
    parts = []
    for rung in args.instances("rungs", args.items("rungs", rungs), Rung):
        calls = (rung.extra_calls + rung.expected_retries) * call
        parts.append((rung.name, calls, rung.review_minutes * wage))
    return parts


# cell: autonomy_costs
def autonomy_costs(
    rungs: Sequence[Rung],
    call_cost: float = 0.02,
    reviewer_cost_per_minute: float = 1.0,
) -> list[tuple[str, float, float]]:
    """Return (name, USD that the rung adds to a task, USD of all rungs so far).

    Raises:
        TypeError, ValueError: as ``cost_parts``.

    >>> autonomy_costs([Rung("code", 0, 0, 0, 1), Rung("call", 1, 0, 0.5, 1)])[-1]
    ('call', 0.52, 0.52)
    """
    parts = cost_parts(rungs, call_cost, reviewer_cost_per_minute)
    added = [calls + review for _, calls, review in parts]
    so_far = [math.fsum(added[: i + 1]) for i in range(len(added))]
    names = [name for name, _, _ in parts]
    return list(zip(names, added, so_far, strict=True))


# cell: LADDER
LADDER: tuple[Rung, ...] = (
    Rung("conventional", 0, 0.0, 0.0, 1),
    Rung("one model call", 1, 0.0, 0.5, 1),
    Rung("fixed workflow", 3, 0.2, 1.0, 5),
    Rung("bounded agent", 6, 1.0, 3.0, 25),
    Rung("coordinated agents", 15, 2.0, 4.0, 100),
    Rung("delegated operation", 30, 4.0, 8.0, 500),
)  # quantities are inputs, taken from the source
MECHANISMS = tuple(MechanismLevel(level, rung) for level, rung in enumerate(LADDER))


# cell: ReleaseContract
@dataclass(frozen=True)
class ReleaseContract:
    """What promotes a feature and what takes it back. Rates lie in [0, 1].

    >>> ReleaseContract(human_rate=0.9).max_edit_rate
    0.2
    """

    human_rate: float
    max_edit_rate: float = 0.2
    fallback: str = "the passage alone"

    def __post_init__(self) -> None:
        args.real("human_rate", self.human_rate, 0.0, 1.0)
        args.real("max_edit_rate", self.max_edit_rate, 0.0, 1.0)
        args.text("fallback", self.fallback)


def release_decision(
    contract: ReleaseContract,
    *,
    golden: tuple[int, int],
    abstained: tuple[int, int],
    edited: tuple[int, int],
) -> str:
    """Return "ship", "hold" or "roll back". A pair is (how many, out of how many).

    Too many edited drafts roll back. To ship, the lower end of the golden set's 95%
    interval must reach the human rate, and every unsupported claim must have been
    abstained from.

    Raises:
        TypeError: ``contract`` is none, or a pair is no pair of counts.
        ValueError: a pair that is no count out of a count.

    >>> counts = {"golden": (500, 500), "abstained": (9, 9), "edited": (1, 5)}
    >>> release_decision(ReleaseContract(0.9), **counts)
    'ship'
    """
    args.instance("contract", contract, ReleaseContract)
    low, _ = wilson_interval(*args.out_of("golden", golden))
    fired, unsupported = args.out_of("abstained", abstained)
    edits, drafts = args.out_of("edited", edited)
    if drafts and edits / drafts > contract.max_edit_rate:
        return "roll back"
    fires = fired == unsupported > 0
    return "ship" if fires and low >= contract.human_rate else "hold"


# cell: AgencyBudgetMemo
@dataclass(frozen=True)
class AgencyBudgetMemo:
    """One page that asks for authority: an action gets a permission, or None.

    ``rungs`` are the mechanism steps bought on top of the baseline. The increment
    is computed from them.

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a number is negative, NaN or infinite.

    >>> one, ship = (Rung("call", 1, 0, 0.5, 1),), ReleaseContract(human_rate=0.9)
    >>> memo = AgencyBudgetMemo("f", "o", "b", {}, one, 800, 200, 3, ship, "us", 30)
    >>> memo.increment_usd
    0.52
    """

    feature: str
    outcome: str
    baseline: str
    authority: Mapping[str, Permission | None]
    rungs: tuple[Rung, ...]
    prompt_cap_tokens: int
    output_cap_tokens: int
    ttft_deadline_s: float
    release: ReleaseContract
    owner: str
    review_days: int
    call_cost: float = 0.02
    reviewer_cost_per_minute: float = 1.0

    def __post_init__(self) -> None:
        args.plain(self)
        args.mapping("authority", self.authority, Permission, type(None))
        args.instances("rungs", self.rungs, Rung)
        args.instance("release", self.release, ReleaseContract)

    @property
    def increment_usd(self) -> float:
        """USD per task over the baseline."""
        wage = self.reviewer_cost_per_minute
        return autonomy_costs(self.rungs, self.call_cost, wage)[-1][2]


# cell: memo_problems
def memo_problems(
    memo: AgencyBudgetMemo, claimed_usd: float | None = None
) -> list[str]:
    """Return what is wrong with a memo: empty fields, a false price, a late token.

    A claimed increment must agree to the cent. The deadline is held against
    ``simulate_decode`` at its defaults; put your own measurement there.

    Raises:
        TypeError: ``memo`` is none, or ``claimed_usd`` is not a number.
        ValueError: ``claimed_usd`` is NaN.

    >>> one, ship = (Rung("call", 1, 0, 0.5, 1),), ReleaseContract(human_rate=0.9)
    >>> memo = AgencyBudgetMemo("f", "o", "b", {}, one, 800, 200, 3, ship, "us", 30)
    >>> memo_problems(memo, claimed_usd=0.50)
    ['increment: claimed 0.50 USD, computed 0.52 USD']
    """
    args.instance("memo", memo, AgencyBudgetMemo)
    found = [
        f"{name}: empty"
        for name in ("outcome", "baseline", "owner")
        if not getattr(memo, name).strip()
    ]
    computed = memo.increment_usd
    claim = computed if claimed_usd is None else claimed_usd
    if abs(args.real("claimed_usd", claim) - computed) >= 0.005:
        price = f"claimed {claim:.2f} USD, computed {computed:.2f} USD"
        found.append(f"increment: {price}")
    ttft_s = simulate_decode(memo.prompt_cap_tokens, 1)[0] / 1000
    if ttft_s > (limit := memo.ttft_deadline_s):
        wait = f"first token after {ttft_s:.2f} s, limit {limit:g} s"
        found.append(f"deadline: {wait}")
    return found


# cell: memo_markdown
def memo_markdown(memo: AgencyBudgetMemo) -> str:
    """Return the memo as one page of Markdown, with what it computes filled in.

    Raises:
        TypeError: ``memo`` is none.

    >>> one, ship = (Rung("call", 1, 0, 0.5, 1),), ReleaseContract(human_rate=0.9)
    >>> memo = AgencyBudgetMemo("f", "o", "b", {}, one, 800, 200, 3, ship, "us", 30)
    >>> memo_markdown(memo).splitlines()[5]
    '- **Increment.** +0.52 USD a task for call'
    """
    args.instance("memo", memo, AgencyBudgetMemo)
    grants = "; ".join(
        f"{act}: L{p.level} {p.name}" if p else f"{act}: not granted"
        for act, p in memo.authority.items()
    )
    steps = ", ".join(rung.name for rung in memo.rungs)
    reach = max(rung.blast_radius_records for rung in memo.rungs)
    release, edits = memo.release, f"{100 * memo.release.max_edit_rate:g}%"
    caps = f"{memo.prompt_cap_tokens} tokens in, {memo.output_cap_tokens} out"
    lines = {
        "Outcome": memo.outcome,
        "Baseline": memo.baseline,
        "Authority": grants,
        "Increment": f"+{memo.increment_usd:.2f} USD a task for {steps}",
        "Caps": f"{caps}; first token within {memo.ttft_deadline_s:g} s",
        "Blast radius": f"{reach} record(s)",
        "Release": f"ship from a golden-set rate of {release.human_rate:g} if "
        f"abstention fires; back to {release.fallback} above {edits} edited drafts",
        "Owner": f"{memo.owner}; review in {memo.review_days} days",
    }
    items = "\n".join(f"- **{name}.** {text}" for name, text in lines.items())
    return f"**Memo: {memo.feature}**\n\n{items}"
