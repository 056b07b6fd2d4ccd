"""Sources that are broken as files: the tools name the file and what is wrong with it, and write nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import notebooks
import sync
import tangle
from notebooks import BookError
from render import config, source
from render.problems import BuildError, Problems
from render.serve import serve

EMPTY: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
BROKEN = {
    "too deep": "[" * 200_000,
    "cells null": json.dumps(EMPTY | {"nbformat_minor": 4, "cells": None}),
    "cells of numbers": json.dumps(EMPTY | {"cells": [1]}),
    "record a list": json.dumps(EMPTY | {"metadata": {"modelcall": [1]}}),
    "record null": json.dumps(EMPTY | {"metadata": {"modelcall": None}}),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_notebook_is_refused_by_every_reader(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chapters" / "01-x.ipynb"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BookError, match=r"^chapters/01-x\.ipynb: cannot be read as a notebook: "):
        notebooks.read(path, tmp_path)
    problems = Problems()
    source.read(tmp_path, config.Page("chapters/01-x.ipynb", "chapter"), problems)
    assert any(line.startswith("chapters/01-x.ipynb: not a notebook (") for line in problems.lines)


@pytest.mark.parametrize("suffix", ["md", "ipynb"])
def test_a_folder_in_a_page_s_place(tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "chapters" / f"01-x.{suffix}").mkdir(parents=True)
    assert sync.main([], tmp_path) == 1
    assert capsys.readouterr().err == f"sync: chapters/01-x.{suffix}: is a folder; expected a file\n"


def test_a_folder_in_a_generated_file_s_place(tmp_path: Path) -> None:
    module = tangle.Module("ch01", "chapters/01-x.ipynb", {"_generated.py": b""})
    (tmp_path / "code/modelcall/ch01/_generated.py").mkdir(parents=True)
    with pytest.raises(BookError, match=r"ch01/_generated\.py: is a folder"):
        tangle.drift(module, tmp_path)
    with pytest.raises(BookError, match="is a folder; expected a file"):
        notebooks.write_atomic(tmp_path / "code", b"")


def test_a_page_that_is_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_bytes(b"# T\n\xff")
    problems = Problems()
    source.read(tmp_path, config.Page("index.md", "index"), problems)
    assert list(problems.lines) == ["index.md: byte 4 is no UTF-8"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"- 1", r"_quarto\.yml: expected a mapping, found \[1\]"),
        (b"\xff", r"_quarto\.yml: not YAML"),
        (b"project: {type: book}\nbook: {chapters: [3]}", r"book\.chapters: 3 is neither"),
    ],
)
def test_a_broken_table_of_contents(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "_quarto.yml").write_bytes(data)
    with pytest.raises(BuildError, match=message):
        config.load(tmp_path, Problems())


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_builds_nothing(tmp_path: Path, port: int) -> None:
    with pytest.raises(BuildError, match=f"--port: expected 0 to 65535, found {port}"):
        serve(tmp_path, tmp_path, port, lambda: pytest.fail("built"))
