"""The whole build: every page through every stage, then one swap of the finished site into place.

Nothing is written into the site's folder before all pages are built and checked, so a mistake leaves the old
site as it was.
"""

from __future__ import annotations

import hashlib
import html
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import search
from .config import Book, Page, load
from .crossref import Numbering, Register, Resolver
from .downloads import page_line
from .epub import NAME, Chapter, epub
from .fonts import LICENCES, fonts, licences
from .links import broken_links
from .page import Built, Heading, finish, page_html
from .pandoc import Pandoc
from .problems import Problems
from .source import Source, read
from .svg import palette_css
from .transform import Transform
from .tree import Node
from .twin import Works, llms, twin, twin_name

__all__ = ["Draft", "Extra", "Result", "build", "nocite", "put_in_place", "read_pages", "swap"]

_ASSETS = Path(__file__).parent / "assets"


@dataclass
class Result:
    output: Path
    pages: int
    pandoc_runs: int


@dataclass
class Draft:
    """A page of the book, read and numbered."""

    page: Page
    source: Source
    chapter: str
    blocks: list[Node]
    transform: Transform
    cited: list[str] = field(default_factory=list)
    works: Works = field(default_factory=Works)  # what the Markdown twin needs for the works that it cites


Extra = Callable[[Book, "list[Draft]", Register, Pandoc, Problems], dict[str, bytes]]
_SLASHES = re.compile(r"^\s*//.*\n", re.M)


def build(
    root: Path,
    output: Path | None = None,
    cache: Path | None = None,
    extra: Extra | dict[str, bytes] | None = None,
    ebook: bool = False,
) -> Result:
    """Build the book at ``root`` into ``output`` (default: ``_book`` in it).

    ``cache`` (default: in ``root/.quarto``) keeps what Pandoc and the font tools made, by content. ``extra``
    are files to publish beside the pages, by path, or what makes them from the numbered book: a page links to
    its notebooks among them. ``ebook`` adds the book as an EPUB.

    Raises:
        BuildError: the book has mistakes; each is named with its place, and ``output`` is untouched.
    """
    problems = Problems()
    book = load(root, problems)
    cache = cache or root / ".quarto" / "embedded"
    pandoc = Pandoc(cache / "pandoc", root)
    register = Register()
    drafts = read_pages(book, pandoc, register, problems)
    for draft in drafts:
        resolver = Resolver(draft.source, register, problems)
        draft.blocks = resolver.walk(draft.blocks)
        draft.cited = resolver.cited
    site = _write_bodies(book, pandoc, register, drafts, problems)
    beside = extra(book, drafts, register, pandoc, problems) if callable(extra) else extra or {}
    files = {**beside, **_files(book, drafts, site, problems)}
    for built in site:
        built.line = page_line(book, built.page, built.body, set(beside))
        built.twin = twin_name(built.page)
    pages = _pages(book, site, NAME if ebook else "")
    files["llms.txt"] = llms(book, site)
    files |= {twin_name(d.page): twin(d.page, d.blocks, d.transform, pandoc, d.works) for d in drafts}
    if ebook:
        problems.raise_if_any()
        chapters = [
            Chapter(d.page, d.blocks, d.transform, str(d.source.last_run.get("date", ""))) for d in drafts
        ]
        cited = sorted({key for draft in drafts for key in draft.cited})
        files[NAME] = epub(book, chapters, pandoc, cited, cache / "epub")
    made = {"assets/fonts.css", "assets/math.css", *(f"assets/licences/{name}" for name in LICENCES)}
    _check(drafts, pages, {*files, *made}, problems)
    problems.raise_if_any()
    for name, data in fonts(list(pages.values()), cache / "fonts").items():
        files[f"assets/{name}"] = data
    for name, text in licences(cache / "fonts").items():
        files[f"assets/licences/{name}"] = text.encode()
    target = output or root / "_book"
    swap(target, {**files, **{name: text.encode() for name, text in pages.items()}})
    return Result(target, len(pages), pandoc.runs)


