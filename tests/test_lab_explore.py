"""``explore``: its grid, its results, its bytes, its two forms, and what it refuses."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import html5lib
import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.display import Markdown

from modelcall.lab import bundle, results, style, tables
from modelcall.lab.controls import MAX_STATES, make_control
from modelcall.lab.explore import MAX_BYTES, explore
from modelcall.lab.packing import pack, unpack

relaxed = settings(deadline=None, derandomize=True, max_examples=60)


mpl.use("agg")  # before a test pretends to be a notebook, whose backend it would ask for
plt.close(plt.figure())
SHOWN: list[dict[str, Any]] = []


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A notebook in the book's style, as ``explore`` looks for one; what it displays is in ``SHOWN``."""
    plt.close("all")  # another test's figure is not a result
    mpl.rc_file_defaults()
    style.use()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", object)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: SHOWN.append(data))
    with mpl.rc_context():
        yield


def shown(work: Callable[[], object]) -> dict[str, Any]:
    """The bundle of the one output of ``work``."""
    SHOWN.clear()
    work()
    [data] = SHOWN
    return data


def page_of(data: dict[str, Any]) -> str:
    match = re.fullmatch(r"```\{=html\}\n(.*)\n```", data["text/markdown"], re.S)
    assert match
    return match[1]


def states_of(page: str) -> list[str]:
    packed = json.loads(re.search(r"json\">(.*?)</script>", page, re.S)[1])  # type: ignore[index]
    count = 1
    for names in packed["c"]:
        count *= len(names)
    return [unpack(packed, i) for i in range(count)]


def double(t: float = 2) -> str:
    return f"{2 * t} ms"


def bar(height: float, hue: str = "c1") -> Any:
    figure, axes = plt.subplots(figsize=(2, 1))
    axes.bar(["a", "b"], [height, 1], color=style.color(hue))
    return figure


def told(height: float, hue: str = "c1") -> str:
    return f"a is {height} high"


# -- controls ------------------------------------------------------------------------------------------------


@relaxed
@given(
    start=st.decimals(-50, 50, places=2),
    step=st.decimals("0.01", 5, places=2),
    count=st.integers(1, MAX_STATES),
)
def test_a_slider_has_every_step_and_both_ends(start: Any, step: Any, count: int) -> None:
    spec = (float(start), float(start + step * (count - 1)), float(step))
    control = make_control("t", spec, "t")
    assert len(control.values) == len(set(control.names)) == count
    assert control.values == tuple(float(start + i * step) for i in range(count))
    assert [float(name) for name in control.names] == pytest.approx(list(control.values), abs=1e-9)


def test_the_forms_of_a_control() -> None:
    assert make_control("t", (1, 5, 2), "t").values == (1, 3, 5)
    assert all(type(value) is int for value in make_control("t", (1, 5, 2), "t").values)
    assert make_control("t", range(10, 0, -3), "t").values == (10, 7, 4, 1)
    named = make_control("r", {"all words": None, "two": 2}, "rule", default=2)
    assert (named.values, named.names, named.start) == ((None, 2), ("all words", "two"), 1)
    switch = make_control("s", True, "s")
    assert (switch.kind, switch.values, switch.start) == ("switch", (False, True), 1)
    assert make_control("t", (0.1, 0.4, 0.1), "t", default=0.30000000000000004).start == 2


BAD = [
    ((1, 2), TypeError, "t: expected (start, stop, step)"),
    ((1, 2, 0), ValueError, "a step above 0"),
    ((2, 1, 1), ValueError, "a stop not below the start"),
    ((0.0, float("nan"), 1.0), ValueError, "t, stop: expected a number"),
    ((0.0, float("inf"), 1.0), ValueError, "t, stop: expected a number"),
    (("a", 2, 1), TypeError, "t, start: expected a number"),
    ((0, 1000, 1), ValueError, "t: 1001 values, at most 400"),
    (range(1000), ValueError, "t: 1000 values, at most 400"),
    ([], ValueError, "t: expected at least one value"),
    ({}, ValueError, "t: expected at least one value"),
    (["a", "a"], ValueError, "t: the value 'a' is there twice"),
    ("ab", TypeError, "t: expected (start, stop, step), a range, a list"),
    (3, TypeError, "t: expected (start, stop, step), a range, a list"),
]


