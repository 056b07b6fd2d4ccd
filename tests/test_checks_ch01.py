"""The checkers of chapter 1 against answers that readers give: each wrong one gets its reason.

``WRONG`` holds, for each exercise, answers and words that the reason must contain; ``RIGHT`` holds answers
that must pass, each in another style. A checker that runs the reference instead of the answer would pass
everything here that is wrong, and the untouched stubs too.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import notebooks
from modelcall.checks import ch01 as check
from modelcall.ch01 import (
    LADDER,
    PERMISSIONS,
    AgencyBudgetMemo,
    AgentProposal,
    ReleaseContract,
    bpe_encode,
    count_tokens,
    entropy_bits,
    sample_token,
    simulate_decode,
    softmax,
    train_bpe,
)
from modelcall.checks.grading import Exercise

EXERCISES: dict[str, Exercise] = {
    name: value for name, value in vars(check).items() if isinstance(value, Exercise)
}
Answers = list[Callable[..., Any]]
Wrongs = list[tuple[Callable[..., Any], str]]


def forever(*_: object) -> None:
    while True:
        pass


def printing(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: print(function(*given))


def raising(*_: object) -> None:
    raise KeyError("oops")


def anyhow(value: object) -> Callable[..., Any]:
    return lambda *_: value


# -- 1.1 -----------------------------------------------------------------------------------------------------


def geometric(logprobs: list[float]) -> tuple[float, float]:
    total = math.fsum(logprobs)
    return math.exp(total), math.exp(total / len(logprobs))


def by_numpy(logprobs: list[float]) -> Any:
    return np.array([np.exp(np.sum(logprobs)), np.exp(np.mean(logprobs))])


def by_product(logprobs: list[float]) -> tuple[float, float]:
    whole = math.prod(map(math.exp, logprobs))
    return whole, math.exp(sum(logprobs) / len(logprobs))


class Callee:
    def __call__(self, logprobs: list[float]) -> list[float]:
        return list(geometric(logprobs))


def sorting(logprobs: list[float]) -> tuple[float, float]:
    logprobs.sort()
    return geometric(logprobs)


def rooted(logprobs: list[float]) -> tuple[float, float]:
    whole = math.prod(map(math.exp, logprobs))
    return whole, whole ** (1 / len(logprobs))


RIGHT_1: Answers = [geometric, by_numpy, by_product, Callee()]
WRONG_1: Wrongs = [
    (lambda x: geometric(x)[::-1], "wrong order"),
    (lambda x: (geometric(x)[0], sum(map(math.exp, x)) / len(x)), "arithmetic mean"),
    (lambda x: (sum(map(math.exp, x)), geometric(x)[1]), "adds the probabilities"),
    (lambda x: (2 ** sum(x), 2 ** (sum(x) / len(x))), "another base"),
    (lambda x: (sum(x), sum(x) / len(x)), "still a log probability"),
    (rooted, "smaller than any float"),
    (lambda x: geometric(x)[0], "returns float"),
    (lambda x: (*geometric(x), 1), "3 values; expected 2"),
    (lambda x: (math.nan, geometric(x)[1]), "NaN"),
    (lambda x: map(str, geometric(x)), "read only once"),
    (lambda x: [str(v) for v in geometric(x)], "no number but str"),
    (lambda x: (geometric(x)[0], geometric(x)[1] * 1.01), "second result is"),
    (sorting, "changes its argument"),
    (printing(geometric), "return it"),
    (raising, "raises KeyError"),
    (forever, "did not finish"),
    (anyhow(None), "returns None"),
    (anyhow((True, True)), "no number but bool"),
]

# -- 1.2 -----------------------------------------------------------------------------------------------------


def bits(logits: list[float], temperatures: list[float]) -> list[float]:
    return [entropy_bits(softmax(logits, t)) for t in temperatures]


def bits_by_hand(logits: list[float], temperatures: list[float]) -> list[float]:
    result = []
    for t in temperatures:
        if t == 0:
            result.append(math.log2(logits.count(max(logits))))
            continue
        weights = [math.exp((z - max(logits)) / t) for z in logits]
        shares = [w / sum(weights) for w in weights]
        result.append(-sum(p * math.log2(p) for p in shares if p))
    return result


def bits_by_numpy(logits: list[float], temperatures: list[float]) -> Any:
    found = []
    for t in temperatures:
        p = np.array(softmax(logits, t))
        found.append(np.sum(-p[p > 0] * np.log2(p[p > 0])))
    return np.array(found)


def from_nats(logits: list[float], temperatures: list[float]) -> tuple[float, ...]:
    def nats(p: list[float]) -> float:
        return -sum(x * math.log(x) for x in p if x > 0)

    return tuple(nats(softmax(logits, t)) / math.log(2) for t in temperatures)


def nats(logits: list[float], temperatures: list[float]) -> list[float]:
    return [h * math.log(2) for h in bits(logits, temperatures)]


def hot_only(logits: list[float], temperatures: list[float]) -> list[float]:
    weights = [[math.exp(z / t) for z in logits] for t in temperatures]
    return [entropy_bits([w / sum(row) for w in row]) for row in weights]


def spent(logits: list[float], temperatures: list[float]) -> list[float]:
    temperatures.reverse()
    return bits(logits, temperatures[::-1])


RIGHT_2: Answers = [bits, bits_by_hand, bits_by_numpy, from_nats]
WRONG_2: Wrongs = [
    (nats, "in nats"),
    (lambda z, ts: [-h for h in bits(z, ts)], "wrong sign"),
    (lambda z, ts: bits(z, [1 / t if t else math.inf for t in ts]), "multiplied by T"),
    (lambda z, ts: bits(z, [1.0] * len(ts)), "no effect"),
    (
        lambda z, ts: [-sum(p / t * math.log2(p / t) for p in softmax(z)) for t in ts],
        "probabilities are divided",
    ),
    (hot_only, "raises ZeroDivisionError"),
    (lambda z, ts: bits(z, ts)[0], "expected"),
    (lambda z, ts: (entropy_bits(softmax(z, t)) for t in ts), "generator"),
    (lambda z, ts: [round(h, 2) for h in bits(z, ts)], "expected"),
    (lambda z, ts: bits(z, ts)[::-1], "expected"),
    (lambda z, ts: [math.nan for _ in ts], "NaN"),
    (lambda z, ts: [str(h) for h in bits(z, ts)], "no number but str"),
    (lambda z, ts: dict(zip(ts, bits(z, ts), strict=True)), "returns dict"),
    (spent, "changes its argument"),
    (printing(bits), "return it"),
    (raising, "raises KeyError"),
    (forever, "did not finish"),
]

# -- 1.3 -----------------------------------------------------------------------------------------------------


def keyed(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return {name: sample_token(probs, random.Random(f"{seed}/{name}")) for name in order}


def by_hash(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return {name: sample_token(probs, random.Random(hash((seed, name)))) for name in order}


def by_digest(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    import hashlib

    result = {}
    for name in order:
        digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
        u = int.from_bytes(digest[:7], "big") / 2**56
        result[name] = next(
            i for i, reach in enumerate(itertools.accumulate(probs)) if u < reach or i == len(probs) - 1
        )
    return result


def by_choices(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    indices = range(len(probs))
    return {n: random.Random(str(seed) + n).choices(indices, probs)[0] for n in order}


def by_numpy_generator(order: list[str], probs: list[float], seed: int) -> dict[str, Any]:
    made = {}
    for name in order:
        made[name] = np.random.default_rng([seed, *name.encode()]).choice(len(probs), p=probs)
    return made


def shared(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    return {name: sample_token(probs, rng) for name in order}


def sorted_first(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    return {name: sample_token(probs, rng) for name in sorted(order)}


def alike(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return {name: sample_token(probs, random.Random(seed)) for name in order}


def unseeded(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return {name: sample_token(probs, random.Random()) for name in order}


def seedless(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return keyed(order, probs, 0)


def flat(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return {n: random.Random(f"{seed}/{n}").randrange(len(probs)) for n in order}


def colder(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return keyed(order, softmax([math.log(p) if p else -math.inf for p in probs], 0.2), seed)


def reached(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    return {n: min(i + 1, len(probs) - 1) for n, i in keyed(order, probs, seed).items()}


RIGHT_3: Answers = [keyed, by_digest, by_choices, by_numpy_generator]
WRONG_3: Wrongs = [
    (shared, "share one generator"),
    (sorted_first, "how many others"),
    (alike, "same word"),
    (lambda o, p, s: {n: p.index(max(p)) for n in o}, "same word"),
    (by_hash, "hash()"),
    (unseeded, "the second time"),
    (seedless, "another seed"),
    (flat, "its probability is"),
    (colder, "its probability is"),
    (reached, "its probability is"),
    (lambda o, p, s: list(keyed(o, p, s).values()), "expected a dict"),
    (lambda o, p, s: keyed(o[:-1], p, s), "every name needs one"),
    (lambda o, p, s: {n: "not" for n in o}, "expected the index"),
    (lambda o, p, s: {n: len(p) for n in o}, "expected the index"),
    (printing(keyed), "return it"),
    (raising, "raises KeyError"),
    (forever, "did not finish"),
]

# -- 1.4 -----------------------------------------------------------------------------------------------------


def counted(corpus: list[str], sentence: str, merge_counts: list[int]) -> list[int]:
    return [count_tokens(sentence, train_bpe(corpus, n)) for n in merge_counts]


def counted_once_trained(corpus: list[str], sentence: str, merge_counts: list[int]) -> list[int]:
    longest = train_bpe(corpus, max(merge_counts))
    return [count_tokens(sentence, longest[:n]) for n in merge_counts]


def counted_by_word(corpus: list[str], sentence: str, merge_counts: list[int]) -> tuple[int, ...]:
    found = []
    for n in merge_counts:
        merges = train_bpe(corpus, n)
        found.append(sum(len(bpe_encode(word, merges)) for word in sentence.split()))
    return tuple(found)


def counted_cached(corpus: list[str], sentence: str, merge_counts: list[int]) -> Any:
    learn = functools.cache(lambda n: train_bpe(corpus, n))
    return np.array([count_tokens(sentence, learn(n)) for n in merge_counts])


def leaking(corpus: list[str], sentence: str, merge_counts: list[int]) -> list[int]:
    return counted([*corpus, sentence], sentence, merge_counts)


def growing(corpus: list[str], sentence: str, merge_counts: list[int]) -> list[int]:
    corpus.append(sentence)
    return counted(corpus, sentence, merge_counts)


RIGHT_4: Answers = [counted, counted_once_trained, counted_by_word, counted_cached]
WRONG_4: Wrongs = [
    (leaking, "learned from"),
    (lambda c, s, ns: [len(s.split())] * len(ns), "counts words"),
    (lambda c, s, ns: [len(s)] * len(ns), "counts characters"),
    (lambda c, s, ns: [len(train_bpe(c, n)) for n in ns], "counts the merges"),
    (
        lambda c, s, ns: [sum(len(bpe_encode(w, train_bpe(c, n))) for w in set(s.split())) for n in ns],
        "twice",
    ),
    (
        lambda c, s, ns: [
            sum(p != "</w>" for w in s.split() for p in bpe_encode(w, train_bpe(c, n))) for n in ns
        ],
        "marker",
    ),
    (lambda c, s, ns: sorted(counted(c, s, ns)), "order of merge_counts"),
    (lambda c, s, ns: counted(c, s, ns)[0], "returns int"),
    (lambda c, s, ns: counted(c, s, ns)[1:], "2 values; expected 3"),
    (lambda c, s, ns: [n + 1 for n in counted(c, s, ns)], "expected"),
    (lambda c, s, ns: (n for n in counted(c, s, ns)), "generator"),
    (lambda c, s, ns: dict(zip(ns, counted(c, s, ns), strict=True)), "returns dict"),
    (growing, ""),
    (printing(counted), "return it"),
    (raising, "raises KeyError"),
    (forever, "did not finish"),
]

# -- 1.5 -----------------------------------------------------------------------------------------------------


def by_loss(confidence: float, wrong_usd: float, handoff_usd: float) -> str:
    return "answer" if (1 - confidence) * wrong_usd <= handoff_usd else "hand off"


def by_threshold(confidence: float, wrong_usd: float, handoff_usd: float) -> str:
    if wrong_usd <= handoff_usd:
        return "answer"
    return ("hand off", "answer")[confidence >= 1 - handoff_usd / wrong_usd]


def by_cheapest(confidence: float, wrong_usd: float, handoff_usd: float) -> str:
    costs = {"answer": (1 - confidence) * wrong_usd, "hand off": handoff_usd}
    return min(costs, key=lambda action: costs[action])


def by_numpy_cost(confidence: float, wrong_usd: float, handoff_usd: float) -> Any:
    return np.where(np.subtract(1, confidence) * wrong_usd > handoff_usd, "hand off", "answer").item()


RIGHT_5: Answers = [by_loss, by_threshold, by_cheapest, by_numpy_cost]
WRONG_5: Wrongs = [
    (lambda c, w, h: "answer" if c >= 0.7 else "hand off", "one threshold"),
    (lambda c, w, h: "answer" if c >= 0.975 else "hand off", "one threshold"),
    (lambda c, w, h: "answer" if c * w <= h else "hand off", "chance of being right"),
    (lambda c, w, h: "hand off" if (1 - c) * w <= h else "answer", "exchanged"),
    (lambda c, w, h: "answer" if c >= min(1.0, h / w if w else 0.0) else "hand off", "highest *risk*"),
    (lambda c, w, h: "answer", "always says 'answer'"),
    (lambda c, w, h: "hand off", "always says 'hand off'"),
    (lambda c, w, h: "answer" if (1 - c) * w < h else "hand off", "at a tie"),
    (lambda c, w, h: "answer" if w <= h else "hand off", "USD on average"),
    (lambda c, w, h: by_loss(c, w, h) == "answer", "expected 'answer' or 'hand off'"),
    (lambda c, w, h: by_loss(c, w, h).title(), "expected 'answer' or 'hand off'"),
    (lambda c, w, h: "answer" if c >= 1 - h / w else "hand off", "raises ZeroDivisionError"),
    (lambda c, w, h: by_loss(c, w, h) if c > 0.5 else "hand off", "USD on average"),
    (printing(by_loss), "return it"),
    (raising, "raises KeyError"),
    (forever, "did not finish"),
]

# -- 1.6 -----------------------------------------------------------------------------------------------------


def simulated(prompt_tokens: int, output_tokens: int) -> tuple[float, float]:
    times = simulate_decode(prompt_tokens, output_tokens, jitter_ms=0.0)
    return times[0], times[-1] - times[0]


def by_formula(prompt_tokens: int, output_tokens: int) -> list[float]:
    return [8 + 0.4 * prompt_tokens, 18 * (output_tokens - 1)]


def by_adding(prompt_tokens: int, output_tokens: int) -> tuple[float, float]:
    clock = 8.0 + prompt_tokens * 0.4
    spent = 0.0
    for _ in range(1, output_tokens):
        spent += 18.0
    return clock, spent


RIGHT_6: Answers = [simulated, by_formula, by_adding, lambda p, k: np.array(by_formula(p, k))]
WRONG_6: Wrongs = [
    (lambda p, k: (8 + 0.4 * p, 18.0 * k), "gaps between them"),
    (lambda p, k: (8 + 0.4 * p, 8 + 0.4 * p + 18.0 * (k - 1)), "second result is the total"),
    (lambda p, k: (0.4 * p, 18.0 * (k - 1)), "lacks the fixed cost"),
    (lambda p, k: (8 + 0.4 * p, 18.0 if k > 1 else 0.0), "time of one token"),
    (lambda p, k: (simulate_decode(p, k)[0], simulate_decode(p, k)[-1] - simulate_decode(p, k)[0]), "jitter"),
    (lambda p, k: tuple(x / 1000 for x in simulated(p, k)), "in seconds"),
    (lambda p, k: simulated(p, k)[::-1], "exchanged"),
    (lambda p, k: simulated(k, p), "expected"),
    (lambda p, k: (18.0 * p, 0.4 * k), "expected"),
    (lambda p, k: sum(simulated(p, k)), "returns float"),
    (lambda p, k: (*simulated(p, k), 0), "3 values; expected 2"),
    (lambda p, k: {"ttft": 1}, "returns dict"),
    (lambda p, k: (8 + 0.4 * p, math.nan), "NaN"),
    (lambda p, k: (8 + 0.4 * p, (18.0 * (k - 1)) / (k - 1)), "raises ZeroDivisionError|time of one token"),
    (printing(simulated), "return it"),
    (raising, "raises KeyError"),
    (forever, "did not finish"),
]

# -- 1.7 -----------------------------------------------------------------------------------------------------

PROPOSAL = AgentProposal(
    "sorting of returns",
    baseline="a table of reasons",
    baseline_right={"torn": True, "late": True, "two reasons": False},
    next_action={"photo unclear": "ask for another", "else": "book it"},
    listed_in_advance=False,
)
MEMO = AgencyBudgetMemo(
    PROPOSAL.name,
    "as right as the desk",
    PROPOSAL.baseline,
    {"ask": PERMISSIONS[2], "pay": None},
    LADDER[1:4],
    prompt_cap_tokens=2000,
    output_cap_tokens=200,
    ttft_deadline_s=2.0,
    release=ReleaseContract(0.9),
    owner="returns",
    review_days=30,
)


def with_memo(**changes: Any) -> Callable[[], Any]:
    return lambda: (PROPOSAL, replace(MEMO, **changes))


def with_proposal(**changes: Any) -> Callable[[], Any]:
    return lambda: (replace(PROPOSAL, **changes), MEMO)


def redefined() -> Any:
    """The classes as a notebook has them: of the same names and fields, and not the package's."""
    space: dict[str, Any] = {}
    source = notebooks.read(notebooks.ROOT / "chapters" / "01-on-ramp.ipynb")
    wanted = ("AgentProposal", "Permission", "Rung", "ReleaseContract", "AgencyBudgetMemo")
    exec("from modelcall.ch01 import *\nfrom modelcall.ch01._generated import *", space)
    for cell in notebooks.code_cells(source):
        if cell.id in wanted:
            exec(cell.source, space)
    names = {f.name: getattr(MEMO, f.name) for f in __import__("dataclasses").fields(MEMO)}
    names["authority"] = {k: v and space["Permission"](**vars(v)) for k, v in MEMO.authority.items()}
    names["rungs"] = tuple(space["Rung"](**vars(rung)) for rung in MEMO.rungs)
    names["release"] = space["ReleaseContract"](**vars(MEMO.release))
    assert space["AgencyBudgetMemo"] is not AgencyBudgetMemo
    return space["AgentProposal"](**vars(PROPOSAL)), space["AgencyBudgetMemo"](**names)


