"""The second half of The Operational On-Ramp in the ledger: oracles, notes, functions broken on purpose."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from modelcall import ch01
from modelcall.lab import ledger, ledger_cells, ledger_figures

ROOT = Path(__file__).resolve().parent.parent
BY_ID = {entry.id: entry for entry in ledger.load()}
SECOND_HALF = [e for e in BY_ID.values() if e.section in ("B.1.0", "B.1.4", "B.1.6", "B.1.8")]
# The ladder by hand: calls and retries, and minutes of review, of the six rungs.
CALLS = [Fraction(calls) for calls in ("0", "1", "3.2", "7", "17", "34")]
REVIEW = [Fraction(minutes) for minutes in ("0", "0.5", "1", "3", "4", "8")]


def by_hand(price: str) -> list[Fraction]:
    """Return the cumulative cost of the six rungs at a price of one call, in exact arithmetic."""
    added = [calls * Fraction(price) + review for calls, review in zip(CALLS, REVIEW, strict=True)]
    return list(itertools.accumulate(added))


def test_the_second_half_has_35_entries() -> None:
    assert len(SECOND_HALF) == 35


def exact_mean() -> Decimal:
    return sum((Decimal(str(logprob)).exp() for logprob in ledger_cells.TREATY), Decimal(0)) / 10


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("B-treaty", exact_mean()),
        ("B-001", Decimal("-0.01").exp()),
        ("B-ttft", 8 + 800 * Fraction("0.4")),
        ("B-raw", 800 * Fraction("0.05") / 1000 + 200 * Fraction("0.4") / 1000),
        ("B-95", Fraction("0.12") / Fraction("0.95")),
        ("B-60", Fraction("0.12") / Fraction("0.6")),
        ("B-half", Fraction("0.95") / Fraction("0.6") - 1),
        ("B-memo", by_hand("0.02")[1]),
        ("B-triple", by_hand("0.02")[3] / by_hand("0.02")[2]),
        ("B-fig18", round(sum(CALLS) * Fraction("0.02") / by_hand("0.02")[5], 4)),
    ],
)
def test_values_in_exact_arithmetic(identifier: str, expected: Decimal | Fraction) -> None:
    assert math.isclose(ledger.recompute(BY_ID[identifier]), float(expected), rel_tol=1e-12)


def test_the_rule_of_the_source_is_ours_while_a_retrieval_is_left() -> None:
    """B-decide and B-cell-08 hold the source's rule to account, so ours must be the same function there."""
    scores = [i / 20 for i in range(21)]
    for sure, backed in itertools.product(scores, scores):
        confident, supported = sure >= 0.7, backed >= 0.5
        expected = ("answer" if supported else "abstain") if confident else "retrieve"
        assert ch01.decide_response(sure, backed) == expected, (sure, backed)


def test_the_numbers_in_notes_follow() -> None:
    shares = [ch01.token_confidence(logprob) for logprob in ledger_cells.TREATY]
    product = math.prod(shares)
    low, high = ch01.wilson_interval(2, 4)
    times = ch01.simulate_decode(800, 20)
    low_usd, *more_usd, top_usd = (f"{float(usd):.2f}" for usd in by_hand("0.12")[1:])
    ladder = ", ".join([low_usd, *more_usd]) + f" and {top_usd}"
    rungs = ch01.autonomy_costs(ch01.LADDER)
    share = {p: round(100 * sum(CALLS) * Fraction(p) / by_hand(p)[5]) for p in ("0.02", "0.12")}
    said = {
        "B-treaty": f"geometric mean is {product**0.1:.4f}; the product of all ten is {product:.4f}.",
        "B-calib": f"95 percent interval is {low:.2f} to {high:.2f}. All three buckets are at 0.50",
        "B-fig15": f"{len(times) - 1} gaps between {len(times)} tokens, {times[-1] - times[0]:.1f} ms; "
        f"times {len(times)} would be {ch01.tpot_ms(times) * len(times):.1f} ms",
        "B-price": f"would cost {ledger_cells.call_usd(ledger_cells.PRICES, 10**6, 800, 200):.5f} USD",
        "B-callcost": f"{ladder}, and the model's share of it rises from {share['0.02']} percent to "
        f"{share['0.12']}.",
        "B-memo": f"gives {rungs[1][1]:.2f} for that rung; {ch01.LADDER[1].review_minutes:.2f} is the review "
        f"alone. The memo also asks for level 2 but prices level 1, and level 2 adds {rungs[2][1]:.2f}.",
        "B-triple": f"{rungs[3][2] / rungs[2][2]:.2f} times cumulatively, {rungs[3][1] / rungs[2][1]:.2f} by",
        "B-fig18": f"{share['0.02']} percent at the highest rung",
        "B-deadline": f"takes {ch01.simulate_decode(800, 200)[-1] / 1000:.2f} s",
    }
    for identifier, text in said.items():
        assert text in BY_ID[identifier].note, f"{identifier}: {text!r} is not in {BY_ID[identifier].note!r}"
    assert times[-1] - times[0] > times[0], BY_ID["B-exp"].note
    assert {b.accuracy for b in ch01.calibration_table(ledger_cells.ANSWERS)} == {0.5}


