"""Run readers' notebooks as a machine with other versions would: install the pins, open, run, compare.

    python tests/environments/run.py tests/environments/colab-2026-08-19.txt --python python3.13

It makes a virtual environment of the pins, without the book's package; derives the notebooks and the wheel
into a folder; runs the first cell, which installs the package; proves that no pinned package moved; and runs
the whole notebook with every outside connection refused. It needs a package index and a few minutes, so it is
no part of the tests. ``--environment FOLDER`` takes an environment made before (the package goes into it).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ["notebooks/student/01-on-ramp.ipynb", "notebooks/01-on-ramp.ipynb"]

# Runs in the environment: the first cell with the network, or the whole notebook without it.
RUNNER = """
import asyncio, os, sys
from pathlib import Path
import nbformat
from nbclient import NotebookClient
path, whole = Path(sys.argv[1]), sys.argv[2] == "whole"
notebook = nbformat.read(path, as_version=4)
for cell in notebook.cells:
    if cell.cell_type == "code":
        cell.outputs = []
if not whole:
    notebook.cells = notebook.cells[:1]
where = {"metadata": {"path": str(path.parent)}}
client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where)
client.execute()
for output in notebook.cells[0].outputs:
    print(output.get("text", ""), end="")
told = [(c.id, o.text) for c in notebook.cells for o in c.get("outputs", []) if o.get("name") == "stderr"]
for cell, text in told:
    print(f"stderr of {cell}: {text.strip()[:300]}")
if whole:
    print(f"{sum(c.cell_type == 'code' for c in notebook.cells)} code cells ran")
"""

# Python reads it at its start, in the kernel too: the kernel and the house server speak on this machine.
REFUSE = """
import sys

def refuse(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple):
        host = args[1][0]
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if host and not str(host).startswith(("127.", "::1", "localhost")):
        raise ConnectionRefusedError(f"this run has no network, and a cell asked for {host!r}")

sys.addaudithook(refuse)
"""


def versions(python: Path) -> dict[str, str]:
    command = [str(python), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {each["name"].lower().replace("_", "-"): each["version"] for each in found}


def interpreter(folder: Path) -> Path:
    """Return where a virtual environment has its Python."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def environment(folder: Path, base: str, pins: Path) -> Path:
    """Make a virtual environment of the pins; return its Python."""
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    python = interpreter(folder)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", str(pins)], check=True)
    return python


def run(python: Path, notebook: Path, how: str, extra: dict[str, str]) -> bool:
    """Run a notebook in the environment; say how it went."""
    import os

    # The environment is its own: nothing of this one's paths or settings goes along.
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "MPLBACKEND")}
    env["PATH"] = f"{python.parent}{os.pathsep}{env['PATH']}"
    env |= {"PYTHONWARNINGS": "ignore", "MODELCALL_PROGRESS": "off", **extra}
    done = subprocess.run(
        [str(python), "-c", RUNNER, str(notebook), how], env=env, capture_output=True, text=True, check=False
    )
    text = (done.stdout + (done.stderr if done.returncode else "")).strip()
    print("\n".join(f"    {line}" for line in text.splitlines()[-30:]))
    return done.returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Run readers' notebooks in an environment of pinned packages."
    )
    parser.add_argument("pins", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment")
    parser.add_argument("--environment", type=Path, help="an environment made before, by its folder")
    parser.add_argument(
        "--notebook", action="append", help="a notebook of the site (default: both of chapter 1)"
    )
    options = parser.parse_args(arguments)
    if not options.pins.is_file():
        parser.error(f"pins: expected a file of requirements; got {str(options.pins)!r}")
    if options.environment and not interpreter(options.environment).is_file():
        parser.error(
            f"--environment: expected a folder with {interpreter(Path())}; got {options.environment}"
        )
    if not options.environment and shutil.which(options.python) is None:
        parser.error(f"--python: expected a Python on this machine; got {options.python!r}")
    try:
        return check(options, parser)
    except subprocess.CalledProcessError as error:
        print(f"run.py: this failed with status {error.returncode}: {' '.join(map(str, error.cmd))}")
        return 2


def check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Do what the options say; return 0 if everything ran and no package moved."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        derive = [sys.executable, str(ROOT / "scripts/readers.py"), "--output", str(folder / "site")]
        subprocess.run(derive, check=True)
        named = options.notebook or DEFAULT
        if absent := [name for name in named if not (folder / "site" / name).is_file()]:
            parser.error(f"--notebook: expected one of the site, such as {DEFAULT[0]}; got {absent[0]!r}")
        if options.environment:
            python = interpreter(options.environment).absolute()
        else:
            python = environment(folder / "venv", options.python, options.pins)
        before = versions(python)
        print(f"first cell of {named[0]}")
        passed = run(python, folder / "site" / named[0], "first", {})
        after = versions(python)
        moved = {
            key: (version, after.get(key)) for key, version in before.items() if after.get(key) != version
        }
        print(f"    {len(before)} packages before, {len(after) - len(before)} more, moved: {moved or 'none'}")
        (folder / "refuse").mkdir()
        (folder / "refuse" / "sitecustomize.py").write_text(REFUSE, encoding="utf-8")
        for each in named:
            print(f"{each} without a network")
            passed &= run(python, folder / "site" / each, "whole", {"PYTHONPATH": str(folder / "refuse")})
    return 0 if passed and not moved else 1


if __name__ == "__main__":
    sys.exit(main())
