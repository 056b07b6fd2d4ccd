"""What an explored function may return, made HTML: a figure, a number, words, Markdown, a table, or several.

Of Markdown a small part is known, what a result needs: paragraphs, pipe tables, bullet lists, ``code``,
**strong** and *emphasis*; all else stays as it is written. Figures become SVG with the roles of the book's
palette as CSS variables, so that they follow the page's theme and still have colours where it has none.
"""

from __future__ import annotations

import base64
import html
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from numbers import Integral, Real

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modelcall.lab import args, style

__all__ = ["State", "markdown_html", "page_svg", "state_of", "words_of"]

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class State:
    """One result: HTML for a page, HTML for a widget, and words; ``drawn`` says that it has a figure."""

    page: str
    live: str
    words: str
    drawn: bool = False


def state_of(result: object, printed: str, say: str | None, name: str) -> State:
    """Return the state of what a function returned and printed; ``say`` puts a figure into words.

    Raises:
        TypeError: nothing was returned, drawn or printed, or something that has no form here.
        ValueError: a figure without words, a number too long to write out, or text with a lone surrogate.
    """
    if say is not None:
        args.text("say", say)
    parts = list(result) if isinstance(result, list | tuple) else [] if result is None else [result]
    if printed.strip():
        parts.insert(0, printed.rstrip("\n"))
    if not parts:
        raise TypeError("fn: returned None and printed nothing; expected a figure, number, text or Markdown")
    made = [_one(part, name) for part in parts]
    drawn = any(state.drawn for state in made)
    if drawn and not (say or "").strip():
        raise ValueError("say: expected a function that puts the figure of each state into words")
    tail = f'<p class="explore-say">{_inline(say)}</p>' if say else ""
    words = " ".join(filter(None, [*(state.words for state in made), say and words_of(tail)]))
    page, live = ("".join(getattr(state, form) for state in made) + tail for form in ("page", "live"))
    return State(page, live, words, drawn)


def _one(part: object, name: str) -> State:
    if isinstance(part, Axes):
        part = part.figure
    if isinstance(part, Figure):
        raw = _svg(part)
        plt.close(part)
        data = base64.b64encode(raw.encode()).decode()
        live = f'<img alt="" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'
        return State(f'<div class="drawing">{page_svg(raw, name)}</div>', live, "", True)
    if isinstance(part, bool):
        part = "yes" if part else "no"
    if isinstance(part, Real):
        try:
            part = str(part) if isinstance(part, Integral) else f"{float(part):.4g}"
        except (ValueError, OverflowError):  # some thousand digits, or beyond a float
            raise ValueError(f"fn: expected a number that can be written out; {args.found(part)}") from None
        page = f'<p class="explore-number">{part}</p>'
        return State(page, page, part)
    markdown = getattr(part, "data", None)  # IPython.display.Markdown
    if isinstance(markdown, str) and hasattr(part, "_repr_markdown_"):
        return _text_state(markdown_html(markdown))
    if not isinstance(part, str):
        raise TypeError(f"fn: expected a figure, number, text or Markdown; {args.found(part)}")
    args.text("fn", part)
    if _TABLE.match(part):
        return _text_state(markdown_html(part))
    tag = ("<pre><code>", "</code></pre>") if "\n" in part.strip("\n") else ("<p>", "</p>")
    return _text_state(tag[0] + html.escape(part.strip("\n"), quote=False) + tag[1])


def _text_state(page: str) -> State:
    return State(page, page, words_of(page))


def words_of(page: str) -> str:
    """Return the text of HTML on one line.

    >>> words_of("<p>1 &lt; 2</p><p>yes</p>")
    '1 < 2 yes'
    """
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


# -- Markdown ------------------------------------------------------------------------------------------------

_TABLE = re.compile(r"\|.*\|\s*\n\|(?:\s*:?-+:?\s*\|)+")


def markdown_html(text: str) -> str:
    """Return the HTML of the small Markdown that results are written in.

    >>> markdown_html("**top** takes `0.97`")
    '<p><strong>top</strong> takes <code>0.97</code></p>'
    """
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.strip().splitlines()]
        if _TABLE.match(block.strip()):
            head, rows = _cells(lines[0], "th"), "".join(_cells(line, "td") for line in lines[2:])
            blocks.append(
                f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
            )
        elif lines and all(re.match(r"[-*] ", line) for line in lines):
            blocks.append("<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>")
        else:
            blocks.append(f"<p>{_inline(' '.join(lines))}</p>")
    return "".join(blocks)


def _cells(line: str, tag: str) -> str:
    cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
    scope = ' scope="col"' if tag == "th" else ""
    shown = (f"<{tag}{scope}>{_inline(c.strip().replace(chr(92) + '|', '|'))}</{tag}>" for c in cells)
    return f"<tr>{''.join(shown)}</tr>"


