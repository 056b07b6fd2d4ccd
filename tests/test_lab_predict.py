"""Predictions and what is kept of them: bad input by name, nothing lost, and a form that suggests nothing."""

from __future__ import annotations

import html
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from modelcall.checks import ch01 as check
from modelcall.lab import bundle, local
from modelcall.lab import predict as module
from modelcall.lab.explore import explore
from modelcall.lab.predict import predict, predicted
from modelcall.lab.progress import progress

ROOT = Path(__file__).resolve().parent.parent
widgets = pytest.importorskip("ipywidgets")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a reader, with progress on."""
    monkeypatch.setenv("MODELCALL_PROGRESS", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path / local.NAME


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A notebook; what it displays comes into the list."""
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.core.getipython.get_ipython", object)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    return shown


def form(monkeypatch: pytest.MonkeyPatch, *given: Any, **options: Any) -> Any:
    """The widgets of a prediction: field, button, status."""
    made: list[Any] = []
    monkeypatch.setattr(bundle, "show", lambda page, plain, live: made.append(live(widgets)))
    predict(*given, **options)
    label, field, row = made[0].children
    assert not field.description, "a long one leaves the field no width"
    assert "&lt;b&gt;" in label.value or "<" not in label.value
    return field, *row.children


# -- bad input -----------------------------------------------------------------------------------------------

BAD: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (("1.1 x",), {"between": 5}, TypeError, "between: expected a pair, the least and the most; got 5"),
    (("1.1 x",), {"between": (1,)}, TypeError, "between: expected a pair"),
    (("1.1 x",), {"between": {0: 1, 1: 2}}, TypeError, "between: expected a pair"),
    (("1.1 x",), {"between": (math.nan, 1)}, ValueError, "between[0]: expected a number"),
    (("1.1 x", ["a", "b"]), {"between": (0, 1)}, ValueError, "between: expected none beside choices"),
    (("1.1 x", ["a", "a", "b"]), {}, ValueError, "choices: expected each once; got ['a', 'a', 'b']"),
    (("1.1 x", ["", "b"]), {}, ValueError, "choices: expected at least two, none of them empty"),
    (("1.1 x", ["a", 2]), {}, TypeError, "choices[1]: expected text; got 2"),
    (("1.1 x", ["a", "b"]), {"answer": ["a"]}, ValueError, "answer: expected one of a, b; got ['a']"),
    (("1.1 x",), {"answer": 10**400}, ValueError, "answer: expected a number in the range of a float"),
    (("\uff11.\uff12 x",), {}, ValueError, "question: expected a number and words"),
    (("1.1 \ud800",), {}, ValueError, "question: expected Unicode text"),
]


