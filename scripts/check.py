"""Run every gate of the book, one after the other, and say at the end which passed.

A gate is a command that exits 0. A failing one shows its output at once and the rest still run; the last
line counts both. ``--fast`` keeps the gates of a few seconds, ``--long`` runs the big test budgets instead.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STYLED = ("code", "scripts", "tests", "conftest.py")
TYPED = ("code/modelcall", "scripts", "conftest.py")
# What a reader of a log wants even of a test run that passed: counts, and what did not run and why.
# They import what only a benchmark's or the training's environment has.
_NO_DOCTESTS = ("--ignore=scripts/bench", "--ignore=scripts/house_model")
_TELLING = re.compile(
    r"^(SKIPPED|XFAIL)|^=*\s*\d+ (passed|failed|error|skipped|xfailed|deselected).* in [\d.]+s"
)


@dataclass(frozen=True)
class Gate:
    """A named command; ``counts`` says that its summary is shown even if it passes."""

    name: str
    command: tuple[str, ...]
    counts: bool = False


@dataclass(frozen=True)
class Result:
    """How a gate went."""

    gate: Gate
    seconds: float
    passed: bool


def gates(budget: str, folder: Path) -> list[Gate]:
    """Return the gates of a budget ("fast", "all" or "long"); the site is built into ``folder``."""
    python = sys.executable
    pytest = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    workers = ("-n", str(min(os.cpu_count() or 1, 8)), "--dist", "loadfile")
    if budget == "long":
        return [Gate("long tests", (*pytest, "-m", "long", "tests"), counts=True)]
    fast = [
        Gate("style", (python, "-m", "ruff", "check", *STYLED)),
        Gate("format", (python, "-m", "ruff", "format", "--check", *STYLED)),
        Gate("types", (python, "-m", "mypy", *TYPED)),
        Gate("package from chapters", (python, "scripts/tangle.py", "--check")),
        Gate("text and notebooks", (python, "scripts/sync.py", "--check")),
        Gate("claim ledger", (python, "-m", "modelcall", "ledger", "--check")),
    ]
    if budget == "fast":
        return fast
    site = ("--renderer", "embedded", "--output", str(folder), "--check-links")
    return [
        *fast,
        Gate(
            "tests, doctests",
            (*pytest, *workers, "--doctest-modules", "tests", "code/modelcall", "scripts", *_NO_DOCTESTS),
            counts=True,
        ),
        Gate("notebooks run anew", (*pytest, *workers, "--nbval", "chapters"), counts=True),
        Gate("site and its links", (python, "scripts/build.py", *site)),
    ]


def run(gate: Gate, verbose: bool) -> Result:
    """Run a gate; print what its reader needs."""
    begin = time.perf_counter()
    if verbose:
        print(f"    $ {' '.join(gate.command)}", flush=True)
    pipe = None if verbose else subprocess.PIPE
    joined = None if verbose else subprocess.STDOUT
    done = subprocess.run(gate.command, cwd=ROOT, check=False, stdout=pipe, stderr=joined)
    output = (done.stdout or b"").decode("utf-8", "replace")
    result = Result(gate, time.perf_counter() - begin, done.returncode == 0)
    print(f"{'ok' if result.passed else 'FAILED'}, {result.seconds:.1f} s", flush=True)
    lines = output.rstrip().splitlines()
    if not result.passed and not verbose:
        print(f"    $ {' '.join(gate.command)}")
    elif gate.counts:
        lines = [line for line in lines if _TELLING.search(line)]
    else:
        lines = []
    for line in lines:
        print(f"    {line}", flush=True)
    return result


def table(results: Sequence[Result]) -> str:
    """Return the closing table and, as its last line, the counts."""
    width = max(len(result.gate.name) for result in results)
    rows = [f"{'gate':<{width}}  seconds  result"]
    rows += [f"{r.gate.name:<{width}}  {r.seconds:7.1f}  {'ok' if r.passed else 'FAILED'}" for r in results]
    passed = sum(result.passed for result in results)
    return "\n".join([*rows, "", f"{passed} passed, {len(results) - passed} failed"])


def check(chosen: Sequence[Gate], verbose: bool) -> int:
    """Run the gates; return the exit status."""
    results = []
    for number, gate in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {gate.name} ... ", end="\n" if verbose else "", flush=True)
        results.append(run(gate, verbose))
    print(f"\n{table(results)}", flush=True)
    return 0 if all(result.passed for result in results) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Run every gate of the book.")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--fast", dest="budget", action="store_const", const="fast", help="only the quick gates"
    )
    budget.add_argument(
        "--long", dest="budget", action="store_const", const="long", help="the big test budgets"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show all output as it comes")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="book-"))
    try:
        return check(gates(options.budget or "all", folder / "_book"), options.verbose)
    except KeyboardInterrupt:
        print("\ncheck: interrupted", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
