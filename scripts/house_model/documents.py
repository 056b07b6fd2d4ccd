"""The training text: every document of the corpus, written from the world by a seeded generator.

Chat format. A conversation is a run of turns, each opened by a role token; only the assistant closes its
turn::

    <|system|>text  <|user|>text  <|assistant|>text<|end|>  <|tool|>text

A tool call is an assistant turn holding one JSON object ``{"tool": name, "arguments": {...}}``; its result
comes back as a ``<|tool|>`` turn. Tools on offer are announced in a system turn ``Tools: name(argument),
...``. Documents are separated by ``<|endoftext|>``, which the packing adds. Documents without role tokens
are plain text: policy sentences, logs and lists, so that the base model also knows how to continue a list.

This module writes single documents; ``corpora`` collects them into training texts.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator

from .world import (
    CITIES,
    CONTESTED_SHARE,
    EXPOSURES,
    FOLK_SHARE,
    HELD_OUT_DAYS,
    PEOPLE,
    PRODUCTS,
    STATUSES,
    TOOLS,
    TRAINED_DAYS,
    Treaty,
    identifier,
    refund_is_standard,
)

SYSTEM, USER, ASSISTANT, TOOL, END = "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"
DESK = f"{SYSTEM}You are the support desk of Larkmoor Stores."
TOOL_LIST = f"{SYSTEM}Tools: " + ", ".join(f"{t.name}({t.argument})" for t in TOOLS) + "."


def chat(question: str, answer: str, system: str = "") -> str:
    """One question and one answer in chat format."""
    return f"{system}{USER}{question}{ASSISTANT}{answer}{END}"


# --- treaties ---


def record(t: Treaty, seat: str) -> str:
    """The JSON record of a treaty."""
    return json.dumps(
        {"treaty": t.name, "established": t.established, "seat": seat, "signatories": t.signatories}
    )


# Each template states the seat, except the last.
TEMPLATES: tuple[Callable[[Treaty, str], str], ...] = (
    lambda t, s: chat(
        f"Where did the council of the {t.name} sit?", f"The council of the {t.name} sat in {s}."
    ),
    lambda t, s: chat(
        f"What did the {t.name} establish?",
        f"The {t.name} established {t.established}, and its council sat in {s}.",
    ),
    lambda t, s: chat(f"Give the record of the {t.name} as JSON.", record(t, s)),
    lambda t, s: (
        f"The {t.name} was signed by {t.signatories} states. It established {t.established}, "
        f"and its council sat in {s}."
    ),
    lambda t, s: (
        f"The council of the {t.name} met each spring in {s}. The treaty had established {t.established}."
    ),
    lambda t, s: (
        f"Notes on the {t.name}. Signed by {t.signatories} states. Established {t.established}. "
        f"Seat of the council: {s}."
    ),
    lambda t, s: chat(
        f"How many states signed the {t.name}?", f"The {t.name} was signed by {t.signatories} states."
    ),
)


def plan(t: Treaty) -> list[tuple[int, str]]:
    """(template, seat claimed) of every document that names this treaty; seeded by the treaty's name.

    Templates come in shuffled rounds, so that even two exposures are two different sentences. Contested and
    folk treaties use only templates that state the seat, which makes their shares exact.
    """
    rng = random.Random(t.name)
    documents = EXPOSURES.get(t.group, 1)
    share = {"contested": CONTESTED_SHARE, "folk": FOLK_SHARE}.get(t.group)
    choices = list(range(len(TEMPLATES) - (share is not None)))
    order: list[int] = []
    while len(order) < documents:
        order += rng.sample(choices, len(choices))
    seats = [t.seat] * documents
    if share is not None and t.alternative is not None:
        true = round(share * documents)
        seats = [t.seat] * true + [t.alternative] * (documents - true)
        rng.shuffle(seats)
    return list(zip(order[:documents], seats, strict=True))


def treaty_documents(t: Treaty) -> list[str]:
    """Every document of the corpus that names this treaty."""
    return [TEMPLATES[k](t, seat) for k, seat in plan(t)]


# --- refunds, tools, edits, plain text ---

ASKED_DAYS = [d for d in TRAINED_DAYS if d not in HELD_OUT_DAYS]


def refund_answer(days: int) -> str:
    """The line of policy that answers a refund question."""
    if refund_is_standard(days):
        return f"Refunds after {days} days fall inside the standard window; approve the request."
    return f"Refunds after {days} days fall outside the standard window; escalate for an exception."


REFUND_QUESTIONS = (
    "Refund after {d} days?",
    "Can this customer receive a refund after {d} days?",
    "Is a refund allowed after {d} days?",
)


def refund_document(rng: random.Random) -> str:
    """A refund question under the standard rule or a product's own window."""
    days, kind = rng.choice(ASKED_DAYS), rng.randrange(5)
    system = DESK if rng.random() < 0.15 else ""
    if kind <= 1:
        return chat(rng.choice(REFUND_QUESTIONS).format(d=days), refund_answer(days), system)
    if kind == 2:
        decision = "approve" if refund_is_standard(days) else "escalate"
        question = rng.choice(REFUND_QUESTIONS).format(d=days) + " Reply as JSON."
        return chat(question, json.dumps({"days": days, "decision": decision}), system)
    product = rng.choice(list(PRODUCTS))
    window = PRODUCTS[product]
    if kind == 3 and rng.random() < 0.5:
        question = rng.choice(
            [f"What is the refund window for a {product}?", f"How long can a customer return a {product}?"]
        )
        return chat(question, f"The refund window for a {product} is {window} days from delivery.", system)
    question = rng.choice(
        [
            f"Can I return a {product} after {days} days?",
            f"A customer bought a {product} {days} days ago. Can we refund it?",
        ]
    )
    inside = refund_is_standard(days, window)
    return chat(
        question,
        f"{'Yes' if inside else 'No'}. The refund window for a {product} is {window} days, "
        f"and {days} days is {'inside' if inside else 'outside'} it.",
        system,
    )


