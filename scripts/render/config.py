"""``_quarto.yml`` as data: the subset of a Quarto book's configuration that both renderers honour.

An unknown key is an error, because Quarto would obey it and this renderer would not.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .problems import Problems

__all__ = ["Book", "Page", "load"]

# Dotted keys that may appear; "*" ends a subtree whose values are passed on or do not matter for a page.
_KNOWN = {
    "project.type", "project.output-dir", "project.render", "project.resources",
    "book.title", "book.subtitle", "book.author", "book.description", "book.chapters", "book.appendices",
    "book.repo-url", "book.site-url", "book.search",
    "bibliography", "lang", "execute.enabled",
    "format.html.toc", "format.html.toc-depth", "format.html.number-sections", "format.html.code-copy",
    "format.html.code-fold", "format.html.html-math-method", "format.html.theme", "format.html.css",
    "format.html.include-after-body",
}  # fmt: skip


@dataclass(frozen=True)
class Page:
    """One page: its source (POSIX path from the root), its kind and the part it stands in."""

    path: str
    kind: str  # "index", "chapter" or "appendix"
    part: str | None = None

    @property
    def output(self) -> str:
        return str(Path(self.path).with_suffix(".html").as_posix())

    @property
    def up(self) -> str:
        """The relative way from the page to the site's root: "" or "../"."""
        return "../" * self.path.count("/")

    def way_to(self, other: Page) -> str:
        """The relative address of another page."""
        return posixpath.relpath(other.output, posixpath.dirname(self.output) or ".")

    def resolve(self, href: str) -> str:
        """The path, from the root, of a path written on this page."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.path), href))


@dataclass
class Book:
    root: Path
    title: str
    pages: list[Page]
    subtitle: str = ""
    author: str = ""
    description: str = ""
    lang: str = "en"
    toc_depth: int = 3
    code_fold: bool = False
    bibliography: str | None = None
    site_url: str = ""  # with a slash at its end, or "" where the site's address is not known
    repo_url: str = ""
    resources: list[str] = field(default_factory=list)


def load(root: Path, problems: Problems) -> Book:
    """Read ``root/_quarto.yml``; mistakes go to ``problems``, and a file that says nothing usable raises."""
    name = "_quarto.yml"
    path = root / name
    if not path.is_file():
        problems.add(name, f"not found in {root}; expected the book's configuration")
        problems.raise_if_any()
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problems.add(name, f"not YAML: {' '.join(str(error).split())}")
        raw = {}
        problems.raise_if_any()
    if not isinstance(raw, dict):
        problems.add(name, f"expected a mapping, found {raw!r}")
        problems.raise_if_any()
    for key in _unknown(raw, ""):
        problems.add(name, f"key {key!r} is not supported by the embedded renderer")
    book, html = raw.get("book") or {}, (raw.get("format") or {}).get("html") or {}
    if (raw.get("project") or {}).get("type") != "book":
        problems.add(name, "project.type: expected 'book'")
    if (folder := (raw.get("project") or {}).get("output-dir", "_book")) != "_book":
        problems.add(name, f"project.output-dir: expected '_book', found {folder!r}")
    if (method := html.get("html-math-method", "mathml")) != "mathml":
        problems.add(name, f"format.html.html-math-method: expected 'mathml', found {method!r}")
    if (raw.get("execute") or {}).get("enabled"):
        problems.add(name, "execute.enabled: expected false; pages show the outputs stored in the notebooks")
    pages = _pages(root, book, problems)
    site_url, repo_url = (_address(book, key, problems) for key in ("site-url", "repo-url"))
    problems.raise_if_any()
    bibliography = raw.get("bibliography")
    if bibliography and not (root / bibliography).is_file():
        problems.add(name, f"bibliography: no file {bibliography!r}")
        bibliography = None
    return Book(
        root=root,
        title=book.get("title", "Untitled"),
        pages=pages,
        subtitle=book.get("subtitle", ""),
        author=_author(book.get("author", "")),
        description=book.get("description", ""),
        lang=raw.get("lang", "en"),
        toc_depth=html.get("toc-depth", 3),
        code_fold=bool(html.get("code-fold", False)),
        bibliography=bibliography,
        site_url=site_url and site_url + "/",
        repo_url=repo_url,
        resources=(raw.get("project") or {}).get("resources", []),
    )


def _author(value: Any) -> str:
    """One name, or several joined."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _address(book: dict[str, Any], key: str, problems: Problems) -> str:
    """An address of the book without a slash at its end, "" if it has none."""
    value = book.get(key) or ""
    if value and not (isinstance(value, str) and re.fullmatch(r"https?://[^\s\"'<>#?]+", value)):
        problems.add(
            "_quarto.yml",
            f"book.{key}: expected an address such as https://example.org/book, found {value!r}",
        )
        return ""
    return str(value).rstrip("/")


def _unknown(node: Any, prefix: str) -> list[str]:
    found: list[str] = []
    for key, value in node.items() if isinstance(node, dict) else ():
        dotted = f"{prefix}{key}"
        if dotted in _KNOWN:
            continue
        if any(known.startswith(dotted + ".") for known in _KNOWN) and isinstance(value, dict):
            found += _unknown(value, dotted + ".")
        else:
            found.append(dotted)
    return found


def _pages(root: Path, book: dict[str, Any], problems: Problems) -> list[Page]:
    pages: list[Page] = []
    for key, kind in (("chapters", "chapter"), ("appendices", "appendix")):
        for item in book.get(key) or []:
            part = item.get("part") if isinstance(item, dict) else None
            names = item.get("chapters", []) if isinstance(item, dict) else [item]
            if isinstance(item, dict) and set(item) - {"part", "chapters"}:
                problems.add("_quarto.yml", f"book.{key}: expected a file or part/chapters, found {item!r}")
            for name in names:
                if not isinstance(name, str) or Path(name).suffix not in (".md", ".ipynb"):
                    problems.add("_quarto.yml", f"book.{key}: {name!r} is neither .md nor .ipynb")
                elif not (root / name).is_file():
                    problems.add("_quarto.yml", f"book.{key}: no file {name!r}")
                else:
                    pages.append(Page(name, "index" if name == "index.md" else kind, part))
    if not problems.lines and (not pages or pages[0].kind != "index"):
        problems.add("_quarto.yml", "book.chapters: expected index.md first")
    return pages
