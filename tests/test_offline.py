"""Promise 3: after the installation, the chapters need no network, no key and no GPU.

Every notebook runs in a child process in which an audit hook refuses each connection that leaves the
machine and each name look-up, and whose environment holds no key and shows no GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "chapters").glob("*.ipynb"))

RUNNER = """
import sys

LOOPBACK = ("127.", "::1", "localhost")

def refuse(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple):
        host = args[1][0]
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if host is not None and not str(host).startswith(LOOPBACK):
        raise ConnectionRefusedError(f"this run has no network, and a cell asked for {host!r}")

sys.addaudithook(refuse)

import matplotlib
import nbformat
from IPython.core.interactiveshell import InteractiveShell

matplotlib.use("agg")
shell = InteractiveShell.instance()
shell.colors = "nocolor"
for cell in nbformat.read(sys.argv[1], as_version=4).cells:
    skipped = "#| eval: false" in cell.source or "nbval-skip" in cell.metadata.get("tags", ())
    if cell.cell_type == "code" and not skipped:
        result = shell.run_cell(cell.source)
        expected = "raises-exception" in cell.metadata.get("tags", ())
        if not result.success and not expected:
            sys.exit(f"cell {cell.id} failed: {result.error_in_exec or result.error_before_exec!r}")
"""


def run_isolated(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a child process with no key in its environment and no GPU in sight."""
    secret = ("API_KEY", "TOKEN", "MODELCALL_", "TIKTOKEN_")
    env = {name: value for name, value in os.environ.items() if not any(word in name for word in secret)}
    env |= {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", "PYTHONWARNINGS": "default"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT / "chapters",
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_network_key_or_gpu(notebook: Path) -> None:
    done = run_isolated(RUNNER, str(notebook))
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]


def test_the_runner_does_refuse_the_network(tmp_path: Path) -> None:
    """The check can fail: a cell that opens a connection stops the run and is named."""
    import nbformat

    book = nbformat.v4.new_notebook()
    source = "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)"
    book.cells = [nbformat.v4.new_code_cell(source, id="phones-home")]
    path = tmp_path / "bad.ipynb"
    nbformat.write(book, path)
    done = run_isolated(RUNNER, str(path))
    assert done.returncode != 0
    assert "phones-home" in done.stderr and "no network" in done.stderr
