"""The exercises of chapter 2: paths, statuses, a link, a move and a grant.

Each test runs an answer on fixed and on drawn cases, compares with a rule of its own or of the chapter, and
before it reports two values that differ, asks whether a known misconception gives just these answers.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Sequence
from typing import Any

from modelcall import ch02
from modelcall.checks.grading import Answer, Wrong, close, exercise, number

Case = tuple[Any, ...]
Rule = Callable[..., Any]


def _agree(
    answer: Answer, cases: Sequence[Case], rule: Rule, mistakes: Sequence[tuple[Rule, str]], kind: type
) -> None:
    """Compare an answer with the rule on all cases; name the mistake that gives the same wrong results."""
    got = []
    for case in cases:
        value = answer(*case)
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            value = value.item()
        if not isinstance(value, kind):
            raise Wrong(f"{answer.shown(*case)} returns {value!r}; expected {_kinds[kind]}")
        got.append(value)
    want = [rule(*case) for case in cases]
    if got == want:
        return
    for mistake, why in mistakes:
        if got == [mistake(*case) for case in cases]:
            raise Wrong(f"{answer.name}: {why}")
    at = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b)
    raise Wrong(f"{answer.shown(*cases[at])} returns {got[at]!r}; expected {want[at]!r}")


_kinds = {bool: "True or False", str: "the name of a status"}


# -- 2.1 -----------------------------------------------------------------------------------------------------


def _lies_beneath(folder: str, path: str) -> bool:
    return posixpath.normpath(posixpath.join(folder, path)).startswith(folder + "/")


_BENEATH = [
    (lambda folder, path: True, "it lets every path through"),
    (lambda folder, path: False, "it lets no path through"),
    (
        lambda folder, path: posixpath.join(folder, path).startswith(folder + "/"),
        "the path is not normalised: 'notes/../../keys' begins like the folder and leaves it",
    ),
    (
        lambda folder, path: posixpath.normpath(posixpath.join(folder, path)).startswith(folder),
        "a prefix is not a parent: '/srv/notes-old' begins with '/srv/notes'; compare whole parts",
    ),
    (
        lambda folder, path: ".." not in path and not path.startswith("/"),
        "a name such as '..rc' leads nowhere, and an absolute path can lie beneath the folder: normalise, "
        "then compare",
    ),
    (
        lambda folder, path: ".." not in path.split("/") and not path.startswith("/"),
        "'a/../b' stays inside, and so can an absolute path: the question is where the path ends",
    ),
    (
        lambda folder, path: (
            _lies_beneath(folder, path) or posixpath.normpath(posixpath.join(folder, path)) == folder
        ),
        "the folder itself is not beneath itself",
    ),
    (
        lambda folder, path: _lies_beneath(folder, path.lstrip("/")),
        "an absolute path replaces the folder when the two are joined; without its slash it is another path "
        "than the one that will be opened",
    ),
]


@exercise(
    "2.1",
    "Mend the prefix check",
    "lies_beneath",
    [
        "Where does the path end up, once every '..' has been followed?",
        "`posixpath.normpath(posixpath.join(folder, path))` says where. Then compare whole parts.",
        'The result must start with `folder + "/"`, slash included.',
    ],
)
def exercise_2_1(answer: Answer, rng: random.Random) -> None:
    paths = ["a.txt", "a/b.txt", "../keys", "a/../../keys", "a/../b.txt", "/etc/passwd", "..rc", "a/..b/c"]
    paths += ["../notes-old/a", "/srv/notes/a", "/srv/notes-old/a", "/srv/notes/../keys", ".", "a/..", "./a"]
    paths += ["../notes/a", "//etc", "a//b", "../../srv/notes/x/y"]
    for _ in range(60):
        parts = rng.choices(["a", "b", "..", ".", "notes", "..c"], k=rng.randint(1, 6))
        paths.append("/".join(parts))
    cases = [("/srv/notes", path) for path in paths]
    _agree(answer, cases, _lies_beneath, _BENEATH, bool)


# -- 2.2 -----------------------------------------------------------------------------------------------------

_REASONS = {
    "stop": "COMPLETED",
    "tool_calls": "COMPLETED",
    "length": "TRUNCATED",
    "content_filter": "REFUSED",
}


def _status(http_status: int | None, finish: str | None) -> str:
    body = b'{"choices": [{"message": {"content": ""}, "finish_reason": %s}]}'
    word = b"null" if finish is None else b'"' + finish.encode() + b'"'
    return ch02.normalise(http_status, body % word).status.name


def _only_finish(http_status: int | None, finish: str | None) -> str:
    return _REASONS.get(finish or "", "TRANSPORT_FAILURE")


_STATUSES = [
    (
        lambda code, finish: "COMPLETED" if code == 200 else "TRANSPORT_FAILURE",
        "this is the delivery fallacy: 200 says that bytes arrived, and the finish reason is not looked at",
    ),
    (
        _only_finish,
        "the HTTP status is not looked at; what a 503 carries is no completion, whatever stands in it",
    ),
    (
        lambda code, finish: _REASONS.get(finish or "", "COMPLETED") if code == 200 else "TRANSPORT_FAILURE",
        "a reason that nobody knows, or none, passes as COMPLETED; what is not known as good must not pass",
    ),
    (
        lambda code, finish: _REASONS.get(finish or "", "TRUNCATED") if code == 200 else "TRANSPORT_FAILURE",
        "without a known reason nobody knows that a limit was hit: that is no TRUNCATED",
    ),
    (
        lambda code, finish: {"TRUNCATED": "COMPLETED"}.get(_status(code, finish), _status(code, finish)),
        "a reply that ran into its cap is not complete: 'length' is TRUNCATED",
    ),
    (
        lambda code, finish: {"REFUSED": "COMPLETED"}.get(_status(code, finish), _status(code, finish)),
        "'content_filter' is REFUSED: a filter withheld the text",
    ),
    (
        lambda code, finish: "TRANSPORT_FAILURE" if finish == "tool_calls" else _status(code, finish),
        "'tool_calls' is an orderly end too",
    ),
]


@exercise(
    "2.2",
    "Read the status",
    "status_name",
    [
        "Which of the two arguments can only say no?",
        "First the HTTP status: anything but 200, also None, is a transport failure. Then the reason.",
        "A dict from the four known reasons, with `TRANSPORT_FAILURE` for all others.",
    ],
)
def exercise_2_2(answer: Answer, rng: random.Random) -> None:
    reasons: list[str | None] = [*_REASONS, None, "", "pause", "STOP", "error"]
    codes: list[int | None] = [200, 200, None, 201, 204, 400, 429, 500, 503]
    cases = [(code, reason) for code in codes for reason in reasons]
    _agree(answer, rng.sample(cases, len(cases)), _status, _STATUSES, str)


# -- 2.3 -----------------------------------------------------------------------------------------------------


def _percent(vocabulary: int, batch: int, rate: float, generation: int) -> float:
    stream = ch02.token_bytes(vocabulary) * ch02.tokens_per_s(batch, rate)
    return 100 * ch02.link_share(stream, ch02.pcie_bytes_per_s(generation))


_SCALES = [
    (0.01, "the result is a share; expected percent"),
    (0.5, "a logit of 16 bits takes two bytes, not one"),
    (2.0, "the logits have 16 bits, so two bytes each, not four"),
    (0.125, "transfers carry bits: eight of them make a byte, so the link is eight times slower than that"),
    (8.0, "both the stream and the link are in bytes: one factor of eight is too many"),
    (16.0, "this is one lane; the link has 16"),
    (1000**3 / 1024**3, "the link is in GiB; its rate is quoted in GB, in powers of ten"),
]


@exercise(
    "2.3",
    "Fill a link",
    "link_percent",
    [
        "How many bytes does one token's score vector take, and how many tokens a second are there?",
        "`token_bytes(vocabulary) * tokens_per_s(batch, rate)` is the stream, `pcie_bytes_per_s` the link.",
        "`100 * link_share(stream, pcie_bytes_per_s(generation))`",
    ],
)
def exercise_2_3(answer: Answer, rng: random.Random) -> None:
    cases: list[tuple[int, int, float, int]] = [(128_000, 64, 40.0, 4), (256_000, 256, 40.0, 6)]
    for _ in range(20):
        vocabulary = 1000 * rng.randint(30, 260)
        cases.append((vocabulary, rng.randint(1, 512), rng.uniform(1, 90), rng.choice(list(ch02.PCIE))))
    got = [number(answer(*case), f"{answer.shown(*case)}: the result") for case in cases]
    want = [_percent(*case) for case in cases]
    if all(map(close, got, want)):
        return
    for scale, why in _SCALES:
        if all(close(have, scale * right, 1e-6) for have, right in zip(got, want, strict=True)):
            raise Wrong(f"link_percent: {why}")
    raw = [w * ch02.PCIE[case[3]][1] for w, case in zip(want, cases, strict=True)]
    if all(map(close, got, raw)):
        raise Wrong("link_percent: the line code is missing: of 130 bits on the wire, 128 are data")
    early = [w * ch02.PCIE[case[3]][1] / (128 / 130) for w, case in zip(want, cases, strict=True)]
    if all(map(close, got, early)):
        raise Wrong("link_percent: generation 6 is coded otherwise: 242 of 256 bytes are data")
    ids = [100 * 4 * b * r / ch02.pcie_bytes_per_s(g) for _, b, r, g in cases]
    if all(map(close, got, ids)):
        raise Wrong("link_percent: this is the traffic of the ids; the question is about all scores")
    at = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if not close(a, b))
    raise Wrong(f"{answer.shown(*cases[at])} returns {got[at]:.6g}; expected {want[at]:.6g}")


# -- 2.4 -----------------------------------------------------------------------------------------------------


def _as_asked(before: ch02.Stock, after: ch02.Stock, move: tuple[str, str, str, int]) -> bool:
    return after == ch02.Move(*move).applied(before)


def _total(stock: ch02.Stock) -> int:
    return sum(stock.values())


def _changes(before: ch02.Stock, after: ch02.Stock, move: tuple[str, str, str, int]) -> list[int]:
    item, source, target, _ = move
    return [after[item, place] - before[item, place] for place in (source, target)]


def _keeps(before: ch02.Stock, after: ch02.Stock) -> bool:
    return all(
        sum(n for (i, _), n in before.items() if i == item)
        == sum(n for (i, _), n in after.items() if i == item)
        for item, _ in before
    )


_SOUND = [
    (lambda before, after, move: True, "it finds everything in order"),
    (
        lambda before, after, move: before != after,
        "that something changed does not show that the right thing did",
    ),
    (
        lambda before, after, move: _total(before) == _total(after),
        "the grand total is a weak invariant: a valve may have become a gasket",
    ),
    (
        lambda before, after, move: _keeps(before, after),
        "the invariant holds and the task may still be undone: compare with what was asked for",
    ),
    (
        lambda before, after, move: _changes(before, after, move)[1] == move[3],
        "it looks at the target only; nothing has to have left the source",
    ),
    (
        lambda before, after, move: _changes(before, after, move)[0] == -move[3],
        "it looks at the source only; nothing has to have arrived",
    ),
    (
        lambda before, after, move: _changes(before, after, move) == [-move[3], move[3]],
        "source and target are right, and another row may have changed with them: compare all of them",
    ),
    (
        lambda before, after, move: _as_asked(before, after, (move[0], move[2], move[1], move[3])),
        "source and target are exchanged",
    ),
]


@exercise(
    "2.4",
    "Catch the plausible fault",
    "sound",
    [
        "What must every row hold afterwards, also those that the move does not name?",
        "Compute the state that was asked for from `before` and `move`.",
        "Copy `before`, take the count from the source, add it to the target, and compare with `after`.",
    ],
)
def exercise_2_4(answer: Answer, rng: random.Random) -> None:
    cases: list[Case] = []
    for _ in range(12):
        places = rng.sample(["north", "south", "dock"], 3)
        items = rng.sample(["valve", "gasket", "bolt"], 2)
        before = {(i, p): rng.randint(20, 90) for i in items for p in places}
        move = (items[0], places[0], places[1], rng.randint(1, 20))
        right = ch02.Move(*move).applied(before)
        more, less = dict(right), dict(right)
        more[items[0], places[0]] += move[3]  # came from nowhere
        less[items[0], places[1]] -= move[3]  # went nowhere
        other = ch02.Move(items[1], *move[1:]).applied(before)
        back = ch02.Move(move[0], move[2], move[1], move[3]).applied(before)
        extra = dict(right)
        extra[items[1], places[2]] += 1
        swapped = dict(right)
        swapped[items[1], places[2]] += 1
        swapped[items[1], places[1]] -= 1
        trade = dict(before)
        trade[items[0], places[0]] -= move[3]
        trade[items[1], places[1]] += move[3]
        half = ch02.Move(move[0], move[1], move[2], move[3] + 1).applied(before)
        states = [right, dict(before), more, less, other, back, extra, swapped, trade, half]
        cases += [(before, state, move) for state in states]
    _agree(answer, cases, _as_asked, _SOUND, bool)


# -- 2.5 -----------------------------------------------------------------------------------------------------


def _narrower(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    return all(_parts(grant, asked).values())


def _parts(grant: dict[str, Any], asked: dict[str, Any]) -> dict[str, bool]:
    return {
        "verb": asked["verb"] == grant["verb"],
        "folder": (asked["folder"] + "/").startswith(grant["folder"] + "/"),
        "limit_bytes": asked["limit_bytes"] <= grant["limit_bytes"],
        "expires_s": asked["expires_s"] <= grant["expires_s"],
    }


def _without(name: str) -> Rule:
    return lambda grant, asked: all(fine for key, fine in _parts(grant, asked).items() if key != name)


def _by_prefix(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    return _without("folder")(grant, asked) is True and asked["folder"].startswith(grant["folder"])


def _strictly(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    less = asked["limit_bytes"] < grant["limit_bytes"] and asked["expires_s"] < grant["expires_s"]
    return _narrower(grant, asked) and less


def _same_folder(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    return _without("folder")(grant, asked) is True and asked["folder"] == grant["folder"]


_GRANTS = [
    (lambda grant, asked: True, "it hands on whatever is asked for"),
    (lambda grant, asked: False, "it hands on nothing, not even the grant itself"),
    (lambda grant, asked: _narrower(asked, grant), "the two are exchanged: the new one must be the narrower"),
    (_without("verb"), "the verb is not compared; a right to read must not become one to delete"),
    (_without("folder"), "the folder is not compared"),
    (_without("limit_bytes"), "the limit is not compared"),
    (_without("expires_s"), "the end is not compared; a copy must not outlive its original"),
    (_by_prefix, "'/srv/notes-old' begins with '/srv/notes' and lies beside it: compare whole parts"),
    (_strictly, "equal is narrow enough"),
    (_same_folder, "a folder beneath the granted one is narrower still"),
    (
        lambda grant, asked: any(_parts(grant, asked).values()),
        "one field that fits is not enough: all have to",
    ),
]


@exercise(
    "2.5",
    "Hand on less than you have",
    "narrower",
    [
        "A grant that is handed on must not allow anything that the original does not.",
        "Four fields, four comparisons, and all must hold. Equal is allowed.",
        'For folders: `(asked["folder"] + "/").startswith(grant["folder"] + "/")`.',
    ],
)
def exercise_2_5(answer: Answer, rng: random.Random) -> None:
    grant = {"verb": "write", "folder": "/srv/notes", "limit_bytes": 200, "expires_s": 60.0}
    folders = ["/srv/notes", "/srv/notes/a", "/srv/notes-old", "/srv", "/srv/other/notes"]
    cases: list[Case] = [(grant, dict(grant))]
    for folder in folders:
        for verb in ("write", "read", "delete"):
            for limit in (199, 200, 201):
                end = rng.choice([59.0, 60.0, 61.0])
                cases.append(
                    (grant, {"verb": verb, "folder": folder, "limit_bytes": limit, "expires_s": end})
                )
    for key, value in (("limit_bytes", 10), ("expires_s", 5.0), ("expires_s", 600.0)):
        cases.append((grant, grant | {key: value}))
    cases.append((grant, grant | {"limit_bytes": 199, "expires_s": 59.0}))
    cases.append((grant, grant | {"folder": "/srv/notes/a"}))
    cases.append((grant, grant | {"folder": "/srv/notes-old"}))
    _agree(answer, cases, _narrower, _GRANTS, bool)
