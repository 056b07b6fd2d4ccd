"""Ask before the page tells: a number or a choice, kept on the reader's own device.

A prediction costs a second and changes how the next output is read. In a notebook it is a small form, or
``answer=`` where there are no widgets; on the page a native one. It is never graded and never leaves the
device (:mod:`modelcall.lab.local`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from modelcall.lab import args, bundle, local

__all__ = ["predict"]

_QUESTION = re.compile(r"(\d+\.\d+) (\S.*)", re.S)


def predict(
    question: str,
    choices: Sequence[str] = (),
    *,
    between: tuple[float, float] | None = None,
    answer: object = None,
) -> None:
    """Ask for a number, or for one of ``choices``; ``question`` starts with its number, such as "1.2 ...".

    ``between`` bounds a number, both ends included. ``answer`` keeps a prediction without a form.

    Raises:
        TypeError: an argument of another type, or an answer that is no number where one is asked.
        ValueError: a question without a number, fewer than two choices, or an answer that is none of them.

    >>> predict("1.1 The probability of the pair", between=(0, 1))
    Prediction 1.1. The probability of the pair: call predict(..., answer=...) to keep yours.
    """
    match = _QUESTION.fullmatch(args.text("question", question))
    if match is None:
        raise ValueError(
            f"question: expected a number and words, such as '1.2 How many?'; {args.found(question)}"
        )
    number, words = match.groups()
    if isinstance(choices, str):
        raise TypeError(f"choices: expected a list of texts; {args.found(choices)}")
    options = args.texts("choices", choices) if choices else []
    if choices and len(set(options)) < 2:
        raise ValueError(f"choices: expected at least two; {args.found(choices)}")
    low, high = between if between is not None else (-args.LARGEST, args.LARGEST)
    args.real("between[0]", low, -args.LARGEST, args.LARGEST)
    args.real("between[1]", high, low, args.LARGEST)

    def keep(value: object) -> str:
        if options and value not in options:
            raise ValueError(f"answer: expected one of {', '.join(options)}; {args.found(value)}")
        kept = value if options else args.real("answer", value, low, high)
        trouble = local.record("predictions", number, lambda _: kept)
        return f"Kept: {kept if options else f'{kept:g}'}" + (f" ({trouble})" if trouble else "")

    if answer is not None:
        print(f"Prediction {number}. {keep(answer)}")
        return
    plain = f"Prediction {number}. {words}: call predict(..., answer=...) to keep yours."
    bounds = between if between is None else (low, high)
    page = _page(number, words, options, bounds)
    bundle.show(page, plain, lambda module: _live(module, number, words, options, bounds, keep))


def _page(number: str, words: str, options: Sequence[str], between: tuple[float, float] | None) -> str:
    ident, label = "predict-" + number.replace(".", "-"), html.escape(words, quote=False)
    if options:
        radios = "".join(
            f'<label><input type="radio" name="value" value="{html.escape(option)}" required>'
            f"{html.escape(option, quote=False)}</label>"
            for option in options
        )
        field = f"<fieldset><legend>{label}</legend>{radios}</fieldset>"
    else:
        ends = "" if between is None else f' min="{between[0]:g}" max="{between[1]:g}"'
        kind = 'type="number" name="value" step="any" inputmode="decimal"'
        field = f"<label>{label} <input {kind}{ends} required></label>"
    return (
        f'<form class="prediction" id="{ident}" data-key="predict:{number}" autocomplete="off">{field}'
        '<button type="submit">Keep</button><span role="status"></span></form>'
        "<noscript><style>.prediction{display:none}</style></noscript>"
    )


def _live(
    module: Any,
    number: str,
    words: str,
    options: Sequence[str],
    between: tuple[float, float] | None,
    keep: Any,
) -> Any:
    before = local.progress()["predictions"].get(number)
    style = {"description_width": "initial"}
    if options:
        value = before if before in options else None
        field = module.RadioButtons(options=list(options), value=value, description=words, style=style)
    else:
        value = float(before) if isinstance(before, int | float) else (between[0] if between else 0.0)
        field = module.FloatText(value=value, description=words, style=style)
    button, status = module.Button(description="Keep"), module.HTML("" if before is None else "Kept before.")

    def press(_: object) -> None:
        try:
            status.value = html.escape(keep(field.value))
        except (TypeError, ValueError) as error:
            status.value = html.escape(str(error))

    button.on_click(press)
    return module.VBox([field, module.HBox([button, status])])
