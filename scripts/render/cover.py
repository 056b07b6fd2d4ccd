"""The EPUB's cover: the title set in the book's own faces, as outlines, so that every reader shows the same.

The drawing under it is the book's subject in small: a row of bars, one proposal taller than the others.
"""

from __future__ import annotations

import html
import math
from functools import cache
from typing import Any

from .fonts import face_file

__all__ = ["cover"]

_WIDTH, _HEIGHT, _LEFT = 1200, 1800, 110
_INK, _SOFT, _PAPER, _ACCENT, _BRICK = "#1f2933", "#4b5663", "#fdfdfb", "#1d5f8a", "#b5442e"
_LOGITS = (0.6, 1.1, 0.2, 2.9, 1.6, 0.9, 0.1, 0.5, 1.3, 0.3, 0.7, 0.2)


@cache
def _font(package: str, name: str) -> Any:
    from fontTools.ttLib import TTFont

    return TTFont(face_file(package, name))


def _set(text: str, package: str, name: str, size: float, left: float, base: float) -> tuple[str, float]:
    """Outlines of ``text`` with its first letter at ``left``, and its width."""
    from fontTools.pens.svgPathPen import SVGPathPen
    from fontTools.pens.transformPen import TransformPen

    font = _font(package, name)
    glyphs, names, scale = font.getGlyphSet(), font.getBestCmap(), size / font["head"].unitsPerEm
    pen, at = SVGPathPen(glyphs, ntos=lambda number: f"{number:.1f}".rstrip("0").rstrip(".")), left
    for letter in text:
        glyph = glyphs[names.get(ord(letter), ".notdef")]
        glyph.draw(TransformPen(pen, (scale, 0, 0, -scale, at, base)))
        at += glyph.width * scale
    return pen.getCommands(), at - left


def _lines(text: str, package: str, name: str, size: float, room: float) -> list[str]:
    """``text`` broken at spaces so that no line is wider than ``room``."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _set(longer, package, name, size, 0, 0)[1] <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def cover(title: str, subtitle: str, author: str) -> str:
    """Return the cover as an SVG document."""
    serif = ("fontpkg-ibm-plex-serif", "IBMPlexSerif-SemiBold.ttf")
    plain = ("fontpkg-ibm-plex-serif", "IBMPlexSerif-Regular.ttf")
    room, base = _WIDTH - 2 * _LEFT, 420.0
    parts: list[str] = []
    for text, face, size, colour in (
        (title, serif, 150, _INK),
        (subtitle, plain, 54, _SOFT),
    ):
        for line in _lines(text, *face, size, room):
            parts.append(f'<path fill="{colour}" d="{_set(line, *face, size, _LEFT, base)[0]}"/>')
            base += size * 1.15
        base += 20
    foot = 1500
    total = sum(map(math.exp, _LOGITS))
    step = room / len(_LOGITS)
    for i, logit in enumerate(_LOGITS):
        tall = 1100 * math.exp(logit) / total
        colour = _BRICK if logit == max(_LOGITS) else _ACCENT
        at = _LEFT + i * step
        parts.append(
            f'<path fill="{colour}" d="M{at:.0f} {foot}v{-tall:.0f}h{step * 0.62:.0f}v{tall:.0f}z"/>'
        )
    parts.append(f'<path fill="{_SOFT}" d="M{_LEFT} {foot}h{room}v4h{-room}z"/>')
    parts += [
        f'<path fill="{_SOFT}" d="{_set(line, *plain, 40, _LEFT, foot + 110 + 52 * i)[0]}"/>'
        for i, line in enumerate(_lines(author, *plain, 40, room))
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}"><title>{html.escape(title)}</title>'
        f'<path fill="{_PAPER}" d="M0 0h{_WIDTH}v{_HEIGHT}H0z"/>{"".join(parts)}</svg>\n'
    )
