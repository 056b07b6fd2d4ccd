"""The benchmark of the page weighs what a page really loads, and its table says whether a goal is met."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.common.report import chromium, figure, table
from bench.page import CHAPTER, Loaded, weights

SHEET = '<link rel="stylesheet" href="{}assets/book.css"><link rel="icon" href="data:,x">'
SLIDER = '<div class="cell explore"></div>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Three pages: one plain, chapter 1 with a moved figure and its script, one with four of them."""
    script = '<script>let inline</script><script src="{}assets/interact.js" defer></script>'
    pages = {
        "index.html": SHEET.format(""),
        f"{CHAPTER}.html": SHEET.format("../") + script.format("../") + SLIDER,
        "chapters/four.html": SHEET.format("../") + script.format("../") + 4 * SLIDER,
    }
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.ljust(1_000), encoding="utf-8")
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/book.css").write_bytes(b" " * 20_000)
    (tmp_path / "assets/interact.js").write_bytes(b" " * 500_000)
    (tmp_path / "assets/search-index.js").write_bytes(b" " * 900_000)
    return tmp_path


def test_a_page_weighs_what_it_loads(site: Path) -> None:
    found = weights(site)
    values = {name: entry["value"] for name, entry in found.items()}
    assert values["chapter 1, transferred"] == 521.0
    assert values["the heaviest other, chapters/four.html"] == 521.0
    assert values["chapter 1, from a host that compresses"] < 2
    assert [file.name for file in Loaded(site / "index.html").files if file.suffix != ".html"] == ["book.css"]


def test_pages_with_four_sliders_have_a_goal_of_their_own(site: Path) -> None:
    found = weights(site)
    rows = [name for name in found if name.endswith("sliders")]
    assert rows == ["chapters/four.html, 4 sliders"]
    assert found[rows[0]]["goal"] == 900 and found[rows[0]]["met"] is True
    (site / "assets/interact.js").write_bytes(b" " * 890_000)
    assert weights(site)[rows[0]]["met"] is False


def test_the_table_says_what_is_met_and_what_the_peers_are() -> None:
    figures = {"search": figure(12.345, "ms", 600, 50), "paint": figure(0.7, "s", None, 0.5)}
    _, blank, head, search, paint, *_, last = table(figures | {"size": figure(3, "KB")}, "a scan").split("\n")
    assert blank == "" and head.split() == ["figure", "value", "unit", "peer", "goal", "met"]
    assert search.split() == ["search", "12.3", "ms", "600", "50", "yes"]
    assert paint.split() == ["paint", "0.7", "s", "0.5", "no"]
    assert last == "Peers: a scan."


def test_a_missing_browser_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELCALL_CHROMIUM", "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"^interact: expected Chromium .* in MODELCALL_CHROMIUM$"):
        chromium("interact")
