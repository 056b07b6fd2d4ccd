"""The shipped samples are the ones that the page measures, and their makers can make them again."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from modelcall import ch03
from modelcall.lab import samples
from modelcall.lab.paths import data_dir
from modelcall.lab.typed import typed

ROOT = Path(__file__).resolve().parent.parent
FOLDER = data_dir("samples")


def test_every_sample_has_its_hash_and_its_line_in_the_readme() -> None:
    sums = dict(
        reversed(line.split()) for line in (FOLDER / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    )
    assert set(sums) == {f"{name}.txt" for name in samples.names()} and len(sums) == 17
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for file, digest in sums.items():
        assert hashlib.sha256((FOLDER / file).read_bytes()).hexdigest() == digest, file
        assert f"`{file}`" in readme or file == "escaped_2.txt"


def test_samples_are_clean_text() -> None:
    for name in samples.names():
        text = samples.sample(name)
        assert "\r" not in text and "\ufffd" not in text and text.endswith("\n")
        assert 100 < len(text.encode()) < 10_000
        assert not any(place in text for place in ("/tmp", "/home", "/root")), name
    with pytest.raises(ValueError, match=r"expected one of arabic, .*; got 'no'"):
        samples.sample("no")


def test_the_generated_ones_can_be_made_again() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "samples.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_coats_hold_the_same_data() -> None:
    compact, indented = (json.loads(samples.sample(f"json_{coat}")) for coat in ("compact", "indented"))
    assert compact == indented and len(compact) == 16
    once, twice, thrice = (json.loads(samples.sample(f"escaped_{n}")) for n in (1, 2, 3))
    assert once["arguments"]["command"] + "\n" == samples.sample("command")
    assert json.loads(twice["payload"]) == once and json.loads(thrice["payload"]) == twice


def test_the_record_of_o200k_is_of_these_samples() -> None:
    record = json.loads((data_dir("records") / "o200k.json").read_text(encoding="utf-8"))
    assert set(record["tokens"]) == set(samples.names())
    for name, digest in record["samples_sha256"].items():
        assert hashlib.sha256(samples.sample(name).encode()).hexdigest() == digest, name
    cl100k = ch03.load_encoding("cl100k_base")
    assert record["tokens"]["arabic"] < 0.5 * len(cl100k.encode(samples.sample("arabic")))


def test_typed_shows_the_first_text_and_refuses_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed(lambda text: text.upper(), "abc", label="word")
    assert capsys.readouterr().out == "word = 'abc': ABC (run this cell in a notebook to type another)\n"
    with pytest.raises(TypeError, match="fn: expected a function"):
        typed(3, "abc")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text"):
        typed(len, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a figure"):
        typed(lambda text: object(), "abc")


def test_typing_changes_what_is_shown_and_an_error_is_words() -> None:
    widgets = pytest.importorskip("ipywidgets")
    from modelcall.lab import typed as module

    def shout(text: str) -> str:
        if not text:
            raise ValueError("text: expected <something>")
        return text.upper()

    made = module._live(widgets, shout, "abc", "word", module._state(shout, "abc"))
    box, shown = made.children
    assert "ABC" in shown.value
    box.value = "x<y"
    assert "X&lt;Y" in shown.value
    box.value = ""
    assert shown.value == "text: expected &lt;something&gt;"
