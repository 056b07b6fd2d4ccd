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
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sync
from render.pandoc import Pandoc

ROOT = Path(__file__).resolve().parents[2]

CHAPTER = "chapters/01-on-ramp"
MARK = "The policy has no section four."
LOADS = 9
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
Figures = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench/page.py", description="Measure the built page.")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    args = parser.parse_args()
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    chromium = os.environ.get("MODELCALL_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        print(
            f"page: expected Chromium on PATH ({', '.join(names)}) or in MODELCALL_CHROMIUM", file=sys.stderr
        )
        return 1
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book"
        figures = builds(book)
        figures |= weights(book / "_book")
        with served(book / "_book") as origin, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            figures |= paints(browser, origin) | searches(browser, origin)
            browser.close()
    print(json.dumps(figures, indent=1) if args.json else table(figures))
    return 0


def figure(value: float, unit: str, peer: float | None = None, goal: float | None = None) -> dict[str, Any]:
    """One figure; smaller is better in all of them. ``met`` is None where there is no goal."""
    met = None if goal is None else value <= goal
    return {"value": value, "unit": unit, "peer": peer, "goal": goal, "met": met}


# -- building ------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def builds(book: Path) -> Figures:
    ignored = shutil.ignore_patterns(".*", "_book", "tests", "__pycache__")
    shutil.copytree(ROOT, book, ignore=ignored)
    command = [sys.executable, str(ROOT / "scripts/build.py"), "--renderer", "embedded", "--root", str(book)]

    def build() -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
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
    cold, whole = seconds(build), median(seconds(lambda: bare(*sources)) for _ in range(3))
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


def weights(site: Path) -> Figures:
    """What the chapter transfers before anyone searches, and the heaviest other page."""
    shared = [site / "assets" / name for name in ("fonts.css", "math.css", "book.css", "book.js")]
    pages = {path.relative_to(site).as_posix(): [path, *shared] for path in site.rglob("*.html")}
    size = {name: sum(file.stat().st_size for file in files) / 1000 for name, files in pages.items()}
    packed = sum(len(gzip.compress(file.read_bytes())) for file in pages[f"{CHAPTER}.html"]) / 1000
    others = max(value for name, value in size.items() if name != f"{CHAPTER}.html")
    return {
        "chapter 1, transferred": figure(size[f"{CHAPTER}.html"], "KB", None, 600),
        "chapter 1, from a host that compresses": figure(packed, "KB"),
        "the heaviest other page": figure(others, "KB", None, 600),
    }


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


def table(figures: Figures) -> str:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"

    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    lines = [f"{platform.machine()}, {os.cpu_count()} cores{load}, Python {platform.python_version()}", ""]
    lines.append(f"{'figure':44}{'value':>8} {'unit':4}{'peer':>8}{'goal':>8}  met")
    for name, one in figures.items():
        met = {True: "yes", False: "no", None: ""}[one["met"]]
        value, peer, goal = (number(one[key]) for key in ("value", "peer", "goal"))
        lines.append(f"{name:44}{value:>8} {one['unit']:4}{peer:>8}{goal:>8}  {met}".rstrip())
    lines += [
        "",
        "Peers: plain Pandoc over the same Markdown (builds); a scan that neither ranks nor shows (search).",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
