"""A demanding sample book: one that uses every construct the renderer supports, written to any folder.

``write(folder)`` makes the book; ``markdown`` and ``code`` make cells, so that a test can also write a page
of its own with ``notebook``.
"""

# ruff: noqa: E501 - the lines of the pages are theirs

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
Output = dict[str, Any]

# What Matplotlib writes, in small: prolog, doctype, metadata, clip paths, references, and palette colours.
SVG = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="475.2pt" height="180pt" viewBox="0 0 475.2 180" xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>
 <g id="figure_1">
  <path d="M 0 180 L 475.2 180 L 475.2 0 L 0 0 z" style="fill: #fdfdfb"/>
  <defs><path id="m1" d="M 0 0 L 0 3.5" style="stroke: #66707c; stroke-width: 0.8"/></defs>
  <use xlink:href="#m1" x="60" y="150" style="fill: #66707c; stroke: #66707c"/>
  <path d="M 60 150 L 420 150" style="stroke: #dfe2e6"/>
  <path d="M 60 140 C 160 30 260 30 420 120" clip-path="url(#p1)" style="fill: none; stroke: #1b4965; stroke-width: 1.8"/>
  <path d="M 60 100 C 160 130 260 60 420 40" clip-path="url(#p1)" style="fill: none; stroke: #B5442E; stroke-width: 1.8"/>
  <text style="font-size: 10px; font-family: 'DejaVu Sans', sans-serif; text-anchor: middle; fill: #1f2933" x="240" y="170">step</text>
  <text style="font: 10px 'DejaVu Sans', sans-serif; fill: #1f2933" x="60" y="20">T = 0.7</text>
 </g>
 <defs><clipPath id="p1"><rect x="60" y="10" width="360" height="140"/></clipPath></defs>
</svg>
"""


def png(width: int = 40, height: int = 20, grey: int = 120) -> bytes:
    """A one-colour PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + bytes([grey]) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def markdown(text: str) -> Cell:
    return {"cell_type": "markdown", "id": "", "metadata": {}, "source": text}


def code(text: str, *outputs: Output, count: int | None = 1, tags: list[str] | None = None) -> Cell:
    metadata = {"tags": tags} if tags else {}
    return {
        "cell_type": "code",
        "id": "",
        "metadata": metadata,
        "execution_count": count,
        "source": text,
        "outputs": list(outputs),
    }


def stream(text: str, name: str = "stdout") -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def shown(**data: str) -> Output:
    """A display_data output; keyword names spell MIME types (``text_markdown``, ``image_svg``)."""
    names = {
        "text_markdown": "text/markdown",
        "text_plain": "text/plain",
        "text_html": "text/html",
        "image_svg": "image/svg+xml",
        "image_png": "image/png",
    }
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {names.get(k, k): v for k, v in data.items()},
    }


def figure(svg: str = SVG) -> Output:
    return shown(image_svg=svg, text_plain="<Figure size 660x340 with 1 Axes>")


