"""Code in colours, in few bytes, with the long part of a docstring in a fold.

Pandoc colours code with one span a token, which would be a third of a chapter's bytes. Here a run of one
colour is one element of two letters (``<k->``: a valid name without meaning, so nothing reads it aloud). What
a docstring says beyond its first paragraph stands in ``<d->``: the page's script folds it and puts a button
before the closing quotes; on paper and without the script it shows. The code's text is the source's.
"""

from __future__ import annotations

import ast
import html
import re
from itertools import pairwise

__all__ = ["COLOURS", "compact", "docstring_rests"]

# Pandoc's classes of code -> the element of their colour; the others have the colour of code itself.
COLOURS = {
    name: f"{letter}-"
    for letter, names in {
        "k": "kw cf im", "b": "bu dt va", "f": "fu ex", "n": "dv bn fl cn", "s": "st ch ss vs sc",
        "c": "co do an cv in", "e": "er al",
    }.items()
    for name in names.split()
}  # fmt: skip
_BLOCK = re.compile(
    r'<div class="sourceCode" id="cb\d+"[^>]*><pre\s+class="sourceCode ?([\w-]*)[^>]*>'
    r'<code class="sourceCode[^>]*>(.*?)</code></pre></div>',
    re.S,
)
_TOKEN = re.compile(r'<span class="(\w\w)">|<span [^>]*>|<(a) [^>]*></a>|(</span>)|([^<]+)')
_LONG = re.compile(r'"""|\'\'\'|(?:&quot;){3}|(?:&#39;){3}')  # quotes of a docstring
_Run = tuple[str, str]  # element of the colour or "", text


def compact(page: str) -> str:
    """Return HTML of Pandoc's with each block of coloured code made small."""
    return _BLOCK.sub(_block, page)


def _block(match: re.Match[str]) -> str:
    runs = _runs(match[2].replace("&quot;", '"').replace("&#39;", "'"))
    folds: list[tuple[int, int]] = []
    if match[1] == "python" and _LONG.search(match[2]):
        runs = [(name, html.unescape(text)) for name, text in runs]  # a fold's place is the text's
        folds = docstring_rests("".join(text for _, text in runs))
        runs = runs if folds else [(name, html.escape(text, quote=False)) for name, text in runs]
    markup = _folded(runs, folds) if folds else "".join(_coloured(name, text) for name, text in runs)
    return f'<div class="sourceCode"><pre><code>{markup}</code></pre></div>'


def _runs(code: str) -> list[_Run]:
    """The coloured runs of one block, escaped; space joins the run before it, as it has no colour."""
    runs: list[_Run] = []
    names: list[str] = []
    for match in _TOKEN.finditer(code):
        if match[2]:  # the empty link of a line
            continue
        if match[3]:
            names.pop()
        elif match[4] is None:
            names.append(COLOURS.get(match[1] or "", ""))
        else:
            text, name = match[4], names[-1] if names else ""
            if runs and (runs[-1][0] == name or not text.strip()):
                runs[-1] = (runs[-1][0], runs[-1][1] + text)
            else:
                runs.append((name, text))
    return runs


def _coloured(name: str, text: str) -> str:
    """A run as HTML. Space at its ends stays outside: what follows a fold is an element of its own."""
    inner = text.strip()
    if not (name and inner):
        return text
    start = text.index(inner)
    return f"{text[:start]}<{name}>{inner}</{name}>{text[start + len(inner) :]}"


def _folded(runs: list[_Run], folds: list[tuple[int, int]]) -> str:
    """The runs of plain text as HTML, with each (start, end) of the text in a ``<d->``."""
    marks = {at: mark for start, end in folds for at, mark in ((start, "<d->"), (end, "</d->"))}
    out: list[str] = []
    at = 0
    for name, text in runs:
        cuts = sorted({0, len(text), *(mark - at for mark in marks if 0 < mark - at < len(text))})
        for start, end in pairwise(cuts):
            out.append(marks.get(at + start, ""))
            out.append(_coloured(name, html.escape(text[start:end], quote=False)))
        at += len(text)
    return "".join(out)


def docstring_rests(code: str) -> list[tuple[int, int]]:
    """Return (start, end) of what each docstring of ``code`` says beyond its first paragraph.

    The last line's indentation is left out, so that the closing quotes keep their place. Code that is no
    Python (a cell with magics) has none.

    >>> code = 'def f():\\n    ' + '"' * 3 + 'One.\\n\\n    Two.\\n    ' + '"' * 3
    >>> [code[start:end] for start, end in docstring_rests(code)]
    ['\\n\\n    Two.']
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return []
    found: list[tuple[int, int]] = []
    lines = code.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:  # ast counts columns in bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = node.body[0]
        if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
            continue
        value = first.value
        if not isinstance(value.value, str) or value.end_lineno is None or value.end_col_offset is None:
            continue
        begin, end = offset(value.lineno, value.col_offset), offset(value.end_lineno, value.end_col_offset)
        if not code[:end].endswith(('"""', "'''")):
            continue
        blank = re.compile(r"[ \t]*\n[ \t]*\n").search(code, begin, end)
        rest = code[blank.start() : end - 3].rstrip() if blank else ""
        if blank and rest.strip():
            found.append((blank.start(), blank.start() + len(rest)))
    return sorted(found)
