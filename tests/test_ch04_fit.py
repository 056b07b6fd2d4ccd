"""Does it fit (chapter 4): the verdicts of the source, brute force over heads, and the edge to the byte."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch04 import (
    FP8,
    FP16,
    INT4,
    Device,
    Fit,
    ModelProfile,
    device,
    fit,
    kv_bytes,
    kv_heads_stored,
    longest_context,
    model_profile,
    parameter_count,
)
from modelcall.lab import facts

exact = settings(deadline=None, derandomize=True, max_examples=60)
BIG = model_profile("llama-3-70b")
SMALL = ModelProfile("small", 4, 24, 12, 4, 4, 40, 100)
READINGS = ("GB", "GiB", "driver")


def test_the_three_verdicts_of_the_source_in_fractions() -> None:
    """What it needs is written out here from the numbers that the source prints."""
    per_token = {16: 2 * 80 * 8 * 128 * 2, 8: 2 * 80 * 8 * 128}
    for tokens, bits, weights in ((128_000, 16, 70.0), (128_000, 8, 70.0), (51_500, 16, 70.6)):
        needed = Fraction(str(weights)) * 10**9 + tokens * per_token[bits]
        for reading in READINGS:
            capacity = device("h100-80").capacity_bytes(reading)
            found = fit(
                BIG, capacity, tokens, cache=FP16 if bits == 16 else FP8, parameters=int(weights * 10**9)
            )
            assert found.needed == needed and found.spare == capacity - needed
            assert not found.fits


def test_readings_of_the_label() -> None:
    h100 = device("h100-80")
    assert [h100.capacity_bytes(r) for r in READINGS] == [80 * 10**9, 80 * 2**30, 81_559 * 2**20]
    assert device("h200") == Device("h200", 141, 0)
    with pytest.raises(ValueError, match="reading: expected one of GB, GiB; got 'driver'"):
        device("h200").capacity_bytes("driver")
    with pytest.raises(ValueError, match="label_gb"):
        Device("x", 0)
    with pytest.raises(facts.FactsError, match=r"no fact 'device\.x\.label'"):
        device("x")


def test_the_words_of_a_verdict() -> None:
    found = Fit(weights=70 * 10**9, cache=10**10, workspace=0, capacity=80 * 10**9)
    assert found.fits and found.spare == 0
    assert str(found) == "80.00 of 80.00 GB, 0.00 spare (74.51 of 74.51 GiB, 0.00)"
    short = replace(found, workspace=2**30)
    assert not short.fits and str(short).endswith(", 1.07 missing (75.51 of 74.51 GiB, 1.00)")


# --- heads on devices --------------------------------------------------------------------------------------


@exact
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 16))
def test_a_device_keeps_what_its_query_heads_read(kv: int, group: int, devices: int) -> None:
    model = replace(SMALL, query_heads=kv * group, kv_heads=kv)
    if kv * group % devices:
        with pytest.raises(ValueError, match=f"{kv * group} query heads do not divide by {devices}"):
            kv_heads_stored(model, devices)
        return
    owner = [q * devices // (kv * group) for q in range(kv * group)]  # in order, evenly
    reads = [{q // group for q in range(kv * group) if owner[q] == d} for d in range(devices)]
    assert kv_heads_stored(model, devices) == tuple(len(heads) for heads in reads)
    if kv % devices == 0:
        assert kv_heads_stored(model, devices) == (kv // devices,) * devices
    if devices % kv == 0:
        assert kv_heads_stored(model, devices) == (1,) * devices


def test_known_splits() -> None:
    assert kv_heads_stored(replace(BIG, query_heads=48), 3) == (3, 4, 3)
    assert kv_heads_stored(replace(SMALL, query_heads=6, kv_heads=2), 3) == (1, 2, 1)
    assert kv_heads_stored(BIG, 16) == (1,) * 16
    for devices in (3, 5, 6, 7):
        with pytest.raises(ValueError, match="64 query heads"):
            fit(BIG, 10**12, 1000, devices=devices)
    with pytest.raises(ValueError, match="devices: expected an integer of at least 1"):
        kv_heads_stored(BIG, 0)


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_shares_of_the_weights(devices: int) -> None:
    """Every matrix of the 70B shape divides by 1, 2, 4 and 8, so only normalisations are copied."""
    norms = (2 * 80 + 1) * 8192
    assert parameter_count(BIG, devices) == (parameter_count(BIG) - norms) // devices + norms


def test_copied_heads_are_copied_weights() -> None:
    """Four query heads on one KV head, over four devices: key and value projections are on each."""
    model = ModelProfile("x", 1, 8, 4, 1, 2, 4, 4, tied=True)
    query_out, key_value, wide, table, norms = 2 * 8 * 2, 2 * 8 * 2, 3 * 8, 8, 3 * 8
    assert parameter_count(model, 4) == query_out + key_value + wide + table + norms
    assert fit(model, 0, 100, devices=4).cache == kv_bytes(model, 100)


def test_a_latent_is_whole_on_every_device() -> None:
    model = model_profile("deepseek-v3")
    for n in (1, 2, 8):
        assert fit(model, 0, 1000, devices=n).cache == 1000 * 70_272
    assert fit(model, 0, 0, devices=8).weights == 671 * 10**9 // 8


def test_odd_sizes_round_up() -> None:
    model = replace(SMALL, d_ff=41, vocab=101)
    alone, shared = parameter_count(model), parameter_count(model, 2)
    assert 2 * shared > alone
    by_hand = 24 * (4 * (2 * (6 + 2) * 4 + 3 * 21 + 2) + 2 * 51 + 1)
    assert shared == by_hand


# --- sums and edges ----------------------------------------------------------------------------------------


@exact
@given(
    st.integers(0, 10**5),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 5),
    st.sampled_from([FP16, FP8, INT4]),
    st.integers(0, 10**6),
)
def test_a_fit_is_the_sum_of_its_parts(
    tokens: int, devices: int, seqs: int, cache: object, space: int
) -> None:
    found = fit(
        SMALL,
        10**7,
        tokens,
        devices=devices,
        sequences=seqs,
        cache=cache,
        workspace_bytes=space,  # type: ignore[arg-type]
    )
    assert found.weights == parameter_count(SMALL, devices)
    whole = kv_bytes(SMALL, tokens, cache, sequences=seqs)  # type: ignore[arg-type]
    assert found.cache * devices == whole and found.workspace == space
    assert found.needed == found.weights + found.cache + space
    assert found.fits == (found.needed <= 10**7) == (found.spare >= 0)


def test_weights_in_other_formats() -> None:
    count = parameter_count(BIG)
    assert fit(BIG, 0, 0).weights == count
    assert fit(BIG, 0, 0, weights=FP16).weights == 2 * count
    assert fit(BIG, 0, 0, weights=INT4).weights == count * 9 // 16
    assert fit(BIG, 0, 0, devices=2, parameters=70 * 10**9).weights == 35 * 10**9


@exact
@given(st.integers(20_000, 10**7), st.integers(0, 3000), st.booleans())
def test_one_token_more_does_not_fit(capacity: int, space: int, windowed: bool) -> None:
    model = replace(SMALL, window=50, windowed_layers=2) if windowed else SMALL
    options = {"workspace_bytes": space, "sequences": 2}
    if not fit(model, capacity, 0, **options).fits:  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="too small for the weights alone"):
            longest_context(model, capacity, **options)
        return
    most = longest_context(model, capacity, **options)
    assert fit(model, capacity, most, **options).fits  # type: ignore[arg-type]
    assert not fit(model, capacity, most + 1, **options).fits  # type: ignore[arg-type]


def test_a_window_in_all_layers_has_no_longest_context() -> None:
    mistral = model_profile("mistral-7b")
    with pytest.raises(ValueError, match="any context fits"):
        longest_context(mistral, 80 * 10**9)
    weights = parameter_count(mistral)
    assert longest_context(mistral, weights + 131_072 * 100) == 100


def test_a_little_more_memory_is_much_more_context() -> None:
    h100 = device("h100-80")
    gb, gib = (longest_context(BIG, h100.capacity_bytes(r)) for r in ("GB", "GiB"))
    left = [h100.capacity_bytes(r) - 70_553_706_496 for r in ("GB", "GiB")]
    assert [gb, gib] == [bytes_ // 327_680 for bytes_ in left]
    assert 0.61 < gib / gb - 1 < 0.63


def test_arguments_are_refused_by_name() -> None:
    for name in ("sequences", "workspace_bytes", "parameters"):
        with pytest.raises(ValueError, match=name):
            fit(BIG, 10**9, 1, **{name: -1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="capacity_bytes"):
        fit(BIG, -1, 1)
    with pytest.raises(TypeError, match="tokens: expected an integer"):
        fit(BIG, 1, 1.5)  # type: ignore[arg-type]
