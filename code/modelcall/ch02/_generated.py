"""The boundary of a call

Written by scripts/tangle.py from the "# @save" cells of chapters/02-boundary.ipynb: edit those.
"""

import json
import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from modelcall.lab import args, beneath


# cell: Tier
class Tier(NamedTuple):
    """One of the three parts on the path of a call.

    >>> TIERS[0].may
    'nothing outside its memory'
    """

    name: str
    owns: str
    may: str
    hands_on: str
    fails: str


# cell: TIERS
TIERS = (
    Tier(
        "model core",
        "weights, arithmetic of one step",
        "nothing outside its memory",
        "scores for one token",
        "is wrong in good form",
    ),
    Tier(
        "inference server",
        "batch, cache, decode loop",
        "pick tokens, mask them, stop",
        "an envelope: text, reason, counts",
        "is late, cuts off, goes down",
    ),
    Tier(
        "host runtime",
        "context, limits, credentials",
        "act, after its own checks",
        "a request; then an effect",
        "believes what it receives",
    ),
)


# cell: OWNERS
OWNERS = {
    "which messages go in": "host runtime",
    "cap on new tokens": "host runtime",
    "deadline": "host runtime",
    "temperature and seed": "host runtime",
    "when the request runs": "inference server",
    "who shares its batch": "inference server",
    "which token is taken": "inference server",
    "why the text stopped": "inference server",
    "score of each token": "model core",
    "whether the call succeeded": "host runtime",
    "whether a tool runs": "host runtime",
    "whether the task is done": "host runtime",
}


# cell: Translation
class Translation(NamedTuple):
    """A term of machine learning, what it is to a system, and how it fails."""

    term: str
    system: str
    failure: str


ROSETTA = (
    Translation(
        "prompt", "a read-only input buffer of bounded size", "overrun; silent cut"
    ),
    Translation(
        "generation", "a loop, one dependent step per token", "slow tail; no end"
    ),
    Translation(
        "logits", "one unnormalised score per vocabulary entry", "overflow; skew"
    ),
    Translation(
        "hallucination", "an invariant broken in valid form", "silent corruption"
    ),
    Translation(
        "tool call", "a remote call that somebody suggests", "injected arguments"
    ),
    Translation(
        "200 OK", "a receipt for bytes", "taken for success"
    ),
)


# cell: Proposal
@dataclass(frozen=True)
class Proposal:
    """What a model wants done, as data: a verb, a path and a text.

    It holds no file, no function and no key. Any texts will do: to judge them is
    the gate's work.

    Raises:
        TypeError: a field is not a string.
        ValueError: a field is not valid Unicode.

    >>> Proposal("delete", "/").verb
    'delete'
    """

    verb: str
    path: str
    text: str = ""

    def __post_init__(self) -> None:
        args.plain(self)


