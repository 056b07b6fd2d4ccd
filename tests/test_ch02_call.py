"""Envelopes, the trace of a call, the toy server behind it, and the arithmetic of the wire."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch02 import (
    DUTIES,
    PCIE,
    STAGES,
    Envelope,
    Event,
    Gate,
    Outcome,
    Status,
    dispatch,
    link_share,
    normalise,
    pcie_bytes_per_s,
    run_call,
    token_bytes,
    tokens_per_s,
    trace_problems,
)
from modelcall.lab.toyserver import toy_server

PROPOSAL = '{"verb": "delete", "path": "old.o"}'
SCRIPTS = {
    "right": ['{"verb":', ' "delete",', ' "path":', ' "old.o"}'],
    "shell": ["rm", " -rf", " /", "srv"],
    "bad": ["a", " secret", " word"],
    "empty": [],
}
QUIET = settings(derandomize=True, deadline=None, max_examples=200)


def body(content: Any = "text", finish: Any = "stop", **message: Any) -> bytes:
    choice = {"message": {"content": content, **message}, "finish_reason": finish}
    return json.dumps({"choices": [choice]}).encode()


# --- envelopes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "data", "status", "content"),
    [
        (200, body(), "COMPLETED", "text"),
        (200, body(None, "tool_calls"), "COMPLETED", ""),
        (200, body("rm -rf /", "length"), "TRUNCATED", "rm -rf /"),
        (200, body("", "content_filter"), "REFUSED", ""),
        (200, body(None, "stop", refusal="I may not."), "REFUSED", ""),
        (200, body("text", "stop", refusal=None), "COMPLETED", "text"),
        (200, body("text", None), "TRANSPORT_FAILURE", ""),
        (200, body("text", "STOP"), "TRANSPORT_FAILURE", ""),
        (200, body("text", "paused"), "TRANSPORT_FAILURE", ""),
        (200, body("text", ["stop"]), "TRANSPORT_FAILURE", ""),
        (200, body(7), "TRANSPORT_FAILURE", ""),
        (200, body("\ud800"), "TRANSPORT_FAILURE", ""),
        (200, b'{"choices": []}', "TRANSPORT_FAILURE", ""),
        (200, b'{"choices": [{"message": "x", "finish_reason": "stop"}]}', "TRANSPORT_FAILURE", ""),
        (200, b'{"choices": [{"message": {}}]}', "TRANSPORT_FAILURE", ""),
        (200, body()[:-1], "TRANSPORT_FAILURE", ""),
        (200, b"", "TRANSPORT_FAILURE", ""),
        (200, b"\xff\xfe", "TRANSPORT_FAILURE", ""),
        (200, b"[" * 100_000, "TRANSPORT_FAILURE", ""),
        (201, body(), "TRANSPORT_FAILURE", ""),
        (503, body(), "TRANSPORT_FAILURE", ""),
        (None, body(), "TRANSPORT_FAILURE", ""),
    ],
)
def test_each_reply_has_its_status(code: int | None, data: bytes, status: str, content: str) -> None:
    envelope = normalise(code, data)
    assert (envelope.status.name, envelope.content) == (status, content) and envelope.why


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["stop", "length"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "finish_reason", "refusal"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(
    st.none() | st.integers(0, 999) | st.just(200),
    st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode()),
)
@QUIET
def test_any_reply_gives_an_envelope_and_completed_is_never_a_guess(code: int | None, data: bytes) -> None:
    envelope = normalise(code, data)
    assert isinstance(envelope.status, Status)
    if envelope.status is Status.COMPLETED:
        choice = json.loads(data)["choices"][0]
        assert code == 200 and choice["finish_reason"] in ("stop", "tool_calls")
        assert not choice["message"].get("refusal")


def test_bad_arguments_of_the_envelope_are_named() -> None:
    with pytest.raises(TypeError, match="body: expected a bytes"):
        normalise(200, "{}")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="http_status: expected an integer"):
        normalise("200", b"{}")  # type: ignore[arg-type]


# --- the toy server ------------------------------------------------------------------------------------


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def url(events: list[Event]) -> Iterator[str]:
    faults = {"busy": "503", "cut": "cut"}
    scripts = SCRIPTS | {"busy": ["x"], "cut": ["x"]}
    watch = lambda *step: events.append(Event(*step))  # noqa: E731
    with toy_server(scripts, window=12, blocked=["secret"], broken=faults, watch=watch) as address:
        yield address


def post(url: str, model: str, cap: int = 9, content: str = "two words") -> tuple[int | None, bytes]:
    request = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": cap}
    try:
        reply = httpx.post(url, json=request, trust_env=False, timeout=10)
    except httpx.TransportError:
        return None, b""
    return reply.status_code, reply.content


def test_the_server_cuts_stops_filters_and_counts(url: str) -> None:
    for model, cap, status, text, written in [
        ("right", 9, "COMPLETED", PROPOSAL, 4),
        ("right", 3, "TRUNCATED", PROPOSAL[:26], 3),
        ("right", 4, "TRUNCATED", PROPOSAL, 4),  # the cap is reached before the end is asked for
        ("shell", 3, "TRUNCATED", "rm -rf /", 3),
        ("bad", 9, "REFUSED", "", 1),
        ("empty", 9, "COMPLETED", "", 0),
        ("right", 0, "TRUNCATED", "", 0),
    ]:
        code, data = post(url, model, cap)
        envelope = normalise(code, data)
        assert (envelope.status.name, envelope.content) == (status, text), (model, cap)
        assert json.loads(data)["usage"] == {"prompt_tokens": 2, "completion_tokens": written}


def test_the_window_holds_prompt_and_answer(url: str) -> None:
    code, data = post(url, "right", content="w " * 10)
    assert normalise(code, data) == Envelope(Status.TRUNCATED, '{"verb": "delete",', "finish: length")
    assert post(url, "right", content="w " * 12)[0] == 400


def test_what_breaks_on_the_way_is_a_transport_failure(url: str) -> None:
    assert post(url, "busy")[0] == 503
    assert post(url, "cut") == (None, b"")
    assert post(url, "nobody")[0] == 400
    for junk in (b"", b"[]", b"{}", b'{"model": "right"}', b'{"model": "right", "messages": 7}'):
        assert httpx.post(url, content=junk, trust_env=False).status_code == 400


def test_the_server_goes_when_its_block_ends() -> None:
    before = threading.active_count()
    with toy_server(SCRIPTS) as address:
        port = int(address.split(":")[2].split("/")[0])
        assert post(address, "right")[0] == 200
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        pass
    assert threading.active_count() <= before + 1  # a handler's thread may still be ending


# --- a traced call -------------------------------------------------------------------------------------


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    for name in ("old.o", "new.o"):
        (tmp_path / name).write_bytes(b"code")
    return tmp_path


def whole_call(url: str, model: str, yard: Path, events: list[Event], cap: int = 9) -> Outcome:
    watch = lambda *step: events.append(Event(*step))  # noqa: E731
    gate = Gate(lambda: 0.0)
    request = {"model": model, "messages": [{"role": "user", "content": "two words"}], "max_tokens": cap}

    def send(sent: dict[str, object]) -> tuple[int | None, bytes]:
        assert sent is request
        return post(url, model, cap)

    envelope = run_call(send, request, 12, watch)
    return dispatch(envelope, gate, gate.mint("delete", str(yard), 10, 60), watch)


def test_a_call_goes_through_four_stages_and_acts_in_the_last(
    url: str, yard: Path, events: list[Event]
) -> None:
    outcome = whole_call(url, "right", yard, events)
    assert outcome == Outcome(True, "delete: 4 bytes") and not (yard / "old.o").exists()
    assert trace_problems(events) == []
    assert [event.stage for event in events] == sorted(event.stage for event in events)
    assert {event.stage for event in events} == {1, 2, 3, 4} and len(STAGES) == 4
    assert sum(event.sender == "core" for event in events) == 5, "four pieces and the end"
    assert [event for event in events if event.receiver == "world"] == [
        Event(4, "runtime", "world", "delete")
    ]
    assert events[-1].receiver == "world"


@pytest.mark.parametrize("model", ["shell", "bad", "busy", "cut", "empty"])
def test_what_is_not_released_changes_nothing(url: str, yard: Path, events: list[Event], model: str) -> None:
    outcome = whole_call(url, model, yard, events, cap=3)
    assert not outcome.done and outcome.said.startswith("quarantined: ")
    assert len(list(yard.iterdir())) == 2 and trace_problems(events) == []
    assert "world" not in {event.receiver for event in events}


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.COMPLETED])
def test_no_status_but_completed_is_released_even_with_a_perfect_text(yard: Path, status: Status) -> None:
    gate = Gate(lambda: 0.0)
    right = gate.mint("delete", str(yard), 10, 60)
    steps: list[tuple[int, str, str, str]] = []
    outcome = dispatch(Envelope(status, PROPOSAL, ""), gate, right, lambda *step: steps.append(step))
    assert outcome == Outcome(False, f"quarantined: {status.name}")
    assert gate.log == [] and steps == [] and (yard / "old.o").exists()


def test_a_refused_proposal_is_no_act(yard: Path) -> None:
    gate = Gate(lambda: 0.0)
    steps: list[tuple[int, str, str, str]] = []
    envelope = Envelope(Status.COMPLETED, PROPOSAL, "")
    outcome = dispatch(envelope, gate, gate.mint("read", str(yard), 10, 60), lambda *s: steps.append(s))
    assert outcome.said == "refused: it grants read; got 'delete'"
    assert [step[2] for step in steps] == ["runtime"]


@pytest.mark.parametrize("cap", [1, 10, 11])
def test_the_budget_is_kept_before_anything_is_sent(cap: int) -> None:
    sent: list[object] = []

    def send(request: dict[str, object]) -> tuple[int | None, bytes]:
        sent.append(request)
        return 200, body()

    request: dict[str, object] = {"messages": [{"content": "two words"}], "max_tokens": cap}
    if cap == 11:
        with pytest.raises(ValueError, match=r"budget: 2 \+ 11 tokens, window of 12"):
            run_call(send, request, 12, lambda *_: None)
        assert sent == []
    else:
        assert run_call(send, request, 12, lambda *_: None).status is Status.COMPLETED


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        ({"messages": [{"content": "x"}]}, TypeError, "max_tokens: expected an integer"),
        ({"messages": [{"content": "x"}], "max_tokens": 0}, ValueError, "max_tokens: expected"),
        ({"max_tokens": 3}, TypeError, "messages: expected a sequence"),
        ({"messages": [], "max_tokens": 3}, ValueError, "messages: expected at least one"),
        ({"messages": [7], "max_tokens": 3}, TypeError, "message: expected a mapping"),
        ({"messages": [{"content": 7}], "max_tokens": 3}, TypeError, "content: expected text"),
    ],
)
def test_a_request_that_cannot_be_is_refused(
    request_: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_call(lambda _: (200, body()), request_, 12, lambda *_: None)


@pytest.mark.parametrize(
    ("events_", "problems"),
    [
        ([], []),
        ([Event(1, "runtime", "server", "request"), Event(2, "server", "core", "ids")], []),
        ([Event(2, "server", "core", "ids"), Event(1, "runtime", "server", "request")], ["back to stage 1"]),
        ([Event(2, "core", "runtime", "text")], ["the core speaks to the runtime"]),
        ([Event(3, "server", "core", "ids")], ["the core in stage 3"]),
        ([Event(3, "core", "server", "scores")], ["the core in stage 3"]),
        ([Event(3, "runtime", "world", "act")], ["an act in stage 3"]),
        ([Event(4, "runtime", "world", "act")], []),
        ([Event(4, "core", "world", "act")], ["the core speaks to the world"]),
    ],
)
def test_what_a_trace_may_not_hold(events_: list[Event], problems: list[str]) -> None:
    found = trace_problems(events_)
    assert [problem.partition(": ")[2] for problem in found] == problems


def test_the_six_duties_are_those_of_the_table() -> None:
    terms = ["context window", "sampling settings", "tool call", "stop reason", "fluent but wrong"]
    assert [duty.term for duty in DUTIES] == [*terms, "successful response"]


# --- the wire ------------------------------------------------------------------------------------------

# Of x16 links in one direction, as the standards are summarised: GB/s, to the digits usually given.
QUOTED = {3: 15.75, 4: 31.51, 5: 63.02, 6: 121.0}


def test_the_rates_of_the_links_are_the_quoted_ones() -> None:
    assert set(PCIE) == set(QUOTED)
    for generation, rate in QUOTED.items():
        assert math.isclose(pcie_bytes_per_s(generation) / 1e9, rate, rel_tol=5e-4)
        assert pcie_bytes_per_s(generation, 1) * 16 == pytest.approx(pcie_bytes_per_s(generation))
    assert pcie_bytes_per_s(4) == pytest.approx(float(Fraction(16 * 10**9 * 16 * 128, 130 * 8)), rel=1e-15)


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(0, 1000), st.integers(1, 8))
@QUIET
def test_traffic_in_exact_arithmetic(vocabulary: int, batch: int, rate: int, width: int) -> None:
    traffic = token_bytes(vocabulary, width) * tokens_per_s(batch, rate)
    assert traffic == vocabulary * width * batch * rate
    exact = Fraction(vocabulary * width * batch * rate) / (Fraction(16 * 10**9 * 16, 8) * Fraction(128, 130))
    assert math.isclose(link_share(traffic, pcie_bytes_per_s(4)), float(exact), rel_tol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pcie_bytes_per_s(2), "generation: expected one of"),
        (lambda: pcie_bytes_per_s(4, 0), "lanes: expected an integer of at least 1"),
        (lambda: pcie_bytes_per_s(4.0), "generation: expected an integer"),  # type: ignore[arg-type]
        (lambda: token_bytes(0), "vocabulary: expected"),
        (lambda: token_bytes(5, 0), "bytes_per_logit: expected"),
        (lambda: tokens_per_s(0, 1), "batch: expected"),
        (lambda: tokens_per_s(1, -1), "rate: expected"),
        (lambda: tokens_per_s(1, math.nan), "rate: expected"),
        (lambda: link_share(1, 0), "link_bytes_per_s: expected a rate above 0"),
        (lambda: link_share(-1, 1), "bytes_per_s: expected"),
    ],
)
def test_what_cannot_be_on_a_wire_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
