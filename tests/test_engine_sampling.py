"""Sampling against exact distributions, and the decode loop against the rules by which it stops."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.scripted import END, ScriptedDecoder

from modelcall.lab.generation import Step, decode
from modelcall.lab.model_errors import SamplingError
from modelcall.lab.sampling import Sampler, Sampling, log_softmax, top_logprobs

LOGITS = st.lists(st.floats(-20, 20), min_size=1, max_size=200)


def exact_cut(p: list[Fraction], top_k: int, top_p: Fraction) -> list[Fraction]:
    """Top-k, renormalize, top-p, renormalize, in rational arithmetic; ties go to the smaller id."""
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))
    if top_k:
        order = order[:top_k]
    total = sum(p[i] for i in order)
    reached = accumulate(p[i] / total for i in order)
    keep = next((n for n, mass in enumerate(reached, 1) if mass >= top_p), len(order))
    kept = order[:keep]
    total = sum(p[i] for i in kept)
    return [p[i] / total if i in kept else Fraction(0) for i in range(len(p))]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=150),
    st.integers(0, 160),
    st.integers(1, 97).map(lambda n: n / 97),
)
def test_cuts_equal_exact_arithmetic(weights: list[int], top_k: int, top_p: float) -> None:
    total = sum(weights)
    p = [Fraction(weight, total) for weight in weights]
    expected = exact_cut(p, top_k, Fraction(top_p))
    # A sum that hits top_p to the last bit may round to either side; no test can tell which.
    order = sorted(p, reverse=True)[: top_k or None]
    assume(
        all(abs(mass / sum(order) - Fraction(top_p)) > Fraction(1, 10**12) for mass in accumulate(order))
        or top_p == 1
    )
    found = Sampler(Sampling(top_k=top_k, top_p=top_p)).probabilities(np.log([float(x) for x in p]))
    np.testing.assert_allclose(found, [float(x) for x in expected], rtol=1e-9, atol=1e-12)


def test_the_nucleus_ends_where_its_sum_is_reached() -> None:
    """Four equal tokens are exact in binary: two of them reach one half, and a third is not needed."""
    for top_p, kept in ((0.25, 1), (0.5, 2), (0.51, 3), (0.75, 3), (1.0, 4)):
        found = Sampler(Sampling(top_p=top_p)).probabilities(np.zeros(4))
        assert found.tolist() == [1 / kept] * kept + [0.0] * (4 - kept)


def test_a_large_vocabulary_takes_the_same_nucleus() -> None:
    """The nucleus is searched for in growing heads; the answer must not depend on it."""
    rng = np.random.default_rng(0)
    for spread in (0.01, 1.0, 4.0):
        logits = rng.normal(0, spread, 5000)
        p = np.exp(log_softmax(logits))
        for top_p in (0.1, 0.5, 0.9, 0.999):
            order = np.argsort(-p, kind="stable")
            keep = order[: int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1]
            found = Sampler(Sampling(top_p=top_p)).probabilities(logits)
            assert set(np.flatnonzero(found)) == set(keep.tolist())


@settings(deadline=None, derandomize=True)
@given(LOGITS, st.floats(0.05, 3))
def test_temperature_divides_the_logits(values: list[float], temperature: float) -> None:
    found = Sampler(Sampling(temperature=temperature)).probabilities(np.array(values))
    largest = max(values)
    weights = [math.exp((value - largest) / temperature) for value in values]
    np.testing.assert_allclose(found, [w / math.fsum(weights) for w in weights], rtol=1e-9, atol=1e-300)


def test_draws_follow_the_distribution() -> None:
    """A chi-square test with a seed: 60,000 draws of five tokens."""
    logits = np.log([0.4, 0.3, 0.2, 0.08, 0.02])
    sampler = Sampler(Sampling(temperature=0.7, seed=11))
    expected = sampler.probabilities(logits) * 60_000
    found = np.bincount([sampler.pick(logits) for _ in range(60_000)], minlength=5)
    assert ((found - expected) ** 2 / expected).sum() < 18.47  # 99.9 % of chi-square with 4 degrees


def test_a_seed_fixes_the_draws_and_choices_differ() -> None:
    logits = np.zeros(1000)

    def draws(seed: int | None, stream: int = 0) -> list[int]:
        sampler = Sampler(Sampling(seed=seed, stream=stream))
        return [sampler.pick(logits) for _ in range(8)]

    assert draws(5) == draws(5)
    # The generator and its use are part of the contract: recorded outputs depend on them.
    assert draws(5)[:4] == [805, 807, 515, 285]
    assert (
        len({tuple(draws(5)), tuple(draws(6)), tuple(draws(5, 1)), tuple(draws(-5)), tuple(draws(None))}) == 5
    )


def test_greedy_takes_the_smaller_id_in_a_tie() -> None:
    greedy = Sampler(Sampling(temperature=0))
    assert greedy.pick(np.array([1.0, 3.0, 3.0])) == 1
    assert greedy.pick(np.array([1.0, 3.0, 3.0]), np.array([True, False, True])) == 2


def test_tiny_temperatures_do_not_overflow() -> None:
    assert Sampler(Sampling(temperature=1e-308)).pick(np.array([-700.0, 700.0, 699.0])) == 1


@settings(deadline=None, derandomize=True)
@given(LOGITS, st.data())
def test_a_mask_is_never_broken(values: list[float], data: st.DataObject) -> None:
    size = len(values)
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    options = Sampling(
        temperature=data.draw(st.sampled_from([0.0, 0.3, 1.0, 5.0])),
        top_k=data.draw(st.integers(0, 5)),
        top_p=data.draw(st.sampled_from([0.01, 0.5, 1.0])),
        seed=1,
    )
    if not allowed.any():
        with pytest.raises(SamplingError, match="allows no token"):
            Sampler(options).pick(np.array(values), allowed)
        return
    sampler = Sampler(options)
    assert all(allowed[sampler.pick(np.array(values), allowed)] for _ in range(5))


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.1},
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(SamplingError, match=next(iter(options))):
        Sampling(**options)  # type: ignore[arg-type]


@settings(deadline=None, derandomize=True)
@given(LOGITS, st.integers(0, 30))
def test_top_logprobs_are_the_head_of_the_sorted_list(values: list[float], count: int) -> None:
    logprobs = log_softmax(np.array(values))
    assert math.isclose(np.exp(logprobs).sum(), 1)
    expected = sorted(enumerate(logprobs.tolist()), key=lambda item: (-item[1], item[0]))[:count]
    assert top_logprobs(logprobs, count) == expected


def run(reply: bytes, **options: object) -> list[Step]:
    """Decode a scripted reply to the prompt "q"."""
    model = ScriptedDecoder({"q": reply}, context=32)
    cache = model.cache()
    logits, _ = model.prefill([258, ord("q"), 259], cache)
    sampler = Sampler(Sampling(temperature=0))
    return list(decode(model, logits, cache, sampler, **{"max_tokens": 50, "end_tokens": {END}} | options))  # type: ignore[arg-type]


def test_the_loop_stops_at_the_end_token_and_counts_it_once() -> None:
    steps = run(b"hello")
    assert bytes(step.token for step in steps[:-1]) == b"hello"
    assert steps[-1].token == END and [step.finish for step in steps] == [None] * 5 + ["stop"]
    assert steps[0].logprob is None


def test_the_loop_stops_at_its_limit_and_at_the_end_of_the_cache() -> None:
    assert [step.finish for step in run(b"hello", max_tokens=3)] == [None, None, "length"]
    assert [step.finish for step in run(b"hello", max_tokens=6)][-1] == "stop"
    steps = run(b"x" * 100)
    assert len(steps) == 32 - 3 + 1 and steps[-1].finish == "length"
    with pytest.raises(ValueError, match="max_tokens must be at least 1"):
        run(b"hello", max_tokens=0)


def test_log_probabilities_are_the_models_own() -> None:
    step = run(b"hi", top=2)[0]
    total = math.exp(9) + math.exp(5) + 260
    assert step.token == ord("h") and step.top[0] == (ord("h"), step.logprob)
    assert step.logprob is not None and math.isclose(step.logprob, 9 - math.log(total))
    assert step.top[1][0] == ord("i") and math.isclose(step.top[1][1], 5 - math.log(total))
    assert step.kept == 1.0


def test_a_mask_changes_the_token_but_not_its_log_probability() -> None:
    class OnlyNext:
        """Allows what the model likes second."""

        def __init__(self) -> None:
            self.seen: list[int] = []

        def allowed(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
            mask = np.zeros(262, np.bool_)
            mask[ord("i")] = True
            return mask

        def advance(self, token: int) -> None:
            self.seen.append(token)

    mask = OnlyNext()
    steps = run(b"hhh", mask=mask, top=0, max_tokens=2)
    total = math.exp(9) + math.exp(5) + 260
    assert [step.token for step in steps] == [ord("i")] * 2 and mask.seen == [ord("i")]
    assert steps[0].logprob is not None and math.isclose(steps[0].logprob, 5 - math.log(total))
    assert steps[0].kept is not None and math.isclose(steps[0].kept, math.exp(5) / total)
