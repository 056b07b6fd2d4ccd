"""Rows, densities, budgets and cut calls (chapter 3), each against something that shares no code with it."""

from __future__ import annotations

import io
import json
import keyword
import math
import tokenize
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modelcall import ch03
from modelcall.ch03 import Budget, ByteTokenizer, ContextOverflow, Density, Part, WordTokenizer
from modelcall.lab import safetensors, samples
from modelcall.lab.paths import data_dir

repeatable = settings(derandomize=True, deadline=None, max_examples=200)
CL100K = ch03.load_encoding("cl100k_base")
BYTES = ByteTokenizer()


# ---- word and byte tokenizers ---------------------------------------------------------------------------


@repeatable
@given(st.text(max_size=60), st.text(max_size=60), st.integers(1, 40))
def test_words_come_back_or_are_unknown(corpus: str, text: str, size: int) -> None:
    words = WordTokenizer(corpus, size)
    assert words.size <= size
    ids = words.encode(text)
    assert all(0 <= i < words.size for i in ids)
    if 0 not in ids:
        assert words.decode(ids) == text
    whole = WordTokenizer(text, 10_000)
    assert whole.decode(whole.encode(text)) == text and 0 not in whole.encode(text)


def test_the_most_frequent_words_are_kept_and_ties_go_by_the_alphabet() -> None:
    words = WordTokenizer("b a b c a d", 4)
    assert [words.decode([i]) for i in range(words.size)] == ["<unk>", " ", "a", "b"]
    assert words.encode("<unk>") == [0, 0, 0]
    assert WordTokenizer("", 5).size == 1


@repeatable
@given(st.text(max_size=50))
def test_bytes_say_everything(text: str) -> None:
    assert BYTES.decode(BYTES.encode(text)) == text
    assert BYTES.encode(text) == list(text.encode("utf-8"))


def test_ids_outside_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ids\[0\]"):
        BYTES.decode([256])
    with pytest.raises(ValueError, match=r"ids\[1\]"):
        WordTokenizer("a", 5).decode([0, 2])


# ---- prefill ------------------------------------------------------------------------------------------


def test_prefill_counts_each_product_of_a_small_transformer() -> None:
    """Count multiplications and additions one by one: scores and sums for every visible pair, on average."""
    parameters, tokens, layers, width = 120, 6, 2, 4
    pairs = Fraction(tokens * tokens, 2)  # the mean-field half that the formula takes
    exact = 2 * parameters * tokens + layers * pairs * (2 * width + 2 * width)
    assert ch03.prefill_flops(parameters, tokens, layers, width) == exact


def test_four_times_the_prompt() -> None:
    only = [ch03.prefill_flops(0, n, 80, 8192) for n in (8000, 32000)]
    assert only[1] / only[0] == 16
    linear = [ch03.prefill_flops(7e10, n, 0, 8192) for n in (8000, 32000)]
    assert linear[1] / linear[0] == 4


# ---- rows ---------------------------------------------------------------------------------------------


def test_offsets_are_those_of_a_file() -> None:
    path = data_dir("house_model") / "base.safetensors"
    table = safetensors.load(path)["model.embed_tokens.weight"]
    raw = table.tobytes()
    for token in (0, 1, 331, 1023):
        start = ch03.row_offset_bytes(token, table.shape[1], table.itemsize)
        row = np.frombuffer(raw[start : start + table.shape[1] * table.itemsize], table.dtype)
        assert np.array_equal(row, table[token])
        assert np.array_equal(np.eye(len(table), dtype=table.dtype)[token] @ table, row)
    assert ch03.table_bytes(*table.shape, table.itemsize) == table.nbytes


@repeatable
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**5), st.sampled_from([1, 2, 4]))
def test_rows_of_two_ids_never_overlap(one: int, other: int, width: int, size: int) -> None:
    a, b = (ch03.row_offset_bytes(t, width, size) for t in (one, other))
    assert one == other or abs(a - b) >= width * size


@pytest.mark.parametrize("bad", [(-1, 2, 2), (1, 0, 2), (1, 2, 0), (1.0, 2, 2), (True, 2, 2)])
def test_bad_rows(bad: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"token|width|value_bytes"):
        ch03.row_offset_bytes(*bad)


def test_tables_are_one_or_two() -> None:
    assert ch03.table_bytes(10, 3, 2, 2) == 2 * ch03.table_bytes(10, 3, 2) == 120
    with pytest.raises(ValueError, match="tables"):
        ch03.table_bytes(10, 3, 2, 3)
    with pytest.raises(ValueError, match="vocabulary"):
        ch03.table_bytes(0, 3, 2)


