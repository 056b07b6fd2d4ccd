"""Confidence, calibration and abstention (chapter 1): exact arithmetic and exhaustive search as oracles."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch01 import (
    POLICY,
    CalibrationBin,
    break_even_confidence,
    brier_score,
    calibration_table,
    decide_response,
    expected_calibration_error,
    graded_answers,
    semantic_entropy_bits,
    settle_response,
    token_confidence,
    wilson_interval,
)

exact = settings(deadline=None, derandomize=True)
UNIT = st.floats(0.0, 1.0)
GRID = [(c / 20, e / 20) for c in range(21) for e in range(21)]
SLICE = [
    (0.95, 1),
    (0.92, 0),
    (0.91, 1),
    (0.90, 0),
    (0.72, 1),
    (0.70, 0),
    (0.68, 1),
    (0.65, 0),
    (0.55, 1),
    (0.52, 0),
]
TREATY = [-0.03, -0.02, -0.05, -0.03, -0.04, -0.02, -0.06, -0.03, -0.02, -0.04]
NOT_UNIT = [-0.01, 1.01, math.nan, math.inf, -math.inf]


# --- token confidence -----------------------------------------------------------------------------------


def test_the_treaty_answer_prints_as_the_source_prints_it() -> None:
    probs = [token_confidence(score) for score in TREATY]
    assert [round(p, 3) for p in probs] == [0.97, 0.98, 0.951, 0.97, 0.961, 0.98, 0.942, 0.97, 0.98, 0.961]
    assert round(math.fsum(probs) / len(probs), 3) == 0.967
    assert round(math.prod(probs), 4) == 0.7118


@exact
@given(st.floats(-700.0, 0.0))
def test_token_confidence_agrees_with_mpmath(logprob: float) -> None:
    assert token_confidence(logprob) == pytest.approx(float(mpmath.exp(mpmath.mpf(logprob))), rel=1e-15)


@pytest.mark.parametrize("logprob", [0.01, math.nan, math.inf, -math.inf])
def test_a_logprob_that_is_none_is_refused(logprob: float) -> None:
    with pytest.raises(ValueError, match="logprob"):
        token_confidence(logprob)


# --- semantic entropy -----------------------------------------------------------------------------------


@exact
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_semantic_entropy_is_the_entropy_of_the_group_shares(labels: list[int]) -> None:
    answers = [f"{label}/{i}" for i, label in enumerate(labels)]
    got = semantic_entropy_bits(answers, lambda a, b: a.split("/")[0] == b.split("/")[0])
    shares = [mpmath.mpf(labels.count(label)) / len(labels) for label in set(labels)]
    assert got == pytest.approx(float(-sum(p * mpmath.log(p, 2) for p in shares)), abs=1e-12)
    assert semantic_entropy_bits(answers, lambda a, b: True) == 0.0
    assert semantic_entropy_bits(answers, lambda a, b: False) == pytest.approx(math.log2(len(answers)))


def test_semantic_entropy_refuses_no_answers_and_other_things_than_text() -> None:
    with pytest.raises(ValueError, match="answers"):
        semantic_entropy_bits([], lambda a, b: True)
    with pytest.raises(TypeError, match=r"answers\[1\]"):
        semantic_entropy_bits(["a", 2], lambda a, b: True)  # type: ignore[list-item]


# --- Wilson interval ------------------------------------------------------------------------------------


def score_test_end(k: int, n: int, level: float, side: int) -> float:
    """Bisect for the rate at which the score statistic reaches the normal quantile."""
    z = mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(level))
    rate = mpmath.mpf(k) / n
    low, high = (mpmath.mpf(0), rate) if side < 0 else (rate, mpmath.mpf(1))
    for _ in range(120):
        middle = (low + high) / 2
        far = (rate - middle) ** 2 * n > z**2 * middle * (1 - middle)  # this rate is rejected
        if side < 0:
            low, high = (middle, high) if far else (low, middle)
        else:
            low, high = (low, middle) if far else (middle, high)
    return float((low + high) / 2)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(
    ("k", "n"), [(0, 1), (1, 1), (2, 4), (0, 10), (9, 10), (46, 50), (1, 2000), (1999, 2000)]
)
def test_wilson_ends_are_where_the_score_test_stops_rejecting(k: int, n: int, level: float) -> None:
    low, high = wilson_interval(k, n, level)
    assert low == pytest.approx(score_test_end(k, n, level, -1), abs=1e-9)
    assert high == pytest.approx(score_test_end(k, n, level, +1), abs=1e-9)


@exact
@given(
    st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.01, 0.999)
)
def test_wilson_holds_the_rate_and_mirrors(pair: tuple[int, int], level: float) -> None:
    k, n = pair
    low, high = wilson_interval(k, n, level)
    assert 0.0 <= low <= k / n <= high <= 1.0
    assert (low == 0.0) == (k == 0)
    assert (high == 1.0) == (k == n)
    mirrored = wilson_interval(n - k, n, level)
    assert (1.0 - mirrored[1], 1.0 - mirrored[0]) == pytest.approx((low, high), abs=1e-12)


def test_wilson_without_trials_says_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((5, 4), "successes"), ((-1, 4), "successes"), ((0, -1), "trials"), ((1, 4, 1.0), "confidence"),
     ((1, 4, 0.0), "confidence"), ((1, 4, math.nan), "confidence"), ((1, 10**400), "trials"),
     ((10**400, 10**400), "trials"), ((10**400, 4), "successes")],
)  # fmt: skip
def test_wilson_refuses_by_name(arguments: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        wilson_interval(*arguments)


# --- calibration ----------------------------------------------------------------------------------------


def test_the_slice_of_the_source_has_its_three_buckets() -> None:
    bins = calibration_table(SLICE)
    assert [(b.accuracy, b.count) for b in reversed(bins)] == [(0.5, 4), (0.5, 4), (0.5, 2)]
    assert expected_calibration_error(bins) == pytest.approx(0.25, abs=1e-12)
    assert round(brier_score(SLICE), 3) == 0.323


PAIRS = st.lists(st.tuples(UNIT, st.integers(0, 1)), min_size=1, max_size=40)
EDGES = st.lists(st.floats(0.001, 0.999), max_size=6, unique=True).map(lambda m: [0.0, *sorted(m), 1.0])


@exact
@given(PAIRS, EDGES)
def test_every_answer_lands_in_the_one_bin_whose_definition_holds(
    pairs: list[tuple[float, int]], edges: list[float]
) -> None:
    bins = calibration_table(pairs, edges)
    assert [(b.low, b.high) for b in bins] == list(itertools.pairwise(edges))
    gap = Fraction(0)
    for i, b in enumerate(bins):
        last = i == len(bins) - 1
        inside = [(c, ok) for c, ok in pairs if b.low <= c and (c < b.high or (last and c == b.high))]
        assert (b.count, b.correct) == (len(inside), sum(ok for _, ok in inside))
        assert math.isnan(b.accuracy) == (not inside)
        assert math.isnan(b.mean_confidence) == (not inside)
        if inside:
            stated = sum((Fraction(c) for c, _ in inside), Fraction(0)) / len(inside)
            right = Fraction(sum(ok for _, ok in inside), len(inside))
            assert b.mean_confidence == pytest.approx(float(stated), rel=1e-12, abs=1e-300)
            assert b.accuracy == pytest.approx(float(right))
            gap += Fraction(len(inside), len(pairs)) * abs(stated - right)
    assert sum(b.count for b in bins) == len(pairs)
    assert expected_calibration_error(bins) == pytest.approx(float(gap), abs=1e-12)
    brier = sum(((Fraction(c) - ok) ** 2 for c, ok in pairs), Fraction(0)) / len(pairs)
    assert brier_score(pairs) == pytest.approx(float(brier), abs=1e-12)


def test_an_edge_belongs_to_the_bin_above_it_and_one_to_the_last() -> None:
    counts = {edge: [b.count for b in calibration_table([(edge, 1)])] for edge in (0.0, 0.6, 0.9, 1.0)}
    assert counts == {0.0: [1, 0, 0], 0.6: [0, 1, 0], 0.9: [0, 0, 1], 1.0: [0, 0, 1]}


@pytest.mark.parametrize("bad", NOT_UNIT)
def test_confidences_outside_the_unit_interval_are_refused_with_their_place(bad: float) -> None:
    with pytest.raises(ValueError, match=r"pairs\[1\]\[0\]"):
        calibration_table([(0.5, 1), (bad, 0)])


@pytest.mark.parametrize("outcome", [2, -1, 0.5, math.nan, "yes", None, np.array([1, 2]), [1]])
def test_outcomes_that_are_neither_right_nor_wrong_are_refused(outcome: Any) -> None:
    with pytest.raises(ValueError, match=r"pairs\[0\]\[1\]"):
        graded_answers([(0.5, outcome)])


@pytest.mark.parametrize("edges", [[0.0, 0.5], [0.1, 1.0], [0.0, 0.5, 0.5, 1.0], [0.0, 0.6, 0.4, 1.0], [0.0]])
def test_edges_must_cover_the_unit_interval_in_order(edges: list[float]) -> None:
    with pytest.raises(ValueError, match="edges"):
        calibration_table([(0.5, 1)], edges)


def test_no_answers_have_no_error() -> None:
    with pytest.raises(ValueError, match="pairs"):
        calibration_table([])
    with pytest.raises(ValueError, match="bins"):
        expected_calibration_error([CalibrationBin(0.0, 1.0, 0, 0, 0.0)])
    with pytest.raises(TypeError, match=r"pairs\[0\]"):
        brier_score([0.5])  # type: ignore[list-item]


@pytest.mark.parametrize("bins", [[1], None, "bins", [CalibrationBin(0.0, 1.0, 1, 1, 0.5), (0.0, 1.0, 1)]])
def test_only_bins_have_a_calibration_error(bins: Any) -> None:
    with pytest.raises(TypeError, match=r"^bins(\[[01]\])?: expected "):
        expected_calibration_error(bins)


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"low": -0.1}, ValueError, "low"),
        ({"low": 0.7, "high": 0.6}, ValueError, "high"),
        ({"high": 1.1}, ValueError, "high"),
        ({"high": math.nan}, ValueError, "high"),
        ({"count": -1}, ValueError, "count"),
        ({"count": 2.0}, TypeError, "count"),
        ({"correct": 3}, ValueError, "correct"),
        ({"correct": None}, TypeError, "correct"),
        ({"stated": 2.1}, ValueError, "stated"),
        ({"stated": math.nan}, ValueError, "stated"),
        ({"stated": "1"}, TypeError, "stated"),
    ],
)
def test_a_bin_that_cannot_be_is_refused(changes: dict[str, Any], error: type[Exception], name: str) -> None:
    good: dict[str, Any] = {"low": 0.0, "high": 1.0, "count": 2, "correct": 2, "stated": 2.0}
    assert CalibrationBin(**good).accuracy == 1.0
    with pytest.raises(error, match=f"^{name}: expected "):
        CalibrationBin(**{**good, **changes})


# --- abstention -----------------------------------------------------------------------------------------


def test_the_three_printed_decisions_of_the_source() -> None:
    cases = [(0.97, 0.0), (0.90, 0.9), (0.60, 0.3)]
    assert [decide_response(*case) for case in cases] == ["abstain", "answer", "retrieve"]


def test_the_borders_belong_to_the_better_side() -> None:
    assert decide_response(0.70, 0.50) == "answer"
    assert decide_response(0.70, 0.49) == "abstain"
    assert decide_response(0.69, 0.49) == "retrieve"


def published_rule(confidence: float, evidence: float) -> str:
    """The rule as the source words it: abstain on unsupported confidence, answer on both, else retrieve."""
    if confidence < 0.7:
        return "retrieve"
    return "answer" if evidence >= 0.5 else "abstain"


def test_with_a_retrieval_left_the_rule_is_the_published_one() -> None:
    for confidence, evidence in GRID:
        for left in (1, 2, 7):
            got = decide_response(confidence, evidence, retrievals_left=left)
            assert got == published_rule(confidence, evidence), (confidence, evidence, left)


def test_without_a_retrieval_left_the_rule_ends() -> None:
    for confidence, evidence in GRID:
        expected = "answer" if confidence >= 0.7 and evidence >= 0.5 else "abstain"
        got = decide_response(confidence, evidence, retrievals_left=0)
        assert got == expected, (confidence, evidence)


def test_the_table_is_complete_and_only_its_budget_rows_retrieve() -> None:
    assert set(POLICY) == set(itertools.product([True, False], repeat=3))
    assert set(POLICY.values()) == {"answer", "retrieve", "abstain"}
    assert all(action != "retrieve" for (_, _, may), action in POLICY.items() if not may)
    assert all(supported for (supported, _, _), action in POLICY.items() if action == "answer")


RANK = {"abstain": 0, "retrieve": 1, "answer": 2}


@exact
@given(UNIT, UNIT, UNIT, UNIT, UNIT, st.integers(0, 3))
def test_more_evidence_never_makes_the_decision_worse(
    confidence: float, one: float, other: float, threshold: float, support: float, left: int
) -> None:
    less, more = sorted((one, other))
    ranks = [
        RANK[decide_response(confidence, e, threshold, evidence_threshold=support, retrievals_left=left)]
        for e in (less, more)
    ]
    assert ranks[0] <= ranks[1]


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_the_loop_ends_from_every_grid_point(budget: int) -> None:
    for confidence, evidence in GRID:
        asked: list[int] = []

        def assess(
            used: int, seen: list[int] = asked, pair: tuple[float, float] = (confidence, evidence)
        ) -> Any:
            seen.append(used)
            return pair

        action, used = settle_response(assess, retrievals=budget)
        assert action in ("answer", "abstain")
        assert asked == list(range(used + 1))
        assert used == (budget if confidence < 0.7 else 0)
        assert action == decide_response(confidence, evidence, retrievals_left=0)


@exact
@given(st.lists(st.tuples(UNIT, UNIT), min_size=6, max_size=6), st.integers(0, 5), UNIT, UNIT)
def test_the_loop_ends_whatever_retrieval_returns(
    found: list[tuple[float, float]], budget: int, threshold: float, support: float
) -> None:
    action, used = settle_response(
        lambda n: found[n], retrievals=budget, threshold=threshold, evidence_threshold=support
    )
    assert used <= budget
    confidence, evidence = found[used]
    if action == "answer":
        assert confidence >= threshold
        assert evidence >= support
    else:
        assert action == "abstain"
        assert evidence < support or confidence < threshold


@pytest.mark.parametrize("bad", NOT_UNIT)
@pytest.mark.parametrize("name", ["confidence", "evidence_score", "threshold", "evidence_threshold"])
def test_scores_and_thresholds_outside_the_unit_interval_are_refused_by_name(name: str, bad: float) -> None:
    arguments = {
        "confidence": 0.9,
        "evidence_score": 0.9,
        "threshold": 0.7,
        "evidence_threshold": 0.5,
        name: bad,
    }
    with pytest.raises(ValueError, match=f"^{name}:"):
        decide_response(**arguments)


@pytest.mark.parametrize(("left", "error"), [(-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_a_budget_is_a_count(left: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="retrievals_left"):
        decide_response(0.9, 0.9, retrievals_left=left)
    with pytest.raises(error, match="retrievals"):
        settle_response(lambda used: (0.9, 0.9), retrievals=left)


COST = st.integers(0, 10_000).map(lambda cents: cents / 100)


@exact
@given(COST, COST)
def test_break_even_is_where_answering_and_handing_off_cost_the_same(wrong: float, handoff: float) -> None:
    bar = break_even_confidence(wrong, handoff)
    assert 0.0 <= bar <= 1.0
    if wrong > handoff:
        assert (1.0 - bar) * wrong == pytest.approx(handoff, abs=1e-9)
    else:
        assert bar == 0.0


@pytest.mark.parametrize("bad", [-0.01, math.nan, math.inf])
def test_break_even_refuses_costs_that_are_none(bad: float) -> None:
    with pytest.raises(ValueError, match="wrong_usd"):
        break_even_confidence(bad, 1.0)
    with pytest.raises(ValueError, match="handoff_usd"):
        break_even_confidence(1.0, bad)