def notebook(path: Path, *cells: Cell, metadata: dict[str, Any] | None = None) -> None:
    numbered = [cell | {"id": f"c{i}"} for i, cell in enumerate(cells)]
    document = {"cells": numbered, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


CONFIG = """\
project:
  type: book
  output-dir: _book
book:
  title: "A Sample"
  subtitle: "Every construct, once"
  author: "Nobody"
  chapters:
    - index.md
    - part: "First part"
      chapters:
        - chapters/one.ipynb
        - chapters/two.ipynb
    - references.md
  appendices:
    - chapters/notation.ipynb
bibliography: references.bib
lang: en
execute:
  enabled: false
format:
  html:
    toc: true
    toc-depth: 3
    number-sections: true
    html-math-method: mathml
"""

BIBLIOGRAPHY = """\
@article{knuth84, author = {Knuth, Donald E.}, title = {Literate Programming}, journal = {The Computer Journal},
  year = {1984}, volume = {27}, number = {2}, pages = {97--111}}
@article{doe20x, author = {Doe, Jane}, title = {A First Result}, journal = {Journal}, year = {2020}}
@article{doe20y, author = {Doe, Jane}, title = {Beyond the First Result}, journal = {Journal}, year = {2020}}
@book{unused, author = {Never, Cited}, title = {Unused}, publisher = {P}, year = {1999}}
"""

INDEX = """\
# A sample {#sec-index .unnumbered}

Start with @sec-one, look at @fig-curve, or read about `code` in @sec-two. [Its first section](chapters/one.ipynb#sec-inline).

## Unnumbered here {#sec-plain .unnumbered}

See @knuth84, and [@doe20y].
"""

ONE_PROSE = """\
# One call, and its *record* {#sec-one}

An opening paragraph with *emphasis*, **weight**, `inline_code()`, a [link](https://example.org/a?b=c&d=e), an
autolink <https://example.org>, H~2~O, x^2^, ~~struck~~, “quotes” -- and an ellipsis... It cites [@doe20x, p. 3; @knuth84] and says @doe20y
in passing. A note[^n] follows.[A margin note with $e^x$ and `code`, as long as a curious reader wants it to be.]{.aside}

[^n]: The note has **two** words in bold and a formula, $a_i \\le b$.

## Inline things {#sec-inline}

- A list item
- Another, with @eq-chain

1. First
2. Second

   A second paragraph of it.

Term
:   Its definition.

> A quotation that goes on for a while, so that its line breaks somewhere on a phone.

The product is

$$
P(y \\mid x) = \\prod_{t=1}^{T} p_\\theta(y_t \\mid x, y_{<t})
$$ {#eq-chain}

where each factor is a softmax, @eq-softmax:

$$p_i = \\frac{\\exp(z_i / T)}{\\sum_{j=1}^{V} \\exp(z_j / T)}, \\qquad \\tfrac12 \\left( \\frac{\\frac{a}{b} + c}{1 + \\sqrt{\\frac{x}{y}}} \\right)^{\\!2}$$ {#eq-softmax}

and an aligned display without a number:

$$
\\begin{aligned}
\\text{cost} &= n_\\text{in} c_\\text{in} + n_\\text{out} c_\\text{out} \\\\
             &= \\begin{cases} 0 & \\text{if } n = 0 \\\\ \\lfloor n/2 \\rfloor & \\text{otherwise} \\end{cases}
             \\quad \\mathbf{A} = \\begin{bmatrix} 1 & 0 \\\\ 0 & 1 \\end{bmatrix}
\\end{aligned}
$$

### A third level {#sec-third}

Text between.

## Boxes {#sec-boxes}

::: {.callout-note title="What you *can* do"}
1. Refer to @tbl-prices.
2. Nest:

   ::: {.callout-tip}
   A tip inside.
   :::
:::

::: {.callout-warning}
## A heading as `title`
Body.
:::

::: {.callout-important collapse="true" title="Folded"}
Hidden until opened, with an id inside: [x]{#inside-fold}.
:::

::: {#cau-care .callout-caution title="With care"}
A numbered box, @cau-care.
:::

::: {#def-call name="Model call"}
One request and its answer.
:::

::: {#thm-sum}
## Sums
Probabilities sum to one, by @eq-softmax.
:::

::: {.proof}
Divide.
:::

::: {#exr-first}
Show it. See @thm-sum and @def-call.
:::

::: {.callout-tip collapse="true" title="Solution" .solution-box}
"""

ONE_AFTER = """\
:::

::: {.column-margin}
A margin block with a list:

- one
- two
:::

::: {.column-margin .erratum}
**Erratum.** It says 0.50; the sum is 0.52.
:::

::: {.predict}
**Predict.** Which is larger, $a$ or $b$?
:::

::: {.checkpoint}
**Checkpoint.** Why is it the larger one?

::: {.callout-tip collapse="true" title="Answer"}
Because of @eq-chain.
:::
:::

::: {.panel-tabset group="os"}

## Linux

`make book`

## macOS

The same.

:::

## Tables and images {#sec-tables}

| Model | Input | Output |
|:------|------:|:------:|
| small | 0.15 | 0.60 |
| large | 2.50 | 10.00 |

: Prices in dollars per million tokens. {#tbl-prices}

| a wide | table | that | does | not | fit | on | a | phone | because | of its | many | columns |
|--|--|--|--|--|--|--|--|--|--|--|--|--|
| `some_identifier` | `some_identifier` | `some_identifier` | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 |

![A grey image.](images/grey.png){#fig-image fig-alt="A grey rectangle" width=50%}

::: {#fig-pair layout-ncol=2}

![Left](images/grey.png){#fig-pair-left fig-alt="Left rectangle"}

![Right](images/drawing.svg){#fig-pair-right fig-alt="Two curves"}

Two images.
:::

As @fig-pair-left and [@fig-pair-right; @fig-image] show; [-@fig-pair] bare; [Fig. @fig-image] with a word of its own.

```{#lst-hello .python lst-cap="A *listing*" filename="hello.py"}
print("hello")
```

See @lst-hello. A bare fence:

```bash
make book   # builds the site, and this comment makes the line long enough to scroll sideways on any phone there is
```
"""

TABLE = """\
| Calls $n$ | cost |
|----:|-----:|
| 1 | 0.25 |
| 2 | 0.50 |
"""

TABSET = """\
```{=html}
<p class="from-cell">Markup <b>from</b> a cell.</p>
```
"""

TWICE = '''\
def twice(x: float) -> float:
    """Return ``x`` two times.

    Raises:
        TypeError: ``x`` is no number.

    >>> twice(2)
    4
    """
    return 2 * x
'''


def one() -> list[Cell]:
    return [
        markdown(ONE_PROSE),
        code("#| label: fold-me\nprint(6 * 7)  # inside the folded box", stream("42\n")),
        markdown(ONE_AFTER),
        code("# @save\ndef f(x: int) -> str:\n    return f'{x:>3}'", count=2),
        code(
            '#| label: fig-curve\n#| fig-cap: "Which curve is *flatter*, and where is $T = 0.7$?"\n'
            "#| fig-alt: Two curves over steps\nprint('drawn')\nplot()",
            stream("drawn\n"),
            figure(),
            count=3,
        ),
        code(
            "#| label: fig-both\n#| fig-cap: Two at once.\n#| fig-subcap:\n#|   - First\n#|   - Second\n"
            '#| fig-alt: ["First curve", "Second curve"]\n#| layout-ncol: 2\n#| echo: false\nplot(); plot()',
            figure(),
            figure(),
            count=4,
        ),
        code(
            "#| label: tbl-cost\n#| tbl-cap: Costs by $n$.\n#| code-fold: true\n#| code-summary: Show the code\ntable()",
            shown(text_markdown=TABLE, text_plain="<table>"),
            count=5,
        ),
        code(
            "#| fig-alt: A grey box\nimage()",
            shown(image_png=base64.b64encode(png()).decode(), text_plain="<Image>"),
            {
                "output_type": "execute_result",
                "metadata": {},
                "execution_count": 6,
                "data": {"text/plain": "'a <b> & c'"},
            },
            count=6,
        ),
        code(
            "#| output: asis\nprint('**bold** and @fig-curve')", stream("**bold** and @fig-curve\n"), count=7
        ),
        code("show()", shown(text_markdown=TABSET), count=8),
        code(
            "warn()",
            stream("careful\n", "stderr"),
            stream("\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[0m\n"),
            count=9,
        ),
        code("#| warning: false\nwarn()", stream("not shown\n", "stderr"), count=10),
        code("#| output: false\nprint('not shown')", stream("not shown\n"), count=11),
        code("#| include: false\nprint('not shown')", stream("not shown\n"), count=12),
        code("#| eval: false\nrequests.post(url)", count=None),
        code(
            "1 / 0",
            {
                "output_type": "error",
                "ename": "ZeroDivisionError",
                "evalue": "division by zero",
                "traceback": ["\x1b[31mZeroDivisionError\x1b[0m: division by zero"],
            },
            count=13,
            tags=["raises-exception"],
        ),
        code("print('```')\nprint(':::')", stream("```\n:::\n"), count=14),
        code(
            "#| lst-label: lst-cell\n#| lst-cap: A cell as a *listing*\nx = 1",
            count=15,
        ),
        code(TWICE, count=16),
        markdown("And @fig-both-1, @Tbl-cost, @lst-cell. [A cell](#fold-me)."),
    ]


TWO = """\
# Two {#sec-two}

## Across pages {#sec-across}

@fig-curve, @tbl-prices, @eq-chain, @sec-inline, @sec-one, @exr-first, @fig-pair-left and @sec-app, @sec-app-sub.
[The first page](one.ipynb#sec-inline), [the entry](notation.ipynb#B-20tok).

$$a = b$$ {#eq-two}

{{< include _shared.md >}}

## Not numbered {.unnumbered}

## Numbered again

See @eq-two.
"""

APPENDIX = """\
# Notation {#sec-app}

## Symbols {#sec-app-sub}

[]{#B-20tok}An entry. $$x$$ {#eq-app} See @eq-app.
"""


def write(root: Path) -> Path:
    """Write the sample book into ``root`` and return it."""
    files = {
        "_quarto.yml": CONFIG,
        "references.bib": BIBLIOGRAPHY,
        "index.md": INDEX,
        "references.md": "# References {#sec-references .unnumbered}\n\n::: {#refs}\n:::\n",
        "chapters/_shared.md": "Shared text, included.\n",
        "chapters/images/drawing.svg": SVG,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "chapters/images/grey.png").write_bytes(png(300, 120))
    run = {
        "date": "2026-11-29",
        "python": "3.11.7",
        "packages": {"numpy": "2.4.0"},
        "seconds": 3.2,
        "machine": "x86_64, 2 cores",
    }
    notebook(root / "chapters/one.ipynb", *one(), metadata={"modelcall": {"last_run": run}})
    notebook(root / "chapters/two.ipynb", markdown(TWO))
    notebook(root / "chapters/notation.ipynb", markdown(APPENDIX))
    return root
