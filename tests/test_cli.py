"""``modelcall`` on the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelcall import __version__
from modelcall.__main__ import COMMANDS, main
from modelcall.lab.paths import data_dir


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(data_dir("ledger"), tmp_path / "ledger"))


def test_without_a_subcommand_it_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "usage: modelcall" in capsys.readouterr().out


def test_python_m_modelcall_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modelcall", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"modelcall {__version__}\n"


@pytest.mark.parametrize(
    "argv",
    [
        ["nothing"],
        ["ledger"],
        ["ledger", "--json"],
        ["ledger", "show"],
        ["ledger", "--check", "show", "B-20tok"],
    ],
)
def test_a_mistake_in_the_call_is_status_2_and_changes_nothing(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("usage: modelcall")


def test_every_subcommand_has_a_line_of_help_and_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    listed = capsys.readouterr().out
    for name, module in COMMANDS.items():
        assert name in listed and "\n" not in module.HELP
        with pytest.raises(SystemExit) as caught:
            main([name, "--help"])
        assert caught.value.code == 0


def test_check_prints_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "--check"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "both             106            89            30            54            20    299" in shown.out
    assert shown.out.endswith("0 of 299 entries do not hold\n")


def test_check_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "--check", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["total"] == 299 == len(report["computed"]) + sum(map(len, report["pending"].values()))
    assert report["problems"] == [] and report["sources"]["B"]["erratum"] == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("computed = 21", "computed = 22", "B-20tok: recomputed value: expected 22, got 21"),
        ("stated = 20", "stated = 21", "B-20tok: statement: expected 'the stated 21 in it'"),
        ('verdict = "erratum"', 'verdict = "inconsistent"', "B-20tok: seal of the recorded values"),
        ("computed = 65", "computed = 80", "B-80merges: recomputed value: expected 80, got 65"),
        ("ch01.train_bpe", "ch01.train_bpx", "modelcall.ch01.train_bpx"),
    ],
)
def test_a_tampered_ledger_fails_and_names_the_entry(
    folder: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "b1-2.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert main(["ledger", "--folder", str(folder), "--check"]) == 1
    assert message in capsys.readouterr().err
    assert main(["ledger", "--folder", str(folder), "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"]


def test_a_ledger_that_cannot_be_read_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", "--folder", str(tmp_path), "--check"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("modelcall ledger: ") and shown.err.count("\n") == 1


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "show", "B-20tok"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "id         B-20tok"
        and "recomputed 21" in lines
        and "verdict    erratum (material)" in lines
    )
    assert main(["ledger", "show", "A-eq6"]) == 0
    assert "pending    ch11" in capsys.readouterr().out
    assert main(["ledger", "show", "20TOK"]) == 2
    assert capsys.readouterr().err == "modelcall ledger: no entry '20TOK'; there are B-20tok\n"