@pytest.mark.parametrize(("spec", "kind", "words"), BAD)
def test_bad_controls_are_named(spec: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        explore(lambda t: "x", t=spec)


# -- packing -------------------------------------------------------------------------------------------------


@relaxed
@given(st.lists(st.text("ab0.,-<>& \n\"'_|é`", max_size=12), min_size=1, max_size=12))
def test_what_is_packed_comes_back(texts: list[str]) -> None:
    packed = json.loads(json.dumps(pack(texts)))
    assert [unpack(packed, i) for i in range(len(texts))] == texts


def test_what_states_share_is_written_once() -> None:
    frame = '<path d="M 0 0"/>' * 100
    texts = [f"<svg>{frame}<b>{i}</b><b>{i}</b></svg>" for i in range(100)]
    packed = pack(texts)
    assert len(packed["t"]) == 1 and packed["t"][0].count(0) == 2  # one column for both places
    assert len(json.dumps(packed)) < 1.8 * len(texts[0])
    assert pack(["same"] * 50)["r"] == ["0"]


# -- results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "page"),
    [
        (3, '<p class="explore-number">3</p>'),
        (1 / 3, '<p class="explore-number">0.3333</p>'),
        (True, "<p>yes</p>"),
        ("a < b", "<p>a &lt; b</p>"),
        ("one\ntwo", "<pre><code>one\ntwo</code></pre>"),
        (
            Markdown("**top** `x<y` and *so*"),
            "<p><strong>top</strong> <code>x&lt;y</code> and <em>so</em></p>",
        ),
        (Markdown("- a\n- b"), "<ul><li>a</li><li>b</li></ul>"),
        (["a", 2], '<p>a</p><p class="explore-number">2</p>'),
    ],
)
def test_results_become_html(result: object, page: str) -> None:
    assert results.state_of(result, "", None, "x").page == page


@relaxed
@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=6), min_size=2, max_size=2),
        max_size=4,
    )
)
def test_tables_of_the_book_keep_every_cell(rows: list[list[str]]) -> None:
    plain = [[re.sub(r"[`*\\]", "", cell) for cell in row] for row in rows]
    page = results.markdown_html(tables.markdown_table(["h", "k"], plain))
    tree = html5lib.parseFragment(page, namespaceHTMLElements=False)
    cells = ["".join(cell.itertext()) for cell in tree.iter() if cell.tag in ("td", "th")]
    assert cells == ["h", "k", *(cell for row in plain for cell in row)]


def test_a_printing_function_is_explored_as_it_is(shell: None) -> None:
    def prints(n: int) -> None:
        print("n is", n)

    assert states_of(page_of(shown(lambda: explore(prints, n=(1, 3, 1))))) == [
        f"<p>n is {n}</p>" for n in (1, 2, 3)
    ]


def test_figures_follow_the_page_and_are_the_same_each_time(shell: None) -> None:
    """The palette's colours are variables with a value behind them; other ids and fonts leave nothing."""
    first, second = (
        shown(lambda: explore(bar, say=told, height=(0.5, 2, 0.5), hue=["c1", "c2"])) for _ in range(2)
    )
    assert first["text/markdown"] == second["text/markdown"] and first["text/plain"] == second["text/plain"]
    page = page_of(first)
    for role in ("c1", "ink", "paper"):
        assert f"--{role}:var(--fig-{role},{style.color(role)})" in page
    svg = states_of(page)[0]
    assert re.findall(r"#[0-9a-f]{6}", re.sub(r' style="--natural[^"]*"', "", svg, count=1)) == []
    assert "DejaVu" not in page and "<style>*" not in page and "xlink" not in page
    ids = re.findall(r'\bid="([^"]*)"', svg)
    assert len(ids) == len(set(ids)) and set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg)) <= set(ids)
    assert not plt.get_fignums()
    html5lib.HTMLParser(strict=False).parseFragment(page)


def test_a_figure_left_open_in_pyplot_is_the_result(shell: None) -> None:
    def draws(n: int) -> None:
        plt.figure(figsize=(1, 1))
        plt.plot([0, n])

    data = shown(lambda: explore(draws, say=lambda n: f"{n}", n=[1, 2]))
    assert page_of(data).count("<svg") == 2 and not plt.get_fignums()


