"""Token slots and who gets them (chapter 4): conservation of tokens, slots that never overlap, known runs."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch04 import ContiguousArena, Load, PagedArena, serve

exact = settings(deadline=None, derandomize=True, max_examples=60)
REQUESTS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), max_size=25).map(
    lambda pairs: [(prompt, prompt + answer) for prompt, answer in pairs]
)


def most(_: int, __: int) -> int:
    return 32


def own(_: int, final: int) -> int:
    return final


class Watched(ContiguousArena):
    """Holds what it hands out to the definition of first fit, slot by slot."""

    def admit(self, prompt: int, final: int) -> int | None:
        size = self.rule(prompt, final)
        used = {slot for start, length in self.taken.items() for slot in range(start, start + length)}
        starts = [s for s in range(self.slots - size + 1) if not used & set(range(s, s + size))]
        start = super().admit(prompt, final)
        assert start == (starts[0] if starts else None)
        return start


@exact
@given(REQUESTS, st.sampled_from([most, own]), st.integers(32, 100))
def test_neighbouring_slots(requests: list[tuple[int, int]], rule: object, slots: int) -> None:
    arena = Watched(slots, rule)  # type: ignore[arg-type]
    log = serve(requests, arena)
    check(requests, log, slots)
    assert arena.taken == {} and sum(load.lost for load in log) == 0


@exact
@given(REQUESTS, st.integers(1, 8), st.integers(32, 100))
def test_pages(requests: list[tuple[int, int]], block: int, slots: int) -> None:
    arena = PagedArena(-(-slots // block), block)
    log = serve(requests, arena)
    check(requests, log, len(arena.readers) * block)
    assert arena.tables == {} and sorted(arena.free) == list(range(len(arena.readers)))
    for load in log:
        assert load.reserved - load.held < max(1, load.running) * block  # less than a block for each


def check(requests: list[tuple[int, int]], log: list[Load], slots: int) -> None:
    # Every token of every answer is written once: a preempted sequence keeps its tokens as its prompt.
    assert sum(load.running for load in log) == sum(final - prompt for prompt, final in requests)
    for load in log:
        assert 0 <= load.held <= load.reserved <= slots
        assert load.running >= 1


def test_a_run_by_hand() -> None:
    # Five slots; prompts of 2 that end at 4. Pages of one token: the second starts and has to leave, twice.
    log = serve([(2, 4), (2, 4)], PagedArena(5, 1))
    assert log == [Load(1, 3, 3, 2), Load(1, 4, 4, 2), Load(1, 3, 3, 0), Load(1, 4, 4, 0)]
    # Set aside by length: the second waits for the first.
    log = serve([(2, 4), (2, 4)], ContiguousArena(5, own))
    assert log == [Load(1, 3, 4, 0), Load(1, 4, 4, 0)] * 2


def test_holes_are_not_put_together_while_something_lies_between() -> None:
    arena = ContiguousArena(10, own)
    starts = [arena.admit(1, size) for size in (3, 4, 3)]
    assert starts == [0, 3, 7]
    arena.close(0)
    arena.close(7)
    assert arena.admit(1, 4) is None and arena.reserved == 4  # six are free, in two pieces
    arena.close(3)
    assert arena.admit(1, 10) == 0


def test_what_fits_nowhere_is_named() -> None:
    with pytest.raises(ValueError, match=r"requests: \(9, 10\) fits nowhere"):
        serve([(9, 10)], ContiguousArena(5, own))
    with pytest.raises(ValueError, match="fits nowhere"):
        serve([(3, 6)], PagedArena(5, 1))  # it grows out of the memory, alone
    assert serve([], PagedArena(1)) == []


def test_pages_hold_more_than_any_rule() -> None:
    rng = random.Random(1)
    requests = [(n := rng.randint(5, 60), n + rng.randint(5, 60)) for _ in range(80)]
    slots = 480

    def share(log: list[Load]) -> float:
        return sum(load.held for load in log) / len(log) / slots

    shares = [
        share(serve(requests, arena))
        for arena in (
            ContiguousArena(slots, lambda _, __: 120),
            ContiguousArena(slots, own),
            PagedArena(slots // 8, 8),
        )
    ]
    assert all(a < b - 0.05 for a, b in itertools.pairwise(shares))
