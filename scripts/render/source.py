"""A page's source as one Markdown text, with the origin of every line.

A notebook becomes Markdown as Quarto makes it: Markdown cells as they are (so a div may span cells), a code
cell as a div that holds its code, its captions and its outputs. Nothing is executed. Figures leave the text;
a raw block of format ``figure`` holds their place.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .config import Page
from .crossref import KINDS, kind_of
from .problems import Problems

__all__ = ["LOADER", "OPTIONS", "Cell", "Source", "read"]

# Cell options (`#| key: value`) and the values they take; None is "any text".
OPTIONS: dict[str, tuple[object, ...] | None] = {
    "label": None, "fig-cap": None, "fig-alt": None, "fig-subcap": None, "layout-ncol": None, "tbl-cap": None,
    "lst-label": None, "lst-cap": None, "code-summary": None,
    "echo": (True, False), "eval": (True, False), "include": (True, False), "warning": (True, False),
    "output": (True, False, "asis"), "code-fold": (True, False, "show"),
}  # fmt: skip
# As safe_load does, but read by libyaml where PyYAML has it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_ANSI = re.compile(r"\x1b\[([\d;]*)m|\x1b\[[\d;?]*[A-Za-z]")
_INCLUDE = re.compile(r"^\{\{<\s*include\s+(\S+)\s*>\}\}\s*$")


@dataclass
class Cell:
    """A code cell: its number (from 1, over all cells), options, and what identifies it in a message."""

    number: int
    lines: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return str(self.options.get("label", ""))


@dataclass
class Source:
    page: Page
    lines: list[str] = field(default_factory=list)
    origins: list[tuple[str, int, int]] = field(default_factory=list)  # file, cell number or 0, line
    cells: dict[int, Cell] = field(default_factory=dict)
    figures: dict[str, tuple[str, str]] = field(default_factory=dict)  # key -> (MIME type, data)
    last_run: dict[str, Any] = field(default_factory=dict)
    twin: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def add(self, text: str, file: str, cell: int = 0, first: int = 1) -> None:
        for i, line in enumerate(text.split("\n")):
            self.lines.append(line)
            self.origins.append((file, cell, first + i if first else 0))

    def where(self, cell: int = 0, needle: str = "", last: bool = False) -> str:
        """The place of ``needle`` in words: file, cell and line as far as they are known."""
        lines = list(zip(self.lines, self.origins, strict=True)) if needle else []
        for text, (file, number, line) in reversed(lines) if last else lines:
            if needle in text and (not cell or number == cell):
                # What an option or an output put there stands in the cell's own lines, if anywhere.
                own = self.cells[number].lines if number in self.cells else []
                line, text = next(((i, t) for i, t in enumerate(own, 1) if needle in t), (line, text))
                return self._place((file, number, line), text)
        return self.where(0, needle, last) if cell and needle else self._place((self.page.path, cell, 0), "")

    def where_line(self, number: int) -> str:
        """The place of line ``number`` (from 1) of the assembled text."""
        i = min(max(number, 1), len(self.lines)) - 1
        return self._place(self.origins[i], self.lines[i])

    def _place(self, origin: tuple[str, int, int], text: str) -> str:
        file, cell, line = origin
        if not cell:
            return f"{file}:{line}" if line else file
        label = self.cells[cell].label if cell in self.cells else ""
        place = f"{file}, cell {cell}" + (f" [{label}]" if label else "") + (f", line {line}" if line else "")
        # Authors edit the text twin, so a line that occurs there once is named there as well.
        twin = self.twin if text.strip() else []
        hits = [i for i, line in enumerate(twin, 1) if line.rstrip() == text.rstrip()]
        return f"{place} ({Path(file).with_suffix('.md').as_posix()}:{hits[0]})" if len(hits) == 1 else place


def read(root: Path, page: Page, problems: Problems, code_fold: bool = False) -> Source:
    """Assemble the Markdown of ``page``; mistakes go to ``problems``."""
    source = Source(page)
    path = root / page.path
    if path.suffix == ".md":
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            problems.add(page.path, f"byte {error.start} is no UTF-8")
            return source
        _markdown(source, root, text, page.path, 0, problems)
        return source
    twin = path.with_suffix(".md")
    source.twin = twin.read_text(encoding="utf-8", errors="replace").split("\n") if twin.is_file() else []
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells, metadata = notebook["cells"], notebook["metadata"]
        if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
            raise TypeError("its cells are no list of mappings")
        source.last_run = metadata.get("modelcall", {}).get("last_run", {})
        if not isinstance(source.last_run, dict):
            raise TypeError("metadata.modelcall.last_run is no mapping")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problems.add(page.path, f"not a notebook ({type(error).__name__}: {error})")
        return source
    if notebook.get("nbformat") != 4:
        problems.add(page.path, f"nbformat: expected 4, found {notebook.get('nbformat')!r}")
        return source
    for number, cell in enumerate(cells, 1):
        text = _joined(cell.get("source", ""))
        source.add(f"\n```{{=cell}}\n{number}\n```\n", page.path, number, 0)
        if cell["cell_type"] == "markdown":
            _markdown(source, root, text, page.path, number, problems)
        elif cell["cell_type"] == "code":
            _code(source, cell, text, number, code_fold, problems)
        elif text.strip() and text.lstrip().startswith("---"):
            problems.add(source.where(number), "a raw cell with YAML; the page's title is its one H1")
        elif text.strip():
            problems.add(source.where(number), "raw cells are not supported")
    return source


def _joined(text: str | list[str]) -> str:
    return "".join(text) if isinstance(text, list) else text


def _markdown(source: Source, root: Path, text: str, file: str, cell: int, problems: Problems) -> None:
    """Add Markdown, replacing include shortcodes outside code fences by the files they name."""
    if not cell and text.startswith("---\n"):
        problems.add(f"{file}:1", "YAML front matter; the page's title is its one H1")
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and fence and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        include = None if fence else _INCLUDE.match(line)
        if not include:
            source.add(line, file, cell, number)
            continue
        target = source.page.resolve(include[1])
        if not (root / target).is_file():
            source.add("", file, cell, number)
            problems.add(source._place((file, cell, number), line), f"include: no file {target!r}")
        else:
            _markdown(source, root, (root / target).read_text(encoding="utf-8"), target, 0, problems)
    source.add("", file, cell, 0)


def _options(source: Source, cell: Cell, problems: Problems) -> str:
    """Take the ``#|`` lines off the top of the cell into its options; return the rest."""
    count = next((i for i, line in enumerate(cell.lines) if not line.startswith("#|")), len(cell.lines))
    try:
        text = "\n".join(line[2:].removeprefix(" ") for line in cell.lines[:count])
        options = yaml.load(text, Loader=LOADER) or {}
        if not isinstance(options, dict):
            raise ValueError(f"expected `#| key: value` lines, found {options!r}")
    except (yaml.YAMLError, ValueError) as error:
        problems.add(source.where(cell.number), f"cell options: {' '.join(str(error).split())}")
        options = {}
    cell.options = options
    for key, value in options.items():
        allowed = OPTIONS.get(key, ())
        if key not in OPTIONS:
            wrong = f"unknown cell option {key!r}; supported: {', '.join(sorted(OPTIONS))}"
        elif allowed and not any(value is one or (value == one and isinstance(one, str)) for one in allowed):
            wrong = f"option {key!r}: expected one of {allowed}, found {value!r}"
        else:
            continue
        line = next((i for i, text in enumerate(cell.lines, 1) if text.startswith(f"#| {key}:")), 0)
        place = source._place((source.page.path, cell.number, line), cell.lines[line - 1] if line else "")
        problems.add(place, wrong)
    return "\n".join(cell.lines[count:]).strip("\n")