# -- refusals ------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[], None], type[Exception], str]] = [
    (lambda: explore(3, t=[1]), TypeError, "fn: expected a function; got 3"),  # type: ignore[arg-type]
    (lambda: explore(double), ValueError, "explore: expected at least one control"),
    (lambda: explore(double, x=[1]), TypeError, "fn: "),
    (lambda: explore(bar, say=told, hue=["c1"]), TypeError, "fn: missing a required argument: 'height'"),
    (lambda: explore(double, say="x", t=[1]), TypeError, "say: expected a function"),  # type: ignore[arg-type]
    (lambda: explore(double, say=lambda x: "", t=[1]), TypeError, "say: "),
    (lambda: explore(double, labels={"u": "x"}, t=[1]), ValueError, "labels: 'u' is no control"),
    (lambda: explore(bar, height=[1]), ValueError, "say: expected a function that puts the figure"),
    (lambda: explore(lambda t: None, t=[1]), TypeError, "fn: returned None and printed nothing"),
    (lambda: explore(lambda t: object, t=[1]), TypeError, "fn: expected a figure, number, text"),
    (
        lambda: explore(lambda a, b: "", a=range(21), b=range(20)),
        ValueError,
        "21 × 20 = 420 states, at most 400",
    ),
    (lambda: explore(lambda t: "x " * 99_000, t=[1]), ValueError, f"bytes, at most {MAX_BYTES:,}"),
]


@pytest.mark.parametrize(("work", "kind", "words"), REFUSED)
def test_refusals_name_the_argument_and_the_cap(
    work: Callable[[], None], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        work()
    assert not plt.get_fignums()


def test_an_error_of_the_function_says_in_which_state(shell: None) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        explore(lambda t, u: 1 / t, t=(0, 2, 1), u=["x"])
    assert caught.value.__notes__ == ["explore: in the state t=0, u='x'"]


# -- the forms -----------------------------------------------------------------------------------------------


def test_the_page_has_labelled_controls_and_a_table_without_scripts(shell: None) -> None:
    def say(t: float, rule: str, on: bool = True) -> str:
        return f"{t} {rule} {on}"

    data = shown(lambda: explore(say, labels={"t": "heat <T>"}, t=(0, 1, 0.5), rule=["a&b", "c"], on=True))
    tree = html5lib.parseFragment(page_of(data), namespaceHTMLElements=False)
    fields = [e for e in tree.iter() if e.tag in ("input", "select")]
    labels = ["".join(label.itertext()) for label in tree.iter("label")]
    assert [f.get("type", "select") for f in fields] == ["range", "select", "checkbox"]
    assert [any(f in list(label.iter()) for label in tree.iter("label")) for f in fields] == [True] * 3
    assert labels[0].startswith("heat <T>") and labels[2].strip() == "on"
    assert len(states_of(page_of(data))) == 12
    assert states_of(page_of(data))[5] == "<p>0.5 a&amp;b True</p>"
    table = html5lib.parseFragment(page_of(data).split("<noscript>")[1], namespaceHTMLElements=False)
    rows = [["".join(c.itertext()) for c in row.iter("td")] for row in table.iter("tr")]
    assert rows[1:][5] == ["0.5", "a&b", "on", "0.5 a&b True"] and len(rows) == 13


def test_data_cannot_leave_its_script_nor_the_fence(shell: None) -> None:
    evil = "</script><!--\n```\n</div>"
    page = page_of(
        {
            "text/markdown": re.sub(
                r"^`+|`+$", "```", shown(lambda: explore(lambda t: evil, t=[1]))["text/markdown"]
            )
        }
    )
    assert page.count("</script>") == 1
    assert states_of(page)[0] == "<pre><code>&lt;/script&gt;&lt;!--\n```\n&lt;/div&gt;</code></pre>"
    assert bundle.fence("a\n````\nb").startswith("`````{=html}")


def test_live_widgets_replace_the_result(shell: None, monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[Any] = []
    real = bundle.show
    monkeypatch.setattr(
        bundle,
        "show",
        lambda page, plain, live, static="": real(
            page, plain, lambda m: views.append(live(m)) or views[-1], static
        ),
    )
    data = shown(lambda: explore(double, t=(1, 4, 1)))
    assert data[bundle.WIDGET_VIEW]["model_id"] == views[0].model_id
    slider, result = views[0].children
    assert result.value == "<p>4 ms</p>" and slider.description == "t"  # the function's default
    for value in (0, 3):
        slider.value = value
        assert result.value == f"<p>{2 * (value + 1)} ms</p>"


def test_without_ipywidgets_a_notebook_gets_a_table(shell: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    data = shown(lambda: explore(double, t=(1, 2, 1)))
    assert data["text/markdown"] == "| t | result |\n|---:|---:|\n| 1 | 2 ms |\n| 2 | 4 ms |"
    assert set(data) == {"text/plain", "text/markdown"}


def test_outside_a_notebook_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    explore(double, t=(1, 3, 1))
    assert capsys.readouterr().out.startswith("t = 2: 4 ms (3 states;")
