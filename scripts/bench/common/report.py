"""Figures and their table, and the browser to measure in.

A figure is a value with a unit, a peer beside it and a goal. Smaller is better in all of them. Goals are
reported, never enforced: a busy machine misses them.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from typing import Any

__all__ = ["Figures", "chromium", "figure", "table"]

Figures = dict[str, dict[str, Any]]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def figure(value: float, unit: str, peer: float | None = None, goal: float | None = None) -> dict[str, Any]:
    """Return one figure; ``met`` is None where there is no goal.

    >>> figure(0.4, "s", goal=0.5)["met"], figure(0.4, "s")["met"]
    (True, None)
    """
    met = None if goal is None else value <= goal
    return {"value": value, "unit": unit, "peer": peer, "goal": goal, "met": met}


def table(figures: Figures, peers: str) -> str:
    """Return the figures as lines under the machine's name; ``peers`` says what the peers are.

    >>> print(table({"search": figure(12.345, "ms", 600, 50)}, "a scan").split(chr(10))[3])
    search     12.3 ms       600      50  yes
    """
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    lines = [f"{platform.machine()}, {os.cpu_count()} cores{load}, Python {platform.python_version()}", ""]
    width = max(map(len, ["figure", *figures])) + 1
    lines.append(f"{'figure':{width}}{'value':>8} {'unit':4}{'peer':>8}{'goal':>8}  met")
    for name, one in figures.items():
        met = {True: "yes", False: "no", None: ""}[one["met"]]
        value, peer, goal = (_number(one[key]) for key in ("value", "peer", "goal"))
        lines.append(f"{name:{width}}{value:>8} {one['unit']:4}{peer:>8}{goal:>8}  {met}".rstrip())
    return "\n".join([*lines, "", f"Peers: {peers}."])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def chromium(benchmark: str) -> str:
    """Return the path of Chromium, or end the program and say how to name one."""
    found = os.environ.get("MODELCALL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        wanted = f"expected Chromium on PATH ({', '.join(NAMES)}) or in MODELCALL_CHROMIUM"
        sys.exit(f"{benchmark}: {wanted}")
    return found