def _inline(text: str | None) -> str:
    pieces = re.split(r"(`[^`]+`)", text or "")
    for i, piece in enumerate(pieces):
        safe = html.escape(piece, quote=False)
        if i % 2:
            pieces[i] = f"<code>{safe[1:-1]}</code>"
        else:
            safe = re.sub(r"\*\*(\S(?:.*?\S)?)\*\*", r"<strong>\1</strong>", safe)
            pieces[i] = re.sub(r"(?<![*\w])\*(\S(?:[^*]*\S)?)\*(?![*\w])", r"<em>\1</em>", safe)
    return "".join(pieces)


# -- figures -------------------------------------------------------------------------------------------------


def _svg(figure: Figure) -> str:
    stream = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "modelcall"}):
        figure.savefig(stream, format="svg", metadata=metadata, facecolor=style.color("paper"))
    return stream.getvalue()


def page_svg(text: str, prefix: str) -> str:
    """Return Matplotlib's SVG as an element of a page: small, with the page's font and its own ids.

    Hidden from screen readers, as the words beside it say what it shows.
    """
    root = ET.fromstring(re.sub(r"<!DOCTYPE.*?>", "", text, count=1, flags=re.S))
    roles = {light: role for role, (light, _) in style.PALETTE.items()}
    colour = re.compile("|".join(roles), re.I)
    used = dict.fromkeys(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", text))
    ids = {old: f"{prefix}{number}" for number, old in enumerate(used)}
    shown: dict[str, str] = {}

    def variable(match: re.Match[str]) -> str:
        light = match[0].lower()
        shown[roles[light]] = light
        return f"var(--{roles[light]})"

    for parent in root.iter():
        for child in list(parent):
            if child.tag.rsplit("}", 1)[-1] in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        leaf = element.tag.rsplit("}", 1)[-1] in ("text", "tspan")
        element.text = element.text if leaf else None
        for child in element:
            child.tail = None if not leaf else child.tail
        attributes = dict(element.attrib)
        element.attrib.clear()
        for key, value in attributes.items():
            if key == "id":
                if value in ids:
                    element.attrib["id"] = ids[value]
                continue
            if key == _HREF:
                key, value = "href", "#" + ids.get(value[1:], "")
            value = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{ids[m[1]]})", value)
            if key in _LENGTHS:
                value = _short(value)
            elif key == "style":
                value = _style(value)
            if value:
                element.attrib[key] = colour.sub(variable, value)
    width = float(re.sub(r"[^\d.]", "", root.attrib.pop("width", "")) or 0)
    for key in ("height", "version"):
        root.attrib.pop(key, None)
    # What most elements share is inherited from the root, and each role is named once.
    palette = "".join(f"--{role}:var(--fig-{role},{light});" for role, light in shown.items())
    root.attrib |= {
        "class": "figure-svg",
        "aria-hidden": "true",
        "style": f"--natural:{width / 0.75:.0f}px;{palette}{_SHARED}",
    }
    ET.register_namespace("", _SVG)
    return ET.tostring(_lifted(root), encoding="unicode", short_empty_elements=True).replace(" />", "/>")


_LENGTHS = {"d", "x", "y", "cx", "cy", "r", "x1", "x2", "y1", "y2", "points", "transform", "width", "height"}
_SHARED = "font:10px var(--sans,sans-serif);stroke-width:.8;stroke-linejoin:round"


def _short(value: str) -> str:
    """Coordinates to a tenth of a point, finer than any screen; a scale is a factor and keeps its places."""
    if not re.search(r"scale|matrix", value):
        value = re.sub(r"-?\d*\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), value)
    value = re.sub(r" ?([MLCQZzH]) ?", r"\1", " ".join(value.split()))
    return "" if value.startswith("rotate(-0 ") or value.startswith("rotate(0 ") else value


def _style(value: str) -> str:
    """A style without what the root says already."""
    kept = []
    for item in value.split(";"):
        key, _, setting = (part.strip() for part in item.partition(":"))
        if key == "font":
            key, setting = "font-size", (re.findall(r"[\d.]+px", setting) or ["10px"])[0]
        said = {
            "font-family": setting,
            "font-size": "10px",
            "stroke-width": "0.8",
            "stroke-linejoin": "miter",
        }
        if setting and said.get(key) != setting and (key, setting) != ("text-anchor", "start"):
            kept.append(f"{key}:{setting}")
    return ";".join(kept)


def _lifted(element: ET.Element) -> ET.Element:
    """Take out groups that say nothing: half of a figure's elements are such."""
    kept: list[ET.Element] = []
    for child in element:
        _lifted(child)
        if child.tag == f"{{{_SVG}}}g" and not child.attrib:
            kept += list(child)
        elif not (child.tag in (f"{{{_SVG}}}g", f"{{{_SVG}}}defs") and not len(child)):
            kept.append(child)
    element[:] = kept
    return element
