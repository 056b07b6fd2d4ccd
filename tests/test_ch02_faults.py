"""The stock service and its faults: what each sensor sees, and that nothing wrong is kept."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall import ch02
from modelcall.ch02 import FAULTS, SENSORS, Move, Stock, make_stock, read_stock, run_move, sense, settle_move

START: Stock = {
    ("valve", "north"): 40,
    ("valve", "south"): 3,
    ("gasket", "north"): 90,
    ("gasket", "south"): 15,
}
MOVE = Move("valve", "north", "south", 12)
WANTED: Stock = {**START, ("valve", "north"): 28, ("valve", "south"): 15}
# What an outsider must see of each fault, written down from the definitions and not from a run.
ALARMS = {
    "none": set(),
    "fail-stop": {"exit code", "form", "task"},
    "Byzantine": {"agreement"},
    "fail-plausible": {"invariant", "task"},
    "balanced": {"task"},
}
AFTER: dict[str, Stock] = {
    "none": WANTED,
    "fail-stop": START,
    "Byzantine": WANTED,
    "fail-plausible": {**START, ("valve", "south"): 15},
    "balanced": {**START, ("gasket", "north"): 78, ("gasket", "south"): 27},
}


@pytest.fixture
def database(tmp_path: Path) -> str:
    file = str(tmp_path / "stock.sqlite")
    make_stock(file, START)
    return file


def raw(file: str) -> Stock:
    with closing(sqlite3.connect(file)) as connection:
        return {(i, p): n for i, p, n in connection.execute("SELECT * FROM stock")}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_leaves_its_state_and_rings_its_alarms(database: str, fault: str) -> None:
    code, output = run_move(database, MOVE, fault)
    assert raw(database) == AFTER[fault] == read_stock(database)
    told = sense(START, AFTER[fault], MOVE, code, output)
    assert {name for name, fine in zip(SENSORS, told, strict=True) if not fine} == ALARMS[fault]
    assert code == (70 if fault == "fail-stop" else 0)


def test_plausible_replies_are_the_same_bytes_as_an_honest_one(tmp_path: Path) -> None:
    replies = {}
    for fault in ("none", "fail-plausible", "balanced"):
        file = str(tmp_path / f"{fault}.sqlite")
        make_stock(file, START)
        replies[fault] = run_move(file, MOVE, fault)
    assert len(set(replies.values())) == 1
    assert json.loads(replies["none"][1]) == {"moved": {"runtime": 12, "auditor": 12}}


@pytest.mark.parametrize("fault", FAULTS)
def test_only_what_was_asked_for_is_kept(database: str, fault: str, tmp_path: Path) -> None:
    assert settle_move(database, MOVE, fault) is (fault == "none")
    assert raw(database) == (WANTED if fault == "none" else START)
    assert [path.name for path in tmp_path.iterdir()] == ["stock.sqlite"], "the copy is gone"


def test_a_copy_holds_what_is_still_in_the_write_ahead_log(database: str) -> None:
    with closing(sqlite3.connect(database)) as other:  # while it is open, the log is not folded into the file
        assert other.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
        with other:
            other.execute("UPDATE stock SET count = 5 WHERE item = 'valve' AND place = 'south'")
        before = {**START, ("valve", "south"): 5}
        assert raw(database) == before
        assert settle_move(database, MOVE) and raw(database) == MOVE.applied(before)


def test_a_move_of_more_than_there_is_stops(database: str) -> None:
    code, output = run_move(database, Move("valve", "south", "north", 4))
    assert code not in (0, 70) and output == "" and raw(database) == START
    assert not settle_move(database, Move("valve", "south", "north", 4))


def test_a_move_to_its_own_place_changes_nothing(database: str) -> None:
    still = Move("valve", "north", "north", 4)
    assert still.applied(START) == START
    assert settle_move(database, still) and raw(database) == START


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), st.integers(0, 9), min_size=6, max_size=6
    ),
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), st.integers(0, 9), min_size=6, max_size=6
    ),
    st.integers(0, 9),
)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_the_sensors_of_the_world_by_an_independent_count(before: Stock, after: Stock, count: int) -> None:
    move = Move("a", "x", "y", count)
    reply = json.dumps({"moved": {"runtime": count, "auditor": count}})
    told = dict(zip(SENSORS, sense(before, after, move, 0, reply), strict=True))
    changes = {key: after[key] - before[key] for key in before}
    assert told["invariant"] == all(sum(changes[i, p] for p in "xyz") == 0 for i in "ab")
    expected = {("a", "x"): -count, ("a", "y"): count}
    assert told["task"] == (changes == {key: expected.get(key, 0) for key in before})
    assert told["exit code"] and told["form"] and told["agreement"]
    assert told["invariant"] or not told["task"], "who did the task kept the totals"


@pytest.mark.parametrize(
    ("output", "form", "agreement"),
    [
        ('{"moved": {"a": 1, "b": 1}}', True, True),
        ('{"moved": {"a": 1, "b": 2}}', True, False),
        ('{"moved": {"a": 1, "b": true}}', True, False),
        ('{"moved": {}}', False, True),
        ('{"moved": [1, 1]}', False, True),
        ('{"done": 1}', False, True),
        ("[]", False, True),
        ("null", False, True),
        ("", False, True),
        ("12 valves moved!", False, True),
    ],
)
def test_any_output_has_a_form_or_not(output: str, form: bool, agreement: bool) -> None:
    assert sense(START, WANTED, MOVE, 0, output)[1:3] == [form, agreement]


def test_an_exit_code_other_than_0_is_an_alarm() -> None:
    for code in (1, 70, -9, 255):
        assert sense(START, WANTED, MOVE, code, "")[0] is False


def test_bad_arguments_are_named(database: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fault: expected one of .*; got 'bad luck'"):
        run_move(database, MOVE, "bad luck")
    with pytest.raises(TypeError, match="move: expected a Move"):
        run_move(database, ("valve", "north", "south", 12))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="count: expected an integer"):
        Move("valve", "north", "south", -1)
    with pytest.raises(TypeError, match="item: expected text"):
        Move(7, "north", "south", 1)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.Error):
        make_stock(database, START)
    with pytest.raises(sqlite3.IntegrityError):
        make_stock(str(tmp_path / "debt.sqlite"), {("valve", "north"): -1})
    with pytest.raises(sqlite3.Error):
        read_stock(str(tmp_path / "empty.sqlite"))
    assert raw(database) == START and ch02.read_stock(database) == START
