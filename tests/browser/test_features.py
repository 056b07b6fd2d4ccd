"""What a reader does with a page: search, tabs, links, folds, paper, zoom, other colours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.visiting import VIEWS, axe_findings, page_names, visit

pytestmark = pytest.mark.browser

CHAPTER = "chapters/01-on-ramp.html"
STATUS = ".search-status"
HIT = "dialog [role=option]"


@pytest.mark.parametrize("width, theme", VIEWS)
def test_every_construct_is_accessible(browser: Browser, sample: str, width: int, theme: str) -> None:
    """The sample book's boxes, tabs, tables and outputs, with its folds open."""
    with visit(browser, sample, "chapters/one.html", width, theme) as seen:
        seen.page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
        assert axe_findings(seen.page) == []
        assert not seen.errors and not seen.failed


@pytest.mark.parametrize("width, theme", VIEWS)
def test_search_dialog(browser: Browser, origin: str, width: int, theme: str) -> None:
    """Hits show their title and the words found; the count is announced; Escape gives the focus back."""
    with visit(browser, origin, CHAPTER, width, theme) as seen:
        page = seen.page
        button = page.get_by_role("button", name="Search").first
        button.press("Enter")
        box = page.get_by_role("combobox", name="Search the book")
        expect(box).to_be_focused()
        box.fill("temperature")
        expect(page.locator(f"{STATUS}[role=status]")).to_have_text(re.compile(r"^\d+ sections"))
        hits = page.get_by_role("dialog").get_by_role("option")  # a figure's choices are options too
        assert hits.count() > 3
        assert (
            hits.first.locator("strong").inner_text()
            and "emperature" in hits.first.locator("mark").first.inner_text()
        )
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(hits.nth(1)).to_have_attribute("aria-selected", "true")
        assert box.get_attribute("aria-activedescendant") == hits.nth(1).get_attribute("id")
        page.keyboard.press("ArrowUp")
        expect(hits.nth(0)).to_have_attribute("aria-selected", "true")
        assert axe_findings(page) == []
        box.fill("temperature wombat")
        expect(page.locator(STATUS)).to_have_text("No section has all these words.")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(button).to_be_focused()


def test_tabs_by_keyboard(browser: Browser, sample: str) -> None:
    """Arrow keys, Home and End move and choose; Tab stops once at the tabs, then at a panel of text."""
    with visit(browser, sample, "chapters/one.html", 1280, "light") as seen:
        tabs, panels = seen.page.get_by_role("tab"), seen.page.locator("[role=tabpanel]")
        assert tabs.count() == 2
        tabs.first.focus()
        for key, chosen in (("ArrowRight", 1), ("ArrowRight", 0), ("ArrowLeft", 1), ("Home", 0), ("End", 1)):
            seen.page.keyboard.press(key)
            expect(tabs.nth(chosen)).to_be_focused()
            for i in range(2):
                expect(tabs.nth(i)).to_have_attribute("aria-selected", str(i == chosen).lower())
                expect(tabs.nth(i)).to_have_attribute("tabindex", "0" if i == chosen else "-1")
                expect(panels.nth(i)).to_be_visible(visible=i == chosen)
        seen.page.keyboard.press("Tab")
        expect(panels.nth(1)).to_be_focused()
        expect(panels.nth(1)).to_have_attribute("aria-labelledby", tabs.nth(1).get_attribute("id") or "")


def test_links_of_headings(browser: Browser, origin: str) -> None:
    """The mouse finds a link to each section; it adds nothing to the heading's name nor to the way of Tab."""
    with visit(browser, origin, CHAPTER, 1280, "light") as seen:
        heading = seen.page.locator("article h2").nth(1)
        name = heading.evaluate("h => [...h.childNodes].slice(0, -1).map(n => n.textContent).join('')")
        expect(heading).to_have_accessible_name(" ".join(name.split()))
        link = heading.locator("a.anchor")
        assert link.evaluate("a => [a.tabIndex, a.hash]") == [-1, f"#{heading.get_attribute('id')}"]
        expect(link).to_have_css("opacity", "0")
        heading.hover()
        expect(link).to_have_css("opacity", "1")
        link.click()
        assert seen.page.url.endswith(f"#{heading.get_attribute('id')}")
        assert heading.evaluate("h => h.getBoundingClientRect().top") < 100


def test_the_section_being_read_is_marked(browser: Browser, origin: str) -> None:
    with visit(browser, origin, CHAPTER, 1280, "light") as seen:
        heading = seen.page.locator("article h2").nth(3)
        heading.evaluate("h => h.scrollIntoView()")
        address = f"#{heading.get_attribute('id')}"
        for frame in (".contents", "#sidebar li li"):
            current = seen.page.locator(f"{frame} [aria-current=true]")
            expect(current).to_have_attribute("href", address)


