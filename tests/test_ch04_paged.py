"""The paged cache (chapter 4) against lists of arrays, and the decoder on pages against one piece."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from numpy.typing import NDArray

from modelcall.ch04 import BlockPool, BlockTables, PagedCache, PagedRows, PagedTables, append_tokens
from modelcall.lab import models
from modelcall.lab.engine import Config, Decoder, tensor_shapes
from modelcall.lab.generation import decode
from modelcall.lab.kvcache import KVCache
from modelcall.lab.model_errors import CacheFull
from modelcall.lab.sampling import Sampler, Sampling

LAYERS, HEADS, SIZE = 2, 2, 3
exact = settings(deadline=None, derandomize=True, max_examples=40)


def consistent(tables: BlockTables) -> None:
    """Every block is free, or read by as many tables as it has readers."""
    listed = list(itertools.chain.from_iterable(tables.tables.values()))
    for block, readers in enumerate(tables.readers):
        assert listed.count(block) == readers, (block, tables.tables, tables.readers)
    assert sorted(tables.free) == [b for b, readers in enumerate(tables.readers) if readers == 0]
    assert tables.tables.keys() == tables.lengths.keys()
    for sequence, table in tables.tables.items():
        assert len(set(table)) == len(table)
        assert tables.lengths[sequence] <= len(table) * tables.block_tokens


class PagedMachine(RuleBasedStateMachine):
    """What a sequence was given is kept in a list beside the cache; gather must always return just that."""

    sequences = Bundle("sequences")

    def __init__(self) -> None:
        super().__init__()
        self.counter = 0.0
        self.truth: dict[int, list[NDArray[Any]]] = {}

    @initialize(block_tokens=st.integers(1, 5), blocks=st.integers(1, 12))
    def build(self, block_tokens: int, blocks: int) -> None:
        self.cache = PagedCache((LAYERS, HEADS, SIZE), blocks, block_tokens)

    @rule(target=sequences)
    def open(self) -> int:
        sequence = self.cache.open()
        self.truth[sequence] = []
        return sequence

    @rule(sequence=sequences, count=st.integers(0, 9))
    def append(self, sequence: int, count: int) -> None:
        shape = (2, LAYERS, HEADS, count, SIZE)
        new = self.counter + np.arange(np.prod(shape), dtype=float).reshape(shape) + 1
        before = self.snapshot()
        need, free = self.cache.missing(sequence, count), len(self.cache.free)
        try:
            append_tokens(self.cache, sequence, new[0], new[1])
        except CacheFull:
            assert need > free and self.snapshot() == before  # refused as a whole
            return
        assert need <= free and len(self.cache.free) == free - need
        self.counter += float(new.size)
        self.truth[sequence] += [new[:, :, :, t] for t in range(count)]

    @rule(sequence=sequences, count=st.integers(0, 9))
    def reserve_ahead(self, sequence: int, count: int) -> None:
        """Room that is taken and not used yet; it must not be seen, shared or lost."""
        before, free, need = self.snapshot(), len(self.cache.free), self.cache.missing(sequence, count)
        if need > free:
            with pytest.raises(CacheFull, match=f"{need} blocks needed, {free} free"):
                self.cache.reserve(sequence, count)
            assert self.snapshot() == before
        else:
            self.cache.reserve(sequence, count)
            assert self.cache.missing(sequence, count) == 0
            assert len(self.cache.free) == free - need

    @rule(target=sequences, parent=sequences)
    def fork(self, parent: int) -> int:
        free = len(self.cache.free)
        child = self.cache.fork(parent)
        assert len(self.cache.free) == free  # no block is taken
        self.truth[child] = list(self.truth[parent])
        return child

    @rule(sequence=consumes(sequences))
    def close(self, sequence: int) -> None:
        self.cache.close(sequence)
        del self.truth[sequence]
        with pytest.raises(ValueError, match=f"sequence: {sequence} is not open"):
            self.cache.length(sequence)

    def snapshot(self) -> object:
        tables = {s: list(t) for s, t in self.cache.tables.items()}
        return tables, dict(self.cache.lengths), list(self.cache.free), list(self.cache.readers)

    @invariant()
    def gather_is_what_was_appended(self) -> None:
        if not hasattr(self, "cache"):
            return
        consistent(self.cache)
        for sequence, given_tokens in self.truth.items():
            assert self.cache.length(sequence) == len(given_tokens)
            shape = (2, LAYERS, HEADS, 0, SIZE)
            want = np.stack(given_tokens, axis=3) if given_tokens else np.zeros(shape)
            for layer in range(LAYERS):
                np.testing.assert_array_equal(self.cache.gather(layer, sequence), want[:, layer])


def test_gather_is_what_was_appended() -> None:
    run_state_machine_as_test(
        PagedMachine,
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


@pytest.mark.long
def test_gather_is_what_was_appended_over_long_stories() -> None:
    run_state_machine_as_test(
        PagedMachine,
        settings=settings(
            max_examples=1500, stateful_step_count=80, deadline=None, derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


# --- small stories -----------------------------------------------------------------------------------------


def ones(count: int, value: float = 1.0) -> NDArray[Any]:
    return np.full((2, LAYERS, HEADS, count, SIZE), value)


def test_a_shared_full_block_is_never_copied_and_a_shared_part_is_copied_once() -> None:
    cache = PagedCache((LAYERS, HEADS, SIZE), 10, 4)
    first = cache.open()
    append_tokens(cache, first, *ones(6))
    forks = [cache.fork(first) for _ in range(3)]
    assert cache.readers[:3] == [4, 4, 0]
    for i, fork in enumerate(forks):
        append_tokens(cache, fork, *ones(1, 2.0 + i))
    assert cache.readers[0] == 4 and cache.readers[1] == 1  # three copies; the first keeps its own
    append_tokens(cache, first, *ones(1, 9.0))
    assert cache.tables[first] == [0, 1] and len(cache.free) == 5
    ends = [cache.gather(1, s)[0][0, -1, 0] for s in (first, *forks)]
    assert ends == [9.0, 2.0, 3.0, 4.0]
    for fork in forks:
        np.testing.assert_array_equal(cache.gather(0, fork)[1][:, :6], np.ones((HEADS, 6, SIZE)))


def test_a_fork_at_a_border_shares_without_a_copy() -> None:
    tables = PagedTables(4, 4)
    first = tables.open()
    tables.reserve(first, 8)
    tables.advance(first, 8)
    second = tables.fork(first)
    assert tables.missing(second, 1) == 1
    assert tables.reserve(second, 1) is None
    assert tables.tables[second] == [0, 1, 2]


def test_room_taken_ahead_is_not_shared_by_a_fork() -> None:
    cache = PagedCache((1, 1, 1), 6, 2)
    first = cache.open()
    cache.reserve(first, 6)
    fork = cache.fork(first)
    assert cache.tables[fork] == []
    append_tokens(cache, first, *np.full((2, 1, 1, 3, 1), 5.0))
    append_tokens(cache, fork, *np.full((2, 1, 1, 3, 1), 7.0))
    assert cache.gather(0, first)[0].ravel().tolist() == [5.0] * 3
    assert cache.gather(0, fork)[0].ravel().tolist() == [7.0] * 3


def test_the_order_is_that_of_the_table_and_not_of_the_blocks() -> None:
    cache = PagedCache((1, 1, 1), 2, 2)
    first = cache.open()
    append_tokens(cache, first, *np.ones((2, 1, 1, 4, 1)))
    cache.close(first)
    again = cache.open()
    append_tokens(cache, again, *np.arange(8.0).reshape(2, 1, 1, 4, 1))
    assert cache.tables[again] == [1, 0]
    assert [part.ravel().tolist() for part in cache.gather(0, again)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_numbers_of_sequences_do_not_come_twice() -> None:
    tables = BlockTables(1)
    first = tables.open()
    tables.close(first)
    assert tables.open() != first


def test_what_is_not_open_or_not_in_use_is_refused() -> None:
    tables = PagedTables(2, 2)
    for act in (tables.close, tables.fork, tables.length, lambda s: tables.reserve(s, 1)):
        with pytest.raises(ValueError, match="sequence: 7 is not open"):
            act(7)
    assert tables.tables == {}  # a failed fork opens nothing
    first = tables.open()
    with pytest.raises(ValueError, match="tokens: 1 were not reserved for 0"):
        tables.advance(first, 1)
    with pytest.raises(ValueError, match="tokens"):
        tables.reserve(first, -1)
    pool = BlockPool(1)
    with pytest.raises(ValueError, match="block: 0 is free, so it cannot be shared"):
        pool.share(0)
    with pytest.raises(ValueError, match="block: 0 is free already"):
        pool.drop(0)
    with pytest.raises(ValueError, match="block: expected an integer of at least 0"):
        pool.drop(-1)
    pool.take()
    with pytest.raises(CacheFull, match="all 1 blocks are in use"):
        pool.take()


def test_a_shared_end_cannot_be_advanced_into_without_a_copy() -> None:
    tables = PagedTables(4, 4)
    first = tables.open()
    tables.reserve(first, 2)
    tables.advance(first, 2)
    fork = tables.fork(first)
    with pytest.raises(ValueError, match="were not reserved"):
        tables.advance(fork, 1)


@pytest.mark.parametrize(
    "shape", [(LAYERS + 1, HEADS, 1, SIZE), (LAYERS, 1, 1, SIZE), (LAYERS, HEADS, 1, 1), (LAYERS, HEADS, 1)]
)
def test_appended_shapes_are_checked(shape: tuple[int, ...]) -> None:
    cache = PagedCache((LAYERS, HEADS, SIZE), 4, 4)
    sequence = cache.open()
    with pytest.raises(ValueError, match=r"keys: expected \(2, 2, tokens, 3\)"):
        append_tokens(cache, sequence, np.ones(shape), np.ones(shape))
    good = np.ones((LAYERS, HEADS, 2, SIZE))
    with pytest.raises(ValueError, match="values: expected"):
        append_tokens(cache, sequence, good, good[:, :, :1])
    assert cache.length(sequence) == 0 and len(cache.free) == 4


# --- the decoder on pages ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> Decoder:
    config = Config(vocab_size=31, d_model=12, layers=2, heads=4, kv_heads=2, head_dim=6, d_ff=20, context=64)
    rng = np.random.default_rng(5)
    tensors = {name: rng.normal(0, 0.4, shape) for name, shape in tensor_shapes(config).items()}
    return Decoder(config, tensors, np.float64)


@exact
@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(1, 9), st.integers(0, 2**16))
def test_rows_of_different_lengths_equal_a_cache_in_one_piece(
    small: Decoder, lengths: list[int], block_tokens: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    batch, steps = len(lengths), max(lengths)
    pages = PagedCache((2, 2, 6), 60, block_tokens)
    rows = PagedRows(pages, [pages.open() for _ in lengths])
    plain = KVCache(layers=2, batch=batch, kv_heads=2, capacity=40, head_dim=6, dtype=np.float64)
    for counts in (lengths, [1] * batch, lengths[::-1]):
        tokens = rng.integers(0, 31, (batch, max(counts)))
        want = small.forward(tokens, plain, counts=counts)
        found = small.forward(tokens, rows, counts=counts)
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)
        assert rows.lengths.tolist() == plain.lengths.tolist()
        consistent(pages)
    assert steps <= len(rows) == int(plain.lengths.max())


def test_generation_on_pages_is_generation() -> None:
    house = models.load("house", np.float64)
    c = house.decoder.config
    prompt = house.prompt([models.Message("user", "Can a customer get a refund after 45 days?")])
    for block_tokens in (1, 7, 16):
        pages = PagedCache((c.layers, c.kv_heads, c.head_dim), 96, block_tokens)
        view = PagedRows(pages, [pages.open()])
        told = []
        for cache in (house.decoder.cache(), view):
            logits, same = house.decoder.prefill(prompt, cache)
            assert same is cache
            steps = decode(
                house.decoder, logits, cache, Sampler(Sampling(temperature=0.9, seed=3)),
                max_tokens=20, end_tokens=house.end_tokens, top=0,
            )  # fmt: skip
            told.append((logits.tolist(), [(step.token, step.logprob, step.finish) for step in steps]))
        assert told[0] == told[1]  # to the last bit


def test_room_is_counted_in_tokens_and_a_full_cache_ends_the_reply() -> None:
    cache = PagedCache((1, 1, 2), 5, 4)
    a, b = cache.open(), cache.open()
    both = PagedRows(cache, [a, b])
    assert (both.room, both.batch, len(both)) == (8, 2, 0)  # five blocks: two rows of two
    append_tokens(cache, a, *np.ones((2, 1, 1, 3, 2)))
    assert both.room == 8  # one block is taken, and its last slot is row a's
    fork = cache.fork(a)
    assert PagedRows(cache, [fork]).room == 1 + 4 * 4 - 4  # a copy takes one of the four free blocks
    with pytest.raises(CacheFull, match="no room for 14 tokens in 1 rows"):
        PagedRows(cache, [fork]).require(14)
    PagedRows(cache, [fork]).require(13)
    with pytest.raises(ValueError, match="sequences"):
        PagedRows(cache, [99])


@exact
@given(st.integers(1, 6), st.integers(1, 5), st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_room_is_the_most_that_can_be_required(blocks: int, size: int, held: list[int]) -> None:
    cache = PagedCache((1, 1, 1), blocks + 30, size)
    rows = PagedRows(cache, [cache.open() for _ in held])
    for sequence, count in zip(rows.sequences, held, strict=True):
        append_tokens(cache, sequence, *np.ones((2, 1, 1, count, 1)))
    while len(cache.free) > blocks:
        cache.take()
    rows.require(rows.room)
    with pytest.raises(CacheFull):
        rows.require(rows.room + 1)
