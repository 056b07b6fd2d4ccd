"""The figure style: the same bytes everywhere, no colour outside the palette, legible in both themes.

Contrast is computed by the formula of WCAG 2.2 and lightness by CIE L*, both written out here and checked on
values that their definitions fix.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import nbformat
import pytest

from modelcall.lab import style

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
LIGHT = {role: light for role, (light, _) in style.PALETTE.items()}
DARK = {role: dark for role, (_, dark) in style.PALETTE.items()}
THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
DRAW = """
import io, sys
import matplotlib
matplotlib.use("svg")
import matplotlib.pyplot as plt
from modelcall.lab import style
from modelcall.lab.decisions import Ask, Step, draw_questions, draw_steps
from modelcall.lab.diagram import Message, sequence_diagram

style.use()
figure, axes = plt.subplots()
for shift in range(4):
    axes.plot([0, 1, 2], [shift, 1, 2], label=f"series {shift}")
axes.bar([0, 1], [1, 2])
axes.errorbar([0, 1], [1, 2], yerr=0.2)
axes.fill_between([0, 1], [0, 1], alpha=0.2)
axes.legend()
sequence_diagram([Message("a", "b", "one"), Message("b", "b", "two", repeats=True)])
draw_questions([Ask("Cold?", [("yes", "coat")], "no"), Ask("Wet?", [("yes", "hat"), ("no", "cap")])])
draw_steps([Step("L0", [("fails", "unused")])])
for number in plt.get_fignums():
    buffer = io.BytesIO()
    plt.figure(number).savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    sys.stdout.buffer.write(buffer.getvalue())
"""


def draw(hash_seed: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "code")}
    environment.pop("SOURCE_DATE_EPOCH", None)
    done = subprocess.run(
        [sys.executable, "-c", DRAW], env=environment, capture_output=True, check=True, timeout=120
    )
    return done.stdout


@pytest.fixture(scope="module")
def drawn() -> bytes:
    return draw("1")


def channels(colour: str) -> list[float]:
    """The three linear channels of an sRGB colour."""
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def luminance(colour: str) -> float:
    red, green, blue = channels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    dark, light = sorted(map(luminance, (a, b)))
    return (light + 0.05) / (dark + 0.05)


def lightness(colour: str) -> float:
    y = luminance(colour)
    return 116 * y ** (1 / 3) - 16 if y > 216 / 24389 else y * 24389 / 27


def colours(svg: str) -> set[str]:
    return {found.lower() for found in re.findall(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3}\b", svg)}


def book_drawings() -> Iterator[tuple[str, str]]:
    for path in CHAPTERS:
        for cell in nbformat.read(path, 4).cells:
            for output in cell.get("outputs", []):
                if svg := output.get("data", {}).get("image/svg+xml"):
                    yield f"{path.stem}, cell {cell.id}", svg


def test_the_formulas_hold_where_their_definitions_fix_them() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=5e-4)  # the grey that just fails
    assert contrast("#767676", "#ffffff") == pytest.approx(4.542, abs=5e-4)  # the grey that just passes
    assert lightness("#ffffff") == pytest.approx(100.0) and lightness("#000000") == 0.0
    assert lightness("#777777") == pytest.approx(50.03, abs=0.01)


def test_two_processes_draw_the_same_bytes_without_a_date(drawn: bytes) -> None:
    assert hashlib.sha256(draw("2")).digest() == hashlib.sha256(drawn).digest()
    text = drawn.decode()
    assert text.count("<svg") == 4
    assert "<dc:date>" not in text and not re.search(r"\b20\d\d-\d\d-\d\d", text)
    assert "<text" in text and "<tspan" not in text.split("</svg>")[0].split("<text")[0]


def test_another_salt_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    style.use()
    assert mpl.rcParams["svg.hashsalt"] == "modelcall"
    assert mpl.rcParams["svg.fonttype"] == "none"


def test_every_colour_drawn_is_a_role_of_the_palette(drawn: bytes) -> None:
    found = colours(drawn.decode())
    assert found <= {light.lower() for light in LIGHT.values()}
    assert {LIGHT[role] for role in style.SERIES} <= found


@pytest.mark.parametrize(
    ("place", "svg"), list(book_drawings()), ids=lambda value: value if len(value) < 60 else ""
)
def test_every_colour_of_the_books_figures_is_a_role_and_their_text_is_text(place: str, svg: str) -> None:
    strange = colours(svg) - {light.lower() for light in LIGHT.values()}
    assert strange == set(), f"{place}: {sorted(strange)} are no roles, so they would not follow the theme"
    assert "<text" in svg and "<dc:date>" not in svg


def test_no_colour_of_a_theme_stands_for_two_roles() -> None:
    for theme in (LIGHT, DARK):
        assert len({value.lower() for value in theme.values()}) == len(theme)
        assert all(re.fullmatch(r"#[0-9a-f]{6}", value) for value in theme.values())


@THEMES
def test_text_has_the_contrast_that_wcag_asks_of_text(theme: dict[str, str]) -> None:
    assert contrast(theme["ink"], theme["paper"]) >= 7.0
    assert contrast(theme["muted"], theme["paper"]) >= 4.5
    for role in ("c1", "c2"):  # labels inside drawings are set in these
        assert contrast(theme[role], theme["paper"]) >= 4.5, role
    assert contrast(theme["ink"], theme["grid"]) >= 4.5  # words in a filled box


@THEMES
def test_any_two_series_stay_apart_in_greyscale(theme: dict[str, str]) -> None:
    for a, b in combinations(style.SERIES, 2):
        assert abs(lightness(theme[a]) - lightness(theme[b])) >= 7.0, (a, b)


def test_series_differ_by_marker_as_well() -> None:
    style.use()
    cycle = mpl.rcParams["axes.prop_cycle"].by_key()
    assert cycle["color"] == [LIGHT[role] for role in style.SERIES]
    assert len(set(cycle["marker"])) == len(style.SERIES)


def test_on_a_narrow_phone_text_is_at_least_eleven_pixels_high() -> None:
    style.use()
    shrunk = min(1.0, 350 / (96 * mpl.rcParams["figure.figsize"][0]))
    assert mpl.rcParams["font.size"] * 96 / 72 * shrunk >= 11.0
    assert mpl.rcParams["legend.fontsize"] * 96 / 72 * shrunk >= 10.0


def test_an_unknown_role_is_named() -> None:
    assert [style.color(role) for role in LIGHT] == list(LIGHT.values())
    with pytest.raises(ValueError, match=r"^role: expected one of paper, ink, .*; got 'pink'"):
        style.color("pink")
