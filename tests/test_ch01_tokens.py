"""Byte-pair encoding and the vocabulary (chapter 1), against oracles that share no code with them.

Training is redone in the way of the original paper, with a regular expression over spaced symbols.
Encoding is redone lowest rank first, and by tiktoken's own engine. Random cases are the same in every run.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
import tiktoken
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from modelcall.ch01 import END, Vocabulary, bpe_decode, bpe_encode, count_tokens, train_bpe

Merges = list[tuple[str, str]]

CORPUS = [
    "the refund policy covers the standard window",
    "the policy covers refunds inside the window",
    "a refund after the window needs an exception",
    "the standard refund window is short",
    "refunds and the refund policy and the window",
] * 6
SENTENCE = "the refund policy denies Wagnersløv a refund"
MERGES = train_bpe(CORPUS, 80)

repeatable = settings(derandomize=True, deadline=None, max_examples=200)
ascii_words = st.text("abcd", min_size=1, max_size=8)
ascii_corpora = st.lists(st.lists(ascii_words, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=6)
# Text made to spell the end marker, inside words and at their ends.
marker_text = st.text("</w>a \n", max_size=30) | st.lists(
    st.sampled_from(["</w>", "</", "w>", "a", " "])
).map("".join)
marker_corpora = st.lists(marker_text, min_size=1, max_size=5).filter(
    lambda lines: any(map(str.split, lines))
)


def words_of(text: str) -> list[str]:
    return text.split()


# ---- training ---------------------------------------------------------------------------------------


def paper_training(corpus: list[str], num_merges: int) -> Merges:
    """Learn merges as in the paper's listing: symbols spaced apart, every occurrence of a word kept."""
    spaced = [" ".join([*word, END]) for line in corpus for word in line.split()]
    merges: Merges = []
    for _ in range(num_merges):
        counts = Counter(pair for word in spaced for pair in pairwise(word.split(" ")))
        if not counts:
            break
        left, right = sorted(counts, key=lambda pair: (counts[pair], pair))[-1]
        bigram = re.compile(rf"(?<!\S){re.escape(left)} {re.escape(right)}(?!\S)")
        spaced = [bigram.sub(lambda _, joined=left + right: joined, word) for word in spaced]
        merges.append((left, right))
    return merges


@repeatable
@given(ascii_corpora, st.integers(0, 30))
@example(["aaa aaaa aaaaa"], 10)
@example(["abab baba", "abab"], 10)
def test_training_equals_the_listing_of_the_paper(corpus: list[str], num_merges: int) -> None:
    assert train_bpe(corpus, num_merges) == paper_training(corpus, num_merges)


def test_the_corpus_of_the_chapter_gives_the_merges_of_the_paper_and_is_spent_at_65() -> None:
    assert paper_training(CORPUS, 80) == MERGES
    assert len(MERGES) == 65
    assert all(len(bpe_encode(word, MERGES)) == 1 for line in CORPUS for word in words_of(line))
    assert train_bpe(CORPUS, 1000) == MERGES


def test_equal_counts_go_to_the_largest_pair_in_string_order() -> None:
    assert train_bpe(["ab cd"], 1) == [("d", END)]
    assert train_bpe(["zy zx"], 1) == [("z", "y")]
    assert train_bpe(["ba", "ab"], 1) == [("b", "a")]


def test_the_count_comes_before_the_tie_rule() -> None:
    assert train_bpe(["ab", "ab", "zz"], 1) == [("b", END)]


@repeatable
@given(ascii_corpora, st.integers(0, 20), st.randoms(use_true_random=False))
def test_training_ignores_order_and_repetition_and_only_ever_appends(
    corpus: list[str], num_merges: int, rng: random.Random
) -> None:
    merges = train_bpe(corpus, num_merges)
    shuffled = rng.sample(corpus, len(corpus))
    assert train_bpe(shuffled, num_merges) == merges
    assert train_bpe(corpus * 3, num_merges) == merges
    assert train_bpe(corpus, num_merges + 1)[: len(merges)] == merges


