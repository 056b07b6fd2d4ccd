"""The trainer of chapter 3 against one that counts everything anew for each merge."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modelcall.ch03 import BYTE_ORDER, CL100K, BytePairTokenizer, ByteTokenizer, train_byte_bpe
from modelcall.lab.samples import sample

repeatable = settings(derandomize=True, deadline=None, max_examples=150)
letters = st.text(st.sampled_from("aab \né"), max_size=60)


def recount(text: str, num_merges: int, pattern: str = CL100K) -> list[bytes]:
    """Learn in the plainest way: lists of ids, all pairs counted anew, ties to the smaller ids."""
    tokens = [bytes([value]) for value in BYTE_ORDER]
    place = {value: i for i, value in enumerate(BYTE_ORDER)}
    pieces = [[place[b] for b in piece.encode()] for piece in regex.findall(pattern, text)]
    while len(tokens) < 256 + num_merges:
        counts = Counter(pair for ids in pieces for pair in itertools.pairwise(ids))
        if not counts:
            break
        pair = min(counts, key=lambda p: (-counts[p], p))
        token = tokens[pair[0]] + tokens[pair[1]]
        if token not in tokens:
            tokens.append(token)
        new = tokens.index(token)
        for ids in pieces:
            i = 0
            while i < len(ids) - 1:
                if (ids[i], ids[i + 1]) == pair:
                    ids[i : i + 2] = [new]
                i += 1
    return tokens


def learned(text: str, num_merges: int, pattern: str = CL100K) -> list[bytes]:
    ranks = train_byte_bpe(text, num_merges, pattern).ranks
    assert list(ranks.values()) == list(range(len(ranks)))
    return list(ranks)


@repeatable
@given(letters, st.integers(0, 25))
@example("aaa aaaa aaaaa", 10)
@example("ababab bababa abab", 10)
@example("", 5)
@example("a", 5)
def test_training_equals_a_full_recount(text: str, num_merges: int) -> None:
    assert learned(text, num_merges) == recount(text, num_merges)


@repeatable
@given(st.text(st.sampled_from("abc"), max_size=40), st.integers(0, 40))
@example("xabcabcyabczab", 12)
def test_training_on_one_long_piece_equals_a_full_recount(text: str, num_merges: int) -> None:
    assert learned(text, num_merges, "(?s).+") == recount(text, num_merges, "(?s).+")


@pytest.mark.parametrize("name", ["prose", "python", "cjk", "gcc_ansi"])
def test_training_on_a_sample_equals_a_full_recount(name: str) -> None:
    assert learned(sample(name), 120) == recount(sample(name), 120)


def test_two_merges_that_make_the_same_string_share_its_id() -> None:
    text = "abc " * 3 + "zab " * 4 + "bcy " * 6 + "xabc " * 2
    tokens = learned(text, 30)
    assert len(set(tokens)) == len(tokens)
    assert tokens == recount(text, 30)


def test_it_stops_when_nothing_is_left() -> None:
    assert learned("ab ab", 1000) == [*learned("", 0), b"ab", b" ab"]
    assert learned("", 3) == [bytes([value]) for value in BYTE_ORDER]


def test_more_merges_only_append_and_never_lengthen() -> None:
    text = sample("python")
    whole = learned(text, 300)
    previous = len(ByteTokenizer().encode(text))
    for n in (1, 10, 50, 150, 300):
        assert learned(text, n) == whole[: 256 + n]
        size = len(BytePairTokenizer(CL100K, {t: i for i, t in enumerate(whole[: 256 + n])}, {}).encode(text))
        assert size < previous
        previous = size


@repeatable
@given(st.text(max_size=80))
def test_what_is_trained_brings_any_text_back(text: str) -> None:
    trained = train_byte_bpe("the build fails, the build fails again", 20)
    assert trained.decode(trained.encode(text)) == text


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="num_merges"):
        train_byte_bpe("a", -1)
    with pytest.raises(TypeError, match="text: expected text"):
        train_byte_bpe(b"a", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="num_merges"):
        train_byte_bpe("a", 1.0)  # type: ignore[arg-type]
