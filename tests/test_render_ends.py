"""A build that is interrupted, killed or let down by what it needs ends whole and says why."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.render.sample import write

from render import converter, pandoc, parallel
from render.pandoc import Pandoc
from render.parallel import Piece, beside, run
from render.problems import BuildError, Problems
from render.site import build

SCRIPTS = Path(__file__).parents[1] / "scripts"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no safe fork on this system")
FORKING = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
sys.path.insert(0, {str(SCRIPTS)!r})
from render import pandoc, parallel
parallel.cores = pandoc.cores = lambda: 2
import build
sys.exit(build.main(sys.argv[1:]))
"""
VERSION = 'if [ "$1" = --version ]; then echo pandoc 3.9; exit; fi\n'


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork even where a test runner has threads of its own, on two cores at least."""
    monkeypatch.setattr(parallel, "_forks", lambda: sys.platform == "linux")
    monkeypatch.setattr(parallel, "cores", lambda: 2)


def stub(folder: Path, script: str) -> Path:
    """A program called pandoc."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pandoc"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def eventually(check: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def alive(session: int) -> list[str]:
    """The processes of a session, without those that only wait to be read."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:
            continue
        state, _, _, owner = rest.split()[:4]
        if int(owner) == session and state not in "ZX":
            found.append(name)
    return found


# -- signals -------------------------------------------------------------------------------------------------


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A build in a session of its own, whose two forks wait for Pandocs that read and never answer."""
    root = write(tmp_path / "book")
    said = tmp_path / "bin/said"
    stub(tmp_path / "bin", f'{VERSION}echo "$$" >> "{said}"; exec tail -c 1')
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        [sys.executable, "-c", FORKING, "--root", str(root), "--renderer", "embedded"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PATH": path},
        start_new_session=True,
    )
    eventually(lambda: said.is_file() and len(said.read_text(encoding="utf-8").split()) >= 2)
    eventually(lambda: len(alive(process.pid)) >= 5)  # it, two Pandocs and two forks
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@LINUX
@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c", "only-the-build"])
def test_an_interrupt_ends_everything_in_one_line(
    whole_group: bool, stuck: subprocess.Popen[str], tmp_path: Path
) -> None:
    (os.killpg if whole_group else os.kill)(stuck.pid, signal.SIGINT)
    _, errors = stuck.communicate(timeout=20)
    assert (stuck.returncode, errors) == (130, "\nbuild: interrupted\n")
    eventually(lambda: not alive(stuck.pid))
    assert not (tmp_path / "book/_book").exists()


@LINUX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_build_that_is_killed(number: int, stuck: subprocess.Popen[str]) -> None:
    os.kill(stuck.pid, number)
    _, errors = stuck.communicate(timeout=20)  # forks that lived on would hold its end open
    assert (stuck.returncode, errors) == (-number, "")
    eventually(lambda: not alive(stuck.pid))


INTERRUPTS = """
import os, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
exists = pathlib.Path.exists
def interrupt(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "readers":
            interrupt()
"""


@pytest.mark.parametrize(
    ("when", "status", "said"),
    [
        ("sys.meta_path.insert(0, Finder())", -signal.SIGINT, ""),
        ("pathlib.Path.exists = interrupt", 130, "\nbuild: interrupted\n"),
    ],
    ids=["while-modules-are-read", "after-that"],
)
def test_an_early_interrupt_has_no_traceback(when: str, status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS + when, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "build.py"), "--root", str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, said)


# -- forks ---------------------------------------------------------------------------------------------------


@LINUX
def test_a_fork_that_is_killed_ends_the_build(forks: None) -> None:
    lost = Piece(lambda: os.kill(os.getpid(), signal.SIGKILL), size=1)
    with pytest.raises(BuildError, match=r"a process of the build ended with status -9; if memory is short"):
        run([Piece(lambda: 1), lost])
    assert run([Piece(lambda: 1), Piece(lambda: 2)]) == [1, 2]


@pytest.mark.parametrize("forked", [pytest.param(True, marks=LINUX), False])
def test_the_first_mistake_is_the_same_wherever_pieces_run(
    forked: bool, forks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parallel, "_forks", lambda: forked)

    def wrong(name: str, seconds: float) -> None:
        time.sleep(seconds)
        raise BuildError([name])

    pieces = [Piece(lambda: 1), Piece(lambda: wrong("a", 0.3), size=9), Piece(lambda: wrong("b", 0), size=9)]
    pieces += [Piece((tmp_path / f"asked-{n}").touch) for n in range(3)]
    with pytest.raises(BuildError) as caught:
        run(pieces)
    assert caught.value.lines == ["a"]
    assert not list(tmp_path.glob("asked-*"))


