"""The ledger's data, and that every way of spoiling it is found."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from modelcall.lab import ledger, notation
from modelcall.lab.paths import data_dir

ENTRIES = ledger.load()
BY_ID = {entry.id: entry for entry in ENTRIES}
SEALS = ledger.load_seals()


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(data_dir("ledger"), tmp_path / "ledger"))


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1, f"{old!r} is not in {path.name}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


# The counts of the review that the ledger records.
def test_the_counts_are_those_of_the_review() -> None:
    report = ledger.check()
    assert report.problems == []
    assert len(report.entries) == 299
    assert Counter(entry.source for entry in ENTRIES) == {"A": 237, "B": 62}
    names = ("ok", "rounding", "erratum", "inconsistent", "not-checkable")
    assert report.verdicts("A") == dict(zip(names, (69, 82, 27, 42, 17), strict=True))
    assert report.verdicts("B") == dict(zip(names, (37, 7, 3, 12, 3), strict=True))
    assert report.verdicts() == dict(zip(names, (106, 89, 30, 54, 20), strict=True))
    errata = Counter(entry.severity for entry in ENTRIES if entry.verdict == "erratum")
    assert errata == {"material": 13, "minor": 5, "last digit": 10, "notation": 1, "citation": 1}
    other = Counter(entry.severity for entry in ENTRIES if entry.verdict == "inconsistent")
    assert other == {"material": 20, "minor": 34}


# Chapters that are written have to compute what waits for them: no entry of these sections is pending.
SECTIONS_DONE = {"A.0", "A.1", "A.2"}


def test_every_claim_of_the_chapters_that_exist_is_computed() -> None:
    report = ledger.check()
    assert sorted([*report.computed, *report.pending]) == sorted(entry.id for entry in ENTRIES)
    done = {entry.id for entry in ENTRIES if entry.source == "B" or entry.section in SECTIONS_DONE}
    assert done <= set(report.computed)
    assert {f"ch{number:02d}" for number in notation.CHAPTERS}.isdisjoint(
        {entry.pending for entry in ENTRIES}
    )


def test_every_input_of_a_computed_entry_is_used() -> None:
    """An input that no expression reads could say anything."""

    def read(node: Any) -> set[str]:
        if isinstance(node, list):
            return {name for item in node for name in read(item)}
        if not isinstance(node, dict):
            return set()
        here = {node[key] for key in ("input", "each") if key in node}
        children = [node.get("args"), list(node.get("kwargs", {}).values()), node.get("do")]
        return here | read(children)

    for entry in ENTRIES:
        if entry.compute is not None:
            assert read(entry.compute) == set(entry.inputs), entry.id


def test_values_that_were_worked_out_by_hand() -> None:
    # 1 + 1 + 1 + 6 + 10 + 1 + 1: the pieces of the seven words, the second `refund` included
    assert ledger.recompute(BY_ID["B-20tok"]) == 21
    # log2(4)
    assert ledger.recompute(BY_ID["B-ceiling"]) == 2.0
    # e^(1.6/0.5) / (e^3.2 + e^1.8 + e^0.6 + e^-0.8) = 24.53 / (24.53 + 6.05 + 1.82 + 0.45) = 0.747
    assert ledger.recompute(BY_ID["B-run-05"])[0][0] == 0.747


def test_a_pending_entry_cannot_be_recomputed() -> None:
    with pytest.raises(ledger.LedgerError, match=r"A-eq6: pending, will be computed by ch11"):
        ledger.recompute(BY_ID["A-eq6"])


# --- a changed value ---------------------------------------------------------------------------------


def changed(value: Any) -> Any:
    """Return a value of the same shape that differs in one place."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 1.01 + 1
    if isinstance(value, str):
        return value + "!"
    if isinstance(value, list):
        return [*value[:-1], changed(value[-1])]
    key = next(iter(value))
    return {**value, key: changed(value[key])}


@pytest.mark.parametrize("field", ["stated", "places", "computed", "tolerance", "inputs", "unit"])
def test_a_changed_value_of_any_entry_is_found(field: str) -> None:
    spoiled = [entry for entry in ENTRIES if getattr(entry, field)]
    assert spoiled
    for entry in spoiled:
        bad = entry.model_copy(update={field: changed(getattr(entry, field))})
        found = ledger.check([bad], {entry.id: SEALS[entry.id]}).problems
        assert entry.id in {problem.id for problem in found}, f"{entry.id}: {field} was changed unnoticed"