def _code(
    source: Source, raw: dict[str, Any], text: str, number: int, fold: bool, problems: Problems
) -> None:
    """Add a code cell: a div with its code and outputs, those of a figure or table in a div of its label."""
    cell = source.cells[number] = Cell(number, text.split("\n"))
    code = _options(source, cell, problems)
    options = {"code-fold": fold} | cell.options
    evaluated = options.get("eval", True)
    if not code.strip() and not raw.get("outputs"):
        return
    if raw.get("execution_count") is None and evaluated:
        where = source.where(number)
        problems.add(
            where, "the cell has no execution count: it was never run; run it, or say `#| eval: false`"
        )
    if not options.get("include", True):
        return
    kind = kind_of(cell.label)
    name = f"cell-{cell.label}" if kind else cell.label
    parts = [f"\n::: {{{f'#{name} ' if name else ''}.cell}}\n"]
    if options.get("echo", True) and code.strip():
        parts.append(_listing(options, code))
    shown = raw.get("outputs", []) if evaluated and options.get("output", True) else []
    outputs = [
        _output(source, cell, output, f"{number}-{i}", raw, problems) for i, output in enumerate(shown)
    ]
    figures = [text for text in outputs if text.startswith("```{=figure}")]
    markdown = [text for text in outputs if text.startswith("::: {.cell-output .cell-output-markdown}")]
    own = {"fig": figures or markdown, "tbl": markdown}.get(kind, [])
    _check_cell(source, cell, kind, bool(figures), len(own), problems)
    for output in outputs:
        if own and output is own[0]:
            parts.append(_float(cell, kind, own))
        elif not any(output is one for one in own):
            parts.append(output)
    source.add("\n".join([*parts, ":::\n"]), source.page.path, number, 0)


def _listing(options: dict[str, Any], code: str) -> str:
    fence = _fence(code)
    text = f"{fence}{{.python .cell-code}}\n{code}\n{fence}\n"
    if fold := options["code-fold"]:
        summary = html.escape(str(options.get("code-summary", "Code")))
        start = f'<details class="code-fold"{" open" if fold == "show" else ""}><summary>{summary}</summary>'
        text = f"```{{=html}}\n{start}\n```\n\n{text}\n```{{=html}}\n</details>\n```\n"
    if label := options.get("lst-label"):
        text = f"::: {{#{label}}}\n{text}\n{options.get('lst-cap', '')}\n:::\n"
    return text


