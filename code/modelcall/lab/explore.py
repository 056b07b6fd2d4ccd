"""Turn an input and watch the result: one function for the notebook and for the page that has no kernel.

``explore(fn, temperature=(0.1, 3.0, 0.1))`` calls ``fn`` at every point of the grid that its controls span. A
notebook shows widgets over these results, the built page native controls over the same ones, and a page
without scripts a table of all of them. So what a reader sees was computed by the function on the page, and a
move costs no more than finding a state. The output is the same on every run, and a test of the notebook
compares it.

What is not done here: no state outside the grid, no animation, and no result too large for a page.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import inspect
import io
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt

from modelcall.lab import args, bundle, tables
from modelcall.lab.controls import MAX_STATES, Control, make_control
from modelcall.lab.packing import pack
from modelcall.lab.results import State, state_of

__all__ = ["MAX_BYTES", "MAX_STATES", "explore"]

MAX_BYTES = 150_000  # of one output on a page; a chapter has 600,000 for everything


def explore(
    fn: Callable[..., Any],
    /,
    *,
    say: Callable[..., str] | None = None,
    labels: Mapping[str, str] | None = None,
    **controls: Any,
) -> None:
    """Show the results of ``fn`` under controls that a reader can turn.

    A control is named as the argument of ``fn`` that it sets. ``(start, stop, step)`` or a ``range`` is a
    slider (the triple includes its stop), a list or a dict a choice, a bool a switch. A default of ``fn`` is
    where its control starts. ``fn`` returns a Matplotlib figure, a number, text, Markdown, or several of
    them; what it prints is a result too. ``say`` takes the same arguments and puts a state into words:
    figures need it. ``labels`` names controls for readers.

    Raises:
        TypeError: an argument that ``fn`` does not take, a control of no known form, or a result of none.
        ValueError: no control, more than 400 states or 150,000 bytes, or a figure without words.

    >>> explore(lambda t: f"{2 * t} ms", t=(1, 3, 1))
    t = 1: 2 ms (3 states; run this cell in a notebook, or open the page, to change t)
    """
    made = _controls(fn, say, labels or {}, controls)
    count = math.prod(len(control.values) for control in made)
    if count > MAX_STATES:
        sizes = " × ".join(str(len(control.values)) for control in made)
        raise ValueError(f"explore: {sizes} = {count} states, at most {MAX_STATES}: take larger steps")
    salt = repr([(control.name, control.names) for control in made]) + getattr(fn, "__qualname__", "")
    name = "x" + hashlib.sha256(salt.encode()).hexdigest()[:5] + "-"
    states = [
        _state(fn, say, dict(zip((c.name for c in made), values, strict=True)), name)
        for values in itertools.product(*(control.values for control in made))
    ]
    page = _page(made, states)
    if (size := len(page.encode())) > MAX_BYTES:
        most = f"at most {MAX_BYTES:,}: fewer states, or less in each"
        raise ValueError(f"explore: {count} states take {size:,} bytes, {most}")
    bundle.show(page, _plain(made, states), lambda module: _live(module, made, states), _static(made, states))


def _controls(fn: object, say: object, labels: Mapping[str, str], specs: Mapping[str, Any]) -> list[Control]:
    if not callable(fn):
        raise TypeError(f"fn: expected a function; {args.found(fn)}")
    if say is not None and not callable(say):
        raise TypeError(f"say: expected a function; {args.found(say)}")
    if not specs:
        raise ValueError("explore: expected at least one control, such as temperature=(0.1, 3.0, 0.1)")
    for key, label in args.mapping("labels", labels, str).items():
        args.text(f"labels[{key!r}]", label)
    if unknown := labels.keys() - specs.keys():
        raise ValueError(f"labels: {sorted(unknown)[0]!r} is no control; there are {', '.join(specs)}")
    defaults: dict[str, object] = {}
    for role, function in (("fn", fn), ("say", say)):
        if callable(function):
            try:
                signature = inspect.signature(function)
                signature.bind(**specs)
            except TypeError as error:
                raise TypeError(f"{role}: {error}; its controls are {', '.join(specs)}") from None
            except ValueError:  # a function in C that does not tell
                continue
            if role == "fn":
                defaults = {
                    key: parameter.default
                    for key, parameter in signature.parameters.items()
                    if parameter.default is not parameter.empty
                }
    return [
        make_control(key, spec, labels.get(key, key.replace("_", " ")), defaults.get(key))
        for key, spec in specs.items()
    ]


def _state(
    fn: Callable[..., Any], say: Callable[..., str] | None, values: dict[str, Any], name: str
) -> State:
    before = set(plt.get_fignums())
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            result = fn(**values)
            opened = [number for number in plt.get_fignums() if number not in before]
            if result is None and opened:  # drawn with pyplot and left open
                result = plt.figure(opened[-1])
            words = say(**values) if say else None
        return state_of(result, printed.getvalue(), words, name)
    except Exception as error:
        error.add_note("explore: in the state " + ", ".join(f"{k}={v!r}" for k, v in values.items()))
        raise
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def _start(controls: Sequence[Control]) -> int:
    return _place(controls, [control.start for control in controls])


def _place(controls: Sequence[Control], chosen: Sequence[int]) -> int:
    """The place in the product of what is chosen of each control; the last one counts fastest."""
    place = 0
    for control, at in zip(controls, chosen, strict=True):
        place = place * len(control.values) + at
    return place


def _plain(controls: Sequence[Control], states: Sequence[State]) -> str:
    chosen = ", ".join(f"{control.label} = {control.names[control.start]}" for control in controls)
    turned = ", ".join(control.label for control in controls)
    words = states[_start(controls)].words.rstrip(".")
    count = f"{len(states)} state{'s' * (len(states) != 1)}"
    return f"{chosen}: {words} ({count}; run this cell in a notebook, or open the page, to change {turned})"


def _rows(controls: Sequence[Control], states: Sequence[State]) -> list[list[str]]:
    names = itertools.product(*(control.names for control in controls))
    return [[*row, state.words] for row, state in zip(names, states, strict=True)]


def _static(controls: Sequence[Control], states: Sequence[State]) -> str:
    return tables.markdown_table([*(c.label for c in controls), "result"], _rows(controls, states))


# -- the page ------------------------------------------------------------------------------------------------


def _page(controls: Sequence[Control], states: Sequence[State]) -> str:
    data = {"c": [control.names for control in controls], **pack([state.page for state in states])}
    # Inside a script element only these two could end it or change how it is read.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    packed = packed.replace("</", "<\\/").replace("<!--", "\\u003c!--")
    head = "".join(f'<th scope="col">{html.escape(c.label)}' for c in controls) + '<th scope="col">result'
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell, quote=False)}" for cell in row)
        for row in _rows(controls, states)
    )
    table = f"<table><thead><tr>{head}</thead><tbody>{rows}</tbody></table>"
    return (
        f'<div class="explore"><div class="explore-controls">{"".join(map(_control, controls))}</div>\n'
        f'<div class="explore-result" role="status">{states[_start(controls)].page}</div>\n'
        f'<script type="application/json">{packed}</script>\n'
        "<noscript><style>.explore-controls{display:none}</style>"
        f'<div class="scroll">{table}</div></noscript></div>'
    )


def _control(control: Control) -> str:
    label, names = html.escape(control.label), [html.escape(name) for name in control.names]
    now = names[control.start]
    if control.kind == "slider":
        field = (
            f'<input type="range" autocomplete="off" min="0" max="{len(names) - 1}" '
            f'value="{control.start}" aria-valuetext="{now}">'
        )
        return f'<label>{label} {field}<span class="explore-value" aria-hidden="true">{now}</span></label>'
    if control.kind == "switch":
        checked = " checked" if control.start else ""
        return f'<label><input type="checkbox" autocomplete="off"{checked}> {label}</label>'
    options = "".join(
        f"<option{' selected' * (i == control.start)}>{name}</option>" for i, name in enumerate(names)
    )
    return f'<label>{label} <select autocomplete="off">{options}</select></label>'


# -- the notebook --------------------------------------------------------------------------------------------


def _live(module: Any, controls: Sequence[Control], states: Sequence[State]) -> Any:
    """Widgets over the states. Their result is one HTML widget whose value is replaced, never appended."""
    result = module.HTML(value=states[_start(controls)].live)
    style, layout = {"description_width": "initial"}, {"width": "32em", "max_width": "100%"}
    fields = []
    for control in controls:
        options = [(name, i) for i, name in enumerate(control.names)]
        if control.kind == "switch":
            field = module.Checkbox(value=bool(control.start), description=control.label, indent=False)
        else:
            kind = module.SelectionSlider if control.kind == "slider" else module.Dropdown
            label = control.label  # takes its room from the width, so that a long one leaves little of 300 px
            field = kind(options=options, value=control.start, description=label, style=style, layout=layout)
        fields.append(field)

    def update(_: object) -> None:
        result.value = states[_place(controls, [int(field.value) for field in fields])].live

    for field in fields:
        field.observe(update, names="value")
    return module.VBox([*fields, result])
