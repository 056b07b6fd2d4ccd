"""Ask before the page tells: a number or a choice, kept on the reader's own device.

A prediction costs a second and changes how the next output is read. In a notebook it is a small form, or
``answer=`` where there are no widgets; on the page a native one. Once the page has told, ``predicted`` puts
the two side by side. A prediction is never graded and never leaves the device (:mod:`modelcall.lab.local`).
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from modelcall.lab import args, bundle, local

__all__ = ["predict", "predicted", "shown"]

_QUESTION = re.compile(r"([0-9]+\.[0-9]+) (\S.*)", re.S)
_NUMBER = re.compile(r"[0-9]+\.[0-9]+")
_told: dict[str, Callable[[], None]] = {}  # what shows the answer of a question beside its prediction
Bounds = tuple[float, float] | None


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
        ValueError: a question without a number, fewer than two choices or one twice, choices and bounds, or
            an answer that is none of them.

    >>> predict("1.1 The probability of the pair", between=(0, 1))
    Prediction 1.1. The probability of the pair: call predict(..., answer=...) to keep yours.
    """
    match = _QUESTION.fullmatch(args.text("question", question))
    if match is None:
        raise ValueError(
            f"question: expected a number and words, such as '1.2 How many?'; {args.found(question)}"
        )
    number, words = match.groups()
    options, bounds = _options(choices), _bounds(between)
    if options and bounds:
        raise ValueError(f"between: expected none beside choices; {args.found(between)}")

    def keep(value: object) -> str:
        kept = _answer(value, options, bounds)
        trouble = local.record("predictions", number, lambda _: kept)
        if number in _told:
            _told[number]()
        return f"Kept: {shown(kept)}" + (f" ({trouble})" if trouble else "")

    if answer is not None:
        print(f"Prediction {number}. {keep(answer)}")
        return
    plain = f"Prediction {number}. {words}: call predict(..., answer=...) to keep yours."
    page = _page(number, words, options, bounds)
    bundle.show(page, plain, lambda module: _live(module, number, words, options, bounds, keep))


def predicted(number: str, found: str | float) -> None:
    """Say what the page found for a prediction, beside what its reader said, if that is kept.

    Raises:
        TypeError: ``number`` is no text, or ``found`` neither text nor a number.
        ValueError: ``number`` is none of a prediction, or ``found`` is empty or NaN.

    >>> predicted("1.1", f"{0.5886:.2f}")
    Prediction 1.1: 0.59.
    """
    if not _NUMBER.fullmatch(args.text("number", number)):
        raise ValueError(f"number: expected that of a prediction, such as '1.2'; {args.found(number)}")
    truth = args.text("found", found) if isinstance(found, str) else shown(args.real("found", found))
    if not truth.strip():
        raise ValueError(f"found: expected words or a number; {args.found(found)}")
    plain = f"Prediction {number}: {truth}."

    def told() -> str:
        said = local.progress()["predictions"].get(number)
        return plain if said is None else f"{plain} You said {shown(said)}."

    def live(module: Any) -> Any:
        view = module.HTML(html.escape(told()))

        def again() -> None:
            view.value = html.escape(told())

        _told[number] = again
        return view

    page = f'<p class="predicted" data-key="predict:{number}">{html.escape(plain, quote=False)}</p>'
    bundle.show(page, plain, live, told())


def shown(value: object) -> str:
    """Return a prediction as its reader typed it: every digit, and no more.

    >>> shown(1234567.0), shown(0.1), shown("rises")
    ('1234567', '0.1', 'rises')
    """
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _options(choices: object) -> list[str]:
    if isinstance(choices, str):
        raise TypeError(f"choices: expected a list of texts; {args.found(choices)}")
    members = args.items("choices", choices, empty=True)
    if not members:
        return []
    options = args.texts("choices", members)
    if len(options) < 2 or not all(option.strip() for option in options):
        raise ValueError(f"choices: expected at least two, none of them empty; {args.found(choices)}")
    if len(set(options)) < len(options):
        raise ValueError(f"choices: expected each once; {args.found(choices)}")
    return options


def _bounds(between: object) -> Bounds:
    if between is None:
        return None
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise TypeError(f"between: expected a pair, the least and the most; {args.found(between)}")
    low = args.real("between[0]", between[0], -args.LARGEST, args.LARGEST)
    return low, args.real("between[1]", between[1], low, args.LARGEST)


def _answer(value: object, options: Sequence[str], bounds: Bounds) -> str | float:
    if not options:
        low, high = bounds or (-args.LARGEST, args.LARGEST)
        return args.real("answer", value, low, high)
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"answer: expected one of {', '.join(options)}; {args.found(value)}")
    return value


def _page(number: str, words: str, options: Sequence[str], between: Bounds) -> str:
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
    between: Bounds,
    keep: Callable[[object], str],
) -> Any:
    """A form. The field of a number starts empty, as a number in it would be kept by whoever types none."""
    before = local.progress()["predictions"].get(number)
    if options:
        value = before if isinstance(before, str) and before in options else None
        field = module.RadioButtons(options=list(options), value=value)
    else:
        told = f"from {shown(between[0])} to {shown(between[1])}" if between else "a number"
        value = shown(before) if isinstance(before, int | float) else ""
        field = module.Text(value=value, placeholder=told, layout={"width": "12em"})
    said = "" if before is None else f"Kept before: {html.escape(shown(before))}"
    button, status = module.Button(description="Keep"), module.HTML(said)

    def press(_: object) -> None:
        if options and field.value is None:
            status.value = "Choose one of them first."
            return
        try:
            typed = field.value if options else _number(field.value, field.placeholder)
            status.value = html.escape(keep(typed))
        except (TypeError, ValueError) as error:
            status.value = html.escape(str(error))

    button.on_click(press)
    # A description would share the width of its field, and a long one leaves it none.
    label = module.HTML(html.escape(words))
    return module.VBox([label, field, module.HBox([button, status])])


def _number(text: str, told: str) -> float:
    try:
        if math.isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    wanted = told if told.startswith("a ") else f"a number {told}"
    raise ValueError(f"Expected {wanted}, such as 0.5 or 12; got {text!r}")