RIGHT_7: Answers = [
    lambda: (PROPOSAL, MEMO),
    lambda: [PROPOSAL, replace(MEMO, rungs=LADDER[1:5])],
    redefined,
    lambda: (replace(PROPOSAL, baseline_right={"a": False, "b": True}), replace(MEMO, review_days=7)),
]
WRONG_7: Wrongs = [
    (with_proposal(baseline_right={"a": True, "b": True}), "nothing justifies"),
    (with_proposal(listed_in_advance=True), "fixed branch"),
    (with_proposal(baseline_right={"a": False}), "fewer than two"),
    (with_proposal(baseline_right={"a": False, "b": False}), "no case right"),
    (with_proposal(next_action={"a": "go", "b": "go"}), "branch value"),
    (with_proposal(name=" "), "no name"),
    (with_memo(feature="another"), "the memo is about"),
    (with_memo(baseline="none"), "different baselines"),
    (with_memo(owner=""), "owner: empty"),
    (with_memo(ttft_deadline_s=0.1), "deadline"),
    (with_memo(rungs=LADDER[1:2]), "the step to price"),
    (with_memo(authority={"ask": PERMISSIONS[2]}), "refuses no action"),
    (with_memo(authority={"pay": None}), "grants no action"),
    (lambda: (MEMO, PROPOSAL), "in this order"),
    (lambda: PROPOSAL, "returns AgentProposal"),
    (lambda: ("a memo", "a proposal"), "found str"),
    (raising, "raises KeyError"),
    (forever, "did not finish"),
]

