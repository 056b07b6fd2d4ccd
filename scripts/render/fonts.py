"""The site's fonts: subsets of the faces in the pinned font packages, as style sheets that hold them.

A face inside a style sheet is there at the first paint, on a server and from ``file://`` alike, so no line of
text moves. A subset covers plain Latin text and what the pages use beyond it; the maths face keeps its MATH
table and the glyph variants that stretchy brackets are built from.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
import unicodedata
from functools import partial
from importlib.metadata import PackagePath, distribution
from pathlib import Path

from .pandoc import write_atomic
from .parallel import Job, Piece

__all__ = ["LICENCES", "face_file", "fonts", "licences"]

_Limits = dict[str, float]
# Style sheet -> faces: family, weight, style, distribution, file in it, axes to pin.
_FACES: dict[str, list[tuple[str, int, str, str, str, _Limits]]] = {
    "fonts.css": [
        ("Plex Serif", 400, "normal", "fontpkg-ibm-plex-serif", "IBMPlexSerif-Regular.ttf", {}),
        ("Plex Serif", 400, "italic", "fontpkg-ibm-plex-serif", "IBMPlexSerif-Italic.ttf", {}),
        ("Plex Serif", 600, "normal", "fontpkg-ibm-plex-serif", "IBMPlexSerif-SemiBold.ttf", {}),
        ("Plex Sans", 400, "normal", "fontpkg-ibm-plex-sans", "IBMPlexSans[wdth,wght].ttf", {"wght": 400}),
        ("Plex Sans", 600, "normal", "fontpkg-ibm-plex-sans", "IBMPlexSans[wdth,wght].ttf", {"wght": 600}),
        ("Plex Mono", 400, "normal", "fontpkg-ibm-plex-mono", "IBMPlexMono-Regular.ttf", {}),
    ],
    "math.css": [("STIX Two Math", 400, "normal", "ziamath", "STIXTwoMath-Regular.ttf", {})],
}
# Always there, whatever the pages use: ASCII, the marks of Latin-1, typographic marks, arrows and relations.
# Letters with accents come with the pages that have them.
_LATIN = [*range(0x20, 0x7F), *range(0xA0, 0xC0), 0xD7, 0xF7, *range(0x2010, 0x2027)]
_LATIN += [0x2032, 0x2039, 0x203A, 0x20AC]
_SYMBOLS = [0x2122, *range(0x2190, 0x2194), 0x2212, 0x2248, 0x2260, 0x2264, 0x2265]
# A browser sets every one-letter identifier in these mathematical italics.
_ITALICS = [*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C), 0x210E]
# Beyond HarfBuzz's defaults: tabular figures, and the variants that formulas need.
_FORMULA = re.compile(r"<math\b.*?</math>", re.S)
_FEATURES = ("tnum", "zero", "ssty", "dtls", "flac")
LICENCES = ("ibm-plex.txt", "stix-two-math.txt")
_RECIPE = "6"  # changes when the way of subsetting does


def fonts(pages: list[str], cache: Path) -> Job[dict[str, str]]:
    """Return file name -> style sheet with every face, covering the characters of ``pages`` (HTML)."""
    text = _shown(pages)
    wanted = sorted({*_LATIN, *_SYMBOLS, *map(ord, text)})
    formulas = _shown([formula for page in pages for formula in _FORMULA.findall(page)])
    italics = {code for code in _ITALICS if unicodedata.normalize("NFKC", chr(code)) in formulas}
    maths = sorted({*range(0x20, 0x7F), 0x221A, *map(ord, formulas), *italics})
    new: dict[Path, Piece] = {}
    rules: dict[str, list[tuple[str, Path]]] = {}
    for name, faces in _FACES.items():
        for family, weight, style, package, file, axes in faces:
            codes = maths if name == "math.css" else wanted
            path = face_file(package, file)
            recipe = repr((_RECIPE, file, axes, distribution(package).version, codes))
            stored = cache / f"{hashlib.sha256(recipe.encode()).hexdigest()[:32]}.woff2"
            if not stored.is_file():
                new[stored] = Piece(partial(_keep, stored, path, codes, axes), path.stat().st_size)
            head = f'@font-face{{font-family:"{family}";font-weight:{weight};font-style:{style};'
            rules.setdefault(name, []).append((head, stored))
    yield list(new.values())
    return {name: "".join(head + _source(stored) for head, stored in all_) for name, all_ in rules.items()}


def _keep(stored: Path, path: Path, codes: list[int], axes: _Limits) -> None:
    write_atomic(stored, _subset(path, codes, axes))


def _source(stored: Path) -> str:
    data = base64.b64encode(stored.read_bytes()).decode()
    return f'src:url(data:font/woff2;base64,{data}) format("woff2")}}\n'


def licences(cache: Path) -> Job[dict[str, str]]:
    """Return file name -> licence text of each font family on the site."""
    plex = Path(str(_file("fontpkg-ibm-plex-serif", "LICENSE").locate())).read_text(encoding="utf-8")
    stored = cache / "stix-two-math.txt"
    yield [] if stored.is_file() else [Piece(partial(_keep_terms, stored))]
    return dict(zip(LICENCES, (plex, stored.read_text(encoding="utf-8")), strict=True))


def _keep_terms(stored: Path) -> None:
    """The package's own licence covers its code; the font says its terms in its name table."""
    from fontTools.ttLib import TTFont

    with TTFont(str(_file("ziamath", "STIXTwoMath-Regular.ttf").locate()), lazy=True) as font:
        lines = [font["name"].getDebugName(number) or "" for number in (4, 0, 13, 14)]
    write_atomic(stored, "\n\n".join(lines).encode())


def face_file(package: str, name: str) -> Path:
    """Where a font file of an installed package lies."""
    return Path(str(_file(package, name).locate()))


def _file(package: str, *names: str) -> PackagePath:
    for file in distribution(package).files or ():
        if file.name in names:
            return file
    raise FileNotFoundError(f"package {package} has no file {names[0]}")


def _subset(path: Path, codes: list[int], axes: _Limits) -> bytes:
    import uharfbuzz as hb
    from fontTools.ttLib.woff2 import compress

    face = hb.Face(hb.Blob.from_file_path(str(path)))
    wanted = hb.SubsetInput()
    wanted.unicode_set.update(code for code in codes if code > 0x1F)
    wanted.layout_feature_tag_set.update(int.from_bytes(tag.encode()) for tag in _FEATURES)
    wanted.flags = hb.SubsetFlags.NO_HINTING
    wanted.name_id_set.update((0, 1, 2, 13, 14))  # names, copyright and licence stay
    if b"fvar" in path.read_bytes()[:600]:
        wanted.pin_all_axes_to_default(face)
    for axis, value in axes.items():
        wanted.pin_axis_location(face, axis, value)
    out = io.BytesIO()
    compress(io.BytesIO(hb.subset(face, wanted).blob.data), out)
    return out.getvalue()


def _shown(pages: list[str]) -> set[str]:
    """The distinct characters that pieces of HTML show."""
    return set(html.unescape(re.sub(r"<[^>]*>", "", "".join(pages))))
