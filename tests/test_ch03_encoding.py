"""The encoder of chapter 3 against tiktoken's engine, and its merging against a naive one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from pathlib import Path

import pytest
import regex
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modelcall import ch03
from modelcall.ch03 import BytePairTokenizer, load_encoding, merge_bytes, split_specials, splitter
from modelcall.lab import samples

OURS = load_encoding("cl100k_base")
THEIRS = tiktoken.get_encoding("cl100k_base")
repeatable = settings(derandomize=True, deadline=None, max_examples=300)
# Text that stands where the pattern decides: breaks, spaces, marks, digits, letters of several scripts.
tricky = st.text(
    st.sampled_from(list("ab1'’ſK \n\r\t\x0b\x1c\x85\u2028\u3000.,{}\"\\éß中ك🙂\u200d\ufe0f")), max_size=40
)
BYTES = {bytes([value]): value for value in range(256)}


def same(text: str) -> None:
    ids = OURS.encode(text, disallowed_special=())
    assert ids == THEIRS.encode_ordinary(text), repr(text[:80])
    assert OURS.decode(ids) == text


def blocks(last: int) -> Iterator[str]:
    for first in range(0, last, 256):
        chars = [chr(n) for n in range(first, first + 256) if not 0xD800 <= n < 0xE000]
        yield "".join(f"{c}a{c}'{c} {c}" for c in chars)


def test_every_character_of_the_first_two_planes() -> None:
    for text in blocks(0x20000):
        same(text)


@pytest.mark.long
def test_every_character() -> None:
    for text in blocks(0x110000):
        same(text)


def test_runs_of_white_space() -> None:
    for n in range(1, 7):
        for mix in product(" \n\t\r" if n < 6 else " \n", repeat=n):
            blank = "".join(mix)
            for text in (blank, f"a{blank}", f"{blank}b", f"a{blank}b", f".{blank}(", f"1{blank}2"):
                same(text)
    for n in (*range(1, 100), 1000):
        for char in " \n\t\r":
            same(f"x{char * n}y{char * n}")


def test_runs_of_punctuation_and_contractions_in_every_case() -> None:
    for mix in product("\"'{}[]:,\\.!-", repeat=3):
        same("a" + "".join(mix) + " " + "".join(mix) + "1")
    for short in ("s", "t", "d", "m", "ll", "ve", "re", "ſ", "K", "l", "vé"):
        for case in {"".join(c) for c in product(*((x.lower(), x.upper(), x) for x in short))}:
            for mark in "'’`":
                for word in (f"we{mark}{case}", f"{mark}{case}", f" {mark}{case}x", f"WE{mark}{case}1"):
                    same(word)


def test_emoji_with_joiners_tones_and_flags() -> None:
    parts = ["👩", "🏽", "\u200d", "💻", "\ufe0f", "🇩🇪", "🏴\U000e0067\U000e0062\U000e007f", "❤", "☕"]
    rng = random.Random(5)
    for _ in range(300):
        same("".join(rng.choices(parts, k=rng.randint(1, 9))) + rng.choice(["", " ", "a"]))


@pytest.mark.parametrize("name", samples.names())
def test_the_samples_whole_and_cut_anywhere(name: str) -> None:
    text = samples.sample(name)
    same(text)
    rng = random.Random(name)
    for _ in range(40):
        start = rng.randrange(len(text))
        same(text[start : start + rng.randint(1, 300)])


def test_long_prose_and_code() -> None:
    root = Path(ch03.__file__).resolve().parent
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(root.parent.rglob("*.py")))
    same(code)
    same(samples.sample("prose") * 30)


@repeatable
@given(st.text(max_size=60) | tricky)
@example("a\n b\n\n c  \n")
@example(" \n\r\n x")
def test_any_text(text: str) -> None:
    same(text)


@repeatable
@given(tricky | st.lists(tricky).map("\n".join))
@example("é\n\n  \nb'S\r\n\n.")
@example("é\x1c\nb\n\x1c\nc")
def test_the_fast_split_is_the_slow_one(text: str) -> None:
    assert splitter()(text) == regex.findall(ch03.CL100K, text)


# ---- specials and bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["<|endoftext|>", "a<|endoftext|>b", "<|fim_prefix|><|endofprompt|> x", "<|end", "a"]
)
@pytest.mark.parametrize(
    "allowed", ["all", (), ("<|endoftext|>",), {"<|fim_prefix|>", "<|endoftext|>"}, {"a"}]
)
@pytest.mark.parametrize("refused", ["all", (), ("<|endofprompt|>",), ("b",)])
def test_specials_are_treated_as_tiktoken_treats_them(
    text: str, allowed: ch03.Names, refused: ch03.Names
) -> None:
    theirs: list[int] | None
    try:
        theirs = THEIRS.encode(
            text,
            allowed_special="all" if allowed == "all" else set(allowed),
            disallowed_special="all" if refused == "all" else set(refused),
        )
    except ValueError:
        theirs = None
    if theirs is None:
        with pytest.raises(ValueError, match=r"text: holds '.*'; allow it"):
            OURS.encode(text, allowed, refused)
    else:
        assert OURS.encode(text, allowed, refused) == theirs


def test_the_longer_of_two_specials_is_found() -> None:
    assert split_specials("x<a><a>>", ["<a>", "<a>>"], "all", "all") == ["x", "<a>", "", "<a>>", ""]


def test_one_string_is_no_set_of_names() -> None:
    with pytest.raises(TypeError, match="allowed_special: expected a sequence"):
        OURS.encode("x", "<|endoftext|>")
    with pytest.raises(TypeError, match="disallowed_special: expected a sequence"):
        OURS.encode("x", (), "none")


@repeatable
@given(st.binary(max_size=40) | tricky.map(lambda text: text.encode() + b"\xc3"))
@example(b"a \n \xff\xfe b")
@example(b".\n \xe4\xb8")
@example(b" \taa\xff")  # the space before the last piece is taken in with it
@example(b"")
def test_bytes_that_are_no_text(data: bytes) -> None:
    ids = OURS.encode_bytes(data)
    assert OURS.decode_bytes(ids) == data
    assert ids == THEIRS._encode_bytes(data)
    assert OURS.decode(ids) == data.decode("utf-8", "replace")


@repeatable
@given(st.lists(st.integers(0, 100_255), max_size=30))
def test_any_ids_decode_as_tiktoken_decodes_them(ids: list[int]) -> None:
    assert OURS.decode_bytes(ids) == THEIRS.decode_bytes(ids)
    assert OURS.decode(ids) == THEIRS.decode(ids)


@pytest.mark.parametrize("wrong", [-1, 100_256, 100_277, 10**9, 1.5, None, "1"])
def test_an_id_outside_the_vocabulary_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"ids\[1\]: no token has it"):
        OURS.decode([755, wrong])  # type: ignore[list-item]


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="text: expected text"):
        OURS.encode(b"x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="character 1 is a lone surrogate"):
        OURS.encode("a\ud800")
    with pytest.raises(TypeError, match="data: expected a bytes"):
        OURS.encode_bytes("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="byte 7 has none"):
        BytePairTokenizer("(?s).", {k: v for k, v in BYTES.items() if v != 7}, {})
    with pytest.raises(ValueError, match="an id is there twice"):
        BytePairTokenizer("(?s).", BYTES, {"<x>": 255})
    with pytest.raises(ValueError, match="pattern: holds groups"):
        BytePairTokenizer("(a)|b", BYTES, {})
    with pytest.raises(ValueError, match="pattern: "):
        BytePairTokenizer("(", BYTES, {})


# ---- merging ------------------------------------------------------------------------------------------


def naive(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while True:
        pairs = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        if not pairs:
            return [ranks[part] for part in parts]
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@repeatable
@given(
    st.lists(
        st.binary(min_size=2, max_size=5).map(lambda b: bytes(x % 3 for x in b)), unique=True, max_size=25
    ),
    st.lists(st.integers(0, 2), max_size=40).map(bytes),
)
@example([b"\0\1\2"], b"\0\1\2")  # no merge leads to the whole, and it is a token
def test_merging_equals_the_naive_one_and_the_engine(strings: list[bytes], piece: bytes) -> None:
    ranks = BYTES | {string: 256 + i for i, string in enumerate(strings)}
    assert merge_bytes(piece, ranks) == naive(piece, ranks)
    engine = tiktoken.Encoding("x", pat_str="(?s).+", mergeable_ranks=ranks, special_tokens={})
    text = piece.decode()
    assert BytePairTokenizer("(?s).+", ranks, {}).encode(text) == engine.encode(text)


class Counting(dict[bytes, int]):
    """Ranks that count how often they are asked."""

    asked = 0

    def get(self, key: bytes, default: object = None) -> object:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)


@pytest.mark.parametrize("unit", [b"a", b" ", b"ab", "é".encode()])
def test_a_long_piece_asks_a_bounded_number_of_times_per_byte(unit: bytes) -> None:
    ranks = Counting(OURS.ranks)
    n = 20_000
    piece = unit * (n // len(unit))
    assert merge_bytes(piece, ranks) == THEIRS._encode_single_piece(piece)
    assert ranks.asked <= 3 * n


def test_the_cache_is_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ch03, "CACHE_PIECES", 10)
    monkeypatch.setattr("modelcall.ch03._generated.CACHE_PIECES", 10)
    small = BytePairTokenizer(OURS.pattern, OURS.ranks, {})
    text = samples.sample("prose") + "x" * 200
    assert small.encode(text) == THEIRS.encode(text)
    assert 0 < len(small._pieces) <= 10
    assert not any(len(piece) > ch03.CACHE_LENGTH for piece in small._pieces)


# ---- files --------------------------------------------------------------------------------------------


def test_what_load_encoding_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="expected cl100k_base or o200k_base"):
        load_encoding("p50k_base")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    load_encoding.cache_clear()
    file = ch03.ENCODINGS["o200k_base"][0]
    from modelcall.lab.paths import data_dir

    if not (data_dir("tokenizer") / file).is_file():
        with pytest.raises(FileNotFoundError, match="o200k_base: no file"):
            load_encoding("o200k_base")
        (tmp_path / file).write_bytes(b"IQ== 0\n")
        with pytest.raises(ValueError, match="not the published ranks of o200k_base"):
            load_encoding("o200k_base")
    load_encoding.cache_clear()


def test_the_published_encodings_are_those_of_tiktoken() -> None:
    from tiktoken_ext import openai_public

    assert OURS.specials == THEIRS._special_tokens and OURS.ranks == THEIRS._mergeable_ranks
    assert OURS.size == THEIRS.n_vocab
    assert [bytes([b]) for b in ch03.BYTE_ORDER] == [THEIRS.decode_single_token_bytes(i) for i in range(256)]
    assert set(ch03.ENCODINGS) <= set(openai_public.ENCODING_CONSTRUCTORS)


def test_o200k_where_its_ranks_are() -> None:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    if not (Path(folder) / ch03.ENCODINGS["o200k_base"][0]).is_file():
        pytest.skip("the ranks of o200k_base are not on this machine")
    ours, theirs = load_encoding("o200k_base"), tiktoken.get_encoding("o200k_base")
    assert ours.specials == theirs._special_tokens
    for text in (*map(samples.sample, samples.names()), *blocks(0x3000)):
        assert ours.encode(text) == theirs.encode(text)
