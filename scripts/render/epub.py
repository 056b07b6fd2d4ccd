"""The book as an EPUB: the pages' own trees through Pandoc, then packed so that equal books are equal bytes.

Formulas are MathML, drawings are SVG files on paper of their own (so that a dark reader keeps their ink
visible), what is interactive is its table. Ids are made unique over the book and links lead inside it. Pandoc
splits at chapters and writes the contents; the identifier comes from the title, the date from the last run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import re
import subprocess
import tempfile
import uuid
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .config import Book, Page
from .cover import cover
from .pandoc import Pandoc, nocite, write_atomic
from .plain import Plain
from .problems import BuildError
from .transform import Transform
from .tree import Node, Walker, strings

__all__ = ["NAME", "Chapter", "epub"]

NAME = "book.epub"
_STYLE = Path(__file__).parent / "assets" / "epub" / "book.css"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a ZIP archive can hold
_HREF = re.compile(rb'href="[^"]*"')
# A control character in JSON, where a backslash in the text is two.
_NO_XML = re.compile(r"(?<!\\)(?:\\\\)*\\(u00(?:0[0-7bef]|1[0-9a-f])|ufff[ef]|[bf])")
_RECIPE = "1"  # changes when the way of packing does


@dataclass
class Chapter:
    """A page on its way into the EPUB."""

    page: Page
    blocks: list[Node]
    transform: Transform
    date: str = ""


class _Ids(Walker):
    """Makes the ids of one page unique over the book, and notes what each became."""

    def __init__(self, page: Page, taken: set[str]) -> None:
        self.page, self.taken = page, taken
        self.became: dict[str, str] = {}
        self.title = ""

    def _attr(self, attr: list[Any]) -> list[Any]:
        name = attr[0]
        if not name:
            return attr
        new = name if name not in self.taken else f"{Path(self.page.path).stem}-{name}"
        self.taken.add(new)
        self.became.setdefault(name, new)
        return [new, *attr[1:]]

    def on_div(self, node: Node) -> list[Node] | None:
        return [{"t": "Div", "c": [self._attr(node["c"][0]), self.walk(node["c"][1])]}]

    def on_span(self, node: Node) -> list[Node] | None:
        return [{"t": "Span", "c": [self._attr(node["c"][0]), self.walk(node["c"][1])]}]

    def on_figure(self, node: Node) -> list[Node] | None:
        return [{"t": "Figure", "c": [self._attr(node["c"][0]), *self.walk(node["c"][1:])]}]

    def on_header(self, node: Node) -> list[Node] | None:
        level, attr, content = node["c"]
        new = self._attr(attr)
        self.title = self.title or new[0]
        # Numbers are in the words already, and the contents take their words from here.
        return [{"t": "Header", "c": [level, [new[0], ["unnumbered"], []], self.walk(content)]}]


class _Links(Walker):
    """Leads every link of a page to its place in the EPUB, and every picture to its file."""

    def __init__(self, page: Page, ids: dict[str, _Ids]) -> None:
        self.page, self.ids = page, ids

    def on_link(self, node: Node) -> list[Node] | None:
        attr, content, (address, title) = node["c"]
        content = self.walk(content)
        if re.match(r"[a-z]+:", address):
            return [{"t": "Link", "c": [attr, content, [address, title]]}]
        path, _, fragment = address.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(self.page.output), path))
        there = self.ids.get(target if path else self.page.output)
        if there is None:  # a file of the site, which the EPUB does not hold
            return list(content)
        name = there.became.get(fragment, fragment) if fragment else there.title
        return [{"t": "Link", "c": [attr, content, [f"#{name}", title]]}]

    def on_image(self, node: Node) -> list[Node] | None:
        attr, words, (address, title) = node["c"]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.page.output), address))
        return [{"t": "Image", "c": [attr, words, [path, title]]}]


def epub(book: Book, chapters: list[Chapter], pandoc: Pandoc, cited: list[str], cache: Path) -> bytes:
    """Return the EPUB's bytes: the same for the same sources."""
    files: dict[str, bytes] = {}
    trees: list[tuple[Page, list[Node], _Ids]] = []
    taken: set[str] = set()
    for chapter in chapters:
        if odd := _NO_XML.search(json.dumps(chapter.blocks)):
            what = f"a character that XML has not (JSON's \\{odd[1]}), so the EPUB cannot hold it"
            raise BuildError([f"{chapter.page.path}: {what}; print its repr()"])
        plain = Plain(chapter.transform, pandoc, _Drawings(chapter, files).show).walk(chapter.blocks)
        ids = _Ids(chapter.page, taken)
        trees.append((chapter.page, ids.walk(plain), ids))
        for name, data in chapter.transform.files.items():
            files[name] = data if isinstance(data, bytes) else data.read_bytes()
    known = {page.output: ids for page, _, ids in trees}
    blocks = [block for page, tree, _ in trees for block in _Links(page, known).walk(tree)]
    date = max((chapter.date for chapter in chapters), default="") or "1980-01-01"
    files["cover.svg"] = cover(book.title, book.subtitle, book.author).encode()
    return _packed(_run(book, blocks, pandoc, files, cited, date, cache))


