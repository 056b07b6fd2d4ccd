"""The line below a page's title: how long it reads, and where its notebook is.

The notebooks come from elsewhere: a build is given their bytes by path in the site, and a page links to those
that are there. Colab opens a notebook from a repository, so its link needs ``book.repo-url``.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from urllib.parse import quote

from .config import Book, Page
from .search import words

__all__ = ["COMPLETE", "STUDENT", "colab", "forms", "minutes", "page_line"]

# Words on the page -> folder of that form of the notebook.
_FORMS = {"student": "notebooks/student", "complete": "notebooks"}
STUDENT, COMPLETE = _FORMS.values()
BRANCH = "gh-pages"  # where a repository on GitHub keeps its built site
_WORDS_PER_MINUTE = 200  # prose with formulas to think about; Quarto counts the same
_UNREAD = re.compile(r"<(pre|table|svg|noscript|script)\b.*?</\1>", re.S)


def forms(page: Page) -> list[str]:
    """The folders that have a page's notebook: an appendix has nothing to solve, so it is complete only."""
    return [COMPLETE, STUDENT] if page.kind == "chapter" else [COMPLETE]


def minutes(body: str) -> int:
    """How long the prose of a page takes to read, without code, outputs, tables and drawings."""
    return math.ceil(len(words(_UNREAD.sub(" ", body)).split()) / _WORDS_PER_MINUTE)


def colab(repo_url: str, path: str) -> str:
    """The address that opens the notebook at ``path`` of the site in Colab, "" if the book is not on GitHub.

    >>> colab("https://github.com/someone/book", "notebooks/student/01-on-ramp.ipynb")
    'https://colab.research.google.com/github/someone/book/blob/gh-pages/notebooks/student/01-on-ramp.ipynb'
    """
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", repo_url)
    if not match:
        return ""
    return f"https://colab.research.google.com/github/{match[1]}/blob/{BRANCH}/{quote(path)}"


def page_line(book: Book, page: Page, count: int, files: set[str]) -> str:
    """The line as HTML, "" for a page without a notebook.

    ``count`` are its minutes; ``files`` are the paths of what others made.
    """
    if not page.path.endswith(".ipynb"):
        return ""
    # An appendix is looked up in, not read through.
    parts = [f"About {count} minute{'s' if count > 1 else ''} to read"] if page.kind == "chapter" else []
    paths = {word: f"{folder}/{Path(page.path).name}" for word, folder in _FORMS.items()}
    there = {word: path for word, path in paths.items() if path in files}
    if there:
        links = [f'<a href="{page.up}{path}" download>{word}</a>' for word, path in there.items()]
        parts.append(f"Notebook: {', '.join(links)}")
        if address := colab(book.repo_url, next(iter(there.values()))):
            parts.append(f'<a href="{address}">Open in Colab</a>')
    if not book.repo_url:
        parts.append("<code>make lab</code> in a checkout opens its notebook")
    return f'<p class="page-line">{" · ".join(parts)}</p>'
