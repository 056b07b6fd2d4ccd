"""Files that are written, swapped and served while others write, read or delete them."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from render import serve, site
from render.pandoc import write_atomic
from render.problems import BuildError
from render.site import put_in_place, swap

# -- files ---------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomic(tmp_path / "kept.json", b"1")
    assert caught.value.filename == str(tmp_path / "kept.json") and not list(tmp_path.iterdir())


def test_two_builds_at_once_leave_one_whole_site(tmp_path: Path) -> None:
    wrong: list[BaseException] = []

    def builds(name: str) -> None:
        try:
            for n in range(40):
                swap(tmp_path / "site", {"a.txt": f"{name}{n}".encode(), "b.txt": f"{name}{n}".encode()})
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=builds, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (tmp_path / "site/a.txt").read_bytes() == (tmp_path / "site/b.txt").read_bytes()


def test_an_interrupt_between_two_renames_leaves_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("site", "fresh"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name, encoding="utf-8")
    rename = Path.rename

    def interrupted(self: Path, to: Path) -> Path:
        if self.name == "fresh":
            raise KeyboardInterrupt
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put_in_place(tmp_path / "fresh", tmp_path / "site")
    assert (tmp_path / "site/a.txt").read_text(encoding="utf-8") == "site"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "site"]


def test_what_a_killed_build_left_goes_and_what_another_writes_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".site-building-abcdefgh-old").mkdir()
    (tmp_path / ".site-packages").mkdir()
    swap(tmp_path / "site", {"a.txt": b"1"})
    left = {".site-building-abcdefgh-old", ".site-packages", "site"}
    assert {path.name for path in tmp_path.iterdir()} == left
    monkeypatch.setattr(site, "_LEFT_S", -1)
    swap(tmp_path / "site", {"a.txt": b"1"})
    assert {path.name for path in tmp_path.iterdir()} == {".site-packages", "site"}


# -- serving -------------------------------------------------------------------------------------------------


def test_a_page_that_is_gone_for_a_moment_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "index.html"
    assert serve._content(page) is None
    monkeypatch.setattr(time, "sleep", lambda seconds: page.write_bytes(b"here"))
    assert serve._content(page) == b"here"


def test_a_source_that_is_gone_for_a_moment_does_not_end_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("a", encoding="utf-8")
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    calls: list[Any] = []

    def rebuild() -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "a.md")

    def edit(seconds: float) -> None:
        if len(calls) == 3:
            raise KeyboardInterrupt
        (tmp_path / f"{len(calls)}.md").write_text("new", encoding="utf-8")

    monkeypatch.setattr(time, "sleep", edit)
    assert serve.serve(tmp_path, tmp_path / "_book", 0, rebuild) == 0
    assert calls == [0, 1, 2]
    assert (
        "still serving the last good site\n[Errno 2] No such file or directory: 'a.md'"
        in capsys.readouterr().err
    )


def test_a_port_that_is_taken_is_told_before_anything_is_built(tmp_path: Path) -> None:
    with serve._Server(("127.0.0.1", 0), serve._Handler) as server:
        port = server.server_port
        with pytest.raises(BuildError, match=rf"--port {port}: .*; name another"):
            serve.serve(tmp_path, tmp_path / "_book", port, lambda: pytest.fail("it was built"))


def test_files_that_vanish_while_they_are_looked_at_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("a", encoding="utf-8")
    (tmp_path / "b.md").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    assert list(serve.stamp(tmp_path, tmp_path / "_book")) == [str(tmp_path / "a.md")]


def test_a_browser_that_goes_away_is_not_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with serve._Server(("127.0.0.1", 0), serve._Handler) as server:
        for error, told in ((BrokenPipeError(), False), (ZeroDivisionError(), True)):
            try:
                raise error
            except Exception:
                server.handle_error(None, ("127.0.0.1", 1))
            assert bool(capsys.readouterr().err) is told
