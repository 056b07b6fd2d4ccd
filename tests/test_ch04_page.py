"""The page of chapter 4: what it says of its sources, and what its figures are drawn from."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest

from modelcall.ch04 import PagedCache, append_tokens
from modelcall.lab import ledger, ledger_memory, style
from modelcall.lab.blocks import draw_blocks
from modelcall.lab.units import BYTES

TEXT = (Path(__file__).resolve().parent.parent / "chapters" / "04-kv-cache.md").read_text(encoding="utf-8")
ENTRIES = {entry.id: entry for entry in ledger.load()}
OURS = [name for name in ENTRIES if name.startswith("A-NM0.2-")] + ["A-GBGiB", "A-7-params"]


def test_every_claim_of_the_section_is_computed_and_linked() -> None:
    assert len(OURS) == 16
    for name in OURS:
        assert ENTRIES[name].pending is None, name
        assert f"(ledger.ipynb#{name})" in TEXT, name


def test_where_the_source_errs_an_erratum_says_so() -> None:
    boxes = re.findall(r"^::: \{\.column-margin \.erratum\}\n(.*?)^:::", TEXT, flags=re.M | re.S)
    linked = {name for box in boxes for name in re.findall(r"ledger\.ipynb#([\w.-]+)", box)}
    wrong = {name for name in OURS if ENTRIES[name].verdict in ("erratum", "inconsistent")}
    assert wrong == {"A-NM0.2-base70", "A-GBGiB"} and wrong <= linked


GB = 10**9
KV = 2 * 80 * 8 * 128 * 128_000  # bytes at 8 bits, from the numbers that the source prints


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A-NM0.2-kvtok", 2 * 80 * 8 * 128 * 2),
        ("A-NM0.2-kib", Fraction(327_680, 2**10)),
        ("A-NM0.2-dmodel", 64 * 128),
        ("A-NM0.2-total", 2 * KV),
        ("A-NM0.2-gb", Fraction(2 * KV, GB)),
        ("A-NM0.2-sum16", 70 + Fraction(2 * KV, GB)),
        ("A-NM0.2-fp8tok", 2 * 80 * 8 * 128),
        ("A-NM0.2-fp8", Fraction(KV, GB)),
        ("A-NM0.2-sum8", 70 + Fraction(KV, GB)),
        ("A-NM0.2-gqa", 8),
        ("A-NM0.2-base70", Fraction(70_553_706_496, GB)),
        ("A-GBGiB", 80 * BYTES["GiB"] / BYTES["GB"]),
        ("A-7-params", Fraction(70_553_706_496, GB)),
    ],
)
def test_values_in_exact_arithmetic(name: str, expected: Fraction | int) -> None:
    assert ledger.recompute(ENTRIES[name]) == pytest.approx(float(expected), rel=1e-12)


def test_values_over_two_devices() -> None:
    half = [Fraction(KV, 2 * GB), Fraction(KV, GB)]
    assert ledger.recompute(ENTRIES["A-NM0.2-tp2"]) == [round(float(gb), 2) for gb in half]
    fits = ledger.recompute(ENTRIES["A-NM0.2-tp2fit"])
    assert fits == {"8-bit KV": float(35 + half[0]), "16-bit KV": float(35 + half[1])}
    assert ledger.recompute(ENTRIES["A-NM0.2-h200"]) == dict.fromkeys(("H200", "B200"), 111.94304)


def test_a_formula_broken_on_purpose_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from modelcall import ch04

    monkeypatch.setattr(ch04, "kv_token_bytes", lambda *sizes, **named: 163_839)
    with pytest.raises(AssertionError):
        assert ledger.recompute(ENTRIES["A-NM0.2-kvtok"]) == 327_680
    monkeypatch.setattr(ledger_memory, "fit", lambda *_, **__: SimpleNamespace(cache=1, needed=1))
    broken = [e for e in ("A-NM0.2-tp2", "A-NM0.2-tp2fit", "A-NM0.2-h200") if _differs(e)]
    assert len(broken) == 3


def _differs(name: str) -> bool:
    return bool(ledger.recompute(ENTRIES[name]) != ENTRIES[name].computed)


def test_the_picture_of_blocks_is_drawn_from_the_tables() -> None:
    cache = PagedCache((1, 1, 1), 6, 4)
    first = cache.open()
    append_tokens(cache, first, *_ones(6))
    cache.fork(first)
    axes = draw_blocks(cache).axes[0]
    words = [text.get_text() for text in axes.texts]
    assert words[:6] == ["sequence 0", "0", "1", "sequence 1", "0", "1"]
    assert words[6:10] == ["memory", "readers", "0", "2"] and words.count("free") == 4
    from matplotlib.colors import to_hex

    filled = [p for p in axes.patches if p.get_fill()]  # type: ignore[attr-defined]
    assert [round(p.get_width() / 0.9, 2) for p in filled[:4]] == [1.0, 0.5, 1.0, 0.5]  # type: ignore[attr-defined]
    assert {to_hex(p.get_facecolor()) for p in filled[:4]} == {style.color("c3")}
    plt.close("all")
    with pytest.raises(ValueError, match="at most 12 blocks; got 13"):
        draw_blocks(PagedCache((1, 1, 1), 13, 4))


def _ones(count: int) -> list[object]:
    import numpy as np

    return list(np.ones((2, 1, 1, count, 1)))
