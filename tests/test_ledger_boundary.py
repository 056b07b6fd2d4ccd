"""The opening sections of The Foundation Model in the ledger: oracles, notes, functions broken on purpose."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from modelcall import ch02
from modelcall.lab import ledger, ledger_boundary

BY_ID = {entry.id: entry for entry in ledger.load()}
HERE = [entry for entry in BY_ID.values() if entry.section in ("A.0", "A.1")]
LINK = Fraction(16 * 10**9 * 16 * 128, 130 * 8)  # bytes/s of PCIe 4.0 x16


def test_the_two_sections_have_eleven_entries_and_none_waits() -> None:
    assert len(HERE) == 11 and not any(entry.pending for entry in HERE)
    assert ledger.check(HERE).problems == []


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("A-NM0.1-payload", Fraction(128_000 * 2)),
        ("A-NM0.1-rate", Fraction(64 * 40)),
        ("A-NM0.1-bw", Fraction(64 * 40 * 128_000 * 2, 10**6)),
        ("A-NM0.1-pcie4", LINK / 10**9),
        ("A-NM0.1-sat", Fraction("5.24288") / Fraction("31.5")),
        ("A-NM0.1-idbw", Fraction(64 * 40 * 4)),
        ("A-NM0.1-ratio", Fraction(256_000, 4)),
    ],
)
def test_values_in_exact_arithmetic(identifier: str, expected: Fraction) -> None:
    assert math.isclose(ledger.recompute(BY_ID[identifier]), float(expected), rel_tol=1e-12)


def test_either_change_alone_falls_short_and_both_together_reach_it() -> None:
    alone = ledger.recompute(BY_ID["A-NM0.1-or"])
    assert alone == {"vocabulary alone": 1.31072, "batch alone": 2.62144}
    both = ledger_boundary.grown_GB_per_s(256_000, 256)["batch alone"] * 2
    assert both == 5.24288 == BY_ID["A-NM0.1-sat"].inputs["stream_GB_per_s"]


def test_the_numbers_in_notes_follow() -> None:
    step = 64 * 128_000 * 2
    said = {
        "A-NM0.1-or": "gives 1.31 GB/s, quadrupling the batch gives 2.62 GB/s",
        "A-NM0.1-sat": f"one 64-row step moves {step / 1e6:.1f} MB, about half a millisecond",
    }
    for identifier, text in said.items():
        assert text in BY_ID[identifier].note
    assert 0.45e-3 < float(step / LINK) < 0.55e-3
    assert round(float(Fraction(655_360_000) / LINK), 2) == round(1 / 50, 2)  # "a fiftieth"


def test_what_is_counted_is_listed_without_repeats() -> None:
    lists = {**BY_ID["A-counts"].inputs, **BY_ID["A-statuses4"].inputs}
    assert all(len(set(names)) == len(names) for names in lists.values())
    assert len(lists["stages"]) == len(ch02.STAGES) and len(lists["tiers"]) == len(ch02.TIERS)
    ours = {status.name for status in ch02.Status}
    assert ours < set(lists["table_6"]) and len(ours) == BY_ID["A-statuses4"].stated


@pytest.mark.parametrize(
    ("name", "broken", "expected"),
    [
        ("token_bytes", lambda v, b=2: v * (b + 1), {"A-NM0.1-payload", "A-NM0.1-or", "A-NM0.1-ratio"}),
        ("tokens_per_s", lambda b, r: b + r, {"A-NM0.1-rate", "A-NM0.1-or", "A-NM0.1-idbw"}),
        ("pcie_bytes_per_s", lambda g, lanes=16: 4e9 * g * lanes / 8, {"A-NM0.1-pcie4"}),
        ("link_share", lambda s, link: link / s, {"A-NM0.1-sat"}),
    ],
)
def test_a_broken_function_is_found_in_the_entries_that_use_it(
    name: str, broken: Any, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ch02, name, broken)
    assert {problem.id for problem in ledger.check(HERE).problems} == expected