@pytest.mark.parametrize(("given", "options", "kind", "words"), BAD)
def test_bad_input_is_named(
    kept: Path, given: tuple[Any, ...], options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        predict(*given, **options)
    assert not kept.exists()


@pytest.mark.parametrize(("folder", "kind"), [(3, TypeError), (None, TypeError), ("no-such", ValueError)])
def test_a_folder_that_is_none_is_named(folder: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="folder: expected a "):
        progress(folder)


def test_every_digit_typed_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    predict("1.1 How many?", answer=1234567)
    predict("1.2 How many?", answer=0.1)
    assert capsys.readouterr().out == "Prediction 1.1. Kept: 1234567\nPrediction 1.2. Kept: 0.1\n"


# -- the form ------------------------------------------------------------------------------------------------


def test_the_field_of_a_number_suggests_none(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    field, button, status = form(monkeypatch, "1.1 Probability", between=(0, 1))
    assert (field.value, field.placeholder) == ("", "from 0 to 1")
    button.click()
    assert status.value == "Expected a number from 0 to 1, such as 0.5 or 12; got &#x27;&#x27;"
    assert not kept.exists(), "nothing was typed, so nothing is kept"
    for typed, told in (
        ("0,5", "Expected a number"),
        ("nan", "Expected a number"),
        ("2", "from 0 to 1; got 2"),
    ):
        field.value = typed
        button.click()
        assert told in status.value
    field.value = " 0.25 "
    button.click()
    assert status.value == "Kept: 0.25" and local.progress()["predictions"] == {"1.1": 0.25}
    again, _, status = form(monkeypatch, "1.1 A <b> probability", between=(0, 1))
    assert again.value == "0.25" and status.value == "Kept before: 0.25"


@pytest.mark.parametrize("spoiled", [[1, 2], {"a": 1}, True, None, 10**400])
def test_a_form_opens_whatever_was_kept(kept: Path, monkeypatch: pytest.MonkeyPatch, spoiled: object) -> None:
    kept.write_text(json.dumps({"predictions": {"1.1": spoiled, "1.2": spoiled}, "exercises": {}}))
    form(monkeypatch, "1.1 Probability", between=(0, 1))
    field, button, status = form(monkeypatch, "1.2 Which?", ["up", "down"])
    assert field.value is None
    button.click()
    assert status.value == "Choose one of them first."
    field.value = "up"
    button.click()
    assert status.value == "Kept: up" and local.progress()["predictions"]["1.2"] == "up"


# -- nothing is lost -----------------------------------------------------------------------------------------


def test_a_folder_in_the_place_of_the_file_is_left_alone(kept: Path) -> None:
    kept.mkdir()
    (kept / "mine.txt").write_text("mine", encoding="utf-8")
    assert local.record("predictions", "1.1", lambda _: 2).startswith("not kept on disk: modelcall-progress")
    assert (kept / "mine.txt").read_text(encoding="utf-8") == "mine"
    assert local.progress()["predictions"] == {"1.1": 2} and "cannot be read" in local.trouble()


def test_what_could_not_be_written_is_shown_and_written_later(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.record("predictions", "1.1", lambda _: 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(os, "fsync", full)
        assert "No space left" in local.record("predictions", "1.2", lambda _: 2)
        assert "No space left" in local.record("exercises", "1.1", lambda old: {"tries": 1})
        assert "No space left" in local.record("exercises", "1.1", lambda old: {"tries": old["tries"] + 1})
    assert local.progress() == {"predictions": {"1.1": 1, "1.2": 2}, "exercises": {"1.1": {"tries": 2}}}
    assert local.record("predictions", "1.3", lambda _: 3) == ""
    data = json.loads(kept.read_text(encoding="utf-8"))
    assert data["predictions"] == {"1.1": 1, "1.2": 2, "1.3": 3} and data["exercises"] == {
        "1.1": {"tries": 2}
    }


def test_what_another_version_keeps_stays(kept: Path) -> None:
    whole = {"version": 2, "predictions": {}, "exercises": {"1.1": {"tries": 1, "note": "x"}}, "mine": [1]}
    kept.write_text(json.dumps(whole), encoding="utf-8")
    check.exercise_1_1(lambda logprobs: 3)
    data = json.loads(kept.read_text(encoding="utf-8"))
    assert (data["version"], data["mine"]) == (2, [1])
    assert data["exercises"]["1.1"] == {"tries": 2, "passed": False, "note": "x"}


def test_a_link_to_the_file_stays_a_link(kept: Path) -> None:
    real = kept.with_name("elsewhere.json")
    real.write_text('{"predictions": {}, "exercises": {}}', encoding="utf-8")
    kept.symlink_to(real)
    assert local.record("predictions", "1.1", lambda _: 1) == ""
    assert kept.is_symlink() and '"1.1": 1' in real.read_text(encoding="utf-8")


@pytest.mark.parametrize("tries", [-5, "x", None, 10**9, True])
def test_a_hint_is_found_whatever_was_counted(
    kept: Path, capsys: pytest.CaptureFixture[str], tries: object
) -> None:
    kept.write_text(json.dumps({"predictions": {}, "exercises": {"1.1": {"tries": tries}}}))
    check.exercise_1_1(lambda logprobs: 3)
    assert re.search(r"^Hint [1-3] of 3: ", capsys.readouterr().out, re.M)


def test_the_progress_page_says_what_it_cannot_read(kept: Path, displayed: list[dict[str, Any]]) -> None:
    kept.write_text("{", encoding="utf-8")
    progress()
    assert displayed[0]["text/markdown"].startswith(
        "0 of 0 done. The file modelcall-progress.json holds no progress"
    )


# -- what the page found ------------------------------------------------------------------------------------


def test_what_was_said_stands_beside_what_was_found(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_told", {})
    views: list[Any] = []
    show = "modelcall.lab.bundle.show"
    with monkeypatch.context() as context:
        context.setattr(
            show, lambda page, plain, live, static="": views.append((live(widgets), static, page))
        )
        predicted("1.1", "0.59")
        predict("1.1 Probability", between=(0, 1), answer=0.25)
        predicted("1.1", 2)
    (first, plain, page), (_, told, _) = views
    assert plain == "Prediction 1.1: 0.59." and told == "Prediction 1.1: 2. You said 0.25."
    assert first.value == "Prediction 1.1: 0.59. You said 0.25.", "keeping one changes what is shown already"
    assert page == '<p class="predicted" data-key="predict:1.1">Prediction 1.1: 0.59.</p>'
    capsys.readouterr()
    predicted("1.2", "<b>")
    assert capsys.readouterr().out == "Prediction 1.2: <b>.\n"


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ((1.1, "x"), TypeError, "number: expected text; got 1.1"),
        (("1", "x"), ValueError, "number: expected that of a prediction, such as '1.2'; got '1'"),
        (("1.1", None), TypeError, "found: expected a number; got None"),
        (("1.1", math.nan), ValueError, "found: expected a number"),
        (("1.1", " "), ValueError, "found: expected words or a number; got ' '"),
    ],
)
def test_what_was_found_must_be_something(given: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        predicted(*given)


@pytest.mark.parametrize("path", sorted((ROOT / "chapters").glob("[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_every_prediction_of_a_page_is_answered_after_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with a value that the reader could have given."""
    page = nbformat.read(path, 4)
    asked: dict[str, list[str]] = {}
    answered: list[str] = []
    for cell in page.cells:
        for output in cell.get("outputs", []):
            markdown = output.get("data", {}).get("text/markdown", "")
            if form := re.search(
                r'<form class="prediction".*data-key="predict:([\d.]+)".*?</form>', markdown
            ):
                values = re.findall(r'(?:value|min|max)="([^"]*)"', form[0])
                asked[form[1]] = [html.unescape(value) for value in values]
            if found := re.search(r'data-key="predict:([\d.]+)">Prediction \1: (.*)\.</p>', markdown):
                assert found[1] in asked, f"{path.name}: {found[1]} is answered before it is asked"
                answered.append(found[1])
                ends = asked[found[1]]
                if len(ends) == 2 and all(map(str.isdigit, ends)):
                    assert float(ends[0]) <= float(found[2]) <= float(ends[1])
                else:
                    assert found[2] in ends
    assert answered and sorted(answered) == sorted(asked), "each prediction once: predicted(number, found)"


# -- a notebook that is saved --------------------------------------------------------------------------------

SHOWS: list[tuple[Callable[[], None], str, bool]] = [
    (lambda: explore(lambda t: f"{t} ms", t=[1, 2]), "| t | result |", True),
    (lambda: predict("1.1 How many?", between=(0, 9)), "Prediction 1.1. How many?", True),
    (progress, "0 of 0 done.", False),
    (check.exercise_1_1.on_page, "Exercise 1.1 has 3 hints", False),
]


@pytest.mark.parametrize(("work", "words", "turned"), SHOWS)
def test_a_readers_notebook_keeps_no_html_of_a_page(
    displayed: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[], None],
    words: str,
    turned: bool,
) -> None:
    work()
    monkeypatch.setenv("MODELCALL_PROGRESS", "off")  # as the book's own runs have it
    work()
    reader, book = displayed
    assert reader["text/markdown"].startswith(words) and "{=html}" not in reader["text/markdown"]
    assert (bundle.WIDGET_VIEW in reader) == turned
    assert book["text/markdown"].startswith("```{=html}\n<") and bundle.WIDGET_VIEW in book
