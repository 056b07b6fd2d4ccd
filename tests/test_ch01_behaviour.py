"""Post-training and the gateway (chapter 1): what moves with training, and what no text can move."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch01 import Gateway, NgramModel, ToolCall, continue_text

exact = settings(deadline=None, derandomize=True)
WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=25)


def counted(tokens: list[str], context: list[str], order: int) -> dict[str, Fraction]:
    """The definition, by scanning the text: the longest suffix of the context that something follows."""
    padded = [*tokens, "<end>"]
    for length in range(min(order, len(context)), -1, -1):
        tail = context[len(context) - length :]
        after = [padded[i] for i in range(length, len(padded)) if padded[i - length : i] == tail]
        if after:
            return {token: Fraction(after.count(token), len(after)) for token in set(after)}
    raise AssertionError("the empty context is always followed by something")


@exact
@given(WORDS, st.lists(st.sampled_from("abcd"), max_size=8), st.integers(1, 5))
def test_next_probs_are_the_shares_after_the_longest_known_context(
    tokens: list[str], context: list[str], order: int
) -> None:
    model = NgramModel(order).fit(" ".join(tokens))
    got = model.next_probs(" ".join(context))
    expected = counted(tokens, context, order)
    assert got == {token: pytest.approx(float(share)) for token, share in expected.items()}
    assert math.fsum(got.values()) == pytest.approx(1.0)


def test_weight_counts_a_text_that_many_times() -> None:
    once, many = NgramModel(), NgramModel()
    for _ in range(5):
        once.fit("a b. a c.")
    assert many.fit("a b. a c.", weight=5).counts == once.counts


@exact
@given(WORDS, st.integers(0, 12), st.integers(1, 4))
def test_a_continuation_is_greedy_and_reports_the_probability_it_had(
    tokens: list[str], limit: int, order: int
) -> None:
    model = NgramModel(order).fit(" ".join(tokens))
    written = continue_text(model, tokens[0], max_tokens=limit)
    assert len(written) <= limit
    context = [tokens[0]]
    for token, probability in written:
        options = counted(tokens, context, order)
        assert probability == pytest.approx(float(options[token]))
        assert options[token] == max(options.values())
        assert token != NgramModel.END
        context.append(token)


HANDBOOK = (
    "The refund window is 30 days from delivery. List the refund window in one sentence. "
    "Then list the exchange window in one sentence."
)
PROMPT = "List the refund window in one sentence."


def test_demonstrations_move_the_behaviour_and_a_false_one_moves_it_just_as_well() -> None:
    def answer(days: int | None) -> str:
        model = NgramModel().fit(HANDBOOK)
        if days is not None:
            model.fit(f"{PROMPT} The refund window is {days} days from delivery.", weight=9)
        return " ".join(token for token, _ in continue_text(model, PROMPT))

    assert answer(None).startswith("Then list the exchange window")
    assert answer(30) == "The refund window is 30 days from delivery ."
    assert answer(90) == answer(30).replace("30", "90")


def test_a_budget_of_zero_tokens_writes_none() -> None:
    assert continue_text(NgramModel().fit("a b"), "a", max_tokens=0) == []


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: NgramModel(0), ValueError, "order"),
        (lambda: NgramModel().fit("a", weight=0), ValueError, "weight"),
        (lambda: NgramModel().fit(b"a"), TypeError, "text"),  # type: ignore[arg-type]
        (lambda: NgramModel().next_probs("a"), ValueError, "model"),
        (lambda: continue_text(NgramModel().fit("a"), "a", -1), ValueError, "max_tokens"),
        (lambda: continue_text(NgramModel().fit("a"), None), TypeError, "prompt"),  # type: ignore[arg-type]
        (lambda: continue_text(None, "a"), TypeError, "model"),  # type: ignore[arg-type]
        (lambda: Gateway(None), TypeError, "granted"),  # type: ignore[arg-type]
        (lambda: Gateway({"read": {"id": 3}}), TypeError, r"granted\['read'\]\['id'\]"),  # type: ignore[dict-item]
        (lambda: Gateway({"read": {"id": (9, 1)}}), ValueError, r"granted\['read'\]\['id'\]\[1\]"),
        (lambda: Gateway({"read": {"id": (math.nan, 1)}}), ValueError, r"granted\['read'\]\['id'\]\[0\]"),
        (lambda: ToolCall("read", None), TypeError, "arguments"),  # type: ignore[arg-type]
        (lambda: ToolCall("read", {1: 2}), TypeError, "arguments"),  # type: ignore[dict-item]
    ],
)
def test_bad_arguments_are_named(make: Any, error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=f"^{name}"):
        make()


# --- gateway --------------------------------------------------------------------------------------------

GATEWAY = Gateway({"read_order": {"order": (1, 9999)}, "note_credit": {"order": (1, 9999), "usd": (0, 25)}})


@exact
@given(st.text(), st.dictionaries(st.text(max_size=8), st.floats(), max_size=3))
def test_a_tool_that_was_not_granted_is_denied_whatever_it_carries(
    tool: str, arguments: dict[str, float]
) -> None:
    verdict = GATEWAY.judge(ToolCall(tool, arguments))
    if tool not in ("read_order", "note_credit"):
        assert verdict == f"denied: {tool} is not granted"


@exact
@given(st.one_of(st.floats(), st.integers(-(10**6), 10**6)), st.one_of(st.floats(), st.integers(-30, 60)))
def test_a_granted_call_passes_exactly_inside_its_closed_ranges(order: float, usd: float) -> None:
    verdict = GATEWAY.judge(ToolCall("note_credit", {"order": order, "usd": usd}))
    inside = 1 <= order <= 9999 and 0 <= usd <= 25
    assert (verdict == "allowed") == inside
    assert inside or re.match(r"rejected: (order|usd) must be a number from ", verdict)


@pytest.mark.parametrize("tool", [[], {}, ["read_order"], None, 7, ("read_order",), np.array(["read_order"])])
def test_a_tool_that_is_no_name_is_denied_and_raises_nothing(tool: Any) -> None:
    assert GATEWAY.judge(ToolCall(tool, {"order": 7})).startswith("denied: ")


@pytest.mark.parametrize("value", [1, 1.0, 9999])
def test_both_ends_of_a_range_are_inside(value: float) -> None:
    assert GATEWAY.judge(ToolCall("read_order", {"order": value})) == "allowed"


@pytest.mark.parametrize(
    "value", [True, "7", None, [7], math.nan, math.inf, 0, 10_000, pytest.param(10**5000, id="huge")]
)
def test_values_of_another_type_or_out_of_range_are_rejected(value: Any) -> None:
    assert GATEWAY.judge(ToolCall("read_order", {"order": value})).startswith("rejected: order must be")


@pytest.mark.parametrize("arguments", [{}, {"order": 7, "usd": 3}, {"usd": 7}])
def test_missing_and_unknown_arguments_are_rejected(arguments: dict[str, float]) -> None:
    assert GATEWAY.judge(ToolCall("read_order", arguments)).startswith(
        "rejected: expected arguments ['order']"
    )


def test_a_gateway_without_grants_denies_everything() -> None:
    assert Gateway({}).judge(ToolCall("read_order", {"order": 7})) == "denied: read_order is not granted"
