"""How the book's notebooks are checked: ``pytest --nbval chapters`` compares each with a fresh run.

nbval is told here what it cannot know: cells with ``#| eval: false`` are not run, a cell may take two
minutes, and the kernel is the one of this Python. A failure names the cell by its id. Standard error
is compared like any other output; no page has any (tests/test_book.py).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest
from nbval.plugin import IPyNbCell

import notebooks

CELL_TIMEOUT_S = 120.0
NBVAL_DEFAULT_TIMEOUT_S = 2000.0


def pytest_configure(config: pytest.Config) -> None:
    """Set what a plain ``pytest --nbval chapters`` needs."""
    option: Any = config.option
    os.environ["MODELCALL_PROGRESS"] = "off"  # a test run leaves no reader's progress behind
    if not option.nbval and not option.nbval_lax:
        return
    if option.nbval_cell_timeout == NBVAL_DEFAULT_TIMEOUT_S:
        option.nbval_cell_timeout = CELL_TIMEOUT_S
    if option.nbval_kernel_name is None:
        option.nbval_current_env = True
    # A notebook is one kernel: its cells stay on one worker.
    if getattr(option, "dist", "no") == "load":
        option.dist = "loadfile"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the cells that are shown but never run."""
    for item in items:
        if isinstance(item, IPyNbCell) and notebooks.split(item.cell.source).options.get("eval") is False:
            item.add_marker(pytest.mark.skip(reason="shown, not run (eval: false)"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say which cell failed: nbval counts the code cells from 0, the book knows them by their ids."""
    report = yield
    if isinstance(item, IPyNbCell) and report.failed:
        report.sections.append(("Cell", f"{item.path.name}, cell {item.cell.get('id', '(no id)')}"))
    return report
