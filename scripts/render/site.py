"""The whole build: every page through every stage, then one swap of the finished site into place.

Nothing is written into the site's folder before all pages are built and checked, so a mistake leaves the old
site as it was.
"""

from __future__ import annotations

import errno
import html
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import search
from .bodies import Body, bodies
from .citations import citations
from .config import Book, Page, load
from .crossref import Register, Resolver
from .downloads import page_line
from .drafts import Draft, read_pages
from .epub import NAME, Chapter, epub
from .fonts import LICENCES, fonts, licences
from .links import broken_links
from .page import Built, Heading, page_html
from .pandoc import Pandoc
from .parallel import Job, beside, together
from .problems import Problems
from .svg import palette_css
from .tree import Node
from .twin import llms, twin_name

__all__ = ["Extra", "Result", "build", "put_in_place", "swap"]

_ASSETS = Path(__file__).parent / "assets"


@dataclass
class Result:
    output: Path
    pages: int
    pandoc_runs: int


Extra = Callable[[Book, "list[Draft]", Register, Pandoc, Problems], "Job[dict[str, bytes]]"]
Ahead = Callable[[Path, Path], "Callable[[], object] | None"]
_STAGED = "-building-"
_LEFT_S = 3600  # no build takes that long to write its files
_TRIES = 20
_SLASHES = re.compile(r"^\s*//.*\n", re.M)


def build(
    root: Path,
    output: Path | None = None,
    cache: Path | None = None,
    extra: Extra | None = None,
    ebook: bool = False,
    ahead: Ahead | None = None,
) -> Result:
    """Build the book at ``root`` into ``output`` (default: ``_book`` in it).

    ``cache`` (default: in ``root/.quarto``) keeps what Pandoc and the font tools made, by content. ``extra``
    makes files to publish beside the pages from the numbered book: a page links to its notebooks among them.
    ``ahead`` does what it can of that while the pages are read. ``ebook`` adds the book as an EPUB.

    Raises:
        BuildError: the book has mistakes; each is named with its place, and ``output`` is untouched.
    """
    problems = Problems()
    book = load(root, problems)
    paths = [page.path for page in book.pages]
    cache = cache or root / ".quarto" / "embedded"
    pandoc = Pandoc(cache / "pandoc")
    if not pandoc.cache.is_dir():
        pandoc.ready(len(book.pages))  # it will be needed, and is slow to start
    register = Register()
    with beside(ahead(root, cache) if ahead else None):
        (drafts,) = together(read_pages(book, pandoc, register, problems))
        listing = _say(book, drafts, register, pandoc, problems)
    jobs: list[Job[Any]] = [bodies(drafts, listing, pandoc, cache / "bodies")]
    jobs += [extra(book, drafts, register, pandoc, problems)] if extra else []
    found, *more = together(*jobs)
    others: dict[str, bytes] = more[0] if more else {}
    for draft, body in zip(drafts, found, strict=True):
        for warning in body.warnings:
            _explain(warning, draft, drafts, problems)
    site = [
        Built(
            draft.page,
            body.html,
            draft.source.last_run,
            body.headings,
            page_line(book, draft.page, body.minutes, set(others)),
            twin_name(draft.page),
        )
        for draft, body in zip(drafts, found, strict=True)
    ]
    files = {**others, **_files(book, drafts, found, problems)}
    pages = _pages(book, site, NAME if ebook else "")
    files["llms.txt"] = llms(book, site)
    files |= {built.twin: body.markdown.encode() for built, body in zip(site, found, strict=True)}
    if ebook:
        problems.raise_if_any(paths)
        chapters = [
            Chapter(d.page, d.blocks, d.transform, str(d.source.last_run.get("date", ""))) for d in drafts
        ]
        cited = sorted({key for draft in drafts for key in draft.cited})
        files[NAME] = epub(book, chapters, pandoc, cited, cache / "epub")
    made = {"assets/fonts.css", "assets/math.css", *(f"assets/licences/{name}" for name in LICENCES)}
    _check(drafts, pages, {*files, *made}, problems)
    problems.raise_if_any(paths)
    sheets, texts = together(fonts(list(pages.values()), cache / "fonts"), licences(cache / "fonts"))
    files |= {f"assets/{name}": text.encode() for name, text in sheets.items()}
    files |= {f"assets/licences/{name}": text.encode() for name, text in texts.items()}
    target = output or root / "_book"
    swap(target, {**files, **{name: text.encode() for name, text in pages.items()}})
    return Result(target, len(pages), pandoc.runs)


