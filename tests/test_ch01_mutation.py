"""Small bugs, put one at a time into a copy of chapter 1's module: the tests must notice each of them.

A mutant replaces one place in the generated file, by a character or two. The test files of the chapter
then run in a process of their own that imports the copy. A place that no longer exists, or is no longer
unique, fails here, so that the list cannot go stale unseen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = [f"tests/test_ch01_{name}.py" for name in ("record", "tokens", "sampling")]

# what it breaks -> (the place, the bug)
MUTANTS = {
    "a positive log probability": (
        "at_least=-args.LARGEST, at_most=0.0",
        "at_least=-args.LARGEST, at_most=1.0",
    ),
    "first token after the last": ("at_least=0.0, at_most=self.total_ms", "at_least=0.0"),
    "scores without a count": (
        "if scores and len(scores) != self.output_tokens",
        "if scores and len(scores) > self.output_tokens",
    ),
    "no first token, but tokens": (
        "if self.ttft_ms is not None or self.output_tokens:",
        "if self.ttft_ms is not None:",
    ),
    "a forged end marker": ("return END not in spelt", "return True"),
    "an overlapping join": ("            merged[-1] += symbol", "            merged[-1] = symbol"),
    "the smallest pair wins": (
        "max(counts, key=lambda p: (counts[p], p))",
        "min(counts, key=lambda p: (-counts[p], p))",
    ),
    "words without their weight": ("counts[pair] += weight", "counts[pair] += 1"),
    "one merge too many": ("while len(merges) < wanted", "while len(merges) <= wanted"),
    "whitespace in a word": (".split() != [word]", ".split() == []"),
    "distinct words only": (
        'for word in args.text("sentence", sentence).split())',
        'for word in set(args.text("sentence", sentence).split()))',
    ),
    "a piece too short": ("return spelt[:-1]", "return spelt[:-2]"),
    "an unordered alphabet": ("letters = sorted(set(", "letters = list(reversed(sorted(set("),
    "ids that meet the bytes": ("piece: 256 + i for i", "piece: 255 + i for i"),
    "words cut at any whitespace": (
        'args.text("text", text).split(" ") if',
        'args.text("text", text).split() if',
    ),
    "a space where none was": ("[: -1 if closed else None]", "[:None]"),
    "maximum not subtracted": ("math.exp((z - top) / t)", "math.exp(z / t)"),
    "temperature upside down": ("math.exp((z - top) / t)", "math.exp((z - top) * t)"),
    "a tie goes to one": (
        "1.0 if z == top else 0.0 for z in scores",
        "1.0 if i == scores.index(top) else 0.0 for i, z in enumerate(scores)",
    ),
    "a mask that leaks": ("if z > -math.inf else 0.0", "if z > -math.inf else 5e-324"),
    "all masked, one drawn": ("if top == -math.inf:", "if top == math.inf:"),
    "zero draws a masked token": ("if u < reached:", "if u <= reached:"),
    "the last token, masked or not": (
        "return max(index for index, share in enumerate(shares) if share > 0.0)",
        "return len(shares) - 1",
    ),
    "two numbers for one draw": ("    u = rng.random()", "    u = rng.random() or rng.random()"),
    "nats for bits": ("share * math.log2(share)", "share * math.log(share)"),
    "the other end of a tie": (
        "key=lambda index: -shares[index]",
        "key=lambda index: (-shares[index], -index)",
    ),
    "a token of no mass kept": ("at_least=1)] if shares[index] > 0.0]", "at_least=1)]]"),
    "a nucleus that stops short": ("kept[: 1 + bisect_left", "kept[: bisect_left"),
    "the border outside": ("bisect_left(sizes, mass", "bisect_right(sizes, mass"),
    "mass lost to rounding": ("if mass == 1.0:", "if mass > 1.0:"),
    "kept and not scaled": ("share / total if index in kept", "share if index in kept"),
}


def run_tests(package: Path) -> subprocess.CompletedProcess[str]:
    """Run the chapter's tests against the package under ``package``, to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-o", f"pythonpath={package} scripts .", *TESTS]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package beside the data that it reads."""
    root = tmp_path_factory.mktemp("mutants")
    shutil.copytree(ROOT / "code", root / "code", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", root / "data")
    return root / "code"


@pytest.mark.long
def test_the_copy_itself_passes_and_is_what_the_tests_import(copy: Path) -> None:
    done = run_tests(copy)
    assert done.returncode == 0, done.stdout[-2000:]
    module = copy / "modelcall" / "ch01" / "_generated.py"
    source = module.read_text(encoding="utf-8")
    try:
        module.write_text("raise RuntimeError('the copy was imported')\n", encoding="utf-8")
        assert "the copy was imported" in run_tests(copy).stdout
    finally:
        module.write_text(source, encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("bug", MUTANTS)
def test_the_bug_is_noticed(bug: str, copy: Path) -> None:
    place, replacement = MUTANTS[bug]
    module = copy / "modelcall" / "ch01" / "_generated.py"
    source = module.read_text(encoding="utf-8")
    assert source.count(place) == 1, f"{bug}: {place!r} occurs {source.count(place)} times; update the list"
    mutant = source.replace(place, replacement).replace(
        "import bisect_left", "import bisect_left, bisect_right"
    )
    compile(mutant, str(module), "exec")
    try:
        module.write_text(mutant, encoding="utf-8")
        done = run_tests(copy)
    finally:
        module.write_text(source, encoding="utf-8")
    assert done.returncode == 1, f"{bug}: the tests passed\n{done.stdout[-2000:]}"
    assert "1 failed" in done.stdout, done.stdout[-2000:]