RIGHT = [RIGHT_1, RIGHT_2, RIGHT_3, RIGHT_4, RIGHT_5, RIGHT_6, RIGHT_7]
WRONG = [WRONG_1, WRONG_2, WRONG_3, WRONG_4, WRONG_5, WRONG_6, WRONG_7]


def test_every_exercise_has_its_corpus() -> None:
    assert list(EXERCISES) == [f"exercise_1_{n}" for n in range(1, 8)]
    assert all(len(wrong) >= 10 for wrong in WRONG) and all(len(right) >= 4 for right in RIGHT)


@pytest.mark.parametrize(
    ("number", "case"), [(n, i) for n, wrong in enumerate(WRONG, 1) for i in range(len(wrong))]
)
def test_wrong_answers_get_their_reason(number: int, case: int) -> None:
    answer, words = WRONG[number - 1][case]
    verdict = EXERCISES[f"exercise_1_{number}"].grade(answer)
    assert verdict.state == "wrong"
    assert any(part in verdict.reason for part in words.split("|")), verdict.reason


@pytest.mark.parametrize(
    ("number", "case"), [(n, i) for n, right in enumerate(RIGHT, 1) for i in range(len(right))]
)
def test_right_answers_pass(number: int, case: int) -> None:
    verdict = EXERCISES[f"exercise_1_{number}"].grade(RIGHT[number - 1][case])
    assert verdict.state == "passed", verdict.reason


