"""One page's HTML around its body: head, navigation, contents, neighbours and foot.

The markup works without JavaScript and from ``file://``: every address is relative, every asset local.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from string import Template
from typing import Any

from .coloured import compact
from .config import Book, Page
from .search import words

__all__ = ["Built", "Heading", "finished", "label", "page_html"]

_HEADING = re.compile(r"<h([1-6])( [^>]*?)?\bid=\"([^\"]+)\"([^>]*)>(.*?)</h\1>", re.S)


# What readers turn or tick off brings its own sheet and script, to the pages that have it.
_INTERACTIVE = re.compile(r'class="(?:explore|prediction|exercise-foot|progress)"')
_INTERACT = Template(
    '\n<link rel="stylesheet" href="${up}assets/interact.css">'
    '\n<script src="${up}assets/interact.js" defer></script>'
)


@dataclass
class Heading:
    level: int
    id: str
    inner: str  # HTML, number included


@dataclass
class Built:
    """A page between body and template."""

    page: Page
    body: str
    last_run: dict[str, Any] = field(default_factory=dict)
    headings: list[Heading] = field(default_factory=list)
    line: str = ""  # HTML below the title
    twin: str = ""  # path of the Markdown twin in the site

    @property
    def title(self) -> str:
        return self.headings[0].inner if self.headings else ""

    @property
    def label(self) -> str:
        return label(self.headings)


def label(headings: list[Heading]) -> str:
    """A page's title in navigation: with the bare number, as the sidebar has no room for "Appendix"."""
    short = r'<span class="chapter-number">\1</span> '
    title = headings[0].inner if headings else ""
    return re.sub(r'^<span class="appendix-label">Appendix(?:&nbsp;|\s)(\w).*?</span> </span>', short, title)


def finished(body: str) -> tuple[str, list[Heading]]:
    """Return Pandoc's HTML with small code and a link to itself at each heading, and the headings."""
    headings: list[Heading] = []

    def anchor(match: re.Match[str]) -> str:
        level, before, identifier, after, inner = match.groups()
        headings.append(Heading(int(level), identifier, inner))
        if level == "1":
            return match[0]
        # For the mouse alone: it would add its words to the heading's name and a stop for every heading, and
        # the page's contents have the same link for the keyboard.
        link = f'<a class="anchor" href="#{identifier}" aria-hidden="true" tabindex="-1">#</a>'
        return f'<h{level}{before or " "}id="{identifier}"{after}>{inner}{link}</h{level}>'

    body = _HEADING.sub(anchor, body)
    return compact(body), headings


def page_html(
    template: str, book: Book, site: list[Built], built: Built, css: str = "", ebook: str = ""
) -> str:
    """Fill the template for one page of the site.

    ``css`` is for a template that carries its own style, ``ebook`` the path of the EPUB if the site has it.
    """
    page, up = built.page, built.page.up
    position = site.index(built) if built in site else -1
    previous = site[position - 1] if position > 0 else None
    following = site[position + 1] if 0 <= position < len(site) - 1 else None
    title = words(built.title)
    description = book.description or book.subtitle
    return Template(template).substitute(
        lang=html.escape(book.lang),
        title=html.escape(title if page.kind == "index" else f"{title} – {book.title}"),
        book=html.escape(book.title),
        description=html.escape(description),
        up=up,
        home=up + site[0].page.output,
        math=f'\n<link rel="stylesheet" href="{up}assets/math.css">' if "<math" in built.body else "",
        interact=_INTERACT.substitute(up=up) if _INTERACTIVE.search(built.body) else "",
        navigation=_navigation(site, built),
        contents=_contents(book, built),
        body=built.body.replace("</h1>", f"</h1>\n{built.line}", 1) if built.line else built.body,
        alternate=_alternate(up, built.twin),
        ebook=f' <a href="{up}{ebook}" download>The book as EPUB</a>.' if ebook else "",
        foot=_last_run(built.last_run),
        neighbours=_neighbours(up, previous, following),
        css=css,
    )


def _alternate(up: str, twin: str) -> str:
    return f'\n<link rel="alternate" type="text/markdown" href="{up}{twin}">' if twin else ""


def _link(up: str, target: Built, inner: str, extra: str = "") -> str:
    return f'<a href="{up}{target.page.output}"{extra}>{inner}</a>'


def _plain(inner: str) -> str:
    """Heading HTML without links and ids, which must not be nested or repeated."""
    return re.sub(r"</?a\b[^>]*>|<sup>.*?</sup>|\sid=\"[^\"]*\"", "", inner)


def _navigation(site: list[Built], here: Built) -> str:
    out: list[str] = ["<ul>"]
    part: str | None = None
    for entry in site:
        group = "Appendices" if entry.page.kind == "appendix" else entry.page.part
        if group != part:
            out += ["</ul>"] if group is None else [f'</ul><p class="part">{html.escape(group)}</p>']
            out.append("<ul>")
            part = group
        current = ' aria-current="page"' if entry is here else ""
        out.append(f"<li>{_link(here.page.up, entry, _plain(entry.label), current)}")
        sections = [h for h in entry.headings if h.level == 2] if entry is here else []
        if sections:
            rows = [f'<li><a href="#{h.id}">{_plain(h.inner)}</a></li>' for h in sections]
            out += ["<ul>", *rows, "</ul>"]
        out.append("</li>")
    return "".join([*out, "</ul>"]).replace("<ul></ul>", "")


def _contents(book: Book, built: Built) -> str:
    heads = [h for h in built.headings if 2 <= h.level <= book.toc_depth]
    if len(heads) < 2:
        return ""
    rows = [f'<li class="level-{h.level}"><a href="#{h.id}">{_plain(h.inner)}</a></li>' for h in heads]
    return (
        '<nav class="contents" aria-labelledby="contents-title"><p id="contents-title">On this page</p>'
        f"<ul>{''.join(rows)}</ul></nav>"
    )


def _neighbours(up: str, previous: Built | None, following: Built | None) -> str:
    left = (
        _link(up, previous, f"<span>Previous</span>{_plain(previous.label)}", ' rel="prev"')
        if previous
        else ""
    )
    right = (
        _link(up, following, f"<span>Next</span>{_plain(following.label)}", ' rel="next"')
        if following
        else ""
    )
    return (
        f'<nav class="neighbours" aria-label="Neighbouring pages">{left}{right}</nav>'
        if left or right
        else ""
    )


def _last_run(run: dict[str, Any]) -> str:
    """The foot's line on the page's last run: whatever the notebook recorded, in its order."""
    parts: list[str] = []
    for key, value in run.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        if key in ("date", "machine"):
            parts.append(str(value))
        elif key == "seconds":
            parts.append(f"{value} s")
        elif key == "packages":
            parts.append(str(value))
        else:
            parts.append(f"{key.replace('_', ' ').capitalize()} {value}")
    return f'<p class="last-run">Last run: {html.escape(" · ".join(parts))}</p>' if parts else ""
