"""What the book asks of its reader, and how much of that is done.

The list is read from the notebooks beside the running one: every ``predict("1.2 ...")`` and every
``check.exercise_1_2(...)`` in them is an entry, so a new chapter is on the list without anyone writing it
there. What is done comes from the reader's own file (:mod:`modelcall.lab.local`), and on the page from the
browser's storage.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from modelcall.lab import args, bundle, local, tables
from modelcall.lab.predict import shown

__all__ = ["Entry", "entries", "progress"]


class Entry(NamedTuple):
    """One thing asked: ``kind`` is "predict" or "exercise"; ``page`` is the stem of its notebook."""

    kind: str
    number: str
    words: str
    page: str


_EXERCISE = re.compile(r"exercise_(\d+)_(\d+)")


def entries(folder: Path) -> list[Entry]:
    """Return what the notebooks of a folder ask, in the order of the pages.

    Files that are no notebooks are passed over, and so are cells that are not Python.
    """
    found: dict[tuple[str, str], Entry] = {}
    for path in sorted(folder.glob("*.ipynb")):
        for source in _sources(path):
            for entry in _asked(source, path.stem):
                found.setdefault(entry[:2], entry)
    return list(found.values())


def _sources(path: Path) -> Iterator[str]:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            if cell["cell_type"] == "code":
                yield "".join(cell["source"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return


def _asked(source: str, page: str) -> Iterator[Entry]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0] if node.args else None
        if name == "predict" and isinstance(first, ast.Constant) and isinstance(first.value, str):
            number, _, words = first.value.partition(" ")
            yield Entry("predict", number, words, page)
        elif match := _EXERCISE.fullmatch(name):
            number = f"{match[1]}.{match[2]}"
            yield Entry("exercise", number, _title(number), page)


def _title(number: str) -> str:
    from modelcall.checks import titles

    return titles().get(number, "")


def progress(folder: Path | str = ".") -> None:
    """Show what the notebooks of ``folder`` ask for and what of it is done.

    Raises:
        TypeError: ``folder`` is no path.
        ValueError: it is no folder that is there.
    """
    if not isinstance(folder, str | Path):
        raise TypeError(f"folder: expected a path; {args.found(folder)}")
    if not Path(folder).is_dir():
        raise ValueError(f"folder: expected a folder of notebooks; {args.found(str(folder))}")
    asked = entries(Path(folder))
    plain = f"{len(asked)} entries; run this cell in a notebook, or open the page, to see what is done"
    bundle.show_still(_page(asked), plain, lambda module: module.HTML(_live(asked)), _table(asked))


def _name(entry: Entry) -> str:
    return f"{'Prediction' if entry.kind == 'predict' else 'Exercise'} {entry.number}"


def _rows(asked: list[Entry]) -> list[list[str]]:
    kept = local.progress()
    return [[_name(entry), entry.words, _state(entry, kept)] for entry in asked]


def _state(entry: Entry, kept: dict[str, dict[str, Any]]) -> str:
    if entry.kind == "predict":
        value = kept["predictions"].get(entry.number)
        return "open" if value is None else shown(value)
    done = kept["exercises"].get(entry.number, {})
    if done.get("passed"):
        return "solved"
    tries = done.get("tries", 0)
    return "open" if not tries else f"tried {tries} time{'s' * (tries != 1)}"


def _table(asked: list[Entry]) -> str:
    rows = _rows(asked)
    return f"{_sum(rows)}\n\n" + tables.markdown_table(["what", "about", "state"], rows)


def _live(asked: list[Entry]) -> str:
    rows = _rows(asked)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<p>{html.escape(_sum(rows))}</p><table>{body}</table>"


def _sum(rows: list[list[str]]) -> str:
    done = sum(not row[2].startswith(("open", "tried")) for row in rows)
    trouble = local.trouble()
    return f"{done} of {len(rows)} done." + (f" The file {trouble}." if trouble else "")


def _page(asked: list[Entry]) -> str:
    rows = "".join(
        f'<tr data-key="{entry.kind}:{entry.number}"><td>'
        f'<a href="{entry.page}.html#{entry.kind}-{entry.number.replace(".", "-")}">{_name(entry)}</a>'
        f"<td>{html.escape(entry.words, quote=False)}<td>open"
        for entry in asked
    )
    buttons = "".join(
        f'<button type="button" data-do="{do}">{words}</button>'
        for do, words in (("export", "Save as Markdown"), ("print", "Print"), ("reset", "Reset"))
    )
    head = "".join(f'<th scope="col">{name}' for name in ("what", "about", "state"))
    return (
        '<div class="progress"><div class="progress-tools">'
        f'<span role="status">A script fills this list.</span>{buttons}</div>'
        f'<div class="scroll"><table><thead><tr>{head}</thead><tbody>{rows}</tbody></table></div></div>'
        "<noscript><style>.progress button{display:none}</style></noscript>"
    )
