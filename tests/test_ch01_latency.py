"""Two phases and their cost (chapter 1): a second implementation, identities and exact sums as oracles."""

from __future__ import annotations

import math
import random
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch01 import PriceSnapshot, cost_per_resolved_usd, simulate_decode, tpot_ms

exact = settings(deadline=None, derandomize=True)
COUNT = st.integers(0, 300)
MS = st.floats(0.0, 1e4)


def test_the_printed_run_of_the_source() -> None:
    times = simulate_decode(prompt_tokens=800, output_tokens=20)
    assert len(times) == 20
    assert f"{times[0]:.1f} {tpot_ms(times):.1f} {times[-1]:.1f}" == "328.0 18.3 675.6"
    assert round(tpot_ms(times) * 19, 1) == 347.6
    assert round(tpot_ms(times) * 20, 1) == 365.9
    long = simulate_decode(800, 200)
    assert f"{long[0] / 1000:.2f} {long[-1] / 1000:.2f}" == "0.33 3.92"


def naive(
    prompt: int, output: int, fixed: float, prefill: float, step: float, jitter: float, seed: int
) -> list[float]:
    """The same clock by absolute sums: token k arrives after the first k gaps."""
    rng = random.Random(seed)
    gaps = [step + (2 * rng.random() - 1) * jitter for _ in range(max(0, output - 1))]
    return [fixed + prompt * prefill + math.fsum(gaps[:k]) for k in range(output)]


@exact
@given(COUNT, st.integers(0, 60), MS, MS, MS, st.floats(0.0, 1.0), st.integers(0, 9))
def test_simulate_decode_agrees_with_a_second_implementation(
    prompt: int, output: int, fixed: float, prefill: float, step: float, share: float, seed: int
) -> None:
    jitter = step * share
    times = simulate_decode(
        prompt,
        output,
        prefill_ms_per_token=prefill,
        decode_ms_per_token=step,
        jitter_ms=jitter,
        seed=seed,
        fixed_ms=fixed,
    )
    assert times == pytest.approx(
        naive(prompt, output, fixed, prefill, step, jitter, seed), rel=1e-9, abs=1e-6
    )
    assert len(times) == output
    assert all(a <= b for a, b in pairwise(times))
    if output > 1:
        # total = TTFT + TPOT x (N - 1), and the mean gap stays within the jitter around the step
        assert times[0] + tpot_ms(times) * (output - 1) == pytest.approx(times[-1])
        assert step - jitter <= tpot_ms(times) * (1 + 1e-9) + 1e-6
        assert tpot_ms(times) * (1 - 1e-9) - 1e-6 <= step + jitter


@exact
@given(COUNT, COUNT, st.integers(2, 40))
def test_the_phases_are_independent(prompt: int, more: int, output: int) -> None:
    short, long = simulate_decode(prompt, output), simulate_decode(prompt + more, output)
    assert long[0] - short[0] == pytest.approx(0.4 * more, abs=1e-6)
    assert long[-1] - long[0] == pytest.approx(short[-1] - short[0], abs=1e-6)
    assert simulate_decode(prompt, output)[:-1] == simulate_decode(prompt, output - 1)


def test_a_budget_of_no_tokens_returns_no_token() -> None:
    assert simulate_decode(800, 0) == []
    assert len(simulate_decode(800, 1)) == 1
    assert simulate_decode(0, 1, fixed_ms=0.0) == [0.0]


@pytest.mark.parametrize("times", [[], (), [5.0], (0.0,)])
def test_fewer_than_two_arrivals_have_no_gap(times: Any) -> None:
    assert math.isnan(tpot_ms(times))


@exact
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=40).map(sorted))
def test_tpot_is_the_mean_gap_exactly(times: list[int]) -> None:
    gaps = [Fraction(b - a) for a, b in pairwise(times)]
    assert tpot_ms(times) == pytest.approx(float(sum(gaps) / len(gaps)))


@pytest.mark.parametrize("times", [[2.0, 1.0], [1.0, math.nan], [1.0, math.inf], [-1.0, 1.0], [-1.0]])
def test_times_that_are_none_are_refused(times: list[float]) -> None:
    with pytest.raises(ValueError, match="token_times_ms"):
        tpot_ms(times)


@pytest.mark.parametrize("times", ["", b"", "12", None, 3, np.array(0.5)])
def test_times_that_are_no_sequence_are_refused(times: Any) -> None:
    with pytest.raises(TypeError, match=r"^token_times_ms: expected a sequence of values; got "):
        tpot_ms(times)


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"prompt_tokens": -1}, ValueError, "prompt_tokens"),
        ({"prompt_tokens": 1.5}, TypeError, "prompt_tokens"),
        ({"output_tokens": -1}, ValueError, "output_tokens"),
        ({"output_tokens": True}, TypeError, "output_tokens"),
        ({"jitter_ms": 18.1}, ValueError, "jitter_ms"),
        ({"jitter_ms": -0.1}, ValueError, "jitter_ms"),
        ({"prefill_ms_per_token": math.nan}, ValueError, "prefill_ms_per_token"),
        ({"decode_ms_per_token": math.inf}, ValueError, "decode_ms_per_token"),
        ({"fixed_ms": -8.0}, ValueError, "fixed_ms"),
        ({"fixed_ms": "8"}, TypeError, "fixed_ms"),
        ({"prompt_tokens": 10**400}, ValueError, "prompt_tokens"),
        ({"output_tokens": 10**400}, ValueError, "output_tokens"),
        ({"seed": []}, TypeError, "seed"),
        ({"seed": "1"}, TypeError, "seed"),
        ({"seed": None}, TypeError, "seed"),
    ],
)
def test_bad_arguments_are_named(changes: dict[str, Any], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=f"^{name}"):
        simulate_decode(**{"prompt_tokens": 8, "output_tokens": 2, **changes})


