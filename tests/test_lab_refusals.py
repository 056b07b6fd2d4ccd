"""What the notebook's tools say of input that they cannot use: one sentence, with the argument's name."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelcall.__main__ import main
from modelcall.lab import notebook, samples
from modelcall.lab import typed as typed_module
from modelcall.lab.controls import make_control
from modelcall.lab.explore import explore
from modelcall.lab.typed import typed


def turned(function: Callable[..., Any], **controls: Any) -> Callable[[], None]:
    return lambda: explore(function, **controls)


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name in names:
            made.writestr(name, "")
    return stream.getvalue()


REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (turned(lambda t: 10**5000, t=[1]), ValueError, "fn: expected a number that can be written out; got int"),
    (turned(lambda t: "\ud800", t=[1]), ValueError, "fn: expected Unicode text"),
    (turned(lambda t: t, t=["\ud800"]), ValueError, "t, a value: expected Unicode text"),
    (turned(lambda t: t, say=lambda t: 3, t=[1]), TypeError, "say: expected text; got 3"),
    (turned(lambda t: t, labels=["t"], t=[1]), TypeError, "labels: expected a mapping; got ['t']"),
    (turned(lambda t: t, labels={"t": 3}, t=[1]), TypeError, "labels['t']: expected str; got 3"),
    (turned(lambda t: t, labels={"t": "\ud800"}, t=[1]), ValueError, "labels['t']: expected Unicode text"),
    (turned(lambda t: t, t=(0, 1, 1e-300)), ValueError, "t: more than 10**9 values, at most 400"),
    (turned(lambda t: t, t=(0, 2000, 1)), ValueError, "t: 2001 values, at most 400"),
    (lambda: typed(len, "x", label=3), TypeError, "label: expected text; got 3"),  # type: ignore[arg-type]
    (lambda: typed(len, "\ud800"), ValueError, "text: expected Unicode text"),
    (lambda: samples.sample([]), ValueError, "got []"),  # type: ignore[arg-type]
    (lambda: samples.sample("../facts"), ValueError, "name: expected one of arabic, "),
    (lambda: notebook.install("book.whl", b""), OSError, "book.whl is no wheel: File is not a zip file"),
    (lambda: notebook.install("book.whl", b"PK"), OSError, "book.whl is no wheel: File is not a zip file"),
    (lambda: notebook.install("book.whl", archive()), OSError, "book.whl is no wheel: "),
    (lambda: notebook.install("book.whl", archive("a/b")), OSError, "book.whl is no wheel: "),
]


@pytest.mark.parametrize(("work", "kind", "words"), REFUSED)
def test_it_is_named(work: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)) as caught:
        work()
    assert "\n" not in str(caught.value)


def test_what_has_a_form_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    explore(lambda t: math.nan, t=[1])
    explore(lambda t: np.float32(0.5), t=[1])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["t = 1: nan", "t = 1: 0.5"]
    pair = [np.arange(2), np.arange(2, 4)]
    assert make_control("t", pair, "t", default=np.arange(2)).start == 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("k"), "KeyError: &#x27;k&#x27;"),
        (RecursionError(), "RecursionError"),
        (ValueError("no"), "no"),
    ],
)
def test_any_error_while_typing_is_words(error: Exception, words: str) -> None:
    """An error in a widget's callback goes to a log that nobody sees, and the old result stays."""
    widgets = pytest.importorskip("ipywidgets")

    def breaking(text: str) -> str:
        if text == "no":
            raise error
        return text

    box, shown = typed_module._live(
        widgets, breaking, "yes", "t", typed_module._state(breaking, "yes")
    ).children
    box.value = "no"
    assert shown.value == words


def test_a_server_without_an_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """To a socket, no address means every one of the machine's."""
    for host in ("", " "):
        with pytest.raises(SystemExit) as caught:
            main(["serve", "--host", host, "--port", "0"])
        assert caught.value.code == 2
        assert "--host: expected an address, found none" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full, and a pipe")
@pytest.mark.parametrize(
    ("rest", "expected"),
    [(">/dev/full", (2, "modelcall ledger: [Errno 28] No space left on device\n")), ("| head -c 1", (0, ""))],
)
def test_an_output_that_cannot_be_written_is_one_line(rest: str, expected: tuple[int, str]) -> None:
    command = f"set -o pipefail; '{sys.executable}' -m modelcall ledger --check --json {rest}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == expected