# cell: read_proposal
def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs as a dictionary; a name given twice is an error."""
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("a name is given twice")
    return made


def read_proposal(content: str) -> Proposal:
    """Return the proposal that a text spells as one JSON object.

    Raises:
        TypeError: ``content`` is not a string.
        ValueError: not JSON, a name twice or unknown, a value that is no text.

    >>> read_proposal('{"verb": "read", "path": "a.txt"}')
    Proposal(verb='read', path='a.txt', text='')
    """
    try:
        text = args.text("content", content)
        told = json.loads(text, object_pairs_hook=_unique)
        fields = args.mapping("content", told, str)
        if not {"verb", "path"} <= fields.keys() <= {"verb", "path", "text"}:
            raise ValueError("expected the names verb and path, and perhaps text")
        return Proposal(**fields)
    except (ValueError, TypeError, RecursionError) as error:
        kind = TypeError if not isinstance(content, str) else ValueError
        raise kind(f"content: no proposal: {error}") from None


# cell: VERBS
VERBS = ("read", "write", "delete")


@dataclass(frozen=True)
class Capability:
    """The right to one verb beneath one folder, for some bytes, until some time.

    An object of this class grants nothing by itself: it counts only while the
    gate that minted it keeps it. ``expires_s`` is on that gate's clock.

    Raises:
        TypeError, ValueError: a field has another type, or a number is negative.

    >>> Capability("made up", "delete", "/", 10**9, 10.0**9).verb
    'delete'
    """

    token: str
    verb: str
    folder: str
    limit_bytes: int
    expires_s: float

    def __post_init__(self) -> None:
        args.plain(self)


# cell: Mint
class Mint:
    """Makes capabilities, takes them back, and says why a use is refused.

    ``clock`` returns seconds that never go backwards.

    >>> mint = Mint()
    >>> right = mint.mint("read", ".", limit_bytes=100, lifetime_s=60.0)
    >>> mint.refusal(right, Proposal("delete", "a.txt"))
    "it grants read; got 'delete'"
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._left: dict[Capability, int] = {}  # live ones, and bytes left

    def mint(
        self, verb: str, folder: str, limit_bytes: int, lifetime_s: float
    ) -> Capability:
        """Return a new capability; OSError if there is no such folder."""
        if verb not in VERBS:
            raise ValueError(f"verb: expected one of {VERBS}; {args.found(verb)}")
        life = args.real("lifetime_s", lifetime_s, 0.0, args.LARGEST)
        real = os.path.realpath(args.text("folder", folder), strict=True)
        token, until = secrets.token_hex(16), self.clock() + life
        made = Capability(token, verb, real, limit_bytes, until)
        self._left[made] = made.limit_bytes
        return made

    def revoke(self, capability: Capability) -> None:
        """Make a capability worthless from now on."""
        self._left.pop(capability, None)

    def refusal(self, capability: Capability, proposal: Proposal) -> str:
        """Return what the capability has against a proposal, or an empty text."""
        if capability not in self._left:
            return "not a live capability of this gate"
        if self.clock() >= capability.expires_s:
            return "the capability has expired"
        same = proposal.verb == capability.verb
        asked = args.found(proposal.verb)
        return "" if same else f"it grants {capability.verb}; {asked}"


# cell: from-modelcall-lab-9820e1
def _perform(
    capability: Capability, proposal: Proposal, left: int
) -> tuple[str, int]:
    """Carry out an act; return what there is to say, and the bytes it used."""
    at, data = (capability.folder, proposal.path), proposal.text.encode()
    need = len(data) if capability.verb == "write" else beneath.size(*at)
    if need > left:
        raise ValueError(f"it takes {need} bytes, and {left} are left")
    if capability.verb == "read":
        return beneath.read(*at, need).decode(errors="replace"), need
    if capability.verb == "write":
        beneath.write(*at, data)
    else:
        beneath.delete(*at)
    return f"{capability.verb}: {need} bytes", need


# cell: Outcome
class Outcome(NamedTuple):
    """Whether an act was done, and what there is to say about it."""

    done: bool
    said: str