def test_a_changed_computed_value_is_found_by_recomputing_it_alone() -> None:
    computed = [entry for entry in ENTRIES if entry.compute is not None]
    for entry in computed:
        bad = entry.model_copy(update={"computed": changed(entry.computed)})
        problems = ledger.check([bad]).problems
        assert [p.id for p in problems] == [entry.id] and problems[0].what == "recomputed value", entry.id


def test_a_wrong_verdict_is_found_from_the_values_alone() -> None:
    """Whether a claim is true follows from its values; erratum or inconsistency is a judgement."""
    for entry in ENTRIES:
        if entry.verdict == "not-checkable":
            continue
        wrong = {"ok", "rounding", "erratum", "inconsistent"} - {entry.verdict}
        if entry.verdict in ("erratum", "inconsistent"):
            wrong -= {"erratum", "inconsistent"}
        for verdict in wrong:
            bad = entry.model_copy(update={"verdict": verdict})
            assert ledger.check([bad]).problems, f"{entry.id} passed as {verdict}"


def test_a_statement_that_does_not_say_the_stated_number_is_found() -> None:
    bad = BY_ID["B-20tok"].model_copy(update={"statement": "The seven-word sentence needs 22 tokens."})
    (problem,) = ledger.check([bad]).problems
    assert str(problem).startswith("B-20tok: statement: expected 'the stated 20 in it'")


def test_a_tolerance_wider_than_the_last_digit_is_found() -> None:
    bad = BY_ID["B-tpot"].model_copy(update={"tolerance": 0.5})
    (problem,) = ledger.check([bad]).problems
    assert problem.what == "tolerance"


def test_an_entry_without_a_seal_and_a_seal_without_an_entry_are_found() -> None:
    ids = {problem.id for problem in ledger.check(ENTRIES[1:], SEALS).problems}
    assert ids == {ENTRIES[0].id}
    seals = {identifier: value for identifier, value in SEALS.items() if identifier != "B-20tok"}
    assert {problem.id for problem in ledger.check(ENTRIES, seals).problems} == {"B-20tok"}


def test_a_function_that_raises_or_is_missing_is_reported_and_the_rest_is_checked() -> None:
    bad = BY_ID["B-ceiling"].model_copy(update={"inputs": {"p": [0.5, 0.6]}})
    gone = BY_ID["B-20tok"].model_copy(update={"compute": {"name": "modelcall.ch01.nothing"}})
    first, second = ledger.check([bad, BY_ID["B-run-04"], gone]).problems
    assert (first.id, second.id) == ("B-ceiling", "B-20tok")
    assert "ValueError: probs" in first.got and "modelcall.ch01.nothing" in second.got


# --- comparing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "relation", "tolerance", "expected"),
    [
        (4.0995, 4.1, "=", 0.005, True),
        (4.0949, 4.1, "=", 0.005, False),
        (0.1 + 0.2, 0.3, "=", 0.0, True),
        (0.1 + 0.2, 0.3, ">", 0.0, False),  # within rounding error of float64 is equal, not above
        (0.1 + 0.2, 0.3, ">=", 0.0, True),
        (0.1 + 0.2, 0.3, "<=", 0.0, True),
        (0.3, 0.1 + 0.2, "<", 0.0, False),
        (2, 2, "<", 0.0, False),
        ([1, 2], [1, 2, 3], "=", 0.0, False),
        ({"a": 1, "b": 3}, {"a": 2, "b": 2}, "<", 0.0, False),
        ({"a": 1, "b": 1}, {"a": 2, "b": 2}, "<", 0.0, True),
        ("yes", "no", "=", 0.0, False),
        (True, True, "=", 0.0, True),
    ],
)
def test_agrees(left: Any, right: Any, relation: Any, tolerance: float, expected: bool) -> None:
    assert ledger.agrees(left, right, relation, tolerance) is expected


@pytest.mark.parametrize(
    ("left", "right", "relation"),
    [
        (True, 1, "="),
        ("1", 1, "="),
        ({"a": 1}, {"b": 1}, "="),
        ("a", "b", "<"),
        ([1], 1, "="),
        ([1], [1, 2], "<"),
    ],
)
def test_values_of_different_shapes_cannot_be_compared(left: Any, right: Any, relation: Any) -> None:
    with pytest.raises(TypeError, match="cannot compare"):
        ledger.agrees(left, right, relation)


