"""How the book's own pages look: nothing on them is cut, tiny, or away from what it belongs to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.visiting import page_names, visit

pytestmark = pytest.mark.browser

MIN_FIGURE_TEXT_PX = 10


def chapters(site: Path) -> list[str]:
    return [name for name in page_names(site) if re.match(r"chapters/\d\d-", name)]


def test_no_code_and_no_output_is_cut_on_a_desktop(browser: Browser, origin: str, site: Path) -> None:
    """At 1280 px every line of code fits its box, and a longer line of output is wrapped, not hidden."""
    cut = """() => [...document.querySelectorAll("article pre")].filter(e => e.checkVisibility())
        .filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText.slice(0, 80))"""
    for name in page_names(site):
        with visit(browser, origin, name, 1280, "light") as seen:
            assert seen.page.evaluate(cut) == [], name


def test_what_stands_out_of_the_column_leaves_the_margin_free(
    browser: Browser, origin: str, site: Path
) -> None:
    """Code and outputs are wider than the text, and still end before the notes beside them begin."""
    met = """() => {
        const notes = [...document.querySelectorAll(".margin-note")].map(e => e.getBoundingClientRect())
        return [...document.querySelectorAll("div.sourceCode, .cell-output > pre")]
            .filter(e => !e.closest(".margin-note"))
            .map(e => e.getBoundingClientRect())
            .filter(a => notes.some(b => b.left > 600 && a.right > b.left - 8
                && a.top < b.bottom && b.top < a.bottom)).length
    }"""
    for name in chapters(site):
        with visit(browser, origin, name, 1280, "light") as seen:
            assert seen.page.evaluate(met) == 0, name


def test_words_in_figures_are_legible_on_a_phone(browser: Browser, origin: str, site: Path) -> None:
    """At 390 px no word of a figure is smaller than 10 px, index numbers of powers aside."""
    small = """least => [...document.querySelectorAll("article figure svg text")].map(e => {
        const sizes = [...e.querySelectorAll("tspan")].concat([e])
        const size = Math.max(...sizes.map(s => parseFloat(getComputedStyle(s).fontSize)))
        const matrix = e.getScreenCTM()
        return [e.closest("figure").id, e.textContent, size * Math.hypot(matrix.a, matrix.b)]
    }).filter(found => found[2] < least)"""
    for name in chapters(site):
        with visit(browser, origin, name, 390, "light") as seen:
            assert seen.page.evaluate(small, MIN_FIGURE_TEXT_PX) == [], name


@pytest.mark.parametrize("width", [390, 1280])
def test_a_prediction_is_one_box(browser: Browser, origin: str, site: Path, width: int) -> None:
    """Its controls stand in the box with its question, and the button stands beside or below the answers."""
    away = """() => [...document.querySelectorAll("form.prediction")].filter(form => {
        const button = form.querySelector("button").getBoundingClientRect()
        const words = [...form.querySelectorAll("legend, label")].map(e => e.getBoundingClientRect())
        const right = Math.max(...words.map(e => e.right)), bottom = Math.max(...words.map(e => e.bottom))
        const beside = button.left - right <= 48
        const below = button.top - bottom <= 24 && button.left < words[0].right
        const within = button.right <= form.parentElement.getBoundingClientRect().right
        return !form.closest(".predict") || !(beside || below) || !within
    }).map(form => form.id)"""
    for name in chapters(site):
        with visit(browser, origin, name, width, "light") as seen:
            assert seen.page.locator("form.prediction").count() > 0
            assert seen.page.evaluate(away) == [], name


@pytest.mark.parametrize("width", [390, 1280])
def test_a_wide_table_breaks_no_name(browser: Browser, origin: str, site: Path, width: int) -> None:
    """Columns are as wide as their words ask for, and on a phone a table of five columns scrolls."""
    broken = """() => [...document.querySelectorAll("article table")].filter(e => e.rows[0].cells.length >= 5)
        .flatMap(e => [...e.tBodies[0].rows].map(row => row.cells[0])).filter(cell => {
            const range = document.createRange()
            range.selectNodeContents(cell)
            return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1
        }).map(cell => cell.textContent)"""
    found = 0
    for name in chapters(site):
        with visit(browser, origin, name, width, "light") as seen:
            found += seen.page.locator("article table:has(th:nth-child(5))").count()
            assert seen.page.evaluate(broken) == [], name
    assert found