def test_what_is_typed_in_is_the_same_on_the_page_and_is_labelled_there() -> None:
    """B-live: a page should say of such values that they are inputs. Ours does, on each of them."""
    text = (ROOT / "chapters" / "01-on-ramp.md").read_text(encoding="utf-8")
    text = text[text.index("\ntreaty_logprobs = ") :]  # `stated` is another list before

    def labelled(name: str) -> list[float]:
        parts = re.findall(rf"^{name} \+?= (\[[^\]]*\])(.*)$", text, flags=re.M)
        assert parts and {label for _, label in parts} == {"  # input"}, f"{name} is not labelled as an input"
        return [value for part, _ in parts for value in ast.literal_eval(part)]

    assert labelled("treaty_logprobs") == list(ledger_cells.TREATY)
    assert list(zip(labelled("stated"), labelled("right"), strict=True)) == list(ledger_cells.ANSWERS)
    assert tuple(BY_ID["B-usage"].inputs.values()) == ledger_cells.USAGE
    assert set(ledger_cells.ASSERTED) == set(BY_ID["B-live"].inputs["asserted"])


# --- functions broken on purpose ---------------------------------------------------------------------


def scaled(function: Callable[..., Any], by: float) -> Callable[..., Any]:
    """Return the function with every number in its result multiplied."""

    def times(value: Any) -> Any:
        if isinstance(value, float):
            return value * by
        return type(value)(times(item) for item in value) if isinstance(value, list | tuple) else value

    return lambda *args, **kwargs: times(function(*args, **kwargs))


def last_dropped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs)[:-1]


LATENCY = {"B-cell-09", "B-ttft", "B-tpot", "B-total", "B-fig15", "B-ttft-def", "B-exp", "B-deadline"}
LADDER = {"B-cell-11", "B-memo", "B-fig18"}
PRICED = {"B-cell-10", "B-raw", "B-price", "B-callcost"}


@pytest.mark.parametrize(
    ("name", "broken", "expected"),
    [
        ("token_confidence", scaled(ch01.token_confidence, 0.99), {"B-cell-06", "B-treaty", "B-001"}),
        ("calibration_table", lambda pairs: ch01.calibration_table(pairs, (0, 0.6, 0.93, 1)), {"B-cell-07"}),
        ("decide_response", lambda sure, backed: "answer", {"B-cell-08", "B-decide"}),
        ("simulate_decode", scaled(ch01.simulate_decode, 1.2), LATENCY),
        (
            "simulate_decode",
            last_dropped(ch01.simulate_decode),
            {"B-cell-09", "B-ttft", "B-total", "B-fig15"},
        ),
        ("tpot_ms", lambda times: (times[-1] - times[0]) / len(times), {"B-cell-09", "B-tpot"}),
        ("cost_per_resolved_usd", lambda call, rate: call * rate, {"B-cell-10", "B-95", "B-60", "B-half"}),
        ("autonomy_costs", scaled(ch01.autonomy_costs, 1.1), {*LADDER, "B-callcost"}),
        ("cost_parts", scaled(ch01.cost_parts, 1.1), {"B-fig18"}),
        ("LADDER", ch01.LADDER[:-1], {"B-rungs", "B-run-12", "B-cell-11", "B-fig18"}),
        ("PERMISSIONS", ch01.MECHANISMS, {"B-levels"}),
    ],
)
def test_a_broken_function_is_found_in_the_entries_that_use_it(
    name: str, broken: Any, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ch01, name, broken)
    found = {problem.id for problem in ledger.check(SECOND_HALF).problems}
    assert expected <= found, f"not found: {expected - found}"
    assert found < set(BY_ID), "the rest is still checked"


def test_a_broken_price_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ch01.PriceSnapshot, "call_usd", lambda self, read, written: (read + written) / 1e6)
    found = {problem.id for problem in ledger.check(SECOND_HALF).problems}
    assert found == PRICED


def test_a_renamed_function_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("decide_response", "autonomy_costs"):
        monkeypatch.delattr(ch01, name)
    found = {problem.id: problem for problem in ledger.check(SECOND_HALF).problems}
    assert {"B-run-09", "B-run-11"} <= set(found)
    assert "modelcall.ch01.decide_response" in found["B-run-09"].got


def test_an_input_that_the_source_does_not_type_in_is_refused() -> None:
    bad = BY_ID["B-live"].model_copy(update={"inputs": {"asserted": ["tokens of the refund sentence"]}})
    (problem,) = ledger.check([bad]).problems
    assert "KeyError: 'tokens of the refund sentence'" in problem.got


# --- the helpers -------------------------------------------------------------------------------------


def test_levels_of_one_scale_are_comparable_and_of_two_are_not() -> None:
    for scale in (ch01.PERMISSIONS, ch01.MECHANISMS):
        assert ledger_cells.comparable(scale[1], scale[2])
    assert not ledger_cells.comparable(ch01.PERMISSIONS[1], ch01.MECHANISMS[2])


def test_gaps_at_both_limits_are_within_and_beyond_either_are_not() -> None:
    times = [1.0, 2.0, 4.0]
    assert ledger_cells.gaps_within(times, 1.0, 2.0)
    assert not ledger_cells.gaps_within(times, 1.1, 2.0)
    assert not ledger_cells.gaps_within(times, 1.0, 1.9)


def test_a_bar_without_an_area_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ch01, "simulate_decode", lambda prompt, output: [328.0, 328.0])
    assert ledger_figures.bars_of_figure_5() == 1
