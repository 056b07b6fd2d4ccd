"""Opening a page of a site in a fresh profile, with every request outside the site refused and noted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route

VIEWS = [(width, theme) for width in (390, 1280) for theme in ("light", "dark")]


@dataclass
class Visit:
    """What one page did: its complaints, its requests, its weight."""

    page: Page
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    bodies: dict[str, int] = field(default_factory=dict)


@contextmanager
def visit(browser: Browser, origin: str, name: str, width: int, theme: str) -> Iterator[Visit]:
    """Open ``origin/name`` in a fresh profile and refuse every request that leaves the origin."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
    page = context.new_page()
    seen = Visit(page)

    def gate(route: Route) -> None:
        url = route.request.url
        if url.startswith((origin, "data:", "blob:")):
            route.continue_()
        else:
            seen.foreign.append(url)
            route.abort()

    page.route("**/*", gate)
    page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("requestfailed", lambda request: seen.failed.append(request.url))
    page.on("response", lambda answer: seen.failed.append(answer.url) if answer.status >= 400 else None)
    page.on(
        "requestfinished",
        lambda request: seen.bodies.update({request.url: request.sizes()["responseBodySize"]}),
    )
    page.goto(f"{origin}/{name}", wait_until="load")
    yield seen
    context.close()


def page_names(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


def axe_findings(page: Page) -> list[str]:
    """What axe-core objects to on the page as it stands, one line a rule."""
    return [
        f"{found['id']} ({found['impact']}): {[node['html'][:120] for node in found['nodes'][:3]]}"
        for found in Axe().run(page).response["violations"]
    ]