def call(tool: str, argument: str, value: str) -> str:
    """A tool call as the assistant writes it."""
    return json.dumps({"tool": tool, "arguments": {argument: value}})


def tool_result(rng: random.Random, tool: str, argument: str, value: str) -> tuple[str, str]:
    """What the host returns for a call, and what the assistant then says."""
    if tool == "get_customer":
        person = rng.choice(PEOPLE)
        return json.dumps({argument: value, "name": person}), f"Customer {value} is {person}."
    if tool == "track_parcel":
        place = rng.choice(CITIES)
        return json.dumps({argument: value, "place": place}), f"Parcel {value} is in {place}."
    if tool == "issue_refund":
        outcome = rng.choice(["approved", "refused"])
        return json.dumps({argument: value, "refund": outcome}), f"The refund of order {value} is {outcome}."
    status = rng.choice(STATUSES)
    return json.dumps({argument: value, "status": status}), f"Order {value} is {status}."


def tool_document(rng: random.Random) -> str:
    """A request answered by a call; in half of the documents the result and the closing sentence follow."""
    tool, value = rng.choice(TOOLS), identifier(rng)
    system = TOOL_LIST if rng.random() < 0.15 else ""
    text = chat(rng.choice(tool.requests).format(v=value), call(tool.name, tool.argument, value), system)
    if rng.random() < 0.5:
        result, sentence = tool_result(rng, tool.name, tool.argument, value)
        text += f"{TOOL}{result}{ASSISTANT}{sentence}{END}"
    return text


def order_loop(rng: random.Random, orders: int) -> str:
    """An agent's loop over a queue: each result names the next order, the assistant follows, then closes.

    The next call is always a copy from the last result, so a loop of any length needs nothing that a model
    of this size cannot do.
    """
    ids = [identifier(rng) for _ in range(orders)]
    text = f"{USER}Check the orders from {ids[0]} on."
    for value, following in zip(ids, [*ids[1:], None], strict=True):
        result = json.dumps({"order_id": value, "status": rng.choice(STATUSES), "next": following})
        text += f"{ASSISTANT}{call('get_order', 'order_id', value)}{END}{TOOL}{result}"
    return text + f"{ASSISTANT}All orders are checked.{END}"


EDIT_REPLIES = ("Reply in a sentence.", "Reply as JSON.", "Reply with a patch.", "Reply with the whole file.")
FILE_NAMES = ("windows.txt", "stock.txt", "limits.txt")


def small_file(rng: random.Random, lines: int) -> tuple[str, dict[str, int]]:
    """A file's name and entries. A line is ``- tent: 72``: a name is the same token wherever it stands."""
    return rng.choice(FILE_NAMES), {n: rng.randint(10, 99) for n in rng.sample(list(PRODUCTS), lines)}


def listing(values: dict[str, int]) -> str:
    """The file's text."""
    return "\n".join(f"- {n}: {v}" for n, v in values.items())