# ---- the lexer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["def f(x):\n    return [x, 'a b'] # c\n", samples.sample("python")])
def test_the_lexer_keeps_what_python_reads(source: str) -> None:
    found = ch03.lexer_tokens(source)
    kinds = {kind for kind, _ in found}
    assert not kinds & {"NEWLINE", "NL", "ENDMARKER"}
    again = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.string.strip()]
    assert [text for _, text in found if text.strip()] == again
    assert sum(text in keyword.kwlist for _, text in found) == sum(t in keyword.kwlist for t in again)


# ---- density ------------------------------------------------------------------------------------------


@repeatable
@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_inflation_and_loss_say_the_same_thing(base: float, other: float) -> None:
    more, less = ch03.inflation_percent(base, other), ch03.loss_percent(base, other)
    assert math.isclose((1 + more / 100) * (1 - less / 100), 1.0, rel_tol=1e-9)
    assert (more >= 0) == (less >= 0)


def test_measuring_counts_and_refuses_nothing_to_measure() -> None:
    found = ch03.measure("né 🙂", CL100K)
    assert (found.characters, found.utf8_bytes, found.tokens) == (4, 8, len(CL100K.encode("né 🙂")))
    assert found.bytes_per_token == 8 / found.tokens
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="base"):
            ch03.inflation_percent(bad, 1.0)
        with pytest.raises(ValueError, match="other"):
            ch03.loss_percent(1.0, bad)
    with pytest.raises(ValueError, match="expected a character"):
        ch03.measure("", CL100K)


def test_the_census_of_glue_by_hand() -> None:
    by_hand = [t for t in CL100K.ranks if sum(chr(b) in '{}[]:,"\\' for b in t) >= 2]
    glue = ch03.glue_tokens(CL100K)
    assert set(glue) == set(by_hand) and len(glue) == 1232
    assert [CL100K.ranks[t] for t in glue] == sorted(CL100K.ranks[t] for t in glue)
    assert set(ch03.glue_tokens(CL100K, at_least=3)) < set(glue)
    with pytest.raises(ValueError, match="at_least"):
        ch03.glue_tokens(CL100K, at_least=0)


@repeatable
@given(st.integers(0, 10**9), st.integers(1, 50))
def test_the_guess_rounds_up(characters: int, rate: int) -> None:
    assert ch03.estimate_tokens(characters, rate) == -(-characters // rate)


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="chars_per_token"):
        ch03.estimate_tokens(10, 0)


# ---- budgets ------------------------------------------------------------------------------------------

parts_of = st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=8).map(
    lambda rows: [Part(f"p{i}", "x" * n, pinned) for i, (n, pinned) in enumerate(rows)]
)


@repeatable
@given(parts_of, st.integers(1, 150), st.sampled_from(["oldest", "newest", "middle", "refuse"]))
@example([Part("a", "xx"), Part("b", "x")], 9, "oldest")
def test_what_is_kept_fits_is_in_order_and_holds_all_pins(parts: list[Part], room: int, policy: str) -> None:
    budget = Budget(room + 7, 7, overhead_tokens=3)
    least = budget.cost([p for p in parts if p.pinned or policy == "refuse"], BYTES)
    try:
        kept = ch03.fit_context(parts, budget, BYTES, policy)
    except ContextOverflow as overflow:
        assert least > room
        assert f"room of {room}" in str(overflow)
        return
    assert budget.cost(kept, BYTES) == sum(len(p.text) + 3 for p in kept) <= room
    assert [p for p in parts if p in kept] == kept
    assert {p.name for p in parts if p.pinned} <= {p.name for p in kept}
    if budget.cost(parts, BYTES) <= room:
        assert kept == parts
    gone = [i for i, p in enumerate(parts) if p not in kept]
    free = [i for i, p in enumerate(parts) if not p.pinned]
    if policy == "oldest":
        assert gone == free[: len(gone)]
    if policy == "newest":
        assert gone == free[len(free) - len(gone) :]
    if gone and policy in ("oldest", "newest"):  # one part fewer dropped would not fit
        back = gone[-1] if policy == "oldest" else gone[0]
        assert budget.cost([*kept, parts[back]], BYTES) > room


def test_the_middle_goes_first() -> None:
    parts = [Part(name, "xxxx") for name in "abcde"]
    for room, names in ((20, "abcde"), (16, "abde"), (12, "abe"), (8, "ae")):
        kept = ch03.fit_context(parts, Budget(room + 1, 1, 0), BYTES, "middle")
        assert "".join(p.name for p in kept) == names