@LINUX
def test_an_error_that_cannot_be_sent_is_told_in_words(forks: None) -> None:
    class StrangeError(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def wrong() -> None:
        raise StrangeError(1, 2)

    with pytest.raises(RuntimeError, match="StrangeError: 1 and 2") as caught:
        run([Piece(lambda: 1), Piece(wrong)])
    assert "in wrong" in caught.value.__notes__[0]


@LINUX
def test_work_beside_takes_its_files_along_when_it_is_cut_off(forks: None, tmp_path: Path) -> None:
    def work() -> None:
        try:
            (tmp_path / "temporary").touch()
            time.sleep(600)
        finally:
            (tmp_path / "temporary").unlink()

    with pytest.raises(KeyboardInterrupt), beside(work):
        eventually((tmp_path / "temporary").exists)
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@LINUX
def test_pandocs_are_not_used_again_after_forks_were_cut_off(forks: None, tmp_path: Path) -> None:
    tool = Pandoc(tmp_path)
    tool.ready(2)
    before = {running.process.pid for running in converter._running.values()}
    assert len(before) == 2 or parallel.cores() < 2
    with pytest.raises(BuildError):
        run([Piece(lambda: 1), Piece(lambda: os.kill(os.getpid(), signal.SIGKILL))])
    assert not converter._running
    assert tool.tree("after")[0]["blocks"]


def test_a_pandoc_that_another_process_started_is_replaced_once_it_failed(tmp_path: Path) -> None:
    tool = Pandoc(tmp_path)
    tool.tree("one")
    for running in converter._running.values():
        running.owner = -1
        running.close()
    assert tool.tree("two")[0]["blocks"]


# -- Pandoc --------------------------------------------------------------------------------------------------

SURPLUS = (
    """read -r x; n=${x#*number\\": \\"}; """
    """printf '{"number": "%s", "fine": true, "bytes": 2, "log": []}\\n{}{}' "${n%%\\"*}" """
)
ODD = {
    "ends": ("echo Not today >&2; exit 3", "ended while it converted markdown to json: Not today$"),
    "nonsense": ("while read x; do echo nonsense; done", "gave no answer that can be read while it"),
    "an-answer-of-another-form": ('while read x; do echo "{}"; done', "gave no answer that can be read"),
    "more-than-it-says": (f"{SURPLUS}; exec tail -c 1", "gave no answer that can be read"),
    "a-list": ('while read x; do echo "[1]"; done', "gave no answer that can be read"),
    "reads-and-is-silent": ("exec tail -c 1", "gave no answer in 0.2 s while it converted"),
    "does-not-read": ("exec sleep 600", "gave no answer in 0.2 s while it converted"),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("forked", [pytest.param(True, marks=LINUX), False])
def test_a_pandoc_that_fails_is_named(
    name: str, forked: bool, forks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, expected = ODD[name]
    path = stub(tmp_path / "bin", VERSION + script)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(parallel, "_forks", lambda: forked)
    monkeypatch.setattr(converter, "_PATIENCE_S", 0.2)
    root = write(tmp_path / "book")
    (root / "index.md").write_text("# S {#sec-index .unnumbered}\n\n" + "Word. " * 40_000, encoding="utf-8")
    with pytest.raises(BuildError) as caught:
        build(root)
    (line,) = caught.value.lines
    assert line.startswith(f"pandoc: {path} ") and re.search(expected, line), line


@pytest.mark.parametrize("script", ["exec sleep 600", r"printf '\377\376'", "exit 1"])
def test_a_pandoc_that_does_not_say_its_version_gives_way_to_the_next(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stub(tmp_path / "first", script)
    second = stub(tmp_path / "second", "echo pandoc 3.9.1")
    monkeypatch.setenv("PATH", f"{first.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(pandoc, "_wheel", lambda: str(second))
    monkeypatch.setattr(pandoc, "_PATIENCE_S", 0.5)
    assert Pandoc(tmp_path).executable == (str(second), "pandoc 3.9.1")


def test_a_pandoc_for_another_machine_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stub(tmp_path / "first", ""), stub(tmp_path / "second", "echo pandoc 3.9.1")
    first.write_bytes(b"\0\1")
    monkeypatch.setenv("PATH", f"{first.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(pandoc, "_wheel", lambda: str(second))
    assert Pandoc(tmp_path).executable == (str(second), "pandoc 3.9.1")


# -- mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forked", [pytest.param(True, marks=LINUX), False])
def test_mistakes_of_several_pages_come_page_by_page(
    forked: bool, forks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_forks", lambda: forked)
    pages = ["index.md", "b.md", "a.md"]
    head = "project: {type: book}\nbook:\n  title: T\n  chapters: "
    (tmp_path / "_quarto.yml").write_text(f"{head}{pages}\n", encoding="utf-8")
    for page in pages:
        text = f"# P {{#sec-{page[0]}}}\n\n$\\foo$ @fig-no\n\n[x](gone.md)\n\n::: {{.callout-note}}\n"
        (tmp_path / page).write_text(text, encoding="utf-8")
    with pytest.raises(BuildError) as caught:
        build(tmp_path)
    places = [line.split(": ")[0] for line in caught.value.lines]
    assert places == [f"{page}:{line}" for page in pages for line in (3, 3, 5, 7)]


def test_mistakes_of_a_notebook_come_cell_by_cell() -> None:
    problems = Problems()
    told = [
        "b.ipynb, cell 2 [fig-x], line 1: d",
        "b.ipynb, cell 1, line 9 (b.md:2): c",
        "b.ipynb: b",
        "a.md: a",
    ]
    for line in ["_part.md:1: e", *told, "_quarto.yml: first"]:
        problems.add(*line.split(": ", 1))
    with pytest.raises(BuildError) as caught:
        problems.raise_if_any(["a.md", "b.ipynb"])
    assert caught.value.lines == ["_quarto.yml: first", *reversed(told), "_part.md:1: e"]
