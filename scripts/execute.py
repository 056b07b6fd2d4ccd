"""Run a notebook in a fresh kernel of this Python, and refuse outputs that tell where or when it ran.

The kernel starts in the notebook's folder with the book's package importable, without the user's IPython
profile. Cells with ``#| eval: false`` are not run. Nothing is written here (see sync.py).
"""

from __future__ import annotations

import copy
import datetime
import importlib.metadata
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets import default

import notebooks
import twins
from notebooks import ROOT, BookError

CELL_TIMEOUT_S = 120
PACKAGES = ("matplotlib", "numpy", "tiktoken")
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class _ThisPython(AsyncKernelManager):
    """Starts kernels of this interpreter only: the user may have another "python3" installed."""

    @default("kernel_spec_manager")
    def _native_only(self) -> KernelSpecManager:
        return KernelSpecManager(kernel_dirs=[], ensure_native_kernel=True)


def execute(
    notebook: NotebookNode, path: Path, root: Path = ROOT, progress: Callable[[str], None] = lambda _: None
) -> tuple[NotebookNode, dict[str, Any]]:
    """Return the notebook with the outputs of a fresh run, and the record of that run.

    Raises:
        BookError: a cell failed, took too long, or gave an output that no other machine would give.
    """
    name = notebooks.relative(path, root)
    work = copy.deepcopy(notebook)
    tags = [notebooks.tags(cell) for cell in work.cells]
    for cell in notebooks.code_cells(work):
        if not twins.runs(cell.source):
            cell.metadata["tags"] = [*notebooks.tags(cell), "skip-execution"]
    current = ""

    def start(cell: NotebookNode, cell_index: int) -> None:
        nonlocal current
        if cell.cell_type == "code":
            current = cell.id
            progress(f"{name}: cell {cell_index + 1} of {len(work.cells)} ({cell.id})")

    client = NotebookClient(
        work,
        kernel_name="python3",
        kernel_manager_class=_ThisPython,
        extra_arguments=["--log-level=ERROR", "--HistoryManager.enabled=False"],
        timeout=CELL_TIMEOUT_S,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_start=start,
    )
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kernel-") as profile:
        try:
            client.execute(env=_environment(root, profile))
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise BookError(f"{name}, cell {current}: {_reason(error)}") from error
        except AssertionError:
            # On Ctrl+C nbclient drops the kernel itself, and then trips over its absence.
            if client.km is None:
                raise KeyboardInterrupt from None
            raise
    seconds = time.perf_counter() - begin
    for cell, own in zip(work.cells, tags, strict=True):
        cell.metadata.pop("tags", None)
        if own:
            cell.metadata["tags"] = own
    for cell in notebooks.code_cells(work):
        for output in cell.outputs:
            _check_portable(output, f"{name}, cell {cell.id}", root)
    return work, {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "packages": {package: importlib.metadata.version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "seconds": round(seconds, 1),
    }


def _environment(root: Path, profile: str) -> dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    environment["MODELCALL_PROGRESS"] = "off"  # what the author's runs pass or predict is nobody's progress
    path = [str(root / "code"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return environment | {"IPYTHONDIR": profile, "PYTHONPATH": os.pathsep.join(path)}


def _reason(error: Exception) -> str:
    evalue = getattr(error, "evalue", None)
    if evalue is None:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return lines[0] if lines else type(error).__name__
    trace = _ANSI.sub("", str(getattr(error, "traceback", ""))).strip().splitlines()
    return "\n".join(
        [f"{getattr(error, 'ename', 'error')}: {evalue}", *(f"    {line}" for line in trace[-12:])]
    )


def _places(root: Path) -> dict[str, str]:
    found = {
        str(root): "this checkout",
        str(Path.home()): "the home folder",
        tempfile.gettempdir(): "the folder of temporary files",
        sys.prefix: "the Python environment",
    }
    return {place: what for place, what in found.items() if len(place) > 1}


def _check_portable(output: NotebookNode, where: str, root: Path) -> None:
    for text in _texts(output):
        for place, what in _places(root).items():
            for form in {place, place.replace("\\", "\\\\"), Path(place).as_posix()}:
                if match := re.search(rf"(?<![\w.~/-]){re.escape(form)}(?![\w-])[^\s'\"<>,;:)]*", text):
                    raise BookError(f"{where}: its output has a path of this machine ({what}): {match[0]}")
        if match := _ADDRESS.search(text):
            raise BookError(f"{where}: its output has a memory address: {match[0]}")


def _texts(output: NotebookNode) -> list[str]:
    values = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
    data = output.get("data", {})
    values += [
        value for mime, value in data.items() if not mime.startswith("image/") or mime == "image/svg+xml"
    ]
    return [value for value in values if isinstance(value, str)]