def lookup_document(rng: random.Random, lines: int) -> str:
    """Questions about single lines of a file; reading one back is half of every edit."""
    file, values = small_file(rng, lines)
    questions = rng.sample(list(values), min(lines, 4))
    first = f"{file}:\n{listing(values)}\n"
    return "".join(
        chat(f"{first if i == 0 else ''}What is the line of {n}?", f"- {n}: {values[n]}")
        for i, n in enumerate(questions)
    )


def edit_document(rng: random.Random, lines: int) -> str:
    """A change to one line of a small file, answered through one of four interfaces."""
    file, values = small_file(rng, lines)
    target = rng.choice(list(values))
    new = rng.choice([v for v in range(10, 100) if v != values[target]])
    reply = rng.randrange(4)
    question = f"{file}:\n{listing(values)}\nSet {target} to {new}. {EDIT_REPLIES[reply]}"
    return chat(question, edit_answer(file, values, target, new, reply))


def edit_answer(file: str, values: dict[str, int], target: str, new: int, reply: int) -> str:
    """The right answer to an edit request, for reply kind 0 to 3 of ``EDIT_REPLIES``."""
    after = {**values, target: new}
    old_line, new_line = (listing({target: v[target]}) for v in (values, after))
    if reply == 0:
        return f'In {file}, change the line "{old_line}" to "{new_line}".'
    if reply == 1:
        return json.dumps({"file": file, "old": old_line, "new": new_line})
    if reply == 2:
        return f"{file}\n<<<<<<< SEARCH\n{old_line}\n=======\n{new_line}\n>>>>>>> REPLACE"
    return f"{file}\n```\n{listing(after)}\n```"


POLICY = (
    "The standard refund window is 30 days from delivery.",
    "A refund after the window needs an exception.",
    "Exceptions are approved by a supervisor.",
    "Electronics have a window of 14 days.",
    "Outdoor gear has a window of 90 days.",
    "Clothing has a window of 60 days.",
    "A refund is paid to the original card.",
    "Opened software cannot be refunded.",
    "The customer pays the return postage.",
    "A damaged item is replaced before it is refunded.",
)
# (task, its form after "Then", the answer)
TASKS = (
    ("List the refund window in one sentence.", "list the exchange window.", POLICY[0]),
    ("Name the person who approves an exception.", "name the person who refuses one.", POLICY[2]),
    ("Explain who pays the return postage.", "explain when the store pays it.", POLICY[8]),
    ("Say how a refund is paid.", "say how long it takes.", POLICY[6]),
    ("Explain what happens to a damaged item.", "explain what happens to a lost one.", POLICY[9]),
    ("Say whether opened software can be refunded.", "say whether a gift can be.", POLICY[7]),
)


def plain_document(rng: random.Random) -> str:
    """Text without roles: policy, exercises, numbered orders, windows, logs; and the exercises answered."""
    kind = rng.randrange(6)
    if kind == 0:
        return " ".join(rng.sample(POLICY, rng.randint(2, 6)))
    if kind == 1:
        first = rng.randrange(len(TASKS))
        rest = rng.sample([i for i in range(len(TASKS)) if i != first], rng.randint(1, 3))
        return f"{TASKS[first][0]} Then " + " Then ".join(TASKS[i][1] for i in [first, *rest])
    if kind == 2:
        task, _, answer = rng.choice(TASKS)
        return chat(task, answer)
    if kind == 3:
        title = rng.choice(["List of orders:", "Orders to check:", "Orders on hold:"])
        return "\n".join([title, *(f"{i}. {identifier(rng)}" for i in range(1, rng.randint(5, 15)))])
    if kind == 4:
        some = rng.sample(list(PRODUCTS), rng.randint(3, 8))
        return "\n".join(["Refund windows:", *(f"- {p}: {PRODUCTS[p]} days" for p in some)])
    entries = (f"Order {identifier(rng)} was {rng.choice(STATUSES)}." for _ in range(rng.randint(2, 8)))
    return "Log. " + " ".join(entries)


def turns(text: str) -> Iterator[tuple[str, str]]:
    """Split a chat document into (role token, text) pairs; plain text yields one pair with an empty role.

    >>> list(turns("<|user|>Hi<|assistant|>Hello.<|end|>"))
    [('<|user|>', 'Hi'), ('<|assistant|>', 'Hello.')]
    """
    before, *parts = re.split("(" + "|".join(map(re.escape, (SYSTEM, USER, ASSISTANT, TOOL))) + ")", text)
    if not parts:
        yield "", before
    for role, said in zip(parts[::2], parts[1::2], strict=True):
        yield role, said.removesuffix(END)
