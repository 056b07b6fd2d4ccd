"""What a built site says about itself: whether its links hold, and an inventory to compare two builds by.

``inventory`` reads the HTML of this renderer and of Quarto; both mark numbers and references by the same
class names, and where the markup differs the reader below knows both.
"""

from __future__ import annotations

import html
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links", "inventory", "site_pages"]

_TAG = re.compile(r"<([a-zA-Z][\w-]*)((?:\s+[^\s=>\"']+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>]+))?)*)\s*/?>")
_ATTRIBUTE = re.compile(r"([^\s=\"']+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_LOADS = {"src", "srcset", "poster", "data"}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


def site_pages(root: Path) -> dict[str, str]:
    """Read every page below ``root``: path from it -> HTML."""
    return {
        p.relative_to(root).as_posix(): p.read_text(encoding="utf-8") for p in sorted(root.rglob("*.html"))
    }


def broken_links(pages: dict[str, str], files: set[str]) -> list[tuple[str, str, str]]:
    """Return (page, address, what is wrong) for every link of ``pages`` that leads nowhere.

    ``files`` are the site's files other than pages. An address on another host is fine to click on, but
    never to load from. Two elements of a page with one id are reported here too.
    """
    wrong: list[tuple[str, str, str]] = []
    ids: dict[str, set[str]] = {}
    links: list[tuple[str, str, bool]] = []
    for page, text in pages.items():
        ids[page] = set()
        text = re.sub(r"<!--.*?-->|(<script\b[^>]*>).*?</script>", r"\1", text, flags=re.S)
        for tag, body in _TAG.findall(text):
            for key, double, single in _ATTRIBUTE.findall(body):
                value = html.unescape(double or single)
                if key == "id":
                    if value in ids[page]:
                        wrong.append((page, value, f"duplicate id {value!r}"))
                    ids[page].add(value)
                elif key == "href" or key in _LOADS:
                    links.append((page, value, key in _LOADS or tag == "link"))
    for page, address, loads in links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if parts.scheme not in ("data", "mailto") and loads:
                wrong.append((page, address, f"loads {address!r} from outside the site"))
            continue
        path = unquote(parts.path)
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        if path.endswith("/"):
            target = posixpath.join(target, "index.html")
        if target not in pages and target not in files:
            wrong.append((page, address, f"link to {address!r}: the site has no {target!r}"))
        elif parts.fragment and target in ids and unquote(parts.fragment) not in ids[target]:
            wrong.append((page, address, f"link to {address!r}: {target!r} has no id {parts.fragment!r}"))
    return wrong


class _Reader(HTMLParser):
    """Collects headings, captions, references, equation numbers and ids of one page's main part."""

    def __init__(self, path: str) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.found: dict[str, list[Any]] = {
            k: [] for k in ("headings", "captions", "references", "equations", "boxes", "ids")
        }
        self.stack: list[tuple[str, str]] = []  # tag, id of the nearest element with one
        self.open: list[tuple[int, str, dict[str, str], list[str]]] = []  # depth, list name, entry, text
        self.depth_main = 0
        self.mute = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {k: v or "" for k, v in attrs}
        classes = values.get("class", "").split()
        near = values.get("id") or (self.stack[-1][1] if self.stack else "")
        near = "" if tag == "main" else near
        if tag not in _VOID:
            self.stack.append((tag, near))
        if tag == "main" and not self.depth_main:
            self.depth_main = len(self.stack)
        if not self.depth_main or "toc" in values.get("id", "").lower():
            return
        if values.get("id"):
            self.found["ids"].append(values["id"])
        if tag in ("svg", "annotation", "nav", "button", "script") or {"anchor", "anchorjs-link"} & set(
            classes
        ):
            self.mute = self.mute or len(self.stack)
        entry: dict[str, str] | None = None
        name = ""
        if re.fullmatch(r"h[1-6]", tag):
            name, entry = "headings", {"level": tag[1], "id": values.get("id", near), "number": ""}
        elif tag == "figcaption" or (tag == "caption"):
            name, entry = "captions", {"id": re.sub(r"-caption(-\w+)?$", "", near)}
        elif tag == "a" and "quarto-xref" in classes:
            href, _, fragment = values.get("href", "").partition("#")
            target = (
                posixpath.normpath(posixpath.join(posixpath.dirname(self.path), href)) if href else self.path
            )
            name, entry = "references", {"target": f"{target}#{fragment}"}
        elif "equation-number" in classes:
            name, entry = "equations", {"id": near}
        elif {"theorem-title", "callout-title", "callout-title-container"} & set(classes):
            name, entry = "boxes", {"id": near}
        elif {"chapter-number", "header-section-number"} & set(classes) and self.open:
            name, entry = "number", {}
        elif tag == "span" and "quarto-section-identifier" in classes and self.open:
            self.open[-1][2]["id"] = values.get("id", "")
        if entry is not None:
            self.open.append((len(self.stack), name, entry, []))

    def handle_data(self, data: str) -> None:
        if self.mute:
            return
        for _, _, _, text in self.open:
            text.append(data)

    def handle_endtag(self, tag: str) -> None:
        while self.stack and tag not in _VOID:
            depth = len(self.stack)
            if self.open and self.open[-1][0] == depth:
                _, name, entry, text = self.open.pop()
                words = " ".join("".join(text).split())
                if name == "number":
                    self.open[-1][2]["number"] = words
                    del self.open[-1][3][:]
                else:
                    self.found[name].append(entry | {"text": words})
            if self.mute == depth:
                self.mute = 0
            if self.depth_main == depth:
                self.depth_main = 0
            if self.stack.pop()[0] == tag:
                return


def inventory(pages: dict[str, str]) -> dict[str, Any]:
    """Return page -> ids, headings with numbers, captions, reference texts, equation numbers, box titles."""
    result: dict[str, Any] = {}
    for path, text in pages.items():
        reader = _Reader(path)
        reader.feed(text)
        reader.close()
        result[path] = reader.found
    return result
