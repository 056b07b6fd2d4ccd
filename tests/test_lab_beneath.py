"""Names that others chose stay beneath a folder, also while somebody swaps folders for links."""

from __future__ import annotations

import os
import string
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelcall.lab import beneath
from modelcall.lab.beneath import Outside

HOSTILE = [
    *("..", ".", "", "/", "//", "../a", "a/..", "a/../b", "a//b", "./a", "a/.", "a/", "/etc/passwd"),
    *("..\\keys", "C:\\keys", "C:keys", "a\0b", "a/\0", "notes/../../keys", "a/b/../../../keys"),
]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "notes" / "old").mkdir(parents=True)
    (tmp_path / "keys").write_text("secret", encoding="utf-8")
    (tmp_path / "notes" / "a").write_text("first", encoding="utf-8")
    (tmp_path / "notes" / "old" / "b").write_text("second", encoding="utf-8")
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("path", HOSTILE)
def test_a_name_that_is_more_than_names_is_refused(shop: Path, path: str) -> None:
    before = snapshot(shop)
    notes = str(shop / "notes")
    for act in (
        lambda: beneath.read(notes, path, 100),
        lambda: beneath.size(notes, path),
        lambda: beneath.write(notes, path, b"gone"),
        lambda: beneath.delete(notes, path),
    ):
        with pytest.raises(Outside):
            act()
    assert snapshot(shop) == before


def test_plain_names_are_read_written_and_deleted(shop: Path) -> None:
    notes = str(shop / "notes")
    assert beneath.read(notes, "old/b", 6) == b"second" and beneath.size(notes, "a") == 5
    beneath.write(notes, "old/b", b"new")
    beneath.write(notes, "..c", b"dots in a name lead nowhere")
    assert (shop / "notes" / "old" / "b").read_bytes() == b"new"
    beneath.delete(notes, "a")
    assert set(snapshot(shop / "notes")) == {"..c", "old/b"}


def test_more_than_asked_for_is_not_read(shop: Path) -> None:
    assert beneath.read(str(shop), "keys", 6) == b"secret"
    with pytest.raises(ValueError, match="more than 5 bytes"):
        beneath.read(str(shop), "keys", 5)


@pytest.mark.parametrize("target", ["../keys", "/etc/passwd", "a"])
def test_a_link_is_not_followed_wherever_it_leads(shop: Path, target: str) -> None:
    notes = shop / "notes"
    (notes / "link").symlink_to(target)
    (notes / "up").symlink_to("..")
    before = snapshot(shop)
    for path in ("link", "up/keys"):
        for act in (beneath.size, lambda n, p: beneath.write(n, p, b"x"), beneath.delete):
            with pytest.raises(Outside, match="is a link"):
                act(str(notes), path)
    assert snapshot(shop) == before and (notes / "link").is_symlink()


def test_a_hard_link_into_the_folder_is_not_read_and_not_written_through(shop: Path) -> None:
    os.link(shop / "keys", shop / "notes" / "mine")
    with pytest.raises(Outside, match="second name"):
        beneath.read(str(shop / "notes"), "mine", 100)
    beneath.write(str(shop / "notes"), "mine", b"new")
    assert (shop / "keys").read_bytes() == b"secret" and (shop / "notes" / "mine").read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_and_a_folder_are_no_files(shop: Path) -> None:
    os.mkfifo(shop / "pipe")
    for path in ("pipe", "notes"):
        with pytest.raises(Outside, match="no regular file"):
            beneath.read(str(shop), path, 10)  # a blocking open would hang here


def test_a_missing_file_is_the_system_s_word(shop: Path) -> None:
    for act in (beneath.size, beneath.delete):
        with pytest.raises(FileNotFoundError):
            act(str(shop), "nobody")
    with pytest.raises(FileNotFoundError):
        beneath.write(str(shop), "nowhere/a", b"x")
    with pytest.raises(OSError):
        beneath.write(str(shop), "keys/a", b"x")
    assert set(snapshot(shop)) == {"keys", "notes/a", "notes/old/b"}, "nothing half-written stays behind"


@given(st.lists(st.sampled_from(["a", "..", ".", "", "old", "b", "\\", "link", "é", "a b"]), max_size=6))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_what_passes_is_plain_names(parts: list[str]) -> None:
    path = "/".join(parts)
    plain = bool(parts) and all(part not in ("", ".", "..", "\\") for part in parts)
    if plain:
        assert beneath.split(path) == tuple(parts)
    else:
        with pytest.raises(Outside):
            beneath.split(path)


@given(st.text(string.printable + "\0é", max_size=12))
@settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_nothing_outside_changes_whatever_the_name(shop: Path, path: str) -> None:
    with_notes = str(shop / "notes")
    for act in (lambda: beneath.write(with_notes, path, b"x"), lambda: beneath.delete(with_notes, path)):
        try:
            act()
        except (Outside, OSError):
            continue
    outside = {name: data for name, data in snapshot(shop).items() if not name.startswith("notes")}
    assert outside == {"keys": b"secret"}


@pytest.mark.skipif(not beneath._AT, reason="this system cannot open relative to a folder")
def test_a_folder_swapped_for_a_link_in_between_is_not_followed(shop: Path) -> None:
    """The race that cleaning up a path first loses: a second thread exchanges a folder and a link."""
    notes, stop = shop / "notes", threading.Event()
    (shop / "b").write_text("secret", encoding="utf-8")

    def swap() -> None:
        while not stop.is_set():
            (notes / "old").rename(notes / "away")
            (notes / "old").symlink_to("..")
            (notes / "old").unlink()
            (notes / "away").rename(notes / "old")

    thread = threading.Thread(target=swap)
    thread.start()
    got: set[bytes] = set()
    try:
        for _ in range(1500):
            try:
                got.add(beneath.read(str(notes), "old/b", 100))
                beneath.write(str(notes), "old/b", b"second")
            except (Outside, OSError):
                continue
    finally:
        stop.set()
        thread.join()
    assert got <= {b"second"} and (shop / "b").read_bytes() == b"secret"
