"""Small bugs, put one at a time into a copy of chapter 1's module: the tests must notice each of them.

A mutant replaces one place in the generated file, most by a single character. The test files of the chapter
then run in a process of their own that imports the copy. That a place still exists, once, is checked in
every run, so that the list cannot go stale unseen; the mutants themselves take minutes.
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

# what it breaks -> (the place, the bug); each differs from the place by one character
ONE_CHARACTER = {
    "a positive log probability": ("self.logprob, -args.LARGEST, 0.0", "self.logprob, -args.LARGEST, 1.0"),
    "rare pairs first": ("counts[pair] += weight", "counts[pair] -= weight"),
    "one merge too many": ("while len(merges) < wanted", "while len(merges) <= wanted"),
    "a word cut short": ("return spelt[:-1]", "return spelt[:-2]"),
    "ids that meet the bytes": ("piece: 256 + i for i", "piece: 255 + i for i"),
    "one id too many": ("ids, len(self) - 1", "ids, len(self) - 0"),
    "the first entry is a byte": ("if token >= 256", "if token > 256"),
    "temperature upside down": ("[(z - top) / t if", "[(z - top) * t if"),
    "the maximum added": ("[(z - top) / t if", "[(z + top) / t if"),
    "all masked, and no error": ("if top == -math.inf:", "if top == +math.inf:"),
    "a mask that leaks": ("if z > -math.inf else z", "if z > -math.inf else t"),
    "zero draws a masked token": ("if u < reached:", "if u <= reached:"),
    "the last token, masked or not": (
        "in enumerate(shares) if share > 0.0)",
        "in enumerate(shares) if share >= 0.0)",
    ),
    "nats for bits": ("share * math.log2(share)", "share * math.log(share)"),
    "the least probable first": ("key=lambda index: -shares[index]", "key=lambda index: +shares[index]"),
    "a nucleus that stops short": ("kept[: 1 + bisect_left", "kept[: 0 + bisect_left"),
    "mass lost to rounding": ("if mass == 1.0:", "if mass == 2.0:"),
    "scaled the wrong way": ("[p / total if i in kept", "[p * total if i in kept"),
}
LARGER = {
    "a first token after the last": ("self.ttft_ms, 0.0, last)", "self.ttft_ms, 0.0, args.LARGEST)"),
    "scores without a count": ("!= (got := len(scores)) > 0:", "< (got := len(scores)) > 0:"),
    "tokens, but no first one": ("if self.ttft_ms is not None or self.output_tokens:", "if self.ttft_ms:"),
    "a forged end marker": ("return END not in spelt", "return True"),
    "the other end of a tie": ("key=lambda p: (counts[p], p)", "key=lambda p: (counts[p], p[::-1])"),
    "whitespace in a word": (".split() != [word]", ".split() == []"),
    "distinct words only": ("for word in words)\n", "for word in set(words))\n"),
    "ids by order of arrival": ("letters = sorted(set(", "letters = list(dict.fromkeys("),
    "spaces that vanish": ('.split(" ") if text', ".split() if text"),
    "a space where none was": ("[: -1 if piece.endswith(END) else None]", "[:None]"),
    "the maximum not subtracted": ("[(z - top) / t if", "[z / t if"),
    "two numbers for one draw": ("u = rng.random()", "u = rng.random() and rng.random()"),
    "a token of no mass kept": ("in ranked[:size] if shares[index] > 0.0]", "in ranked[:size]]"),
    "ties by last index": ("key=lambda index: -shares[index]", "key=lambda index: (-shares[index], -index)"),
    "the border outside": ("+ bisect_left(", "+ __import__('bisect').bisect_right("),
}
MUTANTS = {**ONE_CHARACTER, **LARGER}


def mutate(source: str, bug: str) -> str:
    """Return the module with one bug.

    Raises:
        ValueError: the place is not there exactly once.
    """
    place, replacement = MUTANTS[bug]
    if source.count(place) != 1:
        raise ValueError(f"{bug}: {place!r} occurs {source.count(place)} times; update the list")
    return source.replace(place, replacement)


def one_character_apart(a: str, b: str) -> bool:
    """Say whether one replacement, insertion or deletion of a character makes ``b`` of ``a``."""
    short, long = sorted((a, b), key=len)
    start = next((i for i, (x, y) in enumerate(zip(short, long, strict=False)) if x != y), len(short))
    if len(short) == len(long):
        return a != b and short[start + 1 :] == long[start + 1 :]
    return len(long) == len(short) + 1 and short[start:] == long[start + 1 :]


@pytest.mark.parametrize("bug", MUTANTS)
def test_the_place_of_the_bug_is_still_there(bug: str) -> None:
    source = (ROOT / "code" / "modelcall" / "ch01" / "_generated.py").read_text(encoding="utf-8")
    compile(mutate(source, bug), bug, "exec")


def test_the_small_bugs_are_of_one_character() -> None:
    assert len(ONE_CHARACTER) >= 10
    assert [bug for bug, (a, b) in ONE_CHARACTER.items() if not one_character_apart(a, b)] == []
    assert not one_character_apart("abc", "acb") and not one_character_apart("ab", "ab")


# Looking for the simplest failing example takes minutes and says nothing here.
PLUGIN = """
from hypothesis import Phase, settings

settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
settings.load_profile("mutants")
"""


def run_tests(package: Path) -> subprocess.CompletedProcess[str]:
    """Run the chapter's tests against the package under ``package``, to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no_shrinking"]
    command += ["-o", f"pythonpath={package} scripts .", *TESTS]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(package.parent)}
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
    (root / "no_shrinking.py").write_text(PLUGIN, encoding="utf-8")
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
    module = copy / "modelcall" / "ch01" / "_generated.py"
    source = module.read_text(encoding="utf-8")
    mutant = mutate(source, bug)
    try:
        module.write_text(mutant, encoding="utf-8")
        done = run_tests(copy)
    finally:
        module.write_text(source, encoding="utf-8")
    # 1: a test failed; 2: a test file could not even be imported, because an example of its own broke.
    assert done.returncode in (1, 2), f"{bug}: the tests passed\n{done.stdout[-2000:]}"
    assert "1 failed" in done.stdout or "1 error" in done.stdout, done.stdout[-2000:]
