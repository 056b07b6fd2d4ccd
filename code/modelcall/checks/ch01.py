"""The exercises of chapter 1. Each test says in its reasons which mistake it found."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np

from modelcall import ch01
from modelcall.checks.ch01_decisions import exercise_1_5, exercise_1_6, exercise_1_7
from modelcall.checks.grading import Answer, Wrong, apart, close, exercise, number, sequence
from modelcall.checks.values import SaltedText, salted_hash

__all__ = [
    "exercise_1_1",
    "exercise_1_2",
    "exercise_1_3",
    "exercise_1_4",
    "exercise_1_5",
    "exercise_1_6",
    "exercise_1_7",
]


@exercise(
    "1.1",
    "Recover a probability, and its limit",
    "recover",
    [
        "Probabilities of tokens in a row multiply; what do their logarithms do?",
        "The probability of the whole is `math.exp` of the sum of the log probabilities.",
        "The geometric mean is `math.exp` of the *mean* of the log probabilities; nothing is multiplied.",
    ],
)
def exercise_1_1(answer: Answer, rng: random.Random) -> None:
    cases = [[-0.5, -0.5], [0.0], [-2.5]]
    cases += [[-5 * rng.random() for _ in range(rng.randint(2, 12))] for _ in range(20)]
    for logprobs in cases:
        whole, mean = _pair(answer, logprobs)
        total = math.fsum(logprobs)
        want, want_mean = math.exp(total), math.exp(total / len(logprobs))
        probs = [math.exp(x) for x in logprobs]
        call = answer.shown(logprobs)
        if close(whole, want) and close(mean, want_mean):
            continue
        if close(whole, want_mean) and close(mean, want):
            raise Wrong(f"{call}: the two results are right and in the wrong order")
        if close(whole, want) and close(mean, math.fsum(probs) / len(probs)):
            raise Wrong(
                f"{call}: the second result is the arithmetic mean of the probabilities; the length is taken "
                "out of a product by its root, the geometric mean"
            )
        if close(whole, math.fsum(probs)):
            raise Wrong(f"{call}: the first result adds the probabilities; those of a sequence multiply")
        if close(whole, 2**total) or close(whole, 10**total):
            raise Wrong(f"{call}: the first result takes the logarithms to another base; they are natural")
        if close(whole, total):
            raise Wrong(f"{call}: the first result is still a log probability; exponentiate it")
        if not close(whole, want):
            raise Wrong(f"{call}: the first result is {apart(whole, want)}")
        raise Wrong(f"{call}: the second result {_mean_mistake(mean, want, want_mean, len(logprobs))}")
    long = [-1.0] * 2000
    if not close(_pair(answer, long)[1], math.exp(-1)):
        raise Wrong(
            f"{answer.shown(long)}: the product of 2000 probabilities is smaller than any float, so its root "
            "is lost; take the mean of the logarithms"
        )


def _mean_mistake(mean: float, whole: float, want: float, tokens: int) -> str:
    if close(mean, 1 / want):
        return "is the perplexity; the geometric mean is one divided by it"
    if close(mean, math.log(want)):
        return "is still a log probability; exponentiate it"
    if close(mean, whole / tokens):
        return "is the product divided by the number of tokens; a product is evened out by its root"
    return f"is {apart(mean, want)}"


def _pair(answer: Answer, logprobs: list[float]) -> tuple[float, float]:
    call = answer.shown(logprobs)
    first, second = sequence(answer(logprobs), 2, call)
    return number(first, f"{call}: the first result"), number(second, f"{call}: the second result")


@exercise(
    "1.2",
    "Predict, then run",
    "entropies",
    [
        "Each temperature needs its own distribution: `softmax(logits, t)`.",
        "In bits, the entropy of a distribution is `entropy_bits`; in nats it is smaller by `ln 2`.",
        "`[entropy_bits(softmax(logits, t)) for t in temperatures]` also covers the two limits.",
    ],
)
def exercise_1_2(answer: Answer, rng: random.Random) -> None:
    cases: list[tuple[list[float], list[float]]] = [([1.6, 0.9, 0.3, -0.4], [0.2, 1.0, 3.0])]
    for _ in range(15):
        logits = [rng.uniform(-3, 3) for _ in range(rng.randint(2, 8))]
        cases.append((logits, [rng.uniform(0.1, 4) for _ in range(rng.randint(1, 5))]))
    cases += [([2.0, 2.0, 1.0], [0.0]), ([1.0, 0.0, -1.0, 2.0], [math.inf, 0.0]), ([0.5, 0.1], [])]
    for logits, temps in cases:
        call = answer.shown(logits, temps)
        got = [number(h, f"{call}: an entropy") for h in sequence(answer(logits, temps), len(temps), call)]
        want = [ch01.entropy_bits(ch01.softmax(logits, t)) for t in temps]
        for t, have, right in zip(temps, got, want, strict=True):
            if not close(have, right, 1e-7) and not abs(have - right) < 1e-9:
                raise Wrong(f"{call}: {_entropy_mistake(logits, t, have, right)}")


def _entropy_mistake(logits: list[float], t: float, have: float, right: float) -> str:
    if close(have, right * math.log(2), 1e-7):
        return f"at T={t:g} the entropy is in nats; divide by ln 2 for bits"
    if close(have, -right, 1e-7):
        return f"at T={t:g} the entropy has the wrong sign"
    if 0 < t < math.inf:
        if close(have, ch01.entropy_bits(ch01.softmax([z * t for z in logits])), 1e-7):
            return f"at T={t:g} the logits are multiplied by T; a high temperature must flatten, so divide"
        if close(have, ch01.entropy_bits(ch01.softmax(logits)), 1e-7):
            return f"at T={t:g} the temperature has no effect: it divides the logits before the softmax"
        scaled = [p / t for p in ch01.softmax(logits)]
        if close(have, -math.fsum(p * math.log2(p) for p in scaled), 1e-7):
            return f"at T={t:g} the probabilities are divided by T; it divides the logits before the softmax"
    if close(have, 2**right, 1e-7):
        return f"at T={t:g} this is the perplexity, 2 to the power of the entropy; expected bits"
    return f"at T={t:g} the entropy is {apart(have, right, ' bits')}"


@exercise(
    "1.3",
    "Break reproducibility, and restore it",
    "draw_all",
    [
        "Who else draws from the generator that you use for one request?",
        "Give every request a generator of its own, made from the seed *and* the request's name.",
        '`random.Random(f"{seed}/{name}")` depends on both, and on nothing else.',
    ],
)
def exercise_1_3(answer: Answer, rng: random.Random) -> None:
    probs = ch01.softmax([1.6, 0.9, 0.3, -0.4], 2.0)
    names = ["ann", "bob", *(f"{rng.choice('abcdef')}{rng.getrandbits(32):x}" for _ in range(398))]
    shared, numpys = random.getstate(), np.random.get_state(legacy=False)
    keys = numpys["state"]["key"]
    first = _draws(answer, names, probs, 1)
    for name, index in first.items():
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(probs):
            raise Wrong(f"draw_all: {name!r} gets {index!r}; expected the index of one of {len(probs)} words")
    if _draws(answer, names, probs, 1) != first:
        raise Wrong("draw_all: the same order and seed give other words the second time")
    shuffled = rng.sample(names, len(names))
    if _draws(answer, shuffled, probs, 1) != first:
        raise Wrong(
            "draw_all: a request's word depends on who asked before it: the requests share one generator, or "
            "the place in the order is in the seed"
        )
    if _draws(answer, names[:50], probs, 1) != {name: first[name] for name in names[:50]}:
        raise Wrong("draw_all: a request's word depends on how many others there are")
    counts = Counter(first.values())
    if len(counts) == 1:
        raise Wrong(
            "draw_all: 400 requests get the same word: each generator starts from the seed alone, or nothing "
            "is drawn at all; put the request's name into the seed"
        )
    for index, share in enumerate(probs):
        if abs(counts[index] / len(names) - share) > 0.12:
            raise Wrong(
                f"draw_all: word {index} comes in {counts[index]} of {len(names)} draws, its probability is "
                f"{share:.2f}: draw from probs as they are, and seed with the whole name, so that no two "
                "requests have the same draw"
            )
    if _draws(answer, names, probs, 2) == first:
        raise Wrong("draw_all: another seed gives the same words")
    if len(_draws(answer, names, [0.0, 1.0, 0.0], 1).keys() & names) != 400 or set(
        _draws(answer, names, [0.0, 1.0, 0.0], 1).values()
    ) != {1}:
        raise Wrong("draw_all: a word of probability 0 was drawn")
    if random.getstate() != shared or not np.array_equal(
        np.random.get_state(legacy=False)["state"]["key"], keys
    ):
        random.setstate(shared)
        np.random.set_state(numpys)
        raise Wrong(
            "draw_all: it seeds a generator that the whole program shares, so whoever else draws from it "
            "gets other numbers; random.Random and numpy.random.default_rng make one of their own"
        )
    salted = [_salted_draws(answer, names[:50], probs, salt) for salt in (1, 2)]
    if salted[0] != salted[1]:
        raise Wrong(
            "draw_all: it seeds with hash() or id(), and that of a text is another one in every process: a "
            "run could not be repeated tomorrow"
        )


def _draws(answer: Answer, names: list[str], probs: list[float], seed: int) -> dict[str, Any]:
    result = answer(list(names), list(probs), seed)
    if not isinstance(result, dict):
        raise Wrong(f"draw_all returns {type(result).__name__}; expected a dict from name to index")
    if result.keys() != set(names):
        raise Wrong(f"draw_all: {len(names)} requests, answers for {len(result)}; every name needs one")
    return {name: _index(result[name]) for name in names}


def _index(value: object) -> object:
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _salted_draws(answer: Answer, names: list[str], probs: list[float], salt: int) -> list[Any]:
    with salted_hash(salt):
        result = answer([SaltedText(name, salt) for name in names], list(probs), 1)
    return [_index(value) for value in result.values()]


@exercise(
    "1.4",
    "Make the token count bite",
    "token_counts",
    [
        "Train once for each number of merges, on the corpus alone.",
        "The sentence is only counted: `count_tokens(sentence, merges)`. It must not be learned from.",
        "`[count_tokens(sentence, train_bpe(corpus, n)) for n in merge_counts]`",
    ],
)
def exercise_1_4(answer: Answer, rng: random.Random) -> None:
    words = ["refund", "Refund", "policy", "agent", "denies", "the", "The", "Wagnersløv", "a", "aab", "abab"]
    cases: list[tuple[list[str], str, list[int]]] = [
        (["the agent denies a refund"] * 3, "the agent denies the refund policy", [0, 10, 40])
    ]
    for _ in range(6):
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 6))) for _ in range(3)]
        corpus = rng.choices(lines, k=rng.randint(3, 6))  # what occurs more often weighs more
        sentence = " ".join(rng.choices(words, k=rng.randint(1, 7)))
        cases.append((corpus, sentence, rng.sample(range(30), 3)))
    for corpus, sentence, asked in cases:
        call = answer.shown(corpus, sentence, asked)
        got = [number(n, f"{call}: a count") for n in sequence(answer(corpus, sentence, asked), 3, call)]
        want = [ch01.count_tokens(sentence, ch01.train_bpe(corpus, n)) for n in asked]
        if got == want:
            continue
        leaked = [ch01.count_tokens(sentence, ch01.train_bpe([*corpus, sentence], n)) for n in asked]
        unmarked = [
            sum(
                len([p for p in ch01.bpe_encode(w, ch01.train_bpe(corpus, n)) if p != "</w>"])
                for w in sentence.split()
            )
            for n in asked
        ]
        once = [
            sum(len(ch01.bpe_encode(w, ch01.train_bpe(corpus, n))) for w in set(sentence.split()))
            for n in asked
        ]
        if got == leaked:
            why = "the sentence was learned from: train on the corpus alone, or the count means nothing"
        elif got == [len(sentence.split())] * 3:
            why = "this counts words, not tokens"
        elif got == [len(sentence)] * 3:
            why = "this counts characters, not tokens"
        elif got == sorted(want) and want != sorted(want):
            why = "the counts are not in the order of merge_counts"
        elif got == [len(ch01.train_bpe(corpus, n)) for n in asked]:
            why = "this counts the merges learned, not the tokens of the sentence"
        elif got == once:
            why = "a word that occurs twice counts twice"
        elif got == [
            ch01.count_tokens(sentence, ch01.train_bpe(list(dict.fromkeys(corpus)), n)) for n in asked
        ]:
            why = "a line that is there twice counts twice in training"
        elif got == unmarked:
            why = "a single end-of-word marker is a token too"
        else:
            why = f"got [{', '.join(f'{n:.6g}' for n in got)}]; expected {want}"
        raise Wrong(f"{call}: {why}")