@pytest.mark.parametrize("address", ["nope.html", "chapters/nope.html", "a/b/c", "chapters/x/y/"])
def test_lost_addresses_lead_home(browser: Browser, origin: str, address: str) -> None:
    """At any depth the page has its looks, and its links lead into the site."""
    with visit(browser, origin, address, 1280, "light") as seen:
        assert seen.page.locator("h1").inner_text() == "This page does not exist"
        assert seen.page.evaluate("getComputedStyle(document.body).display") == "grid"
        home = seen.page.locator("a.brand")
        expect(home).to_have_js_property("href", f"{origin}/index.html")
        assert not seen.foreign
        seen.page.get_by_role("link", name=re.compile("notation", re.I)).click()
        seen.page.wait_for_url(f"{origin}/chapters/notation.html")


def test_zoomed_pages_do_not_scroll_sideways(browser: Browser, origin: str, site: Path) -> None:
    """A window of 1280 px at 200 % and at 400 % has the room of 640 and of 320 px."""
    for name in page_names(site):
        for width in (640, 320):
            with visit(browser, origin, name, width, "light") as seen:
                over = seen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert over <= 0, f"{name} at {width} px scrolls by {over} px"


def test_room_for_code(browser: Browser, origin: str) -> None:
    """82 characters fit beside the contents; on a phone the box of a long line scrolls, by keyboard too."""
    room = """pre => {
        const code = pre.querySelector("code"), style = getComputedStyle(pre)
        const probe = code.appendChild(document.createElement("span"))
        probe.textContent = "x".repeat(100)
        const width = probe.getBoundingClientRect().width / 100
        probe.remove()
        return (pre.clientWidth - parseFloat(style.paddingLeft)) / width
    }"""
    block = "article > .cell > div.sourceCode > pre"
    with visit(browser, origin, CHAPTER, 1280, "light") as seen:
        assert seen.page.locator(block).first.evaluate(room) >= 82
    with visit(browser, origin, CHAPTER, 390, "light") as seen:
        wide = seen.page.locator(f"{block}[tabindex='0']").first
        assert (
            wide.evaluate("pre => pre.scrollWidth > pre.clientWidth && getComputedStyle(pre).overflowX")
            == "auto"
        )


def test_paper(browser: Browser, sample: str) -> None:
    """Folds are open and outer links show their address, both only on paper; code wraps."""
    with visit(browser, sample, "chapters/one.html", 1280, "light") as seen:
        page = seen.page
        after = "getComputedStyle(document.querySelector('a[href*=\"example.org/a\"]'), '::after').content"
        assert page.evaluate(after) == "none"
        opened = "document.querySelectorAll('details[open]').length"
        before = page.evaluate(opened)
        page.evaluate(f"""addEventListener("beforeprint", () => {{ window.onPaper = {opened} }})""")
        assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
        assert page.evaluate("onPaper") == page.locator("details").count() > before
        assert page.evaluate(opened) == before
        page.emulate_media(media="print")
        assert "https://example.org/a" in page.evaluate(after)
        assert page.evaluate("getComputedStyle(document.querySelector('pre')).whiteSpace") == "pre-wrap"


def test_forced_colours_and_reduced_motion(browser: Browser, sample: str) -> None:
    """Where the system takes colours away, focus and choice still show; asked for rest, nothing moves."""
    with visit(browser, sample, "chapters/one.html", 1280, "light") as seen:
        page = seen.page
        page.emulate_media(forced_colors="active", reduced_motion="reduce")
        chosen, other = (
            tab.evaluate("e => getComputedStyle(e).borderBottomColor")
            for tab in page.get_by_role("tab").all()
        )
        assert chosen != other
        page.keyboard.press("/")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate("document.activeElement.type") == "search" and page.evaluate(outline) == "solid"
        moving = """[...document.querySelectorAll("*")].filter(e => {
            const style = getComputedStyle(e)
            return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0
        }).map(e => e.outerHTML.slice(0, 80))"""
        assert page.evaluate(moving) == []


def test_search_puts_words_before_pieces_of_words_and_chapters_before_appendices(
    browser: Browser, origin: str
) -> None:
    """*GiB* is a word of few sections and a piece of *eligible* in others, which come last but still come."""
    with visit(browser, origin, CHAPTER, 1280, "light") as seen:
        seen.page.keyboard.press("/")
        seen.page.wait_for_function("window.BOOK_INDEX")
        seen.page.keyboard.type("GiB")
        hits = seen.page.locator(HIT).all_inner_texts()
        whole = [bool(re.search(r"\bgib\b", hit, re.I)) for hit in hits]
        assert "Three readings" in hits[0]
        assert whole == sorted(whole, reverse=True) and not whole[-1] and "eligible" in hits[-1]
        seen.page.keyboard.press("Control+a")
        seen.page.keyboard.type("kv cache")
        places = [hit.get_attribute("href") or "" for hit in seen.page.locator(HIT).all()]
        assert "04-kv-cache" in places[0] and any("ledger" in place for place in places)