class _Drawings:
    """Puts a chapter's drawings among the files."""

    def __init__(self, chapter: Chapter, files: dict[str, bytes]) -> None:
        self.chapter, self.files = chapter, files

    def show(self, key: str, alt: str) -> list[Node]:
        page = self.chapter.page
        name = f"{Path(page.path).with_suffix('').as_posix()}_files/{key.strip('-')}.svg"
        text = re.sub(
            r"<!DOCTYPE[^>\[]*(\[.*?\])?\s*>", "", self.chapter.transform.drawings[key][0], flags=re.S
        )
        self.files[name] = text.encode()
        return [{"t": "Image", "c": [["", [], []], strings(alt), [page.up + name, ""]]}]


def _run(
    book: Book,
    blocks: list[Node],
    pandoc: Pandoc,
    files: dict[str, bytes],
    cited: list[str],
    date: str,
    cache: Path,
) -> bytes:
    """Pandoc's EPUB of ``blocks``, kept by content."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{book.repo_url}#{book.title}")
    meta: dict[str, Any] = {
        key: {"t": "MetaString", "c": value}
        for key, value in {
            "title": book.title, "subtitle": book.subtitle, "author": book.author, "lang": book.lang,
            "date": date, "identifier": f"urn:uuid:{identity}",
            "description": book.description or book.subtitle,
        }.items()
        if value
    }  # fmt: skip
    if cited:
        meta["nocite"] = {"t": "MetaInlines", "c": [nocite(cited)]}
    meta["link-citations"] = {"t": "MetaBool", "c": True}
    tree = json.dumps({"pandoc-api-version": [1, 23, 1], "meta": meta, "blocks": blocks}, sort_keys=True)
    works = (
        ["--citeproc", "--bibliography", str(book.root / book.bibliography)]
        if cited and book.bibliography
        else []
    )
    style = _STYLE.read_bytes()
    parts = [_RECIPE.encode(), pandoc.executable[1].encode(), tree.encode(), style]
    parts += [name.encode() + data for name, data in sorted(files.items())]
    parts += [(book.root / book.bibliography).read_bytes()] if works and book.bibliography else []
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()
    stored = cache / f"{digest[:40]}.epub"
    if stored.is_file():
        return stored.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        for name, data in {**files, "style.css": style}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        command = [pandoc.executable[0], "-f", "json", "-t", "epub3", "--mathml", "--toc", "--toc-depth=2",
                   "--split-level=1", "--css", "style.css", "--epub-cover-image", "cover.svg", *works,
                   "-o", "out.epub"]  # fmt: skip
        environment = {**os.environ, "SOURCE_DATE_EPOCH": _seconds(date)}
        done = subprocess.run(
            command, input=tree.encode(), cwd=folder, env=environment, capture_output=True, check=False
        )
        errors = done.stderr.decode(errors="replace").strip()
        if done.returncode or "[WARNING]" in errors:
            raise BuildError([f"EPUB: {line}" for line in errors.splitlines()] or ["EPUB: Pandoc failed"])
        data = Path(folder, "out.epub").read_bytes()
    write_atomic(stored, data)
    return data


def _seconds(date: str) -> str:
    day = re.match(r"\d{4}-\d\d-\d\d", date)
    return str(int(datetime.fromisoformat(day[0] if day else "1980-01-01").replace(tzinfo=UTC).timestamp()))


def _address(match: re.Match[bytes]) -> bytes:
    return match[0].replace(b"&lt;", b"%3C").replace(b"&gt;", b"%3E")


def _packed(data: bytes) -> bytes:
    """The same archive with fixed times and order, the media type first and stored, as EPUB wants it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        names = sorted(source.namelist(), key=lambda name: (name != "mimetype", name))
        for name in names:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            text = source.read(name)
            # A DOI may hold characters that an address may not; XML escapes them, an address spells them.
            target.writestr(entry, _HREF.sub(_address, text) if name.endswith(".xhtml") else text)
    return out.getvalue()
