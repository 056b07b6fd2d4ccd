"""One output in three forms: live in a notebook, native HTML on the page, words everywhere else.

A cell that lets its reader do something has to work in places that know nothing of each other. The output is
one bundle, from which each place takes the richest form it can show: a widget where a kernel runs, Markdown
with a raw-HTML fence where the book is built, plain text in a terminal. The widget lives as long as its
kernel, so the stored notebook keeps the other two; a reader's keeps Markdown without the page's HTML.

Not done here: no script and no style. Those of the page are ``interact.js`` and ``interact.css``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from modelcall.lab import local

__all__ = ["WIDGET_VIEW", "fence", "show", "show_still", "widgets"]

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def widgets() -> Any:
    """Return the module ``ipywidgets``, or None where it is not installed."""
    try:
        import ipywidgets
    except ImportError:
        return None
    return ipywidgets


def fence(html: str) -> str:
    """Return Markdown that puts ``html`` into a page as it is.

    >>> print(fence("<b>x</b>"))
    ```{=html}
    <b>x</b>
    ```
    """
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", html))])
    return f"{ticks}{{=html}}\n{html}\n{ticks}"


def show(page: str, plain: str, live: Callable[[Any], Any], static: str = "") -> None:
    """Show an output: ``page`` is HTML, ``plain`` text, ``live`` makes the widget from ``ipywidgets``.

    The book's own runs, which keep nobody's progress, store the page. In a reader's notebook stands
    ``static`` instead, Markdown that needs no script (by default ``plain``): it is what the notebook shows on
    a site, exported, or without ``ipywidgets``.
    """
    _show(page, plain, live, static or plain, widget=True)


def show_still(page: str, plain: str, live: Callable[[Any], Any], static: str = "") -> None:
    """Show an output that has nothing to turn: a reader needs no widget, and sees it without a kernel too."""
    _show(page, plain, live, static or plain, widget=local.place() is None)


def _show(page: str, plain: str, live: Callable[[Any], Any], static: str, widget: bool) -> None:
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        print(plain)
        return
    if get_ipython() is None:
        print(plain)
        return
    data: dict[str, Any] = {"text/plain": plain, "text/markdown": static}
    if (module := widgets()) is not None:
        if local.place() is None:
            data["text/markdown"] = fence(page)
        if widget:
            view = live(module)
            data[WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": view.model_id}
    display(data, raw=True)
