"""What a page becomes once the whole book is numbered: its HTML, its Markdown and its search entries."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from . import search
from .config import Page
from .downloads import minutes
from .drafts import Draft
from .memory import Memory
from .page import Heading, finished, label
from .pandoc import Pandoc
from .parallel import Job, Piece
from .tree import Node
from .twin import twin

__all__ = ["Body", "bodies"]

_NEXT: Node = {"t": "RawBlock", "c": ["html", "<!--next-->"]}


@dataclass(frozen=True)
class Body:
    """One page in each form that the site has of it."""

    html: str
    headings: list[Heading]
    entries: list[list[str]]  # of the search
    minutes: int
    warnings: list[str]  # of Pandoc
    markdown: str = ""


def bodies(drafts: list[Draft], listing: Page | None, pandoc: Pandoc, folder: Path) -> Job[list[Body]]:
    """Make the body of each page, or take it from ``folder``; ``listing`` has the works that are cited."""
    memory = Memory(folder, [str(listing and listing.output).encode()])
    keys = [memory.key(_parts(draft)) for draft in drafts]
    kept = {key: _restored(made) for key in keys if (made := memory.recall(key))}
    missing = [(key, draft) for key, draft in zip(keys, drafts, strict=True) if key not in kept]
    pieces: list[Piece] = []
    for _, draft in missing:
        size = len(draft.source.text)
        pieces.append(Piece(partial(_body, pandoc, draft, listing), size))
        pieces.append(Piece(partial(_markdown, pandoc, draft), size))
    pandoc.ready(len(pieces))
    results = yield pieces
    for (key, _), body, markdown in zip(missing, results[::2], results[1::2], strict=True):
        kept[key] = replace(body, markdown=markdown)
        memory.keep(key, asdict(kept[key]))
    return [kept[key] for key in keys]


def _parts(draft: Draft) -> list[bytes]:
    """All that a body is made from."""
    drawn = draft.transform
    said = [draft.page.output, draft.worded, drawn.codes, drawn.drawings]
    return [json.dumps(one, ensure_ascii=False).encode() for one in said]


def _restored(made: dict[str, Any]) -> Body:
    return Body(**{**made, "headings": [Heading(**one) for one in made["headings"]]})


def _markdown(pandoc: Pandoc, draft: Draft) -> str:
    return twin(draft.page, draft.worded, draft.transform, pandoc)


def _body(pandoc: Pandoc, draft: Draft, listing: Page | None) -> Body:
    page, drawn = draft.page, draft.transform
    body, warnings = pandoc.html(draft.worded)
    # Code is coloured on its own, so that an edit of the text need not colour it again.
    coded, _ = pandoc.html([block for code in drawn.codes for block in (code, _NEXT)])
    shown = {f"code:{i}": code.strip("\n") for i, code in enumerate(coded.split("<!--next-->"))}
    shown |= {f"svg:{key}": svg for key, svg in drawn.svgs.items()}
    for place, text in shown.items():
        body = body.replace(f"<!--{place}-->", text)
    if listing is not None and page != listing:
        body = body.replace('href="#ref-', f'href="{page.way_to(listing)}#ref-')
    body, headings = finished(body)
    entries = search.entries(page.output, search.words(label(headings)), body)
    return Body(body, headings, entries, minutes(body), warnings)
