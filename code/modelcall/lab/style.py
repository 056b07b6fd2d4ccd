"""One figure style for the whole book, legible in print, in greyscale and on a dark page.

Every colour a figure uses is a *role* of ``PALETTE``: a pair of hex values, light and dark. Figures
are drawn with the light one. A built page replaces each light value inside its SVG figures by a CSS
variable of the role, so that the same drawing follows the page's theme; a notebook shows the light
one on its own paper. Series differ in lightness too, in both themes, so greyscale keeps them apart.
"""

from __future__ import annotations

import matplotlib as mpl
from cycler import cycler

__all__ = ["PALETTE", "SERIES", "color", "use"]

# role -> (light, dark). No two roles share a light value: the page finds roles by that value.
PALETTE: dict[str, tuple[str, str]] = {
    "paper": ("#fdfdfb", "#161a20"),
    "ink": ("#1f2933", "#e4e2db"),
    "muted": ("#66707c", "#9aa4b0"),
    "grid": ("#dfe2e6", "#343c47"),
    "c1": ("#1b4965", "#4f9fd6"),  # L* 29 and 63
    "c2": ("#b5442e", "#f2957e"),  # L* 44 and 71
    "c3": ("#d99a2b", "#f3c268"),  # L* 68 and 81
    "c4": ("#8cc5c9", "#bfeced"),  # L* 76 and 90
}
SERIES = ("c1", "c2", "c3", "c4")


def color(role: str) -> str:
    """Return the hex value to draw ``role`` with.

    Raises:
        ValueError: ``role`` is not in ``PALETTE``.

    >>> color("ink")
    '#1f2933'
    """
    if role not in PALETTE:
        raise ValueError(f"role: expected one of {', '.join(PALETTE)}; got {role!r}")
    return PALETTE[role][0]


def use() -> None:
    """Set Matplotlib's defaults to the book's style, and SVG as the format of inline figures.

    The SVG files are the same bytes on every machine: text stays text and is laid out with the DejaVu
    metrics that Matplotlib carries, element ids come from a fixed salt, and no date is written.
    """
    ink, muted, grid, paper = color("ink"), color("muted"), color("grid"), color("paper")
    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "modelcall",
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            # 4.4 inches are 422 CSS pixels. On a phone 350 pixels wide, text of 10 points is still 11 high.
            "font.size": 10.0,
            "figure.figsize": (4.4, 2.7),
            "figure.constrained_layout.use": True,
            "figure.facecolor": paper,
            "savefig.facecolor": paper,
            "axes.facecolor": paper,
            "axes.edgecolor": muted,
            "axes.labelcolor": ink,
            "axes.titlesize": 10.0,
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.prop_cycle": cycler(color=[color(role) for role in SERIES], marker=["o", "s", "^", "D"]),
            "grid.color": grid,
            "grid.linewidth": 0.8,
            "text.color": ink,
            "xtick.color": muted,
            "ytick.color": muted,
            "xtick.labelcolor": ink,
            "ytick.labelcolor": ink,
            "lines.linewidth": 1.8,
            "lines.markersize": 4.5,
            "patch.linewidth": 0.8,
            "patch.edgecolor": ink,
            "patch.force_edgecolor": True,
            "legend.frameon": False,
            "legend.fontsize": 9.5,
        }
    )
    _inline_svg()


def _inline_svg() -> None:
    """Tell a Jupyter kernel to send figures as dateless SVG; do nothing outside one."""
    try:
        from IPython.core.getipython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        # Every figure keeps its nominal size: cropping to the content would give each another scale.
        metadata = {"Date": None, "Creator": None}
        set_matplotlib_formats("svg", bbox_inches=None, metadata=metadata, facecolor=color("paper"))
