"""The runner of the gates: it goes on after a failure, shows what failed, and counts at the end."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import check
from check import Gate


def gate(name: str, program: str, counts: bool = False) -> Gate:
    return Gate(name, (sys.executable, "-c", program), counts)


GOOD = gate("good", "print('quiet')")
BAD = gate("bad", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
TESTS = gate("tests", "print('noise\\nSKIPPED [1] x: no GPU\\n7 passed, 1 skipped in 1.20s')", counts=True)


def test_all_passing_is_quiet_but_for_counts(capfd: pytest.CaptureFixture[str]) -> None:
    assert check.check([GOOD, TESTS], verbose=False) == 0
    out = capfd.readouterr().out
    assert "quiet" not in out
    assert "noise" not in out
    assert "    SKIPPED [1] x: no GPU\n    7 passed, 1 skipped in 1.20s\n" in out
    assert out.endswith("\n2 passed, 0 failed\n")


def test_goes_on_after_a_failure_and_shows_its_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert check.check([BAD, GOOD, BAD], verbose=False) == 1
    out = capfd.readouterr().out
    assert re.search(r"\[1/3\] bad \.\.\. FAILED, \d+\.\d s\n    \$ .*-c", out)
    assert out.count("    out\n    err\n") + out.count("    err\n    out\n") == 2
    assert re.search(r"\[2/3\] good \.\.\. ok, \d+\.\d s\n", out)
    assert re.search(r"\ngate +seconds +result\nbad +\d+\.\d +FAILED\ngood +\d+\.\d +ok\nbad ", out)
    assert out.endswith("\n1 passed, 2 failed\n")


def test_verbose_streams_everything(capfd: pytest.CaptureFixture[str]) -> None:
    assert check.check([GOOD, BAD], verbose=True) == 1
    captured = capfd.readouterr()
    assert "quiet\n" in captured.out
    assert "err\n" in captured.err


def test_children_see_the_environment_as_it_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    seen = gate("env", "import os, sys; sys.exit(os.environ['OPENBLAS_CORETYPE'] != 'Haswell')")
    assert check.check([seen], verbose=False) == 0
    assert capfd.readouterr().out.endswith("1 passed, 0 failed\n")


def test_budgets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[list[str]] = []

    def record(chosen: list[Gate], verbose: bool) -> int:
        ran.append([each.name for each in chosen])
        return 0

    monkeypatch.setattr(check, "check", record)
    for arguments in ([], ["--fast"], ["--long"], ["-v"]):
        assert check.main(arguments) == 0
    everything, fast, long, verbose = ran
    assert everything == verbose
    assert everything[: len(fast)] == fast
    assert {"tests, doctests", "notebooks run anew", "site and its links"} <= set(everything) - set(fast)
    assert long == ["long tests"]


@pytest.mark.parametrize("budget", ["fast", "all", "long"])
def test_every_file_a_gate_names_exists(budget: str, tmp_path: Path) -> None:
    for each in check.gates(budget, tmp_path / "_book"):
        for argument in each.command[1:]:
            if "/" in argument and not argument.startswith(str(tmp_path)):
                assert (check.ROOT / argument.removeprefix("--ignore=")).exists(), f"{each.name}: {argument}"