class Gate(Mint):
    """The one place where a proposal becomes an act, on a fresh check each time.

    ``log`` keeps every proposal with its outcome, also what was refused.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.log: list[tuple[Proposal, Outcome]] = []
        self._lock = threading.Lock()  # no two acts on one remainder

    def act(self, capability: Capability, proposal: Proposal) -> Outcome:
        """Do what a proposal says if the capability covers it, or say why not."""
        args.instance("capability", capability, Capability)
        args.instance("proposal", proposal, Proposal)
        with self._lock:
            try:
                if why := self.refusal(capability, proposal):
                    raise ValueError(why)
                left = self._left[capability]
                said, used = _perform(capability, proposal, left)
                self._left[capability] = left - used
                outcome = Outcome(True, said)
            except ValueError as error:
                outcome = Outcome(False, f"refused: {error}")
            except OSError as error:
                outcome = Outcome(False, f"failed: {error.strerror}")
            self.log.append((proposal, outcome))
        return outcome


# cell: Stock
Stock = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Move:
    """So many of an item from one place to another, as a tool call asks for it.

    Raises:
        TypeError, ValueError: a field of another type, or a negative count.

    >>> Move("valve", "north", "south", 12).count
    12
    """

    item: str
    source: str
    target: str
    count: int

    def __post_init__(self) -> None:
        args.plain(self)

    def applied(self, stock: Mapping[tuple[str, str], int]) -> Stock:
        """Return the stock as it must be after this move."""
        after = dict(stock)
        after[self.item, self.source] -= self.count
        after[self.item, self.target] += self.count
        return after


# cell: make_stock
def make_stock(database: str, stock: Mapping[tuple[str, str], int]) -> None:
    """Write a new SQLite file; ``stock`` gives the count for (item, place).

    Raises:
        sqlite3.Error: a negative count, or the file holds a stock already.
    """
    rows = [(item, place, count) for (item, place), count in stock.items()]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "CREATE TABLE stock (item TEXT, place TEXT, count INTEGER "
            "CHECK (count >= 0), PRIMARY KEY (item, place))"
        )
        connection.executemany("INSERT INTO stock VALUES (?, ?, ?)", rows)


def read_stock(database: str) -> Stock:
    """Return the counts of a SQLite file, asked of the file and of nobody else.

    Raises:
        sqlite3.Error: there is no stock in it.
    """
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT item, place, count FROM stock")
        return {(item, place): count for item, place, count in rows}


# cell: FAULTS
FAULTS = ("none", "fail-stop", "Byzantine", "fail-plausible", "balanced")


def stock_worker() -> None:
    """Carry out one move: JSON from standard input, JSON to standard output.

    ``fault`` is one of ``FAULTS``. "fail-plausible" adds and takes nothing away;
    "balanced" moves another item, which keeps every total.
    """
    order = json.load(sys.stdin)
    move, fault = Move(**order["move"]), order["fault"]
    with closing(sqlite3.connect(order["database"])) as stock, stock:
        item = move.item
        if fault == "balanced":
            other = "SELECT item FROM stock WHERE item <> ? ORDER BY item LIMIT 1"
            [item] = stock.execute(other, (item,)).fetchone()
        change = "UPDATE stock SET count = count + ? WHERE item = ? AND place = ?"
        stock.execute(change, (move.count, item, move.target))
        if fault == "fail-stop":
            os._exit(70)
        taken = 0 if fault == "fail-plausible" else move.count
        stock.execute(change, (-taken, item, move.source))
    other_story = 0 if fault == "Byzantine" else move.count
    print(json.dumps({"moved": {"runtime": move.count, "auditor": other_story}}))


# cell: SENSORS
SENSORS = ("exit code", "form", "agreement", "invariant", "task")
_WORKER = "from modelcall.ch02 import stock_worker; stock_worker()"


def run_move(database: str, move: Move, fault: str = "none") -> tuple[int, str]:
    """Run the worker in a process of its own; return its exit code and output.

    Raises:
        TypeError, ValueError: ``move`` is no move; ``fault`` not in ``FAULTS``.
        subprocess.TimeoutExpired: no end within a minute.
    """
    if fault not in FAULTS:
        raise ValueError(f"fault: expected one of {FAULTS}; {args.found(fault)}")
    fields = vars(args.instance("move", move, Move))
    order = json.dumps({"database": database, "move": fields, "fault": fault})
    command = [sys.executable, "-c", _WORKER]
    done = subprocess.run(
        command,
        input=order,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=60,
    )
    return done.returncode, done.stdout


# cell: sense
def sense(
    before: Stock, after: Stock, move: Move, code: int, output: str
) -> list[bool]:
    """Return what each of ``SENSORS`` says of one move; True is good.

    Agreement is vacuous where there is no reply to compare.

    >>> stock = {("nut", "a"): 2, ("nut", "b"): 0}
    >>> sense(stock, {**stock, ("nut", "b"): 2}, Move("nut", "a", "b", 2), 0, "?")
    [True, False, True, False, False]
    """

    def totals(stock: Stock) -> dict[str, int]:
        sums: dict[str, int] = {}
        for (item, _), count in stock.items():
            sums[item] = sums.get(item, 0) + count
        return sums

    try:
        told = list(json.loads(output)["moved"].values())
    except (ValueError, TypeError, KeyError, AttributeError):
        told = []
    world = totals(before) == totals(after), after == move.applied(before)
    return [code == 0, bool(told), len(set(map(repr, told))) < 2, *world]


# cell: settle_move
def _copy_stock(source: str, target: str) -> None:
    """Copy a database as SQLite does it: whole, its log included, or not at all."""
    connect = sqlite3.connect
    with closing(connect(source)) as held, closing(connect(target)) as copy:
        held.backup(copy)


def settle_move(database: str, move: Move, fault: str = "none") -> bool:
    """Run a move on a copy, and keep the copy only if every sensor is content.

    Returns whether it was kept. Not for a database that others write meanwhile.

    Raises:
        TypeError, ValueError: as ``run_move``.
    """
    before = read_stock(database)
    with tempfile.TemporaryDirectory(dir=Path(database).parent) as folder:
        copy = str(Path(folder, "candidate.sqlite"))
        _copy_stock(database, copy)
        code, output = run_move(copy, move, fault)
        after = read_stock(copy)
        if sound := all(sense(before, after, move, code, output)):
            _copy_stock(copy, database)
        return sound


# cell: Status
class Status(Enum):
    """What became of a call, before anyone looks at what it says."""

    COMPLETED = "ended by itself"
    TRUNCATED = "ran into a limit"
    REFUSED = "withheld by a filter or by the model"
    TRANSPORT_FAILURE = "no reply that can be read"


class Envelope(NamedTuple):
    """A reply with its status in front; ``why`` is in words."""

    status: Status
    content: str
    why: str


_FINISH = {
    "stop": Status.COMPLETED,
    "tool_calls": Status.COMPLETED,
    "length": Status.TRUNCATED,
    "content_filter": Status.REFUSED,
}
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


# cell: normalise
def normalise(http_status: int | None, body: bytes) -> Envelope:
    """Return the envelope of a reply in the form of a chat completion.

    Total: any status and any bytes give one. ``None`` stands for a broken line.
    A finish reason that is not known is never COMPLETED.

    Raises:
        TypeError: ``http_status`` is no integer or None, or ``body`` not bytes.

    >>> normalise(503, b"").why
    'HTTP 503'
    """
    args.instance("body", body, bytes)
    if http_status is None or args.integer("http_status", http_status) != 200:
        why = "the line broke" if http_status is None else f"HTTP {http_status}"
        return Envelope(Status.TRANSPORT_FAILURE, "", why)
    try:
        choice = json.loads(body)["choices"][0]
        message, finish = choice["message"], choice["finish_reason"]
        content, refusal = message.get("content") or "", message.get("refusal")
        status = Status.REFUSED if refusal else _FINISH[finish]
        text = args.text("content", content)
        return Envelope(status, text, f"finish: {finish}")
    except _UNREADABLE as error:
        why = f"unreadable: {type(error).__name__}"
        return Envelope(Status.TRANSPORT_FAILURE, "", why)


# cell: STAGES
STAGES = (
    "stage and budget",
    "prefill and decode",
    "package",
    "validate and dispatch",
)


class Event(NamedTuple):
    """One step of a call, in one of the stages 1 to 4."""

    stage: int
    sender: str
    receiver: str
    label: str


def trace_problems(events: list[Event]) -> list[str]:
    """Return what a trace breaks: stages in order, one core, one who acts.

    >>> trace_problems([Event(2, "core", "world", "act")])
    ['event 0: the core speaks to the world', 'event 0: an act in stage 2']
    """
    found = []
    for i, event in enumerate(args.instances("events", events, Event)):
        if i and event.stage < events[i - 1].stage:
            found.append(f"event {i}: back to stage {event.stage}")
        if event.sender == "core" and event.receiver != "server":
            found.append(f"event {i}: the core speaks to the {event.receiver}")
        if "core" in event[1:3] and "server" in event[1:3] and event.stage != 2:
            found.append(f"event {i}: the core in stage {event.stage}")
        if event.receiver == "world" and event.stage != 4:
            found.append(f"event {i}: an act in stage {event.stage}")
    return found


# cell: Send
Send = Callable[[dict[str, object]], tuple[int | None, bytes]]
Watch = Callable[[int, str, str, str], None]


def run_call(
    send: Send, request: dict[str, object], window: int, watch: Watch
) -> Envelope:
    """Stage a request, send it, and return its envelope into escrow.

    Tokens are counted as whitespace-separated words, as the toy server does.

    Raises:
        ValueError: prompt and cap together do not fit the window.
    """
    messages = args.items("messages", request.get("messages"))
    texts = [args.mapping("message", m)["content"] for m in messages]
    prompt = sum(len(args.text("content", text).split()) for text in texts)
    cap = args.integer("max_tokens", request.get("max_tokens"), at_least=1)
    if prompt + cap > window:
        raise ValueError(f"budget: {prompt} + {cap} tokens, window of {window}")
    watch(1, "runtime", "runtime", "S + K fit")
    watch(1, "runtime", "server", "request")
    envelope = normalise(*send(request))
    watch(4, "runtime", "runtime", envelope.status.name)
    return envelope


# cell: dispatch
def dispatch(
    envelope: Envelope, gate: Gate, capability: Capability, watch: Watch
) -> Outcome:
    """Release a candidate from escrow to the gate, if its status allows that.

    Raises:
        TypeError: an argument is none of the kind.
    """
    args.instance("envelope", envelope, Envelope)
    if envelope.status is not Status.COMPLETED:
        return Outcome(False, f"quarantined: {envelope.status.name}")
    try:
        proposal = read_proposal(envelope.content)
    except ValueError as error:
        why = str(error).removeprefix("content: ")
        return Outcome(False, f"quarantined: {why}")
    watch(4, "runtime", "runtime", "it parses")
    outcome = gate.act(capability, proposal)
    if outcome.done:
        watch(4, "runtime", "world", proposal.verb)
    return outcome


# cell: PCIE
# generation -> (GT/s per lane, share of the bits that carry data)
PCIE: dict[int, tuple[float, float]] = {
    3: (8.0, 128 / 130),
    4: (16.0, 128 / 130),
    5: (32.0, 128 / 130),
    6: (64.0, 242 / 256),
}


def pcie_bytes_per_s(generation: int, lanes: int = 16) -> float:
    """Return the coded rate of a PCIe link in one direction, in bytes/s.

    Packet headers and waiting come on top, so no transfer reaches it.

    Raises:
        TypeError: an argument is not an integer.
        ValueError: ``generation`` is not in ``PCIE``; fewer lanes than 1.

    >>> round(pcie_bytes_per_s(4) / 1e9, 1)
    31.5
    """
    if args.integer("generation", generation) not in PCIE:
        known = ", ".join(map(str, PCIE))
        raise ValueError(f"generation: expected one of {known}; got {generation}")
    transfers, coded = PCIE[generation]
    return transfers * 1e9 * coded / 8 * args.integer("lanes", lanes, at_least=1)


# cell: token_bytes
def token_bytes(vocabulary: int, bytes_per_logit: int = 2) -> int:
    """Return the bytes of all logits of one token; 2 bytes are fp16 or bf16.

    Raises:
        TypeError, ValueError: an argument that is no integer of at least 1.

    >>> token_bytes(128_000)
    256000
    """
    entries = args.integer("vocabulary", vocabulary, at_least=1)
    return entries * args.integer("bytes_per_logit", bytes_per_logit, at_least=1)


def tokens_per_s(batch: int, rate: float) -> float:
    """Return the tokens/s of a batch whose sequences each make ``rate`` tokens/s.

    Raises:
        TypeError, ValueError: ``batch`` below 1, or ``rate`` negative.

    >>> tokens_per_s(64, 40)
    2560.0
    """
    per_stream = args.real("rate", rate, 0.0, args.LARGEST)
    return args.integer("batch", batch, at_least=1) * per_stream


def link_share(bytes_per_s: float, link_bytes_per_s: float) -> float:
    """Return the share of a link that a stream takes; above 1 it does not fit.

    Raises:
        TypeError, ValueError: a rate that is negative, or a link without one.

    >>> link_share(5e9, 20e9)
    0.25
    """
    stream = args.real("bytes_per_s", bytes_per_s, 0.0, args.LARGEST)
    link = args.real("link_bytes_per_s", link_bytes_per_s, 0.0, args.LARGEST)
    if link == 0.0:
        raise ValueError(f"link_bytes_per_s: expected a rate above 0; got {link}")
    return stream / link


# cell: Duty
class Duty(NamedTuple):
    """What a term of the model's side obliges the runtime to do."""

    term: str
    duty: str


DUTIES = (
    Duty("context window", "count, and keep S + K within it"),
    Duty("sampling settings", "choose them, and record them with the output"),
    Duty("tool call", "validate, authorise, execute, report back"),
    Duty("stop reason", "route on it"),
    Duty("fluent but wrong", "check the world, from outside the model"),
    Duty("successful response", "take it as a delivery"),
)
