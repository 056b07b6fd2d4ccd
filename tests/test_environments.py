"""The check of other environments says what is wrong with its call, before it makes or installs anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.environments import run

PINS = str(Path(run.__file__).parent / "colab-2026-08-19.txt")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such.txt"], "pins: expected a file of requirements; got 'no-such.txt'"),
        ([PINS, "--environment", "no-such"], "--environment: expected a folder with "),
        ([PINS, "--python", "no-such-python"], "--python: expected a Python on this machine"),
    ],
)
def test_a_mistake_in_the_call_is_named(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: pytest.fail("it started something"))
    with pytest.raises(SystemExit) as caught:
        run.main(arguments)
    assert caught.value.code == 2 and words in capsys.readouterr().err


def test_a_step_that_fails_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(command: list[str], **_: object) -> None:
        raise run.subprocess.CalledProcessError(3, command)

    monkeypatch.setattr(run.subprocess, "run", fails)
    assert run.main([PINS]) == 2
    assert capsys.readouterr().out.startswith("run.py: this failed with status 3: ")
