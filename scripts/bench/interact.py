"""Sliders measured: from the move to the drawn change, how much a state weighs, and what building it costs.

    make bench NAME=interact                 a table
    make bench NAME=interact ARGS=--json     {figure: {value, unit, peer, goal, met}}

A page of four sliders of 30 figures each is built for the purpose; the peer of its weight is the same states
written out whole. The peer of a move is a bare change of one style in the same page, which costs the browser
its two frames and no more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common.report import chromium, figure, table
from modelcall.ch01 import softmax
from modelcall.lab import bundle, style
from modelcall.lab.explore import explore

PEERS = "a bare change of style (moves); the states written out (weights)"
ASSETS = Path(__file__).resolve().parents[1] / "render" / "assets"
MOVES = """async (bare) => {
    const box = document.querySelector(".explore"), field = box.querySelector("input"), times = []
    const drawn = () => new Promise(done => requestAnimationFrame(() => {
        const channel = new MessageChannel()
        channel.port1.onmessage = () => done(performance.now())
        channel.port2.postMessage(null)
    }))
    for (let i = 0; i < 41; i++) {
        await drawn()
        const start = performance.now()
        if (bare) box.style.paddingLeft = i % 2 + "px"
        else {
            field.value = i * 37 % 30
            field.dispatchEvent(new Event("input", { bubbles: true }))
        }
        times.push(await drawn() - start)
    }
    return times.sort((a, b) => a - b)
}"""


def bars(temperature: float, words: int) -> Any:
    drawn, axes = plt.subplots()
    axes.bar(range(words), softmax([0.3 * i for i in range(words)], temperature))
    axes.set(ylim=(0, 1), xlabel="word", ylabel="probability")
    return drawn


def four_sliders() -> tuple[list[str], list[float]]:
    """The HTML of four explored figures, and the seconds that each took."""
    pages: list[str] = []
    seconds: list[float] = []
    keep = bundle.show
    bundle.show = lambda page, plain, live, static="": pages.append(page)
    try:
        for words in (4, 6, 8, 10):
            start = time.perf_counter()
            explore(
                lambda temperature, words=words: bars(temperature, words),
                say=lambda temperature: f"at a temperature of {temperature:.1f}",
                temperature=(0.1, 3.0, 0.1),
            )
            seconds.append(time.perf_counter() - start)
    finally:
        bundle.show = keep
    return pages, seconds


def whole(page: str) -> int:
    """The bytes of the states of a page, each written out."""
    from modelcall.lab.packing import unpack

    packed = json.loads(page.split('json">')[1].split("</script>")[0])
    return sum(len(unpack(packed, i).encode()) for i in range(len(packed["c"][0])))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench/interact.py", description="Measure the sliders.")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    browser_path = chromium("interact")
    mpl.use("agg")
    style.use()
    pages, seconds = four_sliders()
    css, js = ((ASSETS / name).read_text(encoding="utf-8") for name in ("interact.css", "interact.js"))
    text = f"<!DOCTYPE html><title>x</title><style>{css}</style><main>{''.join(pages)}</main>{js}"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(path.as_uri())
        moves, bare = page.evaluate(MOVES, False), page.evaluate(MOVES, True)
        browser.close()
    size = len(text.encode()) / 1000
    figures = {
        "a move, to the drawn change": figure(median(moves), "ms", median(bare), 50),
        "a move, the slowest of 41": figure(moves[-1], "ms", bare[-1], 50),
        "four sliders of 30 figures": figure(size, "KB", sum(map(whole, pages)) / 1000, 900),
        "one figure more on a slider": figure(size * 1000 / 120, "B", whole(pages[0]) / 30),
        "one state, drawn and packed": figure(1000 * sum(seconds) / 120, "ms"),
    }
    print(json.dumps(figures, indent=1) if options.json else table(figures, PEERS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