def _say(
    book: Book, drafts: list[Draft], register: Register, pandoc: Pandoc, problems: Problems
) -> Page | None:
    """Put the words of references and citations into the pages; return the page that lists the works."""
    for draft in drafts:
        resolver = Resolver(draft.source, register, problems)
        draft.blocks = resolver.walk(draft.blocks)
        draft.cited = resolver.cited
    listing = next((d for d in drafts if "::: {#refs}" in d.source.text or "#refs" in _ids(d.blocks)), None)
    citing = next((d for d in drafts if d.cited), None)
    if citing and listing is None:
        place = citing.source.where(0, f"@{citing.cited[0]}")
        problems.add(place, f"citation @{citing.cited[0]}, but no page of the book has a `::: {{#refs}}` div")
    if citing and not book.bibliography:
        problems.add("_quarto.yml", "the book cites, but has no bibliography")
    said = citations(book, [draft.tree for draft in drafts], pandoc)
    for warning in said.warnings:
        _explain(warning, drafts[0], drafts, problems)
    for draft in drafts:
        draft.worded = said.walk(draft.blocks) if listing else draft.blocks
    return listing.page if listing else None


def _ids(blocks: list[Node]) -> set[str]:
    return {"#" + b["c"][0][0] for b in blocks if b["t"] == "Div"}


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


def _files(book: Book, drafts: list[Draft], found: list[Body], problems: Problems) -> dict[str, bytes]:
    files = {f"assets/{path.name}": _without_comments(path).encode() for path in _ASSETS.glob("*.[cj]s*")}
    files["assets/book.css"] = _css().encode()
    files["assets/search-index.js"] = search.script([e for body in found for e in body.entries]).encode()
    for draft in drafts:
        for name, shown in draft.transform.files.items():
            files[name] = shown if isinstance(shown, bytes) else shown.read_bytes()
    for pattern in book.resources:
        named = [p for p in book.root.glob(pattern) if p.is_file()]
        if not named:
            problems.add("_quarto.yml", f"project.resources: nothing matches {pattern!r}")
        files |= {p.relative_to(book.root).as_posix(): p.read_bytes() for p in named}
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
    _clear(target)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}{_STAGED}", dir=target.parent))
    try:
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        fresh.chmod(0o755)
        put_in_place(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _clear(target: Path) -> None:
    """Remove what a build of ``target`` left that was ended amid its last step, and no build has now."""
    for path in target.parent.iterdir():
        if path.name.startswith(f".{target.name}{_STAGED}"):
            with suppress(OSError):
                if time.time() - path.stat().st_ctime > _LEFT_S:
                    shutil.rmtree(path, ignore_errors=True)


def put_in_place(fresh: Path, target: Path) -> None:
    """Rename ``fresh`` to ``target``; what was there goes after that, or comes back if it fails.

    Where another build does so at the same time, the later one stays.
    """
    old = fresh.with_name(fresh.name + "-old")
    try:
        for tries_left in reversed(range(_TRIES)):
            shutil.rmtree(old, ignore_errors=True)
            with suppress(FileNotFoundError):
                target.rename(old)
            try:
                fresh.rename(target)
                break
            except OSError as error:
                if not tries_left or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    except BaseException:
        with suppress(OSError):  # nothing was there, or another build's site is by now
            old.rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
