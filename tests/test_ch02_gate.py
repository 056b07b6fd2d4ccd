"""The gate: what a proposal can hold, who may act, and that no text, copy or clock gets around it."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelcall.ch02 import (
    OWNERS,
    ROSETTA,
    TIERS,
    VERBS,
    Capability,
    Gate,
    Mint,
    Outcome,
    Proposal,
    read_proposal,
)

QUIET = settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes-old").mkdir()
    (tmp_path / "keys").write_text("secret", encoding="utf-8")
    (tmp_path / "notes" / "a").write_text("first", encoding="utf-8")
    (tmp_path / "notes-old" / "a").write_text("older", encoding="utf-8")
    return tmp_path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> Gate:
    return Gate(clock)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- ownership ---------------------------------------------------------------------------------------


def test_every_decision_has_one_owner_and_only_the_runtime_has_consequences() -> None:
    names = [tier.name for tier in TIERS]
    assert names == ["model core", "inference server", "host runtime"]
    assert set(OWNERS.values()) == set(names)
    consequences = (
        "whether a tool runs",
        "whether the call succeeded",
        "whether the task is done",
        "deadline",
    )
    assert {OWNERS[decision] for decision in consequences} == {"host runtime"}
    assert [d for d, owner in OWNERS.items() if owner == "model core"] == ["score of each token"]


def test_the_rosetta_table_has_the_six_rows_and_nothing_empty() -> None:
    terms = ["prompt", "generation", "logits", "hallucination", "tool call", "200 OK"]
    assert [row.term for row in ROSETTA] == terms
    assert all(all(cell.strip() for cell in row) for row in [*ROSETTA, *TIERS])


# --- a proposal --------------------------------------------------------------------------------------


def test_nothing_but_strings_can_be_reached_from_a_proposal() -> None:
    proposal = read_proposal('{"verb": "delete", "path": "/", "text": "rm -rf /"}')
    todo: list[Any] = [getattr(proposal, field.name) for field in fields(proposal)]
    kinds = set()
    while todo:
        item = todo.pop()
        kinds.add(type(item))
        todo += gc.get_referents(item)
    assert kinds == {str}


@pytest.mark.parametrize("handle", [open, print, 3, None, b"read", ["a"], object()])
def test_a_handle_does_not_fit_in(handle: object) -> None:
    for place in range(3):
        given_fields: list[Any] = ["read", "a", ""]
        given_fields[place] = handle
        with pytest.raises(TypeError, match=f"{('verb', 'path', 'text')[place]}: expected text; got"):
            Proposal(*given_fields)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("rm -rf /", "Expecting value"),
        ("[]", "expected a mapping"),
        ("null", "expected a mapping"),
        ('"read"', "expected a mapping"),
        ("{}", "expected the names verb and path"),
        ('{"verb": "read"}', "expected the names verb and path"),
        ('{"verb": "read", "path": "a", "as": "root"}', "expected the names verb and path"),
        ('{"verb": "read", "verb": "delete", "path": "a"}', "a name is given twice"),
        ('{"verb": "read", "path": {"a": 1, "a": 2}}', "a name is given twice"),
        ('{"verb": "read", "path": 7}', "expected str; got 7"),
        ('{"verb": "read", "path": null}', "expected str; got None"),
        ('{"verb": "read", "path": "\\ud800"}', "lone surrogate"),
        ('{"verb": "read", "path": "a"} {"verb": "delete"}', "Extra data"),
        ('{"verb": "read", "path": "a"', "Expecting ',' delimiter"),
        ("[" * 100_000, "no proposal"),
    ],
)
def test_what_is_no_proposal_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"^content: no proposal: ") as error:
        read_proposal(text)
    assert why in str(error.value)


def test_no_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"^content: no proposal: content: expected text"):
        read_proposal(b"{}")  # type: ignore[arg-type]


@given(st.text(), st.text(), st.text())
@QUIET
def test_a_proposal_survives_json(verb: str, path: str, text: str) -> None:
    body = json.dumps({"verb": verb, "path": path, "text": text}, ensure_ascii=False)
    assert read_proposal(body) == Proposal(verb, path, text)


# --- what a capability does ----------------------------------------------------------------------------


def test_each_verb_does_its_own_and_says_so(shop: Path, gate: Gate) -> None:
    right = {verb: gate.mint(verb, str(shop / "notes"), 100, 60) for verb in VERBS}
    assert gate.act(right["read"], Proposal("read", "a")) == Outcome(True, "first")
    assert gate.act(right["write"], Proposal("write", "b", "né")) == Outcome(True, "write: 3 bytes")
    assert (shop / "notes" / "b").read_text(encoding="utf-8") == "né"
    assert gate.act(right["delete"], Proposal("delete", "a")) == Outcome(True, "delete: 5 bytes")
    assert set(content(shop)) == {"keys", "notes/b", "notes-old/a"}
    assert [outcome.done for _, outcome in gate.log] == [True] * 3


@pytest.mark.parametrize("granted", VERBS)
@pytest.mark.parametrize("asked", [*VERBS, "execute", "", "READ", "read "])
def test_a_verb_is_the_granted_one_or_refused(shop: Path, gate: Gate, granted: str, asked: str) -> None:
    before = content(shop)
    outcome = gate.act(gate.mint(granted, str(shop / "notes"), 100, 60), Proposal(asked, "a", "x"))
    if asked == granted:
        assert outcome.done
    else:
        assert outcome == Outcome(False, f"refused: it grants {granted}; got {asked!r}")
        assert content(shop) == before


@pytest.mark.parametrize(
    "path",
    ["../keys", "/etc/passwd", "../notes-old/a", "a/../../keys", "..", "", "link", "up/keys", "a\0", "C:a"],
)
@pytest.mark.parametrize("verb", VERBS)
def test_no_path_leads_out(shop: Path, gate: Gate, path: str, verb: str) -> None:
    (shop / "notes" / "link").symlink_to("../keys")
    (shop / "notes" / "up").symlink_to("..")
    before = content(shop)
    outcome = gate.act(gate.mint(verb, str(shop / "notes"), 10**6, 60), Proposal(verb, path, "gone"))
    assert not outcome.done and outcome.said.startswith("refused: ") and len(outcome.said) > 12
    assert content(shop) == before and (shop / "notes" / "link").is_symlink()


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "delete"},
        {"folder": "/"},
        {"limit_bytes": 10**9},
        {"expires_s": 10.0**9},
        {"token": "0" * 32},
    ],
)
def test_a_copy_with_one_field_changed_is_worthless(shop: Path, gate: Gate, change: dict[str, Any]) -> None:
    real = gate.mint("write", str(shop / "notes"), 100, 60)
    false = replace(real, **change)
    proposal = Proposal(false.verb, "a", "x")
    before = content(shop)
    assert gate.act(false, proposal).said == "refused: not a live capability of this gate"
    assert content(shop) == before
    assert gate.act(real, Proposal("write", "a", "x")).done, "the original is none the worse"


def test_another_gates_capability_and_one_made_by_hand_are_worthless(shop: Path, gate: Gate) -> None:
    foreign = Gate(gate.clock).mint("read", str(shop / "notes"), 100, 60)
    made_up = Capability("f" * 32, "read", str(shop), 100, 10.0**9)
    for false in (foreign, made_up):
        assert not gate.act(false, Proposal("read", "a")).done


def test_tokens_do_not_repeat(shop: Path, gate: Gate) -> None:
    minted = [gate.mint("read", str(shop), 1, 1) for _ in range(200)]
    assert len({capability.token for capability in minted}) == 200
    assert min(len(capability.token) for capability in minted) == 32


def test_the_end_is_the_first_moment_that_is_too_late(shop: Path, gate: Gate, clock: Clock) -> None:
    right = gate.mint("read", str(shop / "notes"), 100, 60)
    assert right.expires_s == 160.0
    clock.now = 159.999
    assert gate.act(right, Proposal("read", "a")).done
    clock.now = 160.0
    assert gate.act(right, Proposal("read", "a")).said == "refused: the capability has expired"
    none = gate.mint("read", str(shop / "notes"), 100, 0)
    assert not gate.act(none, Proposal("read", "a")).done


def test_what_is_taken_back_stays_back(shop: Path, gate: Gate) -> None:
    right, other = (gate.mint("read", str(shop / "notes"), 100, 60) for _ in range(2))
    assert gate.act(right, Proposal("read", "a")).done
    gate.revoke(right)
    gate.revoke(right)
    assert not gate.act(right, Proposal("read", "a")).done
    assert gate.act(other, Proposal("read", "a")).done


def test_the_check_is_made_on_every_use(shop: Path, gate: Gate) -> None:
    """Complete mediation: the same proposal, allowed before, is judged anew after the world has changed."""
    right = gate.mint("read", str(shop / "notes"), 100, 60)
    assert gate.act(right, Proposal("read", "a")).said == "first"
    (shop / "notes" / "a").unlink()
    (shop / "notes" / "a").symlink_to("../keys")
    assert gate.act(right, Proposal("read", "a")).said == "refused: 'a' is a link"


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(0, 40))
@QUIET
def test_no_more_is_written_than_granted(shop: Path, sizes: list[int], limit: int) -> None:
    gate = Gate(Clock())
    right = gate.mint("write", str(shop / "notes"), limit, 60)
    left = limit
    for size in sizes:
        outcome = gate.act(right, Proposal("write", "b", "x" * size))
        if size <= left:
            assert outcome.done
            left -= size
        else:
            assert outcome.said == f"refused: it takes {size} bytes, and {left} are left"


@pytest.mark.parametrize("verb", ["read", "delete"])
def test_reading_and_deleting_count_the_file(shop: Path, gate: Gate, verb: str) -> None:
    small = gate.mint(verb, str(shop / "notes"), 4, 60)
    assert gate.act(small, Proposal(verb, "a")).said == "refused: it takes 5 bytes, and 4 are left"
    assert (shop / "notes" / "a").exists()
    assert gate.act(gate.mint(verb, str(shop / "notes"), 5, 60), Proposal(verb, "a")).done


def test_threads_do_not_share_one_remainder_twice(shop: Path, gate: Gate) -> None:
    right = gate.mint("write", str(shop / "notes"), 50, 60)
    done: list[bool] = []

    def write(name: str) -> None:
        done.extend(gate.act(right, Proposal("write", f"{name}{i}", "x" * 5)).done for i in range(8))

    threads = [threading.Thread(target=write, args=(name,)) for name in "pqrs"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == 10 and len(gate.log) == 32


def test_what_the_system_refuses_is_a_failure_and_costs_nothing(shop: Path, gate: Gate) -> None:
    right = gate.mint("write", str(shop / "notes"), 5, 60)
    assert gate.act(right, Proposal("write", "nowhere/b", "12345")).said.startswith("failed: No such file")
    assert gate.act(right, Proposal("write", "b", "12345")).done


def test_everything_is_logged_also_what_was_refused(shop: Path, gate: Gate) -> None:
    right = gate.mint("read", str(shop / "notes"), 100, 60)
    asked = [Proposal("read", path) for path in ("a", "../keys", "nothing")]
    outcomes = [gate.act(right, proposal) for proposal in asked]
    assert gate.log == list(zip(asked, outcomes, strict=True))


def test_a_folder_that_moves_takes_no_right_with_it(shop: Path, gate: Gate) -> None:
    """The right is to a place: what a link named when it was minted is what counts."""
    (shop / "current").symlink_to("notes")
    right = gate.mint("read", str(shop / "current"), 100, 60)
    (shop / "current").unlink()
    (shop / "current").symlink_to("notes-old")
    assert gate.act(right, Proposal("read", "a")).said == "first"


# --- bad arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, f: m.mint("execute", f, 1, 1), ValueError, "verb: expected one of"),
        (lambda m, f: m.mint(None, f, 1, 1), ValueError, "verb: expected one of"),
        (lambda m, f: m.mint("read", 7, 1, 1), TypeError, "folder: expected text; got 7"),
        (lambda m, f: m.mint("read", f + "/nothing", 1, 1), OSError, "nothing"),
        (lambda m, f: m.mint("read", f, -1, 1), ValueError, "limit_bytes: expected an integer"),
        (lambda m, f: m.mint("read", f, 1.5, 1), TypeError, "limit_bytes: expected an integer"),
        (lambda m, f: m.mint("read", f, 1, -1), ValueError, "lifetime_s: expected a number from 0"),
        (lambda m, f: m.mint("read", f, 1, float("inf")), ValueError, "lifetime_s: expected"),
        (lambda m, f: m.act("read", Proposal("read", "a")), TypeError, "capability: expected a Capability"),
        (lambda m, f: m.act(m.mint("read", f, 1, 1), "read a"), TypeError, "proposal: expected a Proposal"),
    ],
)
def test_bad_arguments_are_named(
    shop: Path, gate: Gate, call: Callable[[Mint, str], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(gate, str(shop))
    assert gate.log == []