@repeatable
@given(ascii_corpora)
def test_more_merges_never_lengthen_the_training_corpus(corpus: list[str]) -> None:
    merges = train_bpe(corpus, 25)
    text = " ".join(corpus)
    counts = [count_tokens(text, merges[:size]) for size in range(len(merges) + 1)]
    assert counts[0] == sum(len(word) + 1 for word in words_of(text))
    assert counts == sorted(counts, reverse=True)


# ---- encoding ---------------------------------------------------------------------------------------


def lowest_rank_first(word: str, merges: Merges) -> list[str]:
    """Encode as the engines of production do: always join the neighbours that were learned first."""
    ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
    symbols = [*word, END]
    while True:
        ranked = [(ranks[pair], i) for i, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not ranked:
            return symbols
        _, i = min(ranked)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


@repeatable
@given(ascii_corpora, st.integers(0, 30), ascii_words)
def test_replaying_equals_lowest_rank_first(corpus: list[str], num_merges: int, word: str) -> None:
    merges = train_bpe(corpus, num_merges)
    assert bpe_encode(word, merges) == lowest_rank_first(word, merges)


def tiktoken_encoding(merges: Merges) -> tiktoken.Encoding:
    """Give our merges to tiktoken, with the byte 1 in the place of the end marker."""
    ranks = {bytes([value]): value for value in range(256)}
    for left, right in merges:
        ranks[(left + right).replace(END, "\x01").encode()] = len(ranks)
    return tiktoken.Encoding("ours", pat_str=r"[^\x01]+\x01", mergeable_ranks=ranks, special_tokens={})


def assert_tiktoken_agrees(merges: Merges, words: list[str]) -> None:
    engine = tiktoken_encoding(merges)
    for word in words:
        ids = engine.encode(word + "\x01")
        pieces = [engine.decode_single_token_bytes(token).decode().replace("\x01", END) for token in ids]
        assert bpe_encode(word, merges) == pieces


@settings(derandomize=True, deadline=None, max_examples=60)
@given(ascii_corpora, st.integers(0, 30), st.lists(ascii_words, min_size=1, max_size=8))
def test_tiktoken_cuts_words_at_the_same_places(corpus: list[str], num_merges: int, words: list[str]) -> None:
    merges = train_bpe(corpus, num_merges)
    # tiktoken knows pieces, not pairs: two pairs that make one piece are one entry there.
    assume(len({left + right for left, right in merges}) == len(merges))
    assert_tiktoken_agrees(merges, [*words, *" ".join(corpus).split()])


def test_tiktoken_agrees_on_the_corpus_of_the_chapter() -> None:
    words = {word for line in CORPUS for word in words_of(line)} | {"denies", "refunded", "windows", "x"}
    assert_tiktoken_agrees(MERGES, sorted(words))


def test_the_sentence_of_the_source() -> None:
    pieces = {word: bpe_encode(word, MERGES) for word in SENTENCE.split()}
    assert pieces["denies"] == ["d", "e", "n", "i", "e", "s</w>"]
    assert pieces["Wagnersløv"] == ["W", "a", "g", "n", "er", "s", "l", "ø", "v", "</w>"]
    assert [len(pieces[word]) for word in ("the", "refund", "policy", "a")] == [1, 1, 1, 1]
    assert sum(map(len, pieces.values())) == 20  # six different words
    assert count_tokens(SENTENCE, MERGES) == 21  # seven words


@pytest.mark.parametrize(
    ("merges", "tokens"), [(0, 45), (1, 43), (10, 31), (20, 25), (40, 22), (60, 22), (80, 21), (160, 21)]
)
def test_the_sentence_gets_shorter_with_more_merges(merges: int, tokens: int) -> None:
    assert count_tokens(SENTENCE, train_bpe(CORPUS, merges)) == tokens


def test_a_repeated_word_counts_each_time() -> None:
    assert count_tokens("denies denies  denies\n", MERGES) == 3 * count_tokens("denies", MERGES) == 18
    assert count_tokens("", MERGES) == count_tokens(" \n", MERGES) == 0


def test_merges_from_json_are_lists_and_work() -> None:
    assert bpe_encode("refund", [list(pair) for pair in MERGES]) == ["refund</w>"]  # type: ignore[misc]


# ---- the end marker ---------------------------------------------------------------------------------


@repeatable
@given(marker_corpora, st.integers(0, 60), marker_text)
def test_the_marker_ends_the_last_piece_and_is_nowhere_else(
    corpus: list[str], num_merges: int, text: str
) -> None:
    merges = train_bpe(corpus, num_merges)
    for word in words_of(text + " " + " ".join(corpus)):
        pieces = bpe_encode(word, merges)
        assert pieces[-1].endswith(END)
        assert all(END not in piece for piece in pieces[:-1])
        assert END not in pieces[-1].removesuffix(END)
        assert bpe_decode(pieces) == word


@repeatable
@given(marker_corpora, st.integers(0, 60), marker_text)
def test_words_in_a_row_come_back_as_words_in_a_row(corpus: list[str], num_merges: int, text: str) -> None:
    merges = train_bpe(corpus, num_merges)
    words = words_of(text)
    assume(words)
    flat = [piece for word in words for piece in bpe_encode(word, merges)]
    assert bpe_decode(flat) == " ".join(words)


def test_a_corpus_full_of_markers_learns_no_false_one() -> None:
    merges = train_bpe(["x</w> x</w> </w></w>"] * 9, 50)
    assert all(END not in left for left, _ in merges)
    assert bpe_encode("x</w>", merges) != ["x</w></w>"]
    assert bpe_encode("</w>", merges)[-1] != bpe_encode("x", merges)[-1] + END


def test_a_merge_list_that_would_forge_the_marker_never_does() -> None:
    forged = [("<", "/"), ("</", "w"), ("</w", ">"), ("x", "</w>"), ("x</w>", "</w>")]
    assert bpe_encode("x</w>", forged) == ["x", "</w", ">", "</w>"]
    assert bpe_encode("x", forged) == ["x</w>"]
    assert bpe_decode(bpe_encode("x</w>", forged)) == "x</w>"


# ---- decoding ---------------------------------------------------------------------------------------


@repeatable
@given(st.text(min_size=1).filter(lambda text: text.split() == [text]))
def test_any_word_comes_back(word: str) -> None:
    assert bpe_decode(bpe_encode(word, MERGES)) == word
    assert bpe_decode(bpe_encode(word, [])) == word


def test_decoding_keeps_empty_words_apart() -> None:
    assert bpe_decode([END]) == ""
    assert bpe_decode([END, "a</w>", END]) == " a "


# ---- the vocabulary ---------------------------------------------------------------------------------

VOCABULARY = Vocabulary("".join(CORPUS), MERGES)


def test_the_vocabulary_of_the_chapter_has_85_entries_beside_the_bytes() -> None:
    assert len(VOCABULARY.pieces) == 85
    assert len(VOCABULARY) == 341
    assert VOCABULARY.pieces[0] == END
    assert len(set(VOCABULARY.pieces)) == 85
    assert not {"W", "g", "ø", " "} & set(VOCABULARY.pieces)
    assert len(VOCABULARY.encode(SENTENCE)) == 22  # 21 pieces, one of which is spelt in two bytes


@repeatable
@given(st.text() | marker_text)
@example("")
@example(" ")
@example("  two  spaces  ")
@example("\t\r\n\x00\x85\u2028")
@example("caf\u00e9 cafe\u0301 \U0001f642\u200d\U0001f642 \ufeff \uffff")
@example("<0x41> </w></w> </w>")
def test_any_text_comes_back_unchanged(text: str) -> None:
    ids = VOCABULARY.encode(text)
    assert VOCABULARY.decode(ids) == text
    assert all(0 <= token < len(VOCABULARY) for token in ids)


@repeatable
@given(marker_corpora, st.integers(0, 40), marker_text)
def test_text_that_spells_the_marker_comes_back_from_a_vocabulary_that_saw_it(
    corpus: list[str], num_merges: int, text: str
) -> None:
    vocabulary = Vocabulary("".join(corpus), train_bpe(corpus, num_merges))
    assert vocabulary.decode(vocabulary.encode(text)) == text


@repeatable
@given(st.text(min_size=1), st.text(min_size=1))
def test_the_ids_of_a_text_do_not_depend_on_what_follows(first: str, second: str) -> None:
    assert VOCABULARY.encode(f"{first} {second}") == VOCABULARY.encode(first) + VOCABULARY.encode(second)


@repeatable
@given(ascii_words)
def test_ids_are_the_pieces_in_order(word: str) -> None:
    known = Vocabulary("abcd", MERGES)
    pieces = [known.pieces[token - 256] for token in known.encode(word)]
    assert pieces == bpe_encode(word, MERGES)


def test_ids_do_not_depend_on_how_the_alphabet_is_written() -> None:
    letters = sorted(set("".join(CORPUS)) - {" "})
    assert list(VOCABULARY.pieces[1 : 1 + len(letters)]) == letters
    assert Vocabulary("".join(reversed(letters)) * 2 + "\n ", MERGES).pieces == VOCABULARY.pieces


def test_only_what_has_no_entry_falls_back_to_bytes() -> None:
    assert VOCABULARY.encode("ø") == [0xC3, 0xB8, 256]
    assert VOCABULARY.encode("W") == [ord("W"), 256]
    assert min(VOCABULARY.encode("the refund policy")) > 256
    assert VOCABULARY.encode("a\nb")[1] == 0x0A


def test_two_ways_to_write_an_accent_have_different_ids_and_both_come_back() -> None:
    composed, split = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    assert VOCABULARY.encode(composed) != VOCABULARY.encode(split)
    assert [VOCABULARY.decode(VOCABULARY.encode(text)) for text in (composed, split)] == [composed, split]


@repeatable
@given(st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=12))
def test_any_ids_are_text_or_refused(ids: list[int]) -> None:
    spelt = b"".join(
        bytes([token]) if token < 256 else VOCABULARY.pieces[token - 256].replace(END, " ").encode()
        for token in ids
    )
    closed = bool(ids) and ids[-1] >= 256 and VOCABULARY.pieces[ids[-1] - 256].endswith(END)
    try:
        expected = spelt.decode("utf-8")
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match=r"^ids: expected UTF-8; got \["):
            VOCABULARY.decode(ids)
    else:
        assert VOCABULARY.decode(ids) == (expected[:-1] if closed else expected)


