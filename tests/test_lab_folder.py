"""A reader's folder: run notebooks give way, edited ones stay, and a newer one is laid beside them once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lab_folder
from render.problems import BuildError

NAME = "notebooks/student/01-x.ipynb"


def document(source: str, output: str = "") -> bytes:
    cell = {"cell_type": "code", "source": source, "outputs": [output] if output else []}
    return json.dumps({"cells": [cell]}).encode()


def test_a_notebook_that_was_only_run_gives_way(tmp_path: Path) -> None:
    assert lab_folder.update(tmp_path, {NAME: document("a"), "wheels/x.whl": b""})
    path = tmp_path / "student/01-x.ipynb"
    path.write_bytes(document("a", "42"))
    assert lab_folder.update(tmp_path, {NAME: document("a")}) == []
    assert path.read_bytes() == document("a", "42")  # the same cells: its outputs stay
    lab_folder.update(tmp_path, {NAME: document("b")})
    assert path.read_bytes() == document("b")
    assert not (tmp_path / "wheels").exists()


def test_an_edited_notebook_stays_and_the_newer_one_is_laid_beside_it(tmp_path: Path) -> None:
    lab_folder.update(tmp_path, {NAME: document("a")})
    path, beside = tmp_path / "student/01-x.ipynb", tmp_path / "student/01-x-new.ipynb"
    path.write_bytes(document("a, edited"))
    assert lab_folder.update(tmp_path, {NAME: document("a")}) == [] and not beside.exists()
    [_, told] = lab_folder.update(tmp_path, {NAME: document("b")})
    assert "has your edits and stays" in told and beside.name in told
    assert path.read_bytes() == document("a, edited") and beside.read_bytes() == document("b")
    beside.unlink()
    assert lab_folder.update(tmp_path, {NAME: document("b")}) == [] and not beside.exists()


def test_the_newer_one_stays_too_once_it_is_edited(tmp_path: Path) -> None:
    lab_folder.update(tmp_path, {NAME: document("a")})
    path = tmp_path / "student/01-x.ipynb"
    beside, third = (path.with_name(f"01-x-{end}.ipynb") for end in ("new", "new-2"))
    path.write_bytes(document("a, edited"))
    lab_folder.update(tmp_path, {NAME: document("b")})
    lab_folder.update(tmp_path, {NAME: document("c")})  # nobody edited b
    assert beside.read_bytes() == document("c") and not third.exists()
    beside.write_bytes(document("c, edited"))
    [_, told] = lab_folder.update(tmp_path, {NAME: document("d")})
    assert third.name in told and third.read_bytes() == document("d")
    assert beside.read_bytes() == document("c, edited") and path.read_bytes() == document("a, edited")


def test_work_is_kept_where_the_memory_is_lost(tmp_path: Path) -> None:
    lab_folder.update(tmp_path, {NAME: document("a")})
    path = tmp_path / "student/01-x.ipynb"
    path.write_bytes(document("mine"))
    (tmp_path / lab_folder.MEMORY).unlink()
    lab_folder.update(tmp_path, {NAME: document("b")})
    assert path.read_bytes() == document("mine")


def test_mistakes_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BuildError, match="is a file; expected a folder"):
        lab_folder.update(tmp_path / "file", {})
    (tmp_path / lab_folder.MEMORY).write_text("[", encoding="utf-8")
    with pytest.raises(BuildError, match="edited notebooks are kept"):
        lab_folder.update(tmp_path, {})
