"""Softmax, draws, entropy and support (chapter 1), each against an oracle that shares no code with it.

Softmax and entropy are recomputed with 50 digits, draws with exact rational numbers, and the nucleus by
trying every subset. Random cases are the same in every run.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from modelcall.ch01 import (
    entropy_bits,
    restrict,
    sample_entropy_bits,
    sample_token,
    softmax,
    top_k_support,
    top_p_support,
)

LOGITS = [1.6, 0.9, 0.3, -0.4]
repeatable = settings(derandomize=True, deadline=None, max_examples=150)

# Halves of the float range, so that no difference of two logits overflows; and masked tokens.
finite = st.floats(-8e307, 8e307) | st.floats(-50.0, 50.0)
logit_vectors = st.lists(finite | st.just(-math.inf), min_size=1, max_size=12).filter(
    lambda zs: max(zs) > -math.inf
)
tame_vectors = st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=12)
temperatures = st.floats(1e-300, 1e300) | st.floats(0.05, 20.0)


@st.composite
def dyadic(draw: st.DrawFn, zeros: bool = True) -> list[float]:
    """Distributions in steps of 1/1024, whose partial sums are exact in a float."""
    weights = draw(st.lists(st.integers(0 if zeros else 1, 40), min_size=1, max_size=8))
    weights[draw(st.integers(0, len(weights) - 1))] += 1024 - sum(weights)
    return [weight / 1024 for weight in weights]


class Scripted(random.Random):
    """A generator that hands out the one number it was given."""

    def __init__(self, u: float) -> None:
        super().__init__(0)
        self.u = u
        self.calls = 0

    def random(self) -> float:
        self.calls += 1
        return self.u


# ---- softmax ----------------------------------------------------------------------------------------


@repeatable
@given(logit_vectors, temperatures)
@example([1e308 / 2, -1e308 / 2], 0.5)
@example([1.0, 0.9], 1e-320)
@example([-math.inf, 3.0, 1.0], 1e-320)
def test_softmax_agrees_with_fifty_digits(logits: list[float], temperature: float) -> None:
    with mpmath.workdps(50):
        top = mpmath.mpf(max(logits))
        weights = [
            mpmath.exp((mpmath.mpf(z) - top) / mpmath.mpf(temperature)) if z > -math.inf else mpmath.mpf(0)
            for z in logits
        ]
        exact = [float(weight / mpmath.fsum(weights)) for weight in weights]
    assert softmax(logits, temperature) == pytest.approx(exact, rel=1e-12, abs=1e-300)


@repeatable
@given(logit_vectors)
def test_zero_temperature_is_the_greedy_limit_and_ties_share(logits: list[float]) -> None:
    winners = logits.count(max(logits))
    expected = [Fraction(1, winners) if z == max(logits) else Fraction(0) for z in logits]
    assert softmax(logits, 0.0) == [float(share) for share in expected]
    assert softmax(logits, 0) == softmax(logits, -0.0) == softmax(logits, 0.0)


@repeatable
@given(tame_vectors)
def test_a_small_temperature_approaches_the_limit(logits: list[float]) -> None:
    gaps = [max(logits) - z for z in logits if z < max(logits)]
    assume(not gaps or min(gaps) > 1e-6)
    assert softmax(logits, 1e-9) == pytest.approx(softmax(logits, 0.0), abs=1e-300)


@repeatable
@given(logit_vectors)
def test_infinite_temperature_is_uniform_over_what_is_not_masked(logits: list[float]) -> None:
    open_tokens = sum(z > -math.inf for z in logits)
    expected = [float(Fraction(int(z > -math.inf), open_tokens)) for z in logits]
    assert softmax(logits, math.inf) == expected


@repeatable
@given(logit_vectors, temperatures | st.sampled_from([0.0, math.inf]))
def test_softmax_sums_to_one_keeps_order_and_masks_exactly(logits: list[float], temperature: float) -> None:
    probs = softmax(logits, temperature)
    assert math.fsum(probs) == pytest.approx(1.0, abs=1e-14)
    for z, p in zip(logits, probs, strict=True):
        assert 0.0 <= p <= 1.0
        if z == -math.inf:
            assert p == 0.0
    for (z, p), (other, q) in combinations(zip(logits, probs, strict=True), 2):
        if z == other:
            assert p == q
        elif z < other:
            assert p <= q


@repeatable
@given(tame_vectors, st.floats(-100.0, 100.0), st.floats(0.05, 20.0))
def test_softmax_ignores_a_shift_of_all_logits(logits: list[float], shift: float, temperature: float) -> None:
    shifted = softmax([z + shift for z in logits], temperature)
    assert shifted == pytest.approx(softmax(logits, temperature), rel=1e-10, abs=1e-12)


@repeatable
@given(tame_vectors, st.lists(st.floats(0.0, 50.0) | st.just(math.inf), min_size=2, max_size=6))
def test_entropy_never_falls_as_temperature_rises(logits: list[float], sweep: list[float]) -> None:
    entropies = [entropy_bits(softmax(logits, t)) for t in sorted(sweep)]
    for colder, warmer in pairwise(entropies):
        assert warmer >= colder - 1e-12


def test_softmax_default_temperature_is_one_and_named_as_in_the_source() -> None:
    assert softmax(LOGITS) == softmax(logits=LOGITS, temperature=1.0)


@pytest.mark.parametrize(
    ("logits", "temperature", "error", "message"),
    [
        ([], 1.0, ValueError, "logits: expected at least one value; got []"),
        ([-math.inf] * 3, 1.0, ValueError, "logits: every token is masked"),
        ([-math.inf], 0.0, ValueError, "logits: every token is masked"),
        ([0.0, math.inf], 1.0, ValueError, "logits[1]: expected a number"),
        ([math.nan, 0.0], 1.0, ValueError, "logits[0]: expected a number"),
        ([0.0, 10**400], 1.0, ValueError, "logits[1]: expected a number"),
        ([0.0, "1"], 1.0, TypeError, "logits[1]: expected a number; got '1'"),
        ([0.0, None], 1.0, TypeError, "logits[1]: expected a number; got None"),
        ([True, 0.0], 1.0, TypeError, "logits[0]: expected a number; got True"),
        ("12", 1.0, TypeError, "logits: expected a sequence of values; got '12'"),
        (None, 1.0, TypeError, "logits: expected a sequence of values; got None"),
        (1.5, 1.0, TypeError, "logits: expected a sequence of values; got 1.5"),
        (np.array(0.5), 1.0, TypeError, "logits: expected a sequence of values; got array(0.5)"),
        ([[0.0, 1.0]], 1.0, TypeError, "logits[0]: expected a number; got [0.0, 1.0]"),
        (LOGITS, -0.1, ValueError, "temperature: expected a number from 0 to inf; got -0.1"),
        (LOGITS, -math.inf, ValueError, "temperature: expected a number from 0 to inf; got -inf"),
        (LOGITS, math.nan, ValueError, "temperature: expected a number from 0 to inf; got nan"),
        (LOGITS, "1", TypeError, "temperature: expected a number; got '1'"),
        (LOGITS, None, TypeError, "temperature: expected a number; got None"),
    ],
)
def test_softmax_refuses_by_name(logits: Any, temperature: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        softmax(logits, temperature)
    assert str(caught.value).startswith(message)


# ---- drawing ----------------------------------------------------------------------------------------


def exact_draw(probs: Sequence[float], u: float) -> int:
    """The inverse of the cumulative distribution, in rational numbers."""
    sums = accumulate(map(Fraction, probs))
    return next(i for i, total in enumerate(sums) if Fraction(u) < total)


@repeatable
@given(dyadic(), st.integers(0, 1023), st.sampled_from([0.0, 0.25, 0.999]))
def test_draws_equal_the_exact_inverse_also_on_the_borders(
    probs: list[float], step: int, between: float
) -> None:
    rng = Scripted((step + between) / 1024)
    assert sample_token(probs, rng) == exact_draw(probs, rng.u)
    assert rng.calls == 1


@repeatable
@given(logit_vectors, st.sampled_from([0.0, 5e-324, 0.5, 1.0 - 2.0**-53]) | st.floats(0.0, 1.0 - 2.0**-53))
def test_a_token_of_probability_zero_is_never_drawn(logits: list[float], u: float) -> None:
    probs = softmax(logits)
    assert probs[sample_token(probs, Scripted(u))] > 0.0


def test_a_draw_of_exactly_zero_skips_a_masked_first_token() -> None:
    assert sample_token(softmax([-math.inf, 0.0, 0.0]), Scripted(0.0)) == 1


def test_a_shortfall_of_the_sum_falls_to_the_last_positive_token() -> None:
    probs = [0.1] * 10 + [0.0]
    largest_draw = 1.0 - 2.0**-53
    assert math.fsum(probs) == 1.0
    assert [*accumulate(probs)][-1] <= largest_draw  # a plain running sum never passes this draw
    assert sample_token(probs, Scripted(largest_draw)) == 9


def test_frequencies_pass_a_chi_square_test() -> None:
    probs, draws = softmax(LOGITS, 2.0), 100_000
    rng = random.Random(20260720)
    counts = Counter(sample_token(probs, rng) for _ in range(draws))
    statistic = sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in enumerate(probs))
    p_value = mpmath.gammainc(mpmath.mpf(3) / 2, statistic / 2, mpmath.inf, regularized=True)
    assert 1e-3 < p_value < 1 - 1e-3


def test_one_call_takes_one_number_so_that_seeds_reproduce_a_run() -> None:
    probs = softmax(LOGITS)
    ours, plain = random.Random(5), random.Random(5)
    drawn = [sample_token(probs, ours) for _ in range(50)]
    assert drawn == [exact_draw(probs, plain.random()) for _ in range(50)]
    assert ours.getstate() == plain.getstate()


BAD_DISTRIBUTIONS: list[tuple[Any, type[Exception], str]] = [
    ([], ValueError, "probs: expected at least one value; got []"),
    ([0.5, 0.4], ValueError, "probs: expected probabilities that sum to 1; these sum to 0.9"),
    ([0.7, 0.7], ValueError, "probs: expected probabilities that sum to 1; these sum to 1.4"),
    ([0.0, 0.0], ValueError, "probs: expected probabilities that sum to 1; these sum to 0.0"),
    ([1.0, 1e-8], ValueError, "probs: expected probabilities that sum to 1"),
    ([1.5, -0.5], ValueError, "probs[0]: expected a number from 0 to 1; got 1.5"),
    ([-0.5, 1.5], ValueError, "probs[0]: expected a number from 0 to 1; got -0.5"),
    ([1.0, math.nan], ValueError, "probs[1]: expected a number from 0 to 1; got nan"),
    ([math.inf], ValueError, "probs[0]: expected a number from 0 to 1; got inf"),
    (["1"], TypeError, "probs[0]: expected a number; got '1'"),
    ([True], TypeError, "probs[0]: expected a number; got True"),
    ("1", TypeError, "probs: expected a sequence of values; got '1'"),
    (1.0, TypeError, "probs: expected a sequence of values; got 1.0"),
    (None, TypeError, "probs: expected a sequence of values; got None"),
]


@pytest.mark.parametrize(("probs", "error", "message"), BAD_DISTRIBUTIONS)
@pytest.mark.parametrize(
    "function",
    [
        lambda probs: sample_token(probs, random.Random(0)),
        entropy_bits,
        lambda probs: top_k_support(probs, 1),
        lambda probs: top_p_support(probs, 0.5),
        lambda probs: restrict(probs, [0]),
    ],
    ids=["sample_token", "entropy_bits", "top_k_support", "top_p_support", "restrict"],
)
def test_what_is_no_distribution_is_refused_by_name(
    function: Any, probs: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        function(probs)
    assert str(caught.value).startswith(message)


def test_rounding_inside_the_tolerance_is_accepted() -> None:
    for probs in ([1.0 + 5e-10, 0.0], [1.0 - 5e-10, 0.0]):
        assert sample_token(probs, Scripted(0.0)) == 0
        assert entropy_bits(probs) == pytest.approx(0.0, abs=1e-8)
        assert entropy_bits(probs) >= 0.0


@pytest.mark.parametrize("rng", [None, 3, random, 0.5])
def test_only_a_generator_can_draw(rng: Any) -> None:
    with pytest.raises(TypeError, match=r"^rng: expected a random.Random; got "):
        sample_token([1.0], rng)


# ---- entropy ----------------------------------------------------------------------------------------


@repeatable
@given(dyadic())
def test_entropy_agrees_with_fifty_digits(probs: list[float]) -> None:
    with mpmath.workdps(50):
        terms = [mpmath.mpf(p) * mpmath.log(mpmath.mpf(p), 2) for p in probs if p]
        exact = float(-mpmath.fsum(terms))
    assert entropy_bits(probs) == pytest.approx(exact, rel=1e-13, abs=1e-15)
    assert 0.0 <= entropy_bits(probs) <= math.log2(len(probs)) + 1e-12


@pytest.mark.parametrize("size", [1, 2, 4, 256, 1024])
def test_equal_shares_have_the_entropy_of_their_number(size: int) -> None:
    assert entropy_bits([1 / size] * size) == math.log2(size)


def test_a_certain_token_has_entropy_plus_zero() -> None:
    assert math.copysign(1.0, entropy_bits([0.0, 1.0])) == 1.0


@repeatable
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=60))
def test_sample_entropy_counts_the_draws(samples: list[str]) -> None:
    with mpmath.workdps(50):
        shares = [mpmath.mpf(samples.count(name)) / len(samples) for name in set(samples)]
        exact = float(-mpmath.fsum(share * mpmath.log(share, 2) for share in shares))
    assert sample_entropy_bits(samples) == pytest.approx(exact, rel=1e-12, abs=1e-15)
    assert sample_entropy_bits(iter(samples)) == sample_entropy_bits(samples)


def test_sample_entropy_is_low_by_about_the_stated_bias() -> None:
    probs, n, runs = softmax(LOGITS, 2.0), 100, 1000
    rng = random.Random(11)
    estimates = [sample_entropy_bits([sample_token(probs, rng) for _ in range(n)]) for _ in range(runs)]
    bias = math.fsum(estimates) / runs - entropy_bits(probs)
    spread = math.sqrt(math.fsum((e - math.fsum(estimates) / runs) ** 2 for e in estimates) / runs)
    assert bias == pytest.approx(-3 / (2 * n * math.log(2)), abs=4 * spread / math.sqrt(runs))


@pytest.mark.parametrize(("samples", "error"), [([], ValueError), ("not", TypeError), (3, TypeError)])
def test_sample_entropy_refuses_by_name(samples: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^samples: expected .*; got "):
        sample_entropy_bits(samples)


# ---- support ----------------------------------------------------------------------------------------


@repeatable
@given(dyadic(), st.integers(1, 12))
def test_top_k_is_the_heaviest_subset_of_its_size(probs: list[float], k: int) -> None:
    positive = [i for i, p in enumerate(probs) if p > 0]
    size = min(k, len(positive))
    # Of all subsets: the largest mass, and among equal masses the smallest indices.
    best = max(combinations(positive, size), key=lambda s: (sum(probs[i] for i in s), [-i for i in s]))
    found = top_k_support(probs, k)
    assert sorted(found) == list(best)
    assert [probs[i] for i in found] == sorted((probs[i] for i in found), reverse=True)


@repeatable
@given(dyadic(), st.integers(1, 1024) | st.floats(1e-9, 1.0).map(lambda p: p * 1024))
def test_the_nucleus_is_the_smallest_subset_that_reaches_p(probs: list[float], step: float) -> None:
    p = step / 1024
    positive = [i for i, share in enumerate(probs) if share > 0]
    reaching = [
        subset
        for size in range(1, len(positive) + 1)
        for subset in combinations(positive, size)
        if sum(map(Fraction, (probs[i] for i in subset))) >= Fraction(p)
    ]
    size = min(map(len, reaching))
    best = max(
        (subset for subset in reaching if len(subset) == size),
        key=lambda s: (sum(probs[i] for i in s), [-i for i in s]),
    )
    assert sorted(top_p_support(probs, p)) == list(best)


@pytest.mark.parametrize(
    ("probs", "p", "kept"),
    [
        ([0.5, 0.4, 0.1], 0.9, [0, 1]),  # the border itself is inside
        ([0.5, 0.4, 0.1], 0.9000001, [0, 1, 2]),
        ([0.1] * 10, 1.0, list(range(10))),  # although 0.1 added ten times stays below 1
        ([1.0 - 1e-17, 1e-17], 1.0, [0, 1]),
        ([0.4, 0.6], 1e-300, [1]),
        ([0.0, 1.0, 0.0], 1.0, [1]),
        ([0.25, 0.25, 0.25, 0.25], 0.5, [0, 1]),  # ties rank by index
        ([1.0], 0.3, [0]),
    ],
)
def test_the_nucleus_at_its_borders(probs: list[float], p: float, kept: list[int]) -> None:
    assert top_p_support(probs, p) == kept


def test_the_nucleus_of_a_large_vocabulary_is_found_in_reasonable_time() -> None:
    size = 50_000
    assert len(top_p_support([1 / size] * size, 0.5)) == size // 2


@repeatable
@given(dyadic(), st.data())
def test_restrict_scales_exactly_and_leaves_nothing_outside(probs: list[float], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(probs) - 1), min_size=1))
    mass = sum((Fraction(probs[i]) for i in set(chosen)), Fraction(0))
    assume(mass > 0)
    expected = [float(Fraction(p) / mass) if i in chosen else 0.0 for i, p in enumerate(probs)]
    assert restrict(probs, chosen) == expected
    assert restrict(probs, iter(chosen)) == expected


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: top_k_support([1.0], 0), ValueError, "k: expected an integer of at least 1; got 0"),
        (lambda: top_k_support([1.0], -1), ValueError, "k: expected an integer of at least 1; got -1"),
        (lambda: top_k_support([1.0], 1.0), TypeError, "k: expected an integer; got 1.0"),  # type: ignore[arg-type]
        (lambda: top_k_support([1.0], True), TypeError, "k: expected an integer; got True"),
        (lambda: top_p_support([1.0], 0.0), ValueError, "p: expected a mass above 0; got 0.0"),
        (lambda: top_p_support([1.0], -0.1), ValueError, "p: expected a number from 0 to 1; got -0.1"),
        (lambda: top_p_support([1.0], 1.1), ValueError, "p: expected a number from 0 to 1; got 1.1"),
        (lambda: top_p_support([1.0], math.nan), ValueError, "p: expected a number from 0 to 1; got nan"),
        (lambda: top_p_support([1.0], "1"), TypeError, "p: expected a number; got '1'"),  # type: ignore[arg-type]
        (lambda: restrict([1.0], []), ValueError, "support: expected at least one value; got []"),
        (lambda: restrict([1.0], [1]), ValueError, "support[0]: expected an integer from 0 to 0; got 1"),
        (lambda: restrict([1.0], [-1]), ValueError, "support[0]: expected an integer from 0 to 0; got -1"),
        (lambda: restrict([1.0], "0"), TypeError, "support: expected a sequence of values; got '0'"),  # type: ignore[arg-type]
        (lambda: restrict([1.0, 0.0], [1]), ValueError, "support: it has no mass; got [1]"),
    ],
)
def test_support_refuses_by_name(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message