# --- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("b1-2", 'id = "B-20tok"', 'id = "B-80merges"', "B-80merges: already in b1-2.toml"),
        ("b1-2", 'id = "B-20tok"', 'id = "20 tokens"', "20 tokens: id: expected A-... or B-"),
        ("b1-2", "statement =", "statment =", "B-run-02: statement: Field required"),
        ("b1-2", 'verdict = "erratum"', 'verdict = "wrong"', "B-20tok: verdict: Input should be"),
        ("b1-2", 'severity = "material"', 'severity = "dire"', "B-20tok: severity: Input should be"),
        ("b1-2", 'verdict = "erratum"', 'verdict = "ok"', "B-20tok: severity: got 'material'"),
        ("b1-2", "stated = 20\n", "", "B-20tok: expected either 'stated' or 'places'"),
        ("b1-2", "computed = 21\n", "", "B-20tok: computed: missing"),
        ("b1-2", "modelcall.ch01.count_tokens", "modelcall..x", "B-20tok: compute: expected a dotted path"),
        ("b1-2", "modelcall.ch01.count_tokens", "os.getcwd", "B-20tok: compute: expected a dotted path"),
        ("b1-2", 'input = "sentence"', 'input = "text"', "B-20tok: compute: there is no input 'text'"),
        ("b1-2", 'input = "sentence"', 'inputs = "text"', "B-20tok: compute: expected one of"),
        (
            "b1-2",
            'input = "sentence"',
            'input = "sentence", x = 1',
            "B-20tok: compute: 'input' takes no ['x']",
        ),
        ("b1-3", ", do = ", ", value = ", "B-run-05: compute: 'each' takes no ['value']"),
        ("a9", 'pending = "ch13"', 'pending = "ch14"', "A-F1-41.8: pending: expected a chapter"),
        ("a9", 'pending = "ch13"', "", "A-F1-41.8: expected either 'compute' or 'pending'"),
        ("a1", "tolerance = 0.05", "tolerance = -1", "A-NM0.1-pcie4: tolerance: expected a positive"),
        ("a1", "tolerance = 0.05", 'tolerance = "x"', "A-NM0.1-pcie4: tolerance"),
        ("a1", '"A.1"', '"B.1.1"', "A-NM0.1-payload: section: expected one of source A"),
        ("a1", 'section = "A.1"', 'chapter = "A.1"', "expected section, title and"),
        ("a1", 'id = "A-NM0.1-rate"', "id = ", "Invalid value"),
        ("a1", 'id = "A-NM0.1-rate"', "", "entry 2: id: Field required"),
        ("b1-6", "code = ", '"text" = ', "Duplicate inline table key"),
        (
            "b1-6",
            ', code = "8.0 ms + 0.4 ms per prompt token"',
            "",
            "B-ttft-def: places: expected two or more",
        ),
    ],
)
def test_a_spoilt_file_is_refused_with_its_name_and_the_entry(
    folder: Path, name: str, old: str, new: str, message: str
) -> None:
    spoil(folder / f"{name}.toml", old, new)
    with pytest.raises(ledger.LedgerError) as caught:
        ledger.load(folder)
    assert str(caught.value).startswith(f"{name}.toml: {message}")


def test_an_unknown_key_is_refused(folder: Path) -> None:
    spoil(folder / "b1-2.toml", 'id = "B-20tok"', 'id = "B-20tok"\ncomputd = 21')
    with pytest.raises(ledger.LedgerError, match=r"b1-2.toml: B-20tok: computd: Extra inputs"):
        ledger.load(folder)


def test_an_empty_folder_and_bad_seals_are_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ledger.LedgerError, match="no entries found"):
        ledger.load(tmp_path / "empty")
    with pytest.raises(ledger.LedgerError, match=r"seals.txt: No such file"):
        ledger.load_seals(tmp_path)
    spoil(folder / "seals.txt", "B-20tok ", "B-20tok")
    with pytest.raises(ledger.LedgerError, match=r"seals.txt: line \d+: expected a new id"):
        ledger.load_seals(folder)
