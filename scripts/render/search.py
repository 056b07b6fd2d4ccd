"""The search index: one entry for each section of each page, as a script, so that it loads from ``file://``."""

from __future__ import annotations

import html
import json
import re

__all__ = ["entries", "script"]

_HEADING = re.compile(r"<h([1-3])\b[^>]*?\bid=\"([^\"]+)\"[^>]*>(.*?)</h\1>", re.S)
_HIDDEN = re.compile(
    r"<(svg|annotation|script|style|button|noscript)\b.*?</\1>|<a class=\"anchor\".*?</a>|<!--.*?-->", re.S
)


def words(text: str) -> str:
    """The text of an HTML fragment, without drawings and TeX."""
    text = re.sub(r"</(p|li|td|th|h\d|div|pre|figcaption|dt|dd)>", " ", _HIDDEN.sub("", text))
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def entries(output: str, chapter: str, body: str) -> list[list[str]]:
    """Split a page at its headings: [address, chapter title, section title, text]."""
    found: list[list[str]] = []
    heads = list(_HEADING.finditer(body))
    ends = [head.start() for head in heads[1:]] + [len(body)]
    for head, end in zip(heads, ends, strict=False):
        title = words(head[3])
        address = output if head[1] == "1" else f"{output}#{head[2]}"
        found.append([address, chapter, title, words(body[head.end() : end])])
    return found


def script(index: list[list[str]]) -> str:
    return "window.BOOK_INDEX=" + json.dumps(index, ensure_ascii=False, separators=(",", ":")) + ";\n"
