"""Counters of the server, in the text format that Prometheus reads (version 0.0.4).

Written by the event loop and by the worker, so every change takes the lock; it is held for an addition.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_HELP: Final = {
    "modelcall_requests_total": ("counter", "Requests answered, by path and status."),
    "modelcall_tokens_total": (
        "counter",
        "Tokens: of prompts, of prompts found in the prefix cache, of replies.",
    ),
    "modelcall_decode_steps_total": (
        "counter",
        "Tokens chosen by the decode loop, whoever still wanted them.",
    ),
    "modelcall_cancelled_total": ("counter", "Replies given up before their end, by reason."),
    "modelcall_requests_running": ("gauge", "Requests that the worker is on."),
    "modelcall_requests_waiting": ("gauge", "Requests in the queue."),
    "modelcall_prefix_cache_bytes": ("gauge", "Bytes of keys and values kept for later prompts."),
    "modelcall_time_to_first_token_seconds": (
        "histogram",
        "From arrival to the first token, queueing included.",
    ),
    "modelcall_time_per_output_token_seconds": (
        "histogram",
        "Mean time of the tokens after the first, by reply.",
    ),
}

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """The numbers.

    >>> metrics = Metrics()
    >>> metrics.add("modelcall_decode_steps_total", 3)
    >>> "modelcall_decode_steps_total 3" in metrics.text().splitlines()
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._seconds: dict[str, list[float]] = {}
        for name, (kind, _) in _HELP.items():
            if kind == "histogram":
                self._seconds[name] = [0.0] * (len(SECONDS_BUCKETS) + 2)  # the buckets, +Inf, the sum
        for name in (
            "modelcall_decode_steps_total",
            "modelcall_requests_running",
            "modelcall_requests_waiting",
        ):
            self._values[name][()] = 0.0

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter or gauge."""
        with self._lock:
            self._values[name][tuple(sorted(labels.items()))] += amount

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[name][()] = value

    def observe(self, name: str, seconds: float) -> None:
        """Count a duration in a histogram."""
        with self._lock:
            row = self._seconds[name]
            row[sum(seconds > bound for bound in SECONDS_BUCKETS)] += 1
            row[-1] += seconds

    def get(self, name: str, **labels: str) -> float:
        """Return the value of a counter or gauge; 0 if it never changed."""
        with self._lock:
            return self._values[name].get(tuple(sorted(labels.items())), 0.0)

    def text(self) -> str:
        """Return everything in the exposition format."""
        lines = []
        with self._lock:
            for name, (kind, help_text) in _HELP.items():
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
                if kind == "histogram":
                    row, total = self._seconds[name], 0.0
                    for bound, count in zip((*map(str, SECONDS_BUCKETS), "+Inf"), row[:-1], strict=True):
                        total += count
                        lines.append(f'{name}_bucket{{le="{bound}"}} {total:g}')
                    lines += [f"{name}_sum {row[-1]!r}", f"{name}_count {total:g}"]
                for labels, value in sorted(self._values[name].items()):
                    inside = ",".join(f'{key}="{text}"' for key, text in labels)
                    number = f"{value:.0f}" if value.is_integer() else repr(value)
                    lines.append(f"{name}{{{inside}}} {number}" if inside else f"{name} {number}")
        return "\n".join(lines) + "\n"
