"""The page measured: build times, weight, first paint, layout shift and search, beside bare tools.

    make bench NAME=page                 a table
    make bench NAME=page ARGS=--json     {figure: {value, unit, peer, goal, met}}

Builds run on a copy of the book, as whole commands (the start of Python included); the peer is plain Pandoc
over the same Markdown, which draws no figures, resolves no reference and checks nothing. Pages come from a
server on this machine that compresses nothing, into a fresh profile each time; the search's peer is a bare
scan of the same index in the same page, which neither ranks nor shows. Goals are reported, never enforced:
a busy machine misses them.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from html.parser import HTMLParser
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sync
from bench.common.report import Figures, chromium, figure, table
from render.pandoc import Pandoc

ROOT = Path(__file__).resolve().parents[2]

CHAPTER = "chapters/01-on-ramp"
MARK = "The policy has no section four."
LOADS = 9
SLIDERS = 4  # from so many on, a page may weigh more
PEERS = "plain Pandoc over the same Markdown (builds); a scan that neither ranks nor shows (search)"
# Quarto 1.10.18 on two cores: 32 pages of stored notebooks of 47 cells in 125 s; a tenth of that is the goal.
QUARTO_S_PER_PAGE = 125 / 32
QUERIES = (
    "temperature",
    "log probability",
    "token",
    "t",
    "calibration error bins",
    "cost per resolved task",
    "refund",
    "def softmax",
    "the",
    "wombat",
)  # one letter, words of every page, several words, code, and one that is nowhere


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench/page.py", description="Measure the built page.")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    args = parser.parse_args()
    browser_path = chromium("page")
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book"
        figures = builds(book)
        figures |= weights(book / "_book")
        with served(book / "_book") as origin, sync_playwright() as playwright:
            flags = ["--no-sandbox", "--disable-gpu"]
            browser = playwright.chromium.launch(executable_path=browser_path, args=flags)
            figures |= paints(browser, origin) | searches(browser, origin)
            browser.close()
    print(json.dumps(figures, indent=1) if args.json else table(figures, PEERS))
    return 0


# -- building ------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def forget(book: Path) -> None:
    """Remove what builds have made and kept."""
    for folder in (".quarto", "_book"):
        shutil.rmtree(book / folder, ignore_errors=True)


def builds(book: Path) -> Figures:
    ignored = shutil.ignore_patterns(".*", "_book", "tests", "__pycache__")
    shutil.copytree(ROOT, book, ignore=ignored)
    command = [sys.executable, str(ROOT / "scripts/build.py"), "--renderer", "embedded", "--root", str(book)]

    # Some machines forbid Python to keep what it compiled; a reader's does not.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def build() -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            sys.exit(f"page: the book does not build\n{done.stderr}")

    chapter = book / f"{CHAPTER}.md"

    def edit(sentence: str) -> None:
        text = chapter.read_text(encoding="utf-8")
        if MARK not in text:
            sys.exit(f"page: {chapter.name} has lost the sentence that the benchmark edits: {MARK!r}")
        chapter.write_text(text.replace(MARK, f"{MARK} {sentence}", 1), encoding="utf-8")
        with redirect_stderr(io.StringIO()):
            if sync.main([chapter.name], book):
                sys.exit("page: the edited chapter does not go into its notebook")

    pandoc = Pandoc(book / "unused").executable[0]

    def bare(*files: Path) -> None:
        for file in files:
            done = [pandoc, "-f", "markdown", "-t", "html5", "--mathml", "--standalone", str(file)]
            subprocess.run(done, capture_output=True, check=True)

    sources = [book / "index.md", book / "references.md", *sorted((book / "chapters").glob("*.md"))]
    anew = []
    for _ in range(3):
        forget(book)
        anew.append(seconds(build))
    cold = median(anew)
    whole = median(seconds(lambda: bare(*sources)) for _ in range(3))
    warm = median(seconds(build) for _ in range(5))
    edits = []
    for i in range(5):
        edit(f"A sentence of the benchmark, number {i}.")
        edits.append(seconds(build))
    one = median(seconds(lambda: bare(chapter)) for _ in range(3))
    return {
        "build, nothing kept": figure(cold, "s", whole),
        "build, nothing kept, one page (peer Quarto)": figure(
            cold / len(sources), "s", QUARTO_S_PER_PAGE, QUARTO_S_PER_PAGE / 10
        ),
        "build, nothing changed": figure(warm, "s", whole),
        "build, one chapter edited": figure(median(edits), "s", one, 1.5),
    }


class Loaded(HTMLParser):
    """What a page fetches as it opens, and how many of its figures can be moved."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.files: set[Path] = {page}
        self.sliders = 0
        self._folder = page.parent
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.sliders += "explore" in (given.get("class") or "").split()
        style = tag == "link" and given.get("rel") == "stylesheet"
        address = given.get("href") if style else given.get("src") if tag in ("script", "img") else None
        if address and not address.startswith("data:"):
            self.files.add((self._folder / address).resolve())