def read_pages(book: Book, pandoc: Pandoc, register: Register, problems: Problems) -> list[Draft]:
    """Read and number every page of the book; fill ``register``."""
    drafts: list[Draft] = []
    by_path = {page.path: page for page in book.pages}
    chapter = appendix = 0
    for page in book.pages:
        source = read(book.root, page, problems, book.code_fold)
        tree, warnings = pandoc.tree(source.text)
        for warning in warnings:
            line = re.search(r" line (\d+)", warning)
            place = source.where_line(int(line[1])) if line else page.path
            problems.add(place, re.sub(r"\s+(at )?line \d+ column \d+", "", " ".join(warning.split())))
        label = _label(tree["blocks"], page, chapter, appendix)
        chapter += label.isdigit()
        appendix += label.isalpha()
        numbering = Numbering(source, register, problems, label)
        transform = Transform(source, numbering, by_path, problems)
        blocks = transform.run(tree["blocks"], book.root)
        drafts.append(Draft(page, source, label, blocks, transform))
    return drafts


def _label(blocks: list[Node], page: Page, chapter: int, appendix: int) -> str:
    """The chapter number or appendix letter of a page; "" if its H1 is unnumbered."""
    title = next((b for b in blocks if b["t"] == "Header" and b["c"][0] == 1), None)
    if title is None or "unnumbered" in title["c"][1][1]:
        return ""
    return chr(65 + appendix) if page.kind == "appendix" else str(chapter + 1)


def _write_bodies(
    book: Book, pandoc: Pandoc, register: Register, drafts: list[Draft], problems: Problems
) -> list[Built]:
    cited = sorted({key for draft in drafts for key in draft.cited})
    listing = next((d for d in drafts if "::: {#refs}" in d.source.text or "#refs" in _ids(d.blocks)), None)
    if cited and listing is None:
        place = next(d.source.where(0, f"@{cited[0]}") for d in drafts if cited[0] in d.cited)
        problems.add(place, f"citation @{cited[0]}, but no page of the book has a `::: {{#refs}}` div")
    if cited and not book.bibliography:
        problems.add("_quarto.yml", "the book cites, but has no bibliography")
    site: list[Built] = []
    for draft in drafts:
        extra: list[str] = []
        meta: dict[str, Any] = {}
        salt = ""
        if book.bibliography and (draft.cited or draft is listing):
            salt = hashlib.sha256((book.root / book.bibliography).read_bytes()).hexdigest()
            extra = ["--citeproc", "--bibliography", book.bibliography]
            # Every page knows all that the book cites, so that 2020a and 2020b mean the same everywhere.
            meta = {
                "link-citations": {"t": "MetaBool", "c": True},
                "nocite": {"t": "MetaInlines", "c": [nocite(cited)]},
            }
            quiet = {} if draft is listing else {"suppress-bibliography": meta["link-citations"]}
            draft.works = Works(extra, {"nocite": meta["nocite"], **quiet}, salt)
        body, warnings = pandoc.html(draft.blocks, meta, extra, salt)
        for warning in warnings:
            _explain(warning, draft, drafts, problems)
        between = {"t": "RawBlock", "c": ["html", "<!--next-->"]}
        coded, _ = pandoc.html([block for code in draft.transform.codes for block in (code, between)])
        shown = {f"code:{i}": code.strip("\n") for i, code in enumerate(coded.split("<!--next-->"))}
        shown |= {f"svg:{key}": svg for key, svg in draft.transform.svgs.items()}
        for place, text in shown.items():
            body = body.replace(f"<!--{place}-->", text)
        if listing is not None and draft is not listing:
            # Pandoc links a citation only to an entry that it lists, so the list is made and then dropped.
            body = re.sub(r'<div id="refs".*?\n</div>\n</div>\n?', "", body, count=1, flags=re.S)
            body = body.replace('href="#ref-', f'href="{draft.page.way_to(listing.page)}#ref-')
        built = Built(draft.page, body, draft.chapter, draft.source.last_run)
        finish(built)
        site.append(built)
    return site


def _ids(blocks: list[Node]) -> set[str]:
    return {"#" + b["c"][0][0] for b in blocks if b["t"] == "Div"}


def nocite(keys: list[str]) -> Node:
    """Works that count as cited, as Pandoc's metadata has them."""
    mode = {"t": "AuthorInText"}
    shared = {"citationPrefix": [], "citationSuffix": [], "citationNoteNum": 0, "citationHash": 0}
    return {"t": "Cite", "c": [[{"citationId": key, "citationMode": mode, **shared} for key in keys], []]}