def _check_cell(source: Source, cell: Cell, kind: str, drawn: bool, count: int, problems: Problems) -> None:
    where, options = source.where(cell.number), cell.options
    word, name = KINDS.get(kind, ""), f"label {cell.label!r}"
    if drawn and not options.get("fig-alt"):
        problems.add(where, "a figure without fig-alt: say what it shows (`#| fig-alt: ...`)")
    if kind not in ("fig", "tbl", ""):
        problems.add(where, f"{name}: a cell makes fig- and tbl- targets (lst-label for code)")
    elif kind and not options.get("eval", True):
        problems.add(where, f"{name}: a cell that is not evaluated makes no {word}")
    elif kind and not count:
        problems.add(where, f"{name}: the cell stores no output that is a {word}")
    elif kind and not options.get(f"{kind}-cap"):
        problems.add(where, f"{name} without {kind}-cap: a {word} has a caption")
    if "fig-subcap" in options and len(options["fig-subcap"]) != count:
        problems.add(where, f"{len(options['fig-subcap'])} fig-subcap for {count} figures")


def _float(cell: Cell, kind: str, own: list[str]) -> str:
    """The div of a labelled figure or table: what it shows, then its caption; parts may have captions too."""
    label, options = cell.label, cell.options
    if kind == "fig" and "fig-subcap" in options:
        own = [
            f"::: {{#{label}-{i} .subfigure}}\n{text}\n{caption}\n:::\n"
            for i, (text, caption) in enumerate(zip(own, options["fig-subcap"], strict=False), 1)
        ]
    layout = f" layout-ncol={options['layout-ncol']}" if "layout-ncol" in options else ""
    return "\n".join([f"::: {{#{label}{layout}}}\n", *own, f"{options.get(f'{kind}-cap', '')}\n:::\n"])


def _output(
    source: Source, cell: Cell, output: dict[str, Any], key: str, raw: dict[str, Any], problems: Problems
) -> str:
    """The Markdown of one output, or "" if it is not shown."""
    where, kind = source.where(cell.number), output["output_type"]
    if kind == "stream":
        text, name = _joined(output["text"]), output["name"]
        if name == "stderr" and not cell.options.get("warning", True):
            return ""
        asis = cell.options.get("output") == "asis" and name == "stdout"
        return _div("markdown", text) if asis else _div(name, _preformatted(text))
    if kind == "error":
        if "raises-exception" not in raw.get("metadata", {}).get("tags", []):
            problems.add(
                where, f"the stored output is an error: {output.get('ename')}: {output.get('evalue')}"
            )
        return _div("error", _preformatted("\n".join(output.get("traceback", []))))
    data = {key: _joined(value) for key, value in output.get("data", {}).items() if "json" not in key}
    if "text/html" in data:
        problems.add(where, "a text/html output makes Quarto load scripts from a CDN; emit text/markdown")
        return ""
    if "text/markdown" in data:
        return _div("markdown", data["text/markdown"])
    for mime in ("image/svg+xml", "image/png"):
        if mime in data:
            source.figures[key] = (mime, data[mime])
            return f"```{{=figure}}\n{key}\n```\n"
    if list(output.get("data", {})) == ["text/plain"]:
        return _div("display", _preformatted(data["text/plain"]))
    found = ", ".join(sorted(output.get("data", {}))) or "nothing"
    problems.add(where, f"output of type {found} is not supported")
    return ""


def _div(name: str, text: str) -> str:
    return f"::: {{.cell-output .cell-output-{name}}}\n\n{text}\n\n:::\n"


def _fence(text: str, least: int = 3) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])


def _preformatted(text: str) -> str:
    """Program output as a raw ``<pre>``: no Markdown, ANSI colours as classes, progress bars overwritten."""
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.rstrip("\n").split("\n")]
    out, opened, last = [], 0, 0
    joined = "\n".join(lines)
    for match in _ANSI.finditer(joined):
        out.append(html.escape(joined[last : match.start()], quote=False))
        last = match.end()
        codes = [int(c or 0) for c in (match[1] or "").split(";") if c.isdigit() or not c]
        if match[1] is not None and 0 in codes:
            out.append("</span>" * opened)
            opened = 0
        names = [f"ansi-{c}" for c in codes if c in (1, 3, 4) or 30 <= c <= 37 or 90 <= c <= 97]
        if names:
            out.append(f'<span class="{" ".join(names)}">')
            opened += 1
    body = "".join(out) + html.escape(joined[last:], quote=False) + "</span>" * opened
    fence = _fence(body)
    return f"{fence}{{=html}}\n<pre><code>{body}\n</code></pre>\n{fence}"
