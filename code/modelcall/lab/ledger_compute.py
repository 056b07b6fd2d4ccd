"""How a ledger entry is recomputed: a small expression language over functions that the chapters teach.

In TOML an expression is a literal, or a list of expressions, or one of these tables::

    { call = "modelcall.ch01.softmax", args = [...], kwargs = { ... } }   the result of a call
    { name = "modelcall.ch01.TokenScore" }                                something importable
    { input = "logits" }                                                  one of the entry's inputs
    { each = "T", do = ... }      a list: ``do`` once for each element of input T (or of range(T))
    { value = ... }               a literal, for a table that would read as an expression

A table may end with ``pick``, a path of keys, indices and attributes into the result, and with ``round``,
a number of decimals. There are no operators and no variables: what needs them belongs in a chapter.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import reduce
from typing import Any

__all__ = ["evaluate", "plain", "resolve"]


def resolve(path: str) -> Any:
    """Return the object at a dotted path, importing as much of the path as is a module.

    Raises:
        LookupError: nothing importable is there.

    >>> resolve("math.isclose")(1.0, 1.0)
    True
    """
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:length])
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and (module_name + ".").startswith(error.name + "."):
                continue
            raise
        try:
            return reduce(getattr, parts[length:], module)
        except AttributeError as error:
            raise LookupError(f"{path}: {error}") from None
    raise LookupError(f"{path}: no module of that name")


def evaluate(node: Any, inputs: Mapping[str, Any]) -> Any:
    """Return the value of an expression, as Python objects.

    Raises:
        LookupError: a path, an input or a pick that is not there. What the called function raises passes.

    >>> root = {"call": "math.sqrt", "args": [{"input": "x"}], "round": 2}
    >>> evaluate({"each": "x", "do": root}, {"x": [4, 5]})
    [2.0, 2.24]
    """
    if isinstance(node, list):
        return [evaluate(item, inputs) for item in node]
    if not isinstance(node, Mapping):
        return node
    value: Any
    if "call" in node:
        arguments = [evaluate(item, inputs) for item in node.get("args", [])]
        keywords = {key: evaluate(item, inputs) for key, item in node.get("kwargs", {}).items()}
        value = resolve(node["call"])(*arguments, **keywords)
    elif "name" in node:
        value = resolve(node["name"])
    elif "input" in node:
        value = inputs[node["input"]]
    elif "each" in node:
        over = inputs[node["each"]]
        items = range(over) if isinstance(over, int) else over
        value = [evaluate(node["do"], {**inputs, node["each"]: item}) for item in items]
    else:
        value = node["value"]
    for step in node.get("pick", []):
        value = value[step] if isinstance(step, int) or isinstance(value, Mapping) else getattr(value, step)
    return _rounded(plain(value), node["round"]) if "round" in node else value


def plain(value: Any) -> Any:
    """Return a value in the types of TOML: tuples and arrays become lists, keys become strings.

    Raises:
        TypeError: the value has no such form.

    >>> plain({1: (2, 3)})
    {'1': [2, 3]}
    """
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        value = value.tolist()
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    raise TypeError(f"a ledger value is a number, a text, a list or a table; got {type(value).__name__}")


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, list):
        return [_rounded(item, digits) for item in value]
    if isinstance(value, dict):
        return {key: _rounded(item, digits) for key, item in value.items()}
    return value