def _explain(warning: str, draft: Draft, drafts: list[Draft], problems: Problems) -> None:
    """Turn a warning of Pandoc's writer into a mistake with a place."""
    if match := re.search(r"citation (\S+) not found", warning):
        owner = next((d for d in drafts if match[1] in d.cited), draft)
        problems.add(
            owner.source.where(0, f"@{match[1]}"), f"citation @{match[1]} is not in the bibliography"
        )
    elif match := re.search(r"Could not convert TeX math (.*?), rendering as TeX", warning, re.S):
        tex = match[1].strip()
        reason = warning.rsplit("rendering as TeX:", 1)[-1].strip().splitlines()
        bad = next((line.strip() for line in reason if "unexpected" in line), "")
        problems.add(
            draft.source.where(0, tex.splitlines()[0]), f"formula {tex!r}: {bad or 'not convertible'}"
        )
    else:
        problems.add(draft.page.path, " ".join(warning.split()))


def _pages(book: Book, site: list[Built], ebook: str) -> dict[str, str]:
    template = (_ASSETS / "page.html").read_text(encoding="utf-8")
    pages = {b.page.output: page_html(template, book, site, b, ebook=ebook) for b in site}
    lost = Built(Page("404.md", "extra"), "", headings=[Heading(1, "404", "This page does not exist")])
    pages["404.html"] = page_html(
        (_ASSETS / "404.html").read_text(encoding="utf-8"), book, site, lost, _css()
    )
    credits = (_ASSETS / "credits.html").read_text(encoding="utf-8")
    extra = Built(
        Page("credits.md", "extra"), credits, headings=[Heading(1, "credits", "Credits and licences")]
    )
    pages["credits.html"] = page_html(template, book, site, extra, ebook=ebook)
    return pages


def _css() -> str:
    return palette_css() + _without_comments(_ASSETS / "book.css")


def _without_comments(path: Path) -> str:
    """An asset without its comments, which are for those who edit it: whole lines of //, and /* blocks */."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"/\*.*?\*/\n?", "", text, flags=re.S) if path.suffix == ".css" else _SLASHES.sub("", text)


def _files(book: Book, drafts: list[Draft], site: list[Built], problems: Problems) -> dict[str, bytes]:
    files = {f"assets/{path.name}": _without_comments(path).encode() for path in _ASSETS.glob("*.[cj]s*")}
    files["assets/book.css"] = _css().encode()
    index = [e for b in site for e in search.entries(b.page.output, search.words(b.label), b.body)]
    files["assets/search-index.js"] = search.script(index).encode()
    for draft in drafts:
        for name, shown in draft.transform.files.items():
            files[name] = shown if isinstance(shown, bytes) else shown.read_bytes()
    for pattern in book.resources:
        found = [p for p in book.root.glob(pattern) if p.is_file()]
        if not found:
            problems.add("_quarto.yml", f"project.resources: nothing matches {pattern!r}")
        files |= {p.relative_to(book.root).as_posix(): p.read_bytes() for p in found}
    return files


def _check(drafts: list[Draft], pages: dict[str, str], files: set[str], problems: Problems) -> None:
    sources = {d.page.output: d.source for d in drafts}
    for page, address, wrong in broken_links(pages, files):
        source = sources.get(page)
        if source is None:
            problems.add(page, wrong)
            continue
        # The source spells the address its own way: try its fragment, then its file.
        path, _, fragment = html.unescape(address).partition("#")
        needles = [address, "#" + fragment if fragment else "", Path(path).stem, fragment]
        needle = next((n for n in needles if n and n in source.text), "")
        problems.add(source.where(0, needle, last=wrong.startswith("duplicate")), wrong)


def swap(target: Path, files: dict[str, bytes]) -> None:
    """Write ``files`` into a folder of their own, then put that where ``target`` is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        fresh.chmod(0o755)
        put_in_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def put_in_place(fresh: Path, target: Path) -> None:
    """Rename ``fresh`` to ``target``; what was there goes after that, or comes back if it fails."""
    old = fresh.with_name(fresh.name + "-old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
