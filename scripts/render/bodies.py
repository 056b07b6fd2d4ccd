"""What a page becomes once the whole book is numbered: its HTML, its Markdown and its search entries."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from . import parallel, search
from .config import Page
from .downloads import minutes
from .drafts import Draft
from .memory import Memory
from .page import Heading, finished, label
from .pandoc import Pandoc
from .tree import Node
from .twin import twin

__all__ = ["Body", "bodies"]

_NEXT: Node = {"t": "RawBlock", "c": ["html", "<!--next-->"]}


@dataclass(frozen=True)
class Body:
    """One page in each form that the site has of it; ``runs`` counts what Pandoc converted for it."""

    html: str
    headings: list[Heading]
    entries: list[list[str]]
    markdown: str
    minutes: int
    warnings: list[str]
    runs: int


def bodies(
    drafts: list[Draft],
    listing: Page | None,
    pandoc: Pandoc,
    folder: Path,
    beside: Sequence[Callable[[], object]] = (),
) -> list[Body]:
    """Make the body of each page, or take it from ``folder``.

    ``listing`` is the page with the works that are cited; ``beside`` is other work, done at the same time.
    """
    memory = Memory(folder, [str(listing and listing.output).encode()])
    keys = [memory.key(_parts(draft)) for draft in drafts]
    kept = {key: _restored(made) for key in keys if (made := memory.recall(key))}
    missing = [(key, draft) for key, draft in zip(keys, drafts, strict=True) if key not in kept]
    work: list[Callable[[], object]] = [partial(_body, draft, listing, pandoc) for _, draft in missing]
    done = parallel.run([*beside, *work])[len(beside) :]
    for (key, _), body in zip(missing, done, strict=True):
        assert isinstance(body, Body)
        kept[key] = body
        pandoc.runs += body.runs
        memory.keep(key, asdict(replace(body, runs=0)))
    return [kept[key] for key in keys]


def _parts(draft: Draft) -> list[bytes]:
    """All that a body is made from."""
    drawn = draft.transform
    said = [draft.page.output, draft.worded, drawn.codes, drawn.svgs, drawn.drawings]
    return [json.dumps(one, ensure_ascii=False).encode() for one in said]


def _restored(made: dict[str, Any]) -> Body:
    return Body(**{**made, "headings": [Heading(**one) for one in made["headings"]]})


def _body(draft: Draft, listing: Page | None, pandoc: Pandoc) -> Body:
    before = pandoc.runs
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
    return Body(
        html=body,
        headings=headings,
        entries=search.entries(page.output, search.words(label(headings)), body),
        markdown=twin(page, draft.worded, drawn, pandoc),
        minutes=minutes(body),
        warnings=warnings,
        runs=pandoc.runs - before,
    )
