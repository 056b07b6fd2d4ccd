"""What a reader keeps: never lost, never spoiled, never sent; predictions, tries and the list of both."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import html5lib
import nbformat
import pytest

from modelcall.checks import guard, titles
from modelcall.checks.grading import Answer, Exercise, Verdict, Wrong, exercise
from modelcall.lab import bundle, local
from modelcall.lab.predict import predict
from modelcall.lab.progress import entries, progress

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a reader, with progress on."""
    monkeypatch.setenv("MODELCALL_PROGRESS", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path / local.NAME


def test_a_prediction_is_in_the_file_and_nothing_else_is(kept: Path) -> None:
    predict("1.1 Probability of the pair", between=(0, 1), answer=0.6)
    predict("1.2 Which?", ["up", "down"], answer="down")
    assert json.loads(kept.read_text(encoding="utf-8")) == {
        "version": 1,
        "predictions": {"1.1": 0.6, "1.2": "down"},
        "exercises": {},
    }
    assert [path.name for path in kept.parent.iterdir()] == [local.NAME]


def test_asking_writes_nothing(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predict("1.1 Probability of the pair", between=(0, 1))
    assert capsys.readouterr().out.startswith("Prediction 1.1. Probability of the pair: ")
    assert not kept.exists()


@pytest.mark.parametrize(
    ("given", "options", "kind", "words"),
    [
        (("How many?",), {}, ValueError, "question: expected a number and words"),
        ((3,), {}, TypeError, "question: "),
        (("1.1 x", ["a"]), {}, ValueError, "choices: expected at least two"),
        (("1.1 x", "ab"), {}, TypeError, "choices: expected a list"),
        (("1.1 x", ["a", "b"]), {"answer": "c"}, ValueError, "answer: expected one of a, b"),
        (("1.1 x",), {"answer": "three"}, TypeError, "answer: expected a number"),
        (("1.1 x",), {"between": (0, 1), "answer": 2}, ValueError, "answer: expected a number from 0 to 1"),
        (("1.1 x",), {"answer": float("nan")}, ValueError, "answer: "),
        (("1.1 x",), {"between": (1, 0)}, ValueError, "between[1]: "),
    ],
)
def test_bad_predictions_are_named(
    kept: Path, given: tuple[Any, ...], options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        predict(*given, **options)
    assert not kept.exists()


SPOILED = [
    "",
    "{",
    "[]",
    '{"predictions": {}}',
    '{"predictions": 3, "exercises": {}}',
    "\x00",
    '{"a":' * 5000,
]


@pytest.mark.parametrize("text", SPOILED)
def test_a_spoiled_file_is_set_aside(kept: Path, text: str) -> None:
    kept.write_text(text, encoding="utf-8")
    assert local.progress() == {"predictions": {}, "exercises": {}}
    assert local.trouble().startswith("modelcall-progress.json holds no progress")
    aside = kept.with_name("modelcall-progress.unreadable-1.json")
    told = f"modelcall-progress.json held no progress and is now {aside.name}"
    assert local.record("predictions", "1.1", lambda _: 2) == told
    assert local.progress()["predictions"] == {"1.1": 2} and local.trouble() == ""
    assert aside.read_text(encoding="utf-8") == text
    assert local.record("predictions", "1.1", lambda _: 3) == ""


def test_a_crash_while_writing_leaves_the_old_file(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local.record("predictions", "1.1", lambda _: 1)
    before = kept.read_bytes()

    def crash(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    assert "No space left" in local.record("predictions", "1.1", lambda _: 2)
    assert kept.read_bytes() == before
    assert [path.name for path in kept.parent.iterdir()] == [local.NAME]


def _writer(folder: str, name: str, count: int) -> None:
    os.chdir(folder)
    os.environ["MODELCALL_PROGRESS"] = ""
    for _ in range(count):
        assert (
            local.record("exercises", name, lambda old: {"tries": (old or {"tries": 0})["tries"] + 1}) == ""
        )
        assert local.record("predictions", "shared", lambda old: (old or 0) + 1) == ""


def test_two_notebooks_at_once_lose_nothing(kept: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_writer, args=(str(kept.parent), name, 25)) for name in ("1.1", "1.2")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    found = local.progress()
    assert found["predictions"] == {"shared": 50}
    assert found["exercises"] == {"1.1": {"tries": 25}, "1.2": {"tries": 25}}


def test_a_lock_left_behind_is_broken(kept: Path) -> None:
    lock = kept.with_name(f".{local.NAME}.lock")
    lock.touch()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    assert local.record("predictions", "1.1", lambda _: 1) == ""
    assert not lock.exists()


def test_where_nothing_can_be_written_it_says_so(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELCALL_PROGRESS", str(kept.parent / "no" / "folder.json"))
    assert local.record("predictions", "9.1", lambda _: 1).startswith("not kept on disk: folder.json: ")


def test_off_keeps_in_memory(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELCALL_PROGRESS", "off")
    local.record("predictions", "9.2", lambda _: 1)
    assert local.progress()["predictions"]["9.2"] == 1 and not kept.exists()


# -- grading -------------------------------------------------------------------------------------------------


@exercise("9.1", "Be three", "three", ["first", "second"])
def be_three(answer: Answer, rng: object) -> None:
    if answer([1]) != 3:
        raise Wrong("it is not three")


def test_each_failure_gives_one_more_hint(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        be_three(lambda x: 2)
    be_three(None)
    be_three(lambda x: 3)
    be_three(lambda x: 2)
    assert capsys.readouterr().out.splitlines() == [
        "Exercise 9.1: not yet. it is not three",
        "Hint 1 of 2: first",
        "Exercise 9.1: not yet. it is not three",
        "Hint 2 of 2: second",
        "Exercise 9.1: not yet. it is not three",
        "Hint 2 of 2: second",
        "Exercise 9.1: not started. Write three, then run this cell again.",
        "Exercise 9.1: passed.",
        "Exercise 9.1: not yet. it is not three",
        "Hint 2 of 2: second",
    ]
    assert local.progress()["exercises"] == {"9.1": {"tries": 4, "passed": True}}


class Odd:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: Odd(), "cannot be used: RuntimeError"),
        (lambda x: x.append(3) or 3, "changes its argument"),
        (lambda x, y: 3, "raises TypeError"),
        (lambda x: exit(), "raises SystemExit"),
    ],
)
def test_no_answer_breaks_the_check(answer: Any, words: str) -> None:
    verdict = be_three.grade(answer)
    assert verdict.state == "wrong" and words in verdict.reason


def stubborn(x: object) -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            pass


def test_a_loop_without_end_ends_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "CALL_S", 0.3)
    monkeypatch.setattr(guard.call, "__defaults__", (0.3,))
    found: list[Verdict] = [be_three.grade(stubborn)]
    thread = threading.Thread(target=lambda: found.append(be_three.grade(stubborn)))
    thread.start()
    thread.join(60)
    assert [verdict.state for verdict in found] == ["wrong", "wrong"]
    assert all("did not finish" in verdict.reason for verdict in found)


def test_titles_know_every_exercise() -> None:
    assert [number for number in titles() if number.startswith("1.")] == [f"1.{n}" for n in range(1, 8)]
    assert isinstance(be_three, Exercise)


# -- the list ------------------------------------------------------------------------------------------------


def test_the_list_has_what_the_notebooks_ask(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = nbformat.v4.new_notebook()
    sources = [
        'predict("2.1 How many?", between=(0, 9))',
        "check.exercise_1_3(f)",
        "check.exercise_1_3(f)",
        "%magic",
        "x = predict",
    ]
    book.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(book, kept.parent / "02-x.ipynb")
    (kept.parent / "03-bad.ipynb").write_text("{", encoding="utf-8")
    assert [tuple(entry) for entry in entries(kept.parent)] == [
        ("predict", "2.1", "How many?", "02-x"),
        ("exercise", "1.3", titles()["1.3"], "02-x"),
    ]


def test_every_question_of_the_book_is_asked_once_and_in_order() -> None:
    asked = entries(ROOT / "chapters")
    for kind in ("predict", "exercise"):
        numbers = [entry.number for entry in asked if entry.kind == kind and entry.page == "01-on-ramp"]
        assert numbers == [f"1.{n}" for n in range(1, len(numbers) + 1)] and len(numbers) >= 7
    assert all(entry.words for entry in asked)


def test_the_progress_page_lists_every_question() -> None:
    page = nbformat.read(ROOT / "chapters" / "progress.ipynb", 4)
    [markdown] = [out.data["text/markdown"] for cell in page.cells for out in cell.get("outputs", [])]
    tree = html5lib.parseFragment(markdown, namespaceHTMLElements=False)
    listed = {row.get("data-key"): row for row in tree.iter("tr") if row.get("data-key")}
    rows = [(key, row[0][0].get("href"), row[1].text or "") for key, row in listed.items()]
    asked = [
        (
            f"{entry.kind}:{entry.number}",
            f"{entry.page}.html#{entry.kind}-{entry.number.replace('.', '-')}",
            entry.words,
        )
        for entry in entries(ROOT / "chapters")
    ]
    assert rows == asked, "stale; run: .venv/bin/python scripts/sync.py --force chapters/progress.md"


def test_progress_in_a_notebook_says_what_is_done(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = nbformat.v4.new_notebook()
    book.cells = [
        nbformat.v4.new_code_cell('predict("1.1 How?")\ncheck.exercise_1_1(f)\ncheck.exercise_1_2(f)')
    ]
    nbformat.write(book, kept.parent / "01-x.ipynb")
    predict("1.1 How?", answer=0.5)
    local.record("exercises", "1.1", lambda _: {"tries": 0, "passed": True})
    local.record("exercises", "1.2", lambda _: {"tries": 2, "passed": False})
    seen: list[str] = []
    monkeypatch.setattr(bundle, "show_still", lambda page, plain, live, static="": seen.append(static))
    progress()
    assert seen[0].startswith("2 of 3 done.\n\n| what | about | state |\n")
    assert [line.split(" | ")[-1] for line in seen[0].splitlines()[4:]] == [
        "0.5 |",
        "solved |",
        "tried 2 times |",
    ]
