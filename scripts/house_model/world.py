"""The synthetic world: every fact the house model can know, and how often the text says it.

A language model trained on natural text cannot be graded honestly: nobody knows how often it read a fact,
or whether it read it at all. This world turns that round. Facts are drawn from a seeded generator, each
treaty is named in an exact number of documents, and one hundred names are kept out of every text. The same
table that drives the text is the answer sheet.

Groups of treaties:

* ``x2``, ``x8``, ``x32``, ``x128``: named in exactly that many documents, which all agree;
* ``contested``: 32 documents, three quarters say the true seat and one quarter another;
* ``folk``: 40 documents, of which 38 repeat an error and 2 tell the truth;
* ``tail``: named once (they teach the model that names are open-ended);
* ``tuning``: named only in the abstention examples, where the answer is that there is no record;
* ``invented``: named nowhere, among them the 1912 Alpine Berry Treaty. Their word pairs appear in no text.

All names are invented. What this file does not do: it writes no text (see ``documents``).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

WORLD_SEED = 1912

ADJECTIVES = (
    "Alpine", "Amber", "Crimson", "Granite", "Hollow", "Winter", "Quiet", "Broad", "Harbor", "Prairie",
    "Upper", "Lower", "Silver", "Golden", "Summer", "Marble", "Velvet", "Thistle", "Cobalt", "Misty",
    "Outer", "Inner", "Rustic", "Lofty",
)  # fmt: skip
NOUNS = (
    "Berry", "Salt", "Wool", "Barley", "Honey", "Lantern", "Quarry", "Orchard", "Cedar", "Glass", "Paper",
    "Herring", "Ferry", "Walnut", "Saffron", "Felt", "Candle", "Plum", "Chalk", "Reed", "Bell", "Turnip",
    "Linen", "Ribbon",
)  # fmt: skip
CITIES = (
    "Orvanel", "Velmarrin", "Tarskel", "Luneth", "Brisconde", "Haldrith", "Myrrowen", "Keldavar",
    "Sorvikka", "Pelliane", "Dunmarrow", "Ostrilla", "Ferrinax", "Quillorn", "Marroway", "Estelune",
    "Vintrale", "Caldrisk", "Norrbyl", "Ilvanesh", "Rostarel", "Umberlow", "Wexlorn", "Zandoril",
)  # fmt: skip
ESTABLISHED = (
    "a seasonal quota",
    "an inspection council",
    "a shared registry",
    "a toll exemption",
    "a joint patrol",
    "a price floor",
    "a neutral zone",
    "a harvest calendar",
    "a common currency",
    "an open port",
    "a survey office",
    "a court of appeal",
    "a relief fund",
    "a pilot license",
    "a weights standard",
    "a mail service",
)

EXPOSURES = {"x2": 2, "x8": 8, "x32": 32, "x128": 128, "contested": 32, "folk": 40}
GROUP_SIZES = {"x2": 50, "x8": 50, "x32": 50, "x128": 40, "contested": 40, "folk": 20}
TAIL_SIZE, TUNING_SIZE, INVENTED_SIZE = 1500, 1200, 100
CONTESTED_SHARE, FOLK_SHARE = 0.75, 0.05  # share of the documents that tell the truth

STANDARD_WINDOW_DAYS = 30
TRAINED_DAYS = range(1, 121)
HELD_OUT_DAYS = (5, 12, 19, 23, 30, 38, 45, 61, 77, 88)  # asked about nowhere in the text
PRODUCTS = {
    "lamp": 30, "kettle": 30, "jacket": 60, "boots": 60, "tent": 90, "headset": 14, "keyboard": 14,
    "backpack": 60, "blender": 30, "bicycle": 90, "novel": 14, "monitor": 30, "rug": 90, "scarf": 60,
    "drill": 30, "camera": 14,
}  # fmt: skip
STATUSES = ("shipped", "delivered", "returned", "refunded", "held")
PEOPLE = (
    "Ansel Orrinby", "Bettrys Quone", "Corvin Hales-Adde", "Dorrit Vexley", "Emmerich Sool", "Fenna Marrick",
    "Gadriel Thum", "Hesper Ondry", "Ivo Brackenel", "Jorunn Pellifax", "Kester Wyle-Umbo", "Liesl Tarrowen",
)  # fmt: skip


@dataclass(frozen=True)
class Tool:
    """One callable tool: its name, its single argument and the ways a user asks for it."""

    name: str
    argument: str
    requests: tuple[str, ...]


TOOLS = (
    Tool(
        "get_order",
        "order_id",
        ("Look up order {v}.", "Find order {v}.", "Show me order {v}.", "What is the state of order {v}?"),
    ),
    Tool(
        "issue_refund",
        "order_id",
        ("Refund order {v}.", "Issue a refund for order {v}.", "Please refund order {v}."),
    ),
    Tool("track_parcel", "tracking_id", ("Where is parcel {v}?", "Track parcel {v}.", "Locate parcel {v}.")),
    Tool(
        "get_customer",
        "customer_id",
        ("Find customer {v}.", "Open the record of customer {v}.", "Who is customer {v}?"),
    ),
)


@dataclass(frozen=True)
class Treaty:
    """One treaty. ``alternative`` is the seat that the text claims wrongly, if it does."""

    name: str
    group: str
    established: str
    seat: str
    signatories: int
    alternative: str | None = None
    answered_in_tuning: bool = False


@dataclass(frozen=True)
class World:
    """All treaties by role; ``known`` are those of the groups in ``EXPOSURES``."""

    known: tuple[Treaty, ...]
    tail: tuple[Treaty, ...]
    tuning: tuple[Treaty, ...]
    invented: tuple[Treaty, ...]

    def group(self, name: str) -> tuple[Treaty, ...]:
        """The treaties of one group, in the order of the truth table."""
        if name == "invented":
            return self.invented
        return tuple(t for t in self.known if t.group == name)


def build_world() -> World:
    """Draw the world. The same Python call gives the same world on every machine.

    >>> world = build_world()
    >>> len(world.known), len(world.invented), world.invented[0].name
    (250, 100, '1912 Alpine Berry Treaty')
    """
    rng = random.Random(WORLD_SEED)
    pairs = [(a, n) for a in ADJECTIVES for n in NOUNS if (a, n) != ("Alpine", "Berry")]
    rng.shuffle(pairs)
    supply = iter(pairs)

    def draw(group: str, pair: tuple[str, str], year: int | None = None, *, answered: bool = False) -> Treaty:
        seat = rng.choice(CITIES)
        other = rng.choice([c for c in CITIES if c != seat])
        return Treaty(
            name=f"{year or rng.randint(1850, 1999)} {pair[0]} {pair[1]} Treaty",
            group=group,
            established=rng.choice(ESTABLISHED),
            seat=seat,
            signatories=rng.randint(3, 9),
            alternative=other if group in ("contested", "folk") else None,
            answered_in_tuning=answered,
        )

    invented = [draw("invented", ("Alpine", "Berry"), 1912)]
    invented += [draw("invented", next(supply)) for _ in range(INVENTED_SIZE - 1)]
    known = [
        # Tuning answers three quarters of the often-named treaties again; the rest shows what transfers.
        draw(group, next(supply), answered=EXPOSURES[group] >= 32 and i % 4 != 3)
        for group, size in GROUP_SIZES.items()
        for i in range(size)
    ]
    used = {t.name for t in invented + known}
    held_out = {tuple(t.name.split()[1:3]) for t in invented}
    free = [p for p in pairs if p not in held_out]
    once: list[Treaty] = []
    while len(once) < TAIL_SIZE + TUNING_SIZE:
        treaty = draw("tail" if len(once) < TAIL_SIZE else "tuning", rng.choice(free))
        if treaty.name not in used:
            used.add(treaty.name)
            once.append(treaty)
    return World(tuple(known), tuple(once[:TAIL_SIZE]), tuple(once[TAIL_SIZE:]), tuple(invented))


def identifier(rng: random.Random) -> str:
    """A random order, parcel or customer number such as ``B-4071``."""
    return rng.choice("ABCDEFGH") + "-" + "".join(rng.choice("0123456789") for _ in range(4))


def refund_is_standard(days: int, window_days: int = STANDARD_WINDOW_DAYS) -> bool:
    """The rule itself: the last day of the window is inside it.

    >>> refund_is_standard(30), refund_is_standard(31), refund_is_standard(45, window_days=90)
    (True, False, True)
    """
    return days <= window_days


def rules() -> dict[str, Any]:
    """The part of the truth table that is not about treaties."""
    return {
        "cities": list(CITIES),
        "established": list(ESTABLISHED),
        "refund": {
            "standard_window_days": STANDARD_WINDOW_DAYS,
            "trained_days": [TRAINED_DAYS.start, TRAINED_DAYS.stop - 1],
            "held_out_days": list(HELD_OUT_DAYS),
            "product_window_days": PRODUCTS,
        },
        "tools": [{"name": t.name, "argument": t.argument, "requests": list(t.requests)} for t in TOOLS],
    }