def stubs() -> dict[str, str]:
    page = notebooks.read(notebooks.ROOT / "chapters" / "01-on-ramp.ipynb")
    cells = [cell.source for cell in notebooks.code_cells(page) if "exercise" in notebooks.tags(cell)]
    return {f"exercise_1_{n}": source for n, source in enumerate(cells, 1)}


@pytest.mark.parametrize("name", EXERCISES)
def test_the_untouched_stub_of_the_page_fails(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The very cell that readers get, run as it is; and its twins that other authors write."""
    source = stubs()[name]
    assert f"check.{name}(" in source
    exec(source, {"check": check})
    assert "not started" in capsys.readouterr().out
    exercise = EXERCISES[name]
    assert exercise.name in source
    for body in (
        "pass",
        "...",
        "raise NotImplementedError",
        "raise NotImplementedError('write me')",
        "return None",
    ):
        space: dict[str, Any] = {}
        exec(f"def stub(*given):\n    'What to do.'\n    {body}", space)
        assert exercise.grade(space["stub"]).state == "untouched", body
    assert exercise.grade(None).state == exercise.grade(...).state == "untouched"


@pytest.mark.parametrize("name", EXERCISES)
def test_an_answer_that_is_no_function_is_named(name: str) -> None:
    verdict = EXERCISES[name].grade(3)
    assert verdict.state == "wrong" and f"expected the function {EXERCISES[name].name}" in verdict.reason
