"""Type a text and watch a function of it: live in a notebook, the result for a first text everywhere else.

``explore`` runs a function over a grid that is known in advance. What a reader types is not, so only a kernel
can answer; a page shows the function's result for the text that the author chose.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from modelcall.lab import args, bundle
from modelcall.lab.results import State, state_of

__all__ = ["typed"]


def typed(fn: Callable[[str], Any], text: str, label: str = "text") -> None:
    """Show ``fn(text)``, and in a notebook a box in which ``text`` can be edited.

    ``fn`` returns text, a number or Markdown. An error it raises for a text being typed is shown in words.

    Raises:
        TypeError: ``fn`` is no function, ``text`` or ``label`` no string, or the result has no form here.
        ValueError: a text that holds a lone surrogate.

    >>> typed(len, "four")
    text = 'four': 4 (run this cell in a notebook to type another)
    """
    if not callable(fn):
        raise TypeError(f"fn: expected a function; {args.found(fn)}")
    args.text("label", label)
    first = _state(fn, args.text("text", text))
    plain = f"{label} = {text!r}: {first.words} (run this cell in a notebook to type another)"
    page = f'<div class="explore-result">{first.page}</div>'
    bundle.show(page, plain, lambda module: _live(module, fn, text, label, first))


def _state(fn: Callable[[str], Any], text: str) -> State:
    return state_of(fn(text), "", None, "typed-")


def _live(module: Any, fn: Callable[[str], Any], text: str, label: str, first: State) -> Any:
    box = module.Textarea(value=text, description=label, continuous_update=True)
    shown = module.HTML(first.live)

    def change(event: Any) -> None:
        try:
            shown.value = _state(fn, event["new"]).live
        except Exception as error:  # the text is half typed; whatever it breaks, the next letter may mend
            told = str(error) if isinstance(error, TypeError | ValueError) else ""
            shown.value = html.escape(told or f"{type(error).__name__}: {error}".removesuffix(": "))

    box.observe(change, names="value")
    return module.VBox([box, shown])
