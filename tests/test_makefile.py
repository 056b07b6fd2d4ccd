"""What the Makefile says when it is given something else than a Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on PATH")


def make(folder: Path, python: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-f", str(MAKEFILE), *flags, f"PYTHON={python}", ".venv/bin/python"]
    # Under `make test` the flags of the outer make would come along and change what this one prints.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )


@pytest.mark.parametrize("python", ["no-such-python", "true", "false", "echo", "cat", ""])
def test_what_is_no_python_gets_one_line(tmp_path: Path, python: str) -> None:
    done = make(tmp_path, python)
    ours = [line for line in done.stderr.splitlines() if "***" not in line]
    assert done.returncode != 0
    assert ours == [f"make: PYTHON={python} is no Python; try: make PYTHON=python3.12"]
    assert not done.stdout and not list(tmp_path.iterdir())


def test_an_old_python_is_named_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo Python 3.8.1; else exit 1; fi\n', encoding="utf-8"
    )
    old.chmod(0o755)
    done = make(tmp_path, str(old))
    assert done.returncode != 0
    assert "make: needs Python 3.11 or newer, found Python 3.8.1;" in done.stderr


def test_a_python_is_taken(tmp_path: Path) -> None:
    done = make(tmp_path, sys.executable)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".venv/bin/python").exists()