def test_a_space_byte_at_the_end_is_text_and_not_a_marker() -> None:
    assert VOCABULARY.decode([0x20]) == " "
    assert VOCABULARY.decode([256]) == ""


# ---- refusals ---------------------------------------------------------------------------------------

LONE = "a\ud800"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: train_bpe("the refund", 5),
            TypeError,
            "corpus: expected a sequence of values; got 'the refund'",
        ),
        (lambda: train_bpe(None, 5), TypeError, "corpus: expected a sequence of values; got None"),
        (lambda: train_bpe([], 5), ValueError, "corpus: expected at least one value; got []"),
        (
            lambda: train_bpe([" ", "\n"], 5),
            ValueError,
            "corpus: expected a word; got [' ', '\\n']",
        ),
        (lambda: train_bpe(["a", 3], 5), TypeError, "corpus[1]: expected text; got 3"),
        (lambda: train_bpe([LONE], 5), ValueError, "corpus[0]: expected Unicode text; character 1 is a lone"),
        (lambda: train_bpe(["a"], -1), ValueError, "num_merges: expected an integer of at least 0; got -1"),
        (lambda: train_bpe(["a"], 2.0), TypeError, "num_merges: expected an integer; got 2.0"),
        (lambda: train_bpe(["a"], True), TypeError, "num_merges: expected an integer; got True"),
        (lambda: train_bpe(["a"], None), TypeError, "num_merges: expected an integer; got None"),
        (lambda: bpe_encode("", []), ValueError, "word: expected one word, no whitespace; got ''"),
        (lambda: bpe_encode("a b", []), ValueError, "word: expected one word, no whitespace; got 'a b'"),
        (
            lambda: bpe_encode("a\n", []),
            ValueError,
            "word: expected one word, no whitespace; got 'a\\n'",
        ),
        (lambda: bpe_encode(LONE, []), ValueError, "word: expected Unicode text; character 1 is a lone"),
        (lambda: bpe_encode(["a"], []), TypeError, "word: expected text; got ['a']"),
        (lambda: bpe_encode("a", None), TypeError, "merges: expected a sequence of values; got None"),
        (lambda: bpe_encode("a", "ab"), TypeError, "merges: expected a sequence of values; got 'ab'"),
        (lambda: bpe_encode("a", ["ab"]), TypeError, "merges[0]: expected a pair of strings; got 'ab'"),
        (lambda: bpe_encode("a", [("a",)]), TypeError, "merges[0]: expected a pair of strings; got ('a',)"),
        (lambda: bpe_encode("a", [("a", 1)]), TypeError, "merges[0]: expected text; got 1"),
        (lambda: count_tokens(3, []), TypeError, "sentence: expected text; got 3"),
        (
            lambda: count_tokens(LONE, []),
            ValueError,
            "sentence: expected Unicode text; character 1 is a lone",
        ),
        (lambda: count_tokens("a", [("a", 1)]), TypeError, "merges[0]: expected text; got 1"),
        (lambda: bpe_decode([]), ValueError, "pieces: expected at least one value; got []"),
        (lambda: bpe_decode("a</w>"), TypeError, "pieces: expected a sequence of values; got 'a</w>'"),
        (lambda: bpe_decode(["a"]), ValueError, "pieces: no </w> at the end; got 'a'"),
        (lambda: bpe_decode([""]), ValueError, "pieces: no </w> at the end; got ''"),
        (lambda: bpe_decode([1, END]), TypeError, "pieces[0]: expected text; got 1"),
        (
            lambda: bpe_decode(["a</w></w>"]),
            ValueError,
            "pieces[0]: </w> inside; got 'a</w></w>'",
        ),
        (
            lambda: bpe_decode(["</w>b", END]),
            ValueError,
            "pieces[0]: </w> inside; got '</w>b'",
        ),
        (lambda: Vocabulary(3, []), TypeError, "alphabet: expected text; got 3"),
        (lambda: Vocabulary(LONE, []), ValueError, "alphabet: expected Unicode text; character 1 is a lone"),
        (lambda: Vocabulary("a", [("a", 1)]), TypeError, "merges[0]: expected text; got 1"),
        (lambda: VOCABULARY.encode(None), TypeError, "text: expected text; got None"),
        (lambda: VOCABULARY.encode(b"a"), TypeError, "text: expected text; got b'a'"),
        (lambda: VOCABULARY.encode(LONE), ValueError, "text: expected Unicode text; character 1 is a lone"),
        (lambda: VOCABULARY.decode("a"), TypeError, "ids: expected a sequence of values; got 'a'"),
        (
            lambda: VOCABULARY.decode([256, 341]),
            ValueError,
            "ids[1]: expected an integer from 0 to 340; got 341",
        ),
        (lambda: VOCABULARY.decode([-1]), ValueError, "ids[0]: expected an integer from 0 to 340; got -1"),
        (lambda: VOCABULARY.decode([2.0]), TypeError, "ids[0]: expected an integer; got 2.0"),
    ],
)
def test_bad_input_is_refused_by_name(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)
