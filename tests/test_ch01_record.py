"""The record of a call (chapter 1, section "What one call returns"): what it accepts and what it refuses."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from modelcall.ch01 import Completion, TokenScore

GOOD = Completion(
    text="not covered",
    token_scores=(TokenScore("not", -0.11), TokenScore(" covered", -0.42)),
    prompt_tokens=18,
    output_tokens=2,
    ttft_ms=41.0,
    total_ms=77.0,
)


def test_the_example_of_the_source_builds_with_its_own_names_and_order() -> None:
    by_position = Completion("not covered", GOOD.token_scores, 18, 2, 41.0, 77.0)
    assert by_position == GOOD
    assert hash(by_position) == hash(GOOD)
    assert "".join(score.token for score in GOOD.token_scores) == GOOD.text
    assert (GOOD.finish_reason, GOOD.request_id, GOOD.error) == (None, None, None)


def test_a_list_of_scores_becomes_a_tuple_so_that_the_record_cannot_change() -> None:
    scores = list(GOOD.token_scores)
    record = replace(GOOD, token_scores=scores)  # type: ignore[arg-type]
    scores.clear()
    assert record == GOOD
    with pytest.raises(FrozenInstanceError):
        record.text = "covered"  # type: ignore[misc]


@pytest.mark.parametrize("logprob", [0, 0.0, -0.0, -1e-300, -9999.0, -1.7e308])
def test_every_finite_logprob_up_to_zero_is_accepted(logprob: float) -> None:
    assert TokenScore("a", logprob).logprob == logprob


@pytest.mark.parametrize("logprob", [1e-300, 0.11, math.nan, math.inf, -math.inf, 10**400, -(10**400)])
def test_a_logprob_that_is_none_is_refused_by_name(logprob: float) -> None:
    with pytest.raises(ValueError, match=r"^logprob: .*got "):
        TokenScore("a", logprob)


@pytest.mark.parametrize("logprob", ["-0.5", None, True, [-0.5], -0.5j])
def test_a_logprob_of_another_type_is_refused(logprob: Any) -> None:
    with pytest.raises(TypeError, match=r"^logprob: expected a number; got "):
        TokenScore("a", logprob)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"text": None}, TypeError, "text: expected text; got None"),
        ({"text": b"no"}, TypeError, "text: expected text; got b'no'"),
        ({"text": "\ud83d"}, ValueError, "text: .*lone surrogate"),
        ({"finish_reason": 0}, TypeError, "finish_reason: expected text; got 0"),
        ({"request_id": 7}, TypeError, "request_id: expected text; got 7"),
        ({"error": ValueError()}, TypeError, "error: expected text; got ValueError"),
        ({"prompt_tokens": -1}, ValueError, "prompt_tokens: .*at least 0; got -1"),
        ({"prompt_tokens": 18.0}, TypeError, "prompt_tokens: expected an integer; got 18.0"),
        ({"prompt_tokens": True}, TypeError, "prompt_tokens: expected an integer; got True"),
        ({"prompt_tokens": None}, TypeError, "prompt_tokens: expected an integer; got None"),
        ({"output_tokens": -1}, ValueError, "output_tokens: .*at least 0; got -1"),
        ({"output_tokens": "2"}, TypeError, "output_tokens: expected an integer; got '2'"),
        ({"output_tokens": 3}, ValueError, "token_scores: expected 3 scores; got 2"),
        ({"output_tokens": 1}, ValueError, "token_scores: expected 1 scores; got 2"),
        ({"token_scores": GOOD.token_scores[:1]}, ValueError, "token_scores: expected 2 scores; got 1"),
        ({"token_scores": "ab"}, TypeError, "token_scores: expected a sequence of values; got 'ab'"),
        ({"token_scores": (("not", -0.1),) * 2}, TypeError, r"token_scores\[0\]: expected a TokenScore"),
        ({"token_scores": None}, TypeError, "token_scores: expected a sequence of values; got None"),
        ({"ttft_ms": 77.001}, ValueError, "ttft_ms: .*from 0 to 77; got 77.001"),
        ({"ttft_ms": -0.001}, ValueError, "ttft_ms: .*got -0.001"),
        ({"ttft_ms": math.nan}, ValueError, "ttft_ms: .*got nan"),
        ({"ttft_ms": None}, TypeError, "ttft_ms: expected a number; got None"),
        ({"total_ms": 40.0}, ValueError, "ttft_ms: .*from 0 to 40; got 41.0"),
        ({"total_ms": -1.0}, ValueError, "total_ms: .*got -1.0"),
        ({"total_ms": math.inf}, ValueError, "total_ms: .*got inf"),
        ({"total_ms": math.nan}, ValueError, "total_ms: .*got nan"),
        ({"total_ms": "77"}, TypeError, "total_ms: expected a number; got '77'"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused_by_field(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=rf"^{message}"):
        replace(GOOD, **changes)


def test_the_borders_are_accepted() -> None:
    one = replace(GOOD, token_scores=GOOD.token_scores[:1], output_tokens=1, ttft_ms=77.0)
    assert one.ttft_ms == one.total_ms
    assert replace(GOOD, ttft_ms=0.0).ttft_ms == 0.0
    # A server that sends no scores still counts tokens.
    assert replace(GOOD, token_scores=()).output_tokens == 2


def test_a_call_without_a_first_token_has_no_time_to_it() -> None:
    failed = Completion("", (), 18, 0, None, 30.0, error="connection reset", request_id="r-1")
    assert failed.ttft_ms is None
    assert failed.error == "connection reset"
    assert replace(failed, ttft_ms=30.0).ttft_ms == 30.0
    with pytest.raises(ValueError, match=r"^ttft_ms: .*got 31.0"):
        replace(failed, ttft_ms=31.0)
