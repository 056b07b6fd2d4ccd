"""What The Foundation Model claims about the boundary of a call, made anew for the ledger.

Only what needs more than one call of a chapter's function stands here.
"""

from __future__ import annotations

from modelcall import ch02

__all__ = ["grown_GB_per_s", "outside", "sizes"]


def grown_GB_per_s(vocabulary: int, batch: int) -> dict[str, float]:  # noqa: N802 - GB is the unit's name
    """Return the logit traffic after either of two changes to 128,000 entries and 64 streams, in GB/s.

    >>> grown_GB_per_s(256_000, 256)
    {'vocabulary alone': 1.31072, 'batch alone': 2.62144}
    """

    def traffic(entries: int, streams: int) -> float:
        return ch02.token_bytes(entries) * ch02.tokens_per_s(streams, 40) / 1e9

    return {"vocabulary alone": traffic(vocabulary, 64), "batch alone": traffic(128_000, batch)}


def outside(everywhere: dict[str, int], objectives: dict[str, int]) -> dict[str, int]:
    """Return how often each thing occurs outside the objectives, from two counts.

    >>> outside({"roles": 3}, {"roles": 1})
    {'roles': 2}
    """
    return {name: count - objectives[name] for name, count in everywhere.items()}


def sizes(*lists: list[str]) -> list[int]:
    """Return how many things each list names.

    >>> sizes(["a", "b"], [])
    [2, 0]
    """
    return [len(names) for names in lists]
