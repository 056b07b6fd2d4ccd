"""More answers to the exercises of chapter 2: what engineers write in haste, in doubt, or in another style.

Each wrong one names words of the reason that it must get; each right one must pass. The commonest mistakes
are in ``test_checks_ch02``.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from tests.test_checks_ch02 import by_copy, by_fields, by_normpath, by_table, by_the_book

from modelcall.ch02 import PCIE, Status, link_share, pcie_bytes_per_s

Answer = Callable[..., Any]


def ends(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def asked(before: Any, move: Any) -> Any:
    item, source, target, count = move
    return before | {
        (item, source): before[item, source] - count,
        (item, target): before[item, target] + count,
    }


def rows(at: int, before: Any, after: Any, move: Any) -> bool:
    """Whether the sums over items, or over places, are as they should be."""

    def totals(stock: Any) -> Counter[str]:
        made: Counter[str] = Counter()
        for key, count in stock.items():
            made[key[at]] += count
        return made

    return totals(after) == totals(asked(before, move))


def unless(name: str, grant: Any, wanted: Any) -> bool:
    """``narrower`` with one field taken for equal."""
    return by_fields(grant, wanted | {name: grant[name]})


def by_counter(before: Any, after: Any, move: Any) -> bool:
    item, source, target, count = move
    wanted = Counter(before)
    wanted.update({(item, target): count})
    wanted.subtract({(item, source): count})
    return wanted == Counter(after)


WRONG: dict[str, list[tuple[Answer, str]]] = {
    "2.1": [
        (lambda f, p: ends("/srv/notes", p).startswith("/srv/notes/"), "('/home/ann/box', "),
        (lambda f, p: posixpath.normpath(f + "/" + p).startswith(f + "/"), "absolute path replaces"),
        (lambda f, p: PurePosixPath(ends(f, p)).is_relative_to(f), "not beneath itself"),
        (lambda f, p: PurePosixPath(f, p).is_relative_to(f), "not normalised|beneath itself"),
        (lambda f, p: f in ends(f, p), "a prefix is not a parent"),
        (lambda f, p: posixpath.commonprefix([f, ends(f, p)]) == f, "a prefix is not a parent"),
        (lambda f, p: p.count("..") * 2 < len(p.split("/")), "expected"),
        (lambda f, p: not posixpath.relpath(ends(f, p), f).startswith(".."), "'..rc' is a name"),
        (lambda f, p: posixpath.join(f, p.replace("../", "")).startswith(f + "/"), "not normalised"),
        (lambda f, p: ends(f, p).count("/") > f.count("/"), "expected False"),
        (lambda f, p: p[:1] != "/" and by_normpath(f, p), "an absolute path can lie beneath"),
        (lambda f, p: str(by_normpath(f, p)), "expected True or False"),
        (lambda f, p: by_normpath(f, p) and ends(f, p), "expected True or False"),
        (lambda f, p: by_normpath(f, p) or None, "returns None"),
    ],
    "2.2": [
        (lambda c, f: by_table(200 if c and 200 <= c < 300 else c, f), "only 200 is one"),
        (lambda c, f: "TRANSPORT_FAILURE" if (c or 500) >= 400 else by_table(200, f), "only 200 is one"),
        (lambda c, f: by_table(200 if c is None else c, f), "the line broke"),
        (lambda c, f: "REFUSED" if c in (400, 429) else by_table(c, f), "expected 'TRANSPORT_FAILURE'"),
        (lambda c, f: "TRUNCATED" if c == 429 else by_table(c, f), "expected 'TRANSPORT_FAILURE'"),
        (lambda c, f: Status[by_table(c, f)], "expected the name of a status, such as 'COMPLETED'"),
        (lambda c, f: "COMPLETED" if (c, f) == (200, None) else by_table(c, f), "(200, None)"),
        (
            lambda c, f: "REFUSED" if c == 200 and by_table(c, f)[:5] == "TRANS" else by_table(c, f),
            "a filter was at work",
        ),
        (lambda c, f: by_table(c, f).replace("TRANSPORT_FAILURE", "FAILED"), "returns 'FAILED'"),
        (lambda c, f: "COMPLETED", "returns 'COMPLETED'; expected"),
        (lambda c, f: by_table(c, f).replace("_", " "), "returns 'TRANSPORT FAILURE'"),
        (lambda c, f: by_table(c, f and f.strip("_").lower()), "'STOP' is none of the four"),
        (lambda c, f: by_table(c, f) if c > 0 else "TRANSPORT_FAILURE", "raises TypeError"),
    ],
    "2.3": [
        (lambda *c: round(by_the_book(*c), 1), "2.1; expected 2.08: round what you print"),
        (lambda *c: np.float32(by_the_book(*c)), "float64"),
        (lambda v, b, r, g: by_the_book(v, 1, r, g), "this is one sequence"),
        (lambda *c: min(100.0, by_the_book(*c)), "it ends at 100"),
        (lambda v, b, r, g: by_the_book(v, b, r, 5), "expected"),
        (lambda *c: 100 - by_the_book(*c), "expected"),
        (lambda *c: 10_000 / by_the_book(*c), "expected"),
        (lambda v, b, r, g: by_the_book(v, b, 1.0, g), "expected"),
        (lambda v, b, r, g: 100 * v * 2 * b * r / (16 * PCIE[g][0] * 1e8), "expected"),
        (lambda v, b, r, g: by_the_book(1024 * v // 1000, b, r, g), "expected"),
        (lambda v, b, r, g: link_share(v * 2 * b * r, pcie_bytes_per_s(g)), "expected percent"),
        (lambda *c: int(by_the_book(*c)), "2; expected 2.08"),
        (lambda *c: (by_the_book(*c), "%"), "no number but tuple"),
    ],
    "2.4": [
        (lambda b, a, m: all(a.get(k) == v for k, v in asked(b, m).items()), "one more, from nowhere"),
        (lambda b, a, m: sorted(a.values()) == sorted(asked(b, m).values()), "stand in the wrong rows"),
        (lambda b, a, m: rows(0, b, a, m), "the task may still be undone"),
        (lambda b, a, m: rows(1, b, a, m), "given another item moved instead"),
        (lambda b, a, m: rows(0, b, a, m) and rows(1, b, a, m) and a != b, "given "),
        (lambda b, a, m: by_copy(b, a, m) or a == b, "given the state before the move"),
        (lambda b, a, m: a[m[0], m[2]] >= b[m[0], m[2]] + m[3], "given "),
        (lambda b, a, m: sum(a.get(k) != n for k, n in b.items()) == 2, "given "),
        (lambda b, a, m: all(n >= 0 for n in a.values()), "everything in order"),
        (lambda b, a, m: asked(b, m), "expected True or False"),
        (lambda b, a, m: len(a) == len(b), "everything in order"),
        (lambda b, a, m: by_copy(a, b, m), "exchanged, or the two states"),
        (lambda b, a, m: not by_copy(b, a, m), "given the state that was asked for"),
    ],
    "2.5": [
        (lambda g, a: by_fields(g, a) or (a["verb"] == "read" and unless("verb", g, a)), "contains no other"),
        (
            lambda g, a: unless("folder", g, a) and PurePosixPath(a["folder"]).is_relative_to(g["folder"]),
            "follow the '..' first",
        ),
        (
            lambda g, a: unless("folder", g, a) and (a["folder"] + "/").startswith(g["folder"] + "/"),
            "follow the '..' first",
        ),
        (lambda g, a: by_fields(g | {"folder": "/srv/notes"}, a), "'/home/ann'"),
        (lambda g, a: all(str(a[k]) <= str(g[k]) for k in g), "expected"),
        (lambda g, a: unless("folder", g, a) and g["folder"] in a["folder"], "compare whole parts"),
        (lambda g, a: by_fields(g, a) and a["limit_bytes"] < g["limit_bytes"], "expected True"),
        (lambda g, a: a.items() <= g.items(), "expected True"),
        (lambda g, a: unless("folder", g, a) and len(a["folder"]) >= len(g["folder"]), "expected False"),
        (lambda g, a: unless("expires_s", g, a) and a["expires_s"] >= g["expires_s"], "expected"),
        (lambda g, a: a, "expected True or False"),
        (lambda g, a: g["verb"] in a["verb"] and g["limit_bytes"] >= a["limit_bytes"], "expected False"),
        (lambda g, a: g.limit_bytes >= a.limit_bytes, "raises AttributeError"),
    ],
}
RIGHT: dict[str, list[Answer]] = {
    "2.1": [
        lambda f, p: posixpath.relpath(posixpath.join(f, p), f).split("/")[0] not in ("..", "."),
        lambda f, p: ends(f, p)[: len(f) + 1] == f + "/",
        lambda f, p: ends(f, p).split("/")[: f.count("/") + 1] == f.split("/") and ends(f, p) != f,
    ],
    "2.2": [
        lambda c, f: (
            {(200, "stop"): "COMPLETED", (200, "tool_calls"): "COMPLETED"}.get((c, f))
            or {(200, "length"): "TRUNCATED", (200, "content_filter"): "REFUSED"}.get(
                (c, f), "TRANSPORT_FAILURE"
            )
        ),
        lambda c, f: Status[by_table(c, f)].name,
        lambda c, f: by_table(c, f) if c is not None and c == 200 else Status.TRANSPORT_FAILURE.name,
    ],
    "2.3": [
        lambda v, b, r, g: 100 * (v * 2) * (b * r) / pcie_bytes_per_s(g),
        lambda v, b, r, g: v * b * r / PCIE[g][0] / PCIE[g][1] / 1e7,
        lambda v, b, r, g: np.divide(200 * v * b * r, pcie_bytes_per_s(g)),
    ],
    "2.4": [
        by_counter,
        lambda b, a, m: set(a.items()) == set(asked(b, m).items()),
        lambda b, a, m: a == asked(b, m) and sum(a.values()) == sum(b.values()),
    ],
    "2.5": [
        lambda g, a: unless("folder", g, a) and ".." not in a["folder"].split("/") and by_fields(g, a),
        lambda g, a: (
            unless("folder", g, a)
            and posixpath.commonpath([posixpath.normpath(a["folder"]), g["folder"]]) == g["folder"]
        ),
        lambda g, a: np.all([by_fields(g, a), a["limit_bytes"] <= g["limit_bytes"]]),
    ],
}