def test_a_policy_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="expected one of refuse, oldest, newest, middle; got 'best'"):
        ch03.fit_context([], Budget(5, 1), BYTES, "best")


def test_a_window_that_the_answer_fills_is_none() -> None:
    with pytest.raises(ValueError, match="output_tokens"):
        Budget(100, 100)
    with pytest.raises(ValueError, match="overhead_tokens"):
        Budget(100, 10, -1)
    assert Budget(100, 99).room_tokens == 1


def test_compaction_replaces_as_few_as_it_must_and_keeps_places() -> None:
    parts = [
        Part("rule", "r", pinned=True),
        *[Part(n, "x" * 10) for n in "abc"],
        Part("ask", "q", pinned=True),
    ]

    def tell(gone: Any) -> str:
        return "+".join(p.name for p in gone)

    expected = {
        32: "rule a b c ask",  # 10 letters each, and two of one
        31: "rule a b c ask",  # "a" is now a summary of one letter: 23
        23: "rule a b c ask",
        22: "rule a+b c ask",  # 15
        15: "rule a+b c ask",
        14: "rule a+b+c ask",  # 7
        7: "rule a+b+c ask",
        6: "overflow",
    }
    for room, wanted in expected.items():
        try:
            kept = ch03.compact_context(parts, Budget(room + 1, 1, 0), BYTES, tell)
        except ContextOverflow:
            assert wanted == "overflow", room
        else:
            assert " ".join(p.text if p.name == "summary" else p.name for p in kept) == wanted, room
            assert sum(p.name == "summary" for p in kept) == (room < 32)


def test_damage_names_what_is_lost_and_what_is_left_alone() -> None:
    call, result, other = Part("call", "x"), Part("result", "y", needs="call"), Part("other", "z")
    whole = [call, result, other]
    assert ch03.damage(whole, whole) == {"lost": [], "orphaned": []}
    assert ch03.damage(whole, [result, other]) == {"lost": ["call"], "orphaned": ["result"]}
    assert ch03.damage(whole, [other]) == {"lost": ["call", "result"], "orphaned": []}


# ---- cut calls ----------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@repeatable
@given(st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=3))
def test_no_cut_object_parses_and_a_whole_one_is_left_alone(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert ch03.close_json(text) == text
    assert ch03.json_problem(text) == ""
    for n in range(len(text)):
        assert ch03.json_problem(text[:n]) != "", text[:n]


@repeatable
@given(st.text(max_size=12))
def test_a_cut_string_in_an_object_is_closed_to_a_prefix(text: str) -> None:
    whole = json.dumps({"command": text}, ensure_ascii=False)
    start = whole.index(": ") + 3
    for n in range(start, len(whole) - 2):
        closed = ch03.close_json(whole[:n])
        if ch03.json_problem(closed) == "":
            assert text.startswith(json.loads(closed)["command"])
        else:
            assert "\\u" in whole[start:n]


def test_closing_by_hand() -> None:
    for cut, closed in {
        "": "", "{": "{}", '{"a": [1, {"b': '{"a": [1, {"b"}]}', '["x\\': '["x"]', '["\\"': '["\\""]',
        '["{[': '["{["]', "]": "]", '["a", "b"]': '["a", "b"]', '["\\\\': '["\\\\"]',
    }.items():  # fmt: skip
        assert ch03.close_json(cut) == closed


def test_the_call_of_the_page_cut_at_every_token() -> None:
    call = '{"tool":"execute_command","arguments":{"command":"rm -rf /srv/build/cache"}}'
    ids = CL100K.encode(call)
    seen = ch03.cut_outcomes(ids, CL100K, lambda text: text)
    assert [text for text, _ in seen] == [CL100K.decode(ids[:n]) for n in range(1, len(ids) + 1)]
    commands = []
    for text, _ in seen:
        try:
            commands.append(json.loads(ch03.close_json(text))["arguments"]["command"])
        except (ValueError, KeyError, TypeError):
            continue
    wider = {"rm -rf /", "rm -rf /srv", "rm -rf /srv/build"}
    assert wider < set(commands) and len(commands) == 9


def test_a_problem_is_the_parsers_own() -> None:
    assert ch03.json_problem('{"a": 1') == "Expecting ',' delimiter"
    assert ch03.json_problem("[1, 2]") == ""
    with pytest.raises(TypeError, match="text"):
        ch03.json_problem(b"1")  # type: ignore[arg-type]


def test_density_is_a_ratio() -> None:
    assert Density(4120, 4120, 1005).chars_per_token == float(Fraction(4120, 1005))
