"""The exercises of chapter 2 on paths, statuses and a link; a move and a grant are in ``ch02_state``.

Each test runs an answer on fixed and on drawn cases, compares with a rule of its own or of the chapter, and
before it reports two values that differ, asks whether a known misconception gives just these answers.
"""

from __future__ import annotations

import posixpath
import random

from modelcall import ch02
from modelcall.checks.ch02_state import exercise_2_4, exercise_2_5
from modelcall.checks.grading import Answer, Wrong, agree, apart, close, exercise, number

__all__ = ["exercise_2_1", "exercise_2_2", "exercise_2_3", "exercise_2_4", "exercise_2_5"]


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
        lambda folder, path: not path.startswith("/") and _lies_beneath(folder, path),
        "an absolute path can lie beneath the folder too",
    ),
    (
        lambda folder, path: not posixpath.relpath(posixpath.join(folder, path), folder).startswith(".."),
        "'..rc' is a name and leads nowhere, and the folder is not beneath itself: compare whole parts",
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
    paths += ["../notes/a", "//etc", "a//b", "../../srv/notes/x/y", "../box-old/a", "/home/ann/box/a"]
    for _ in range(60):
        parts = rng.choices(["a", "b", "..", ".", "notes", "box", "..c"], k=rng.randint(1, 6))
        paths.append("/".join(parts))
    cases = [(folder, path) for folder in ("/srv/notes", "/home/ann/box") for path in paths]
    agree(answer, cases, _lies_beneath, _BENEATH, bool)


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
        lambda code, finish: _REASONS.get(finish or "", "REFUSED") if code == 200 else "TRANSPORT_FAILURE",
        "without a known reason nobody knows that a filter was at work: that is no REFUSED",
    ),
    (
        lambda code, finish: "TRANSPORT_FAILURE" if code is None or code >= 300 else _status(200, finish),
        "201 and 204 are successes of HTTP and no completions; only 200 is one",
    ),
    (
        lambda code, finish: _status(200 if code is None else code, finish),
        "without an HTTP status the line broke, and what had come by then is no reply",
    ),
    (
        lambda code, finish: _status(code, finish and finish.lower()),
        "'STOP' is none of the four reasons; what is nearly known is not known",
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
    agree(answer, rng.sample(cases, len(cases)), _status, _STATUSES, str)


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
    cases.append((256_000, 2048, 90.0, 4))  # more than the link carries
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
    if all(close(have, min(right, 100.0)) for have, right in zip(got, want, strict=True)):
        raise Wrong(
            "link_percent: it ends at 100; that more is wanted than the link carries is worth knowing"
        )
    if all(close(have * case[1], right) for have, right, case in zip(got, want, cases, strict=True)):
        raise Wrong("link_percent: this is one sequence; the batch has more")
    at = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if not close(a, b))
    raise Wrong(f"{answer.shown(*cases[at])} returns {apart(got[at], want[at])}")