def weights(site: Path) -> Figures:
    """What a page transfers before anyone searches: chapter 1, the heaviest other, any of four sliders."""
    pages = {path.relative_to(site).as_posix(): Loaded(path) for path in sorted(site.rglob("*.html"))}
    size = {name: sum(file.stat().st_size for file in page.files) / 1000 for name, page in pages.items()}
    chapter = f"{CHAPTER}.html"
    packed = sum(len(gzip.compress(file.read_bytes())) for file in pages[chapter].files) / 1000
    others = {name: value for name, value in size.items() if name != chapter}
    heaviest = max(others, key=lambda name: others[name])
    found = {
        "chapter 1, transferred": figure(size[chapter], "KB", None, 600),
        "chapter 1, from a host that compresses": figure(packed, "KB"),
        f"the heaviest other, {heaviest}": figure(size[heaviest], "KB", None, 600),
    }
    for name, page in pages.items():
        if page.sliders >= SLIDERS:
            found[f"{name}, {page.sliders} sliders"] = figure(size[name], "KB", None, 900)
    return found


# -- in the browser ------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """No log between the figures."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def paints(browser: Browser, origin: str) -> Figures:
    watch = """() => new Promise(done => {
        let shift = 0, paint = null
        new PerformanceObserver(list => {
            paint = list.getEntriesByName("first-contentful-paint")[0]?.startTime ?? paint
        })
            .observe({ type: "paint", buffered: true })
        new PerformanceObserver(list => { for (const entry of list.getEntries()) shift += entry.value })
            .observe({ type: "layout-shift", buffered: true })
        const finish = () => paint === null ? setTimeout(finish, 50) : done([paint / 1000, shift])
        setTimeout(finish, 300)
    })"""
    times: dict[str, list[float]] = {}
    shifts = []
    for width in (1280, 390):
        for name in (f"{CHAPTER}.html", "index.html"):
            for _ in range(LOADS):
                context = browser.new_context(viewport={"width": width, "height": 900})
                page = context.new_page()
                page.goto(f"{origin}/{name}", wait_until="load")
                paint, shift = page.evaluate(watch)
                times.setdefault(f"{name}, {width} px", []).append(paint)
                shifts.append(shift)
                context.close()
    found = {f"first paint, {name}": figure(median(all_), "s", None, 0.5) for name, all_ in times.items()}
    return found | {f"layout shift, worst of {len(shifts)} loads": figure(max(shifts), "", None, 0)}


def searches(browser: Browser, origin: str) -> Figures:
    """Each query typed into the dialog: from the key to the laid-out hits; and a bare scan of the index."""
    timed = """async ([queries, repeats]) => {
        const input = document.querySelector("dialog.search input")
        const hits = document.querySelector("[role=listbox]")
        const each = (work) => queries.map(query => {
            const times = []
            for (let i = 0; i < repeats; i++) {
                const start = performance.now()
                work(query)
                times.push(performance.now() - start)
            }
            return times.sort((a, b) => a - b)[repeats >> 1]
        })
        const shown = each(query => {
            input.value = query
            input.dispatchEvent(new Event("input"))
            hits.getBoundingClientRect()
        })
        const scanned = each(query => {
            const terms = query.toLowerCase().split(/\\s+/)
            const holds = entry => terms.every(term => entry.join(" ").toLowerCase().includes(term))
            return BOOK_INDEX.filter(holds)
        })
        return [shown, scanned]
    }"""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{origin}/{CHAPTER}.html", wait_until="load")
    page.keyboard.press("/")
    page.wait_for_function("window.BOOK_INDEX")
    shown, scanned = page.evaluate(timed, [list(QUERIES), 7])
    page.close()
    return {
        f"search, median of {len(QUERIES)} queries": figure(median(shown), "ms", median(scanned), 50),
        "search, slowest query": figure(max(shown), "ms", max(scanned), 50),
    }


if __name__ == "__main__":
    sys.exit(main())
