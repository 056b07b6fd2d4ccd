"""The authority ladder and the memo (chapter 1): exact sums, the two scales, and the gates."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch01 import (
    LADDER,
    MECHANISMS,
    PERMISSIONS,
    AgencyBudgetMemo,
    MechanismLevel,
    Permission,
    ReleaseContract,
    Rung,
    autonomy_costs,
    cost_parts,
    memo_markdown,
    memo_problems,
    release_decision,
    simulate_decode,
)

exact = settings(deadline=None, derandomize=True)
QUARTERS = st.integers(0, 400).map(lambda k: k / 4)
RUNGS = st.lists(
    st.builds(Rung, st.text(max_size=5), QUARTERS, QUARTERS, QUARTERS, st.integers(0, 900)), min_size=1
)


def test_the_printed_ladder_of_the_source() -> None:
    printed = [
        f"{name:20} +{step:6.2f} USD/task   cumulative {total:6.2f} USD/task"
        for name, step, total in autonomy_costs(LADDER)
    ]
    assert printed == [
        "conventional         +  0.00 USD/task   cumulative   0.00 USD/task",
        "one model call       +  0.52 USD/task   cumulative   0.52 USD/task",
        "fixed workflow       +  1.06 USD/task   cumulative   1.58 USD/task",
        "bounded agent        +  3.14 USD/task   cumulative   4.72 USD/task",
        "coordinated agents   +  4.34 USD/task   cumulative   9.06 USD/task",
        "delegated operation  +  8.68 USD/task   cumulative  17.74 USD/task",
    ]


def test_the_ladder_at_the_other_call_price() -> None:
    totals = [total for _, _, total in autonomy_costs(LADDER, call_cost=0.12)]
    assert totals == pytest.approx([0.0, 0.62, 2.004, 5.844, 11.884, 23.964])
    for price in (Fraction(2, 100), Fraction(12, 100)):
        calls, review = Fraction(622, 10) * price, Fraction(165, 10)  # 55 calls and 7.2 retries; 16.5 minutes
        parts = cost_parts(LADDER, float(price))
        assert math.fsum(c for _, c, _ in parts) == pytest.approx(float(calls))
        assert math.fsum(c for _, c, _ in parts) / autonomy_costs(LADDER, float(price))[-1][
            2
        ] == pytest.approx(float(calls / (calls + review)))


@exact
@given(RUNGS, st.integers(0, 200), st.integers(0, 500))
def test_costs_are_the_exact_sums(rungs: list[Rung], call_cents: int, minute_cents: int) -> None:
    rows = autonomy_costs(rungs, call_cents / 100, minute_cents / 100)
    call, minute, total = Fraction(call_cents, 100), Fraction(minute_cents, 100), Fraction(0)
    assert [row[0] for row in rows] == [rung.name for rung in rungs]
    for rung, (_, step, so_far) in zip(rungs, rows, strict=True):
        calls = Fraction(rung.extra_calls) + Fraction(rung.expected_retries)
        want = calls * call + Fraction(rung.review_minutes) * minute
        total += want
        assert step == pytest.approx(float(want), rel=1e-12, abs=1e-12)
        assert so_far == pytest.approx(float(total), rel=1e-12, abs=1e-12)
    assert all(before[2] <= after[2] for before, after in pairwise(rows))
    parts = cost_parts(rungs, call_cents / 100, minute_cents / 100)
    assert [calls + review for _, calls, review in parts] == [step for _, step, _ in rows]


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: autonomy_costs([]), ValueError, "rungs"),
        (lambda: autonomy_costs(["one model call"]), TypeError, r"rungs\[0\]"),  # type: ignore[list-item]
        (lambda: autonomy_costs(LADDER, call_cost=-0.02), ValueError, "call_cost"),
        (lambda: autonomy_costs(LADDER, call_cost=math.nan), ValueError, "call_cost"),
        (
            lambda: autonomy_costs(LADDER, reviewer_cost_per_minute=math.inf),
            ValueError,
            "reviewer_cost_per_minute",
        ),
        (lambda: Rung("x", -1, 0, 0, 1), ValueError, "extra_calls"),
        (lambda: Rung("x", 1, math.nan, 0, 1), ValueError, "expected_retries"),
        (lambda: Rung("x", 1, 0, math.inf, 1), ValueError, "review_minutes"),
        (lambda: Rung("x", 1, 0, 0, -1), ValueError, "blast_radius_records"),
        (lambda: Rung("x", 1, 0, 0, 1.5), TypeError, "blast_radius_records"),  # type: ignore[arg-type]
        (lambda: Rung(None, 1, 0, 0, 1), TypeError, "name"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_named(make: Any, error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=f"^{name}"):
        make()


# --- two scales -----------------------------------------------------------------------------------------


def test_each_scale_has_six_levels_in_order_and_no_empty_field() -> None:
    for scale in (PERMISSIONS, MECHANISMS):
        assert [step.level for step in scale] == list(range(6))
        assert sorted(scale, reverse=True) == list(reversed(scale))  # type: ignore[type-var]
    for p in PERMISSIONS:
        assert all((p.name, p.capability, p.failure, p.control, p.owner))
    assert tuple(step.rung for step in MECHANISMS) == LADDER


def test_the_scales_do_not_compare_with_each_other() -> None:
    permission, mechanism = PERMISSIONS[1], MECHANISMS[1]
    assert isinstance(permission, Permission)
    assert isinstance(mechanism, MechanismLevel)
    assert permission.level == mechanism.level
    assert permission != mechanism
    with pytest.raises(TypeError, match="not supported between instances"):
        permission < mechanism  # type: ignore[operator]  # noqa: B015


# --- memo and gates -------------------------------------------------------------------------------------

MEMO = AgencyBudgetMemo(
    "drafts", "as often right as people", "a rule", {"draft": PERMISSIONS[1], "pay": None}, (LADDER[1],),
    800, 200, 3.0, ReleaseContract(human_rate=0.9), "support", 30,
)  # fmt: skip


def test_the_memo_prices_itself_with_the_cost_function() -> None:
    assert MEMO.increment_usd == pytest.approx(0.52, abs=1e-12)
    assert replace(MEMO, call_cost=0.12).increment_usd == pytest.approx(0.62, abs=1e-12)
    assert replace(MEMO, rungs=LADDER[1:3]).increment_usd == pytest.approx(1.584, abs=1e-12)
    assert replace(MEMO, reviewer_cost_per_minute=0.0).increment_usd == pytest.approx(0.02, abs=1e-12)
    with pytest.raises(ValueError, match="rungs"):
        _ = replace(MEMO, rungs=()).increment_usd


def test_the_memo_of_the_source_disagrees_with_its_cost_function() -> None:
    assert memo_problems(MEMO, claimed_usd=0.50) == ["increment: claimed 0.50 USD, computed 0.52 USD"]
    assert memo_problems(MEMO, claimed_usd=0.52) == []
    assert memo_problems(MEMO) == []


def test_a_memo_says_what_is_missing_and_what_is_late() -> None:
    assert memo_problems(replace(MEMO, outcome="", owner=" ")) == ["outcome: empty", "owner: empty"]
    late = memo_problems(replace(MEMO, prompt_cap_tokens=8000))
    assert late == ["deadline: first token after 3.21 s, limit 3 s"]
    edge = simulate_decode(800, 1)[0] / 1000
    assert memo_problems(replace(MEMO, ttft_deadline_s=edge)) == []


def test_the_page_carries_every_field_and_the_computed_increment() -> None:
    page = memo_markdown(MEMO)
    names = ["Outcome", "Baseline", "Authority", "Increment", "Caps", "Blast radius", "Release", "Owner"]
    assert [
        line.split(".**")[0].removeprefix("- **") for line in page.splitlines() if line.startswith("- ")
    ] == names
    for part in ["+0.52 USD", "draft: L1 draft", "pay: not granted", "800 tokens in, 200 out", "within 3 s",
                 "1 record(s)", "rate of 0.9", "above 20% edited", "support; review in 30 days"]:  # fmt: skip
        assert part in page
    assert "25 record(s)" in memo_markdown(replace(MEMO, rungs=LADDER[:4]))


MEMO_FAULTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(({name: None}, TypeError, name) for name in ("feature", "outcome", "baseline", "owner", "release")),
    ({"authority": None}, TypeError, "authority"),
    ({"authority": {"pay": 5}}, TypeError, r"authority\['pay'\]"),
    ({"rungs": None}, TypeError, "rungs"),
    ({"rungs": ("one model call",)}, TypeError, r"rungs\[0\]"),
    ({"prompt_cap_tokens": -1}, ValueError, "prompt_cap_tokens"),
    ({"output_cap_tokens": 1.5}, TypeError, "output_cap_tokens"),
    ({"ttft_deadline_s": math.nan}, ValueError, "ttft_deadline_s"),
    ({"ttft_deadline_s": "3"}, TypeError, "ttft_deadline_s"),
    ({"review_days": -1}, ValueError, "review_days"),
    ({"call_cost": math.nan}, ValueError, "call_cost"),
    ({"reviewer_cost_per_minute": math.inf}, ValueError, "reviewer_cost_per_minute"),
]


@pytest.mark.parametrize(("changes", "error", "name"), MEMO_FAULTS)
def test_a_memo_of_other_values_is_refused(
    changes: dict[str, Any], error: type[Exception], name: str
) -> None:
    with pytest.raises(error, match=f"^{name}: expected "):
        replace(MEMO, **changes)


@pytest.mark.parametrize(("claim", "error"), [(math.nan, ValueError), ("0.52", TypeError)])
def test_a_claim_that_is_no_price_is_refused(claim: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^claimed_usd: expected a number"):
        memo_problems(MEMO, claimed_usd=claim)


@pytest.mark.parametrize("function", [memo_problems, memo_markdown])
def test_only_a_memo_is_read(function: Any) -> None:
    with pytest.raises(TypeError, match=r"^memo: expected a AgencyBudgetMemo; got None"):
        function(None)


CONTRACT = ReleaseContract(human_rate=0.9)


@pytest.mark.parametrize(
    ("golden", "abstained", "edited", "decision"),
    [
        ((500, 500), (9, 9), (0, 50), "ship"),
        ((480, 500), (9, 9), (10, 50), "ship"),  # twenty percent is not above twenty percent
        ((480, 500), (9, 9), (11, 50), "roll back"),
        ((500, 500), (0, 9), (11, 50), "roll back"),
        ((48, 50), (9, 9), (0, 50), "hold"),  # the point is above the human rate, the interval is not
        ((480, 500), (8, 9), (0, 50), "hold"),  # one unsupported claim was answered
        ((480, 500), (0, 0), (0, 50), "hold"),  # nobody has seen the abstention fire
        ((0, 0), (9, 9), (0, 0), "hold"),
        ((480, 500), (9, 9), (0, 0), "ship"),
    ],
)
def test_the_gates(
    golden: tuple[int, int], abstained: tuple[int, int], edited: tuple[int, int], decision: str
) -> None:
    assert release_decision(CONTRACT, golden=golden, abstained=abstained, edited=edited) == decision


@exact
@given(st.integers(1, 300), st.integers(0, 300), st.integers(1, 20))
def test_roll_back_is_exact_at_the_limit(drafts: int, edits: int, tenths: int) -> None:
    contract = ReleaseContract(human_rate=0.9, max_edit_rate=tenths / 20)
    edits = min(edits, drafts)
    got = release_decision(contract, golden=(500, 500), abstained=(9, 9), edited=(edits, drafts))
    assert (got == "roll back") == (Fraction(edits, drafts) > Fraction(tenths, 20))


@pytest.mark.parametrize("name", ["golden", "abstained", "edited"])
@pytest.mark.parametrize("pair", [(5, 4), (-1, 4)])
def test_counts_that_cannot_be_are_refused(name: str, pair: tuple[int, int]) -> None:
    counts: dict[str, Any] = {"golden": (1, 2), "abstained": (1, 2), "edited": (1, 2), name: pair}
    with pytest.raises(ValueError, match=rf"^{name}\[0\]: expected an integer from 0 to 4; got "):
        release_decision(CONTRACT, **counts)


@pytest.mark.parametrize("name", ["golden", "abstained", "edited"])
@pytest.mark.parametrize("pair", [None, (1,), 3, "12"])
def test_what_is_no_pair_of_counts_is_refused(name: str, pair: Any) -> None:
    counts: dict[str, Any] = {"golden": (1, 2), "abstained": (1, 2), "edited": (1, 2), name: pair}
    with pytest.raises(TypeError, match=f"^{name}: expected a pair"):
        release_decision(CONTRACT, **counts)
    with pytest.raises(TypeError, match=r"^contract: expected a ReleaseContract; got None"):
        release_decision(None, golden=(1, 2), abstained=(1, 2), edited=(1, 2))  # type: ignore[arg-type]


def test_a_fallback_is_text() -> None:
    with pytest.raises(TypeError, match=r"^fallback: expected text; got None"):
        ReleaseContract(0.9, fallback=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["human_rate", "max_edit_rate"])
@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_rates_outside_the_unit_interval_are_refused(name: str, bad: float) -> None:
    values: dict[str, Any] = {"human_rate": 0.9, name: bad}
    with pytest.raises(ValueError, match=f"^{name}"):
        ReleaseContract(**values)