# --- cost -----------------------------------------------------------------------------------------------

PRINTED = PriceSnapshot(50.0, 400.0, date(2026, 7, 20), "the source")


def test_the_printed_costs_of_the_source() -> None:
    raw = PRINTED.call_usd(800, 200)
    assert raw == 0.12
    assert [f"{cost_per_resolved_usd(raw, rate):.4f}" for rate in (0.95, 0.6)] == ["0.1263", "0.2000"]
    assert cost_per_resolved_usd(raw, 0.6) / cost_per_resolved_usd(raw, 0.95) > 1.5
    assert PriceSnapshot(0.05, 0.40, date(2026, 7, 20), "per million").call_usd(800, 200) == pytest.approx(
        0.00012
    )


@exact
@given(COUNT, COUNT, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_call_costs_its_tokens_at_the_price_per_million(
    read: int, written: int, inp: int, out: int
) -> None:
    snapshot = PriceSnapshot(inp / 100, out / 100, date(2026, 1, 1), "x")
    want = (read * Fraction(inp, 100) + written * Fraction(out, 100)) / 10**6
    assert snapshot.call_usd(read, written) == pytest.approx(float(want), rel=1e-12)


@pytest.mark.parametrize("name", ["prompt_tokens", "output_tokens"])
@pytest.mark.parametrize("bad", [-1, 10**400])
def test_token_counts_that_cannot_be_are_refused(name: str, bad: int) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected an integer from 0 "):
        PRINTED.call_usd(**{"prompt_tokens": 1, "output_tokens": 1, name: bad})


def expected_by_outcomes(call: Fraction, rate: Fraction, tries: int, handoff: Fraction) -> Fraction:
    """Enumerate how the task can end: a success at try k, or all tries failed and a person."""
    ends = [((1 - rate) ** k * rate, (k + 1) * call) for k in range(tries)]
    ends.append(((1 - rate) ** tries, tries * call + handoff))
    assert sum(chance for chance, _ in ends) == 1
    return sum((chance * paid for chance, paid in ends), Fraction(0))


@exact
@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 8), st.integers(0, 500))
def test_limited_tries_cost_what_enumeration_says(cents: int, percent: int, tries: int, person: int) -> None:
    got = cost_per_resolved_usd(cents / 100, percent / 100, max_tries=tries, handoff_usd=person / 100)
    want = expected_by_outcomes(Fraction(cents, 100), Fraction(percent, 100), tries, Fraction(person, 100))
    assert got == pytest.approx(float(want), abs=1e-12)


@exact
@given(st.floats(0.0, 10.0), st.floats(0.05, 1.0))
def test_unlimited_tries_are_the_limit_of_many(call: float, rate: float) -> None:
    assert cost_per_resolved_usd(call, rate, max_tries=900) == pytest.approx(
        cost_per_resolved_usd(call, rate)
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"success_rate": 0.0}, "success_rate"),
        ({"success_rate": 1.1}, "success_rate"),
        ({"success_rate": math.nan}, "success_rate"),
        ({"call_usd": -0.1}, "call_usd"),
        ({"call_usd": math.inf}, "call_usd"),
        ({"max_tries": -1}, "max_tries"),
        ({"handoff_usd": -1.0}, "handoff_usd"),
    ],
)
def test_costs_and_rates_that_are_none_are_refused_by_name(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        cost_per_resolved_usd(**{"call_usd": 0.1, "success_rate": 0.5, **arguments})


def test_a_success_rate_of_zero_has_a_cost_once_a_person_takes_over() -> None:
    assert cost_per_resolved_usd(0.1, 0.0, max_tries=3, handoff_usd=2.0) == pytest.approx(2.3)


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"input_usd_per_million": -1.0}, ValueError, "input_usd_per_million"),
        ({"output_usd_per_million": math.nan}, ValueError, "output_usd_per_million"),
        ({"checked": "2026-07-20"}, TypeError, "checked"),
        ({"origin": " "}, ValueError, "origin"),
    ],
)
def test_a_price_without_unit_date_or_origin_is_refused(
    changes: dict[str, Any], error: type[Exception], name: str
) -> None:
    good = {
        "input_usd_per_million": 1.0,
        "output_usd_per_million": 1.0,
        "checked": date(2026, 1, 1),
        "origin": "x",
    }
    with pytest.raises(error, match=f"^{name}"):
        PriceSnapshot(**{**good, **changes})
