"""The synthetic world: what the text says, counted from the text itself, equals the truth table."""

import hashlib
import json
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from scripts.house_model import corpora
from scripts.house_model import documents as docs
from scripts.house_model import world as facts

WORLD = facts.build_world()
CORPUS = corpora.corpus(WORLD)
TRUTH = corpora.truth_table(WORLD)
EVERYTHING = {"corpus": CORPUS, "long": corpora.long_documents(), "tuning": corpora.tuning_corpus(WORLD)}
NAME = re.compile(r"\d{4} [A-Z][a-z]+ [A-Z][a-z]+ Treaty")
# Every way the templates state a seat, written here anew so that a change of wording must be noticed.
SEAT = re.compile(r'sat in (\w+)|each spring in (\w+)|"seat": "(\w+)"|Seat of the council: (\w+)')


def test_the_worlds_groups_have_their_sizes_and_no_name_twice():
    names = [t.name for part in (WORLD.known, WORLD.tail, WORLD.tuning, WORLD.invented) for t in part]
    assert len(set(names)) == len(names)
    assert Counter(t.group for t in WORLD.known) == facts.GROUP_SIZES
    assert (len(WORLD.tail), len(WORLD.tuning), len(WORLD.invented)) == (
        facts.TAIL_SIZE,
        facts.TUNING_SIZE,
        facts.INVENTED_SIZE,
    )
    assert WORLD.invented[0].name == "1912 Alpine Berry Treaty"
    assert all(NAME.fullmatch(name) for name in names)
    assert len(set(facts.CITIES)) == 24


def test_exposure_and_seat_counts_are_those_of_the_text():
    exposures: Counter[str] = Counter()
    seats: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in CORPUS:
        names = set(NAME.findall(text))
        assert len(names) <= 1, text
        for name in names:
            exposures[name] += 1
            stated = {city for groups in SEAT.findall(text) for city in groups if city}
            assert len(stated) <= 1, text
            seats[name].update(stated)
    for row in TRUTH["treaties"]:
        assert exposures[row["name"]] == row["exposures"], row
        assert seats[row["name"]] == row.get("seat_stated", {}), row
    assert {name for name, n in exposures.items() if n == 1} == set(TRUTH["tail"])
    assert set(exposures) == set(TRUTH["tail"]) | {r["name"] for r in TRUTH["treaties"] if r["exposures"]}


def test_groups_disagree_as_much_as_they_should():
    for row in TRUTH["treaties"]:
        stated, total = row.get("seat_stated", {}), sum(row.get("seat_stated", {}).values())
        if row["group"] == "contested":
            assert stated[row["seat"]] == 0.75 * total
            assert stated[row["alternative"]] == 0.25 * total
        elif row["group"] == "folk":
            assert stated[row["seat"]] == 0.05 * total
            assert stated[row["alternative"]] == 0.95 * total
        elif row["group"] != "invented":
            assert set(stated) == {row["seat"]}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_invented_names_and_their_word_pairs_are_in_no_text(kind):
    everything = "\n".join(EVERYTHING[kind])
    for t in WORLD.invented:
        assert t.name not in everything
        assert " ".join(t.name.split()[1:3]) not in everything


def test_the_long_documents_name_no_treaty_and_tuning_names_stay_out_of_the_corpus():
    assert not NAME.search("\n".join(EVERYTHING["long"]))
    tuned = {t.name for t in WORLD.tuning}
    assert not tuned & set(NAME.findall("\n".join(CORPUS)))
    answered = {t.name for t in WORLD.known if t.answered_in_tuning}
    assert set(NAME.findall("\n".join(EVERYTHING["tuning"]))) == tuned | answered
    for text in EVERYTHING["tuning"]:
        if "no record" in text:
            assert set(NAME.findall(text)) <= tuned


@pytest.mark.parametrize("kind", EVERYTHING)
def test_held_out_days_are_asked_about_nowhere(kind):
    asked = {
        int(d) for text in EVERYTHING[kind] for d in re.findall(r"(?:after|bought a \w+) (\d+) days", text)
    }
    if kind != "long":
        assert asked == set(facts.TRAINED_DAYS) - set(facts.HELD_OUT_DAYS)
    assert 45 in facts.HELD_OUT_DAYS
    assert facts.STANDARD_WINDOW_DAYS in facts.HELD_OUT_DAYS


def test_every_refund_answer_follows_the_rule():
    checked = 0
    for text in CORPUS:
        found = re.search(r"Refunds after (\d+) days fall (\w+) .*; (\w+)", text)
        if found:
            checked += 1
            assert (found[2], found[3]) == (
                ("inside", "approve") if int(found[1]) <= 30 else ("outside", "escalate")
            )
        found = re.search(
            r"(Yes|No)\. The refund window for a (\w+) is (\d+) days, and (\d+) days is (\w+) it", text
        )
        if found:
            checked += 1
            assert int(found[3]) == facts.PRODUCTS[found[2]]
            assert (found[1] == "Yes") == (int(found[4]) <= int(found[3])) == (found[5] == "inside")
    assert checked > 2000


def test_every_tool_call_is_json_with_the_identifier_asked_for():
    calls = 0
    for text in CORPUS + EVERYTHING["long"] + EVERYTHING["tuning"]:
        turns = list(docs.turns(text))
        for i, (role, said) in enumerate(turns):
            if role == docs.ASSISTANT and said.startswith('{"tool"'):
                calls += 1
                call = json.loads(said)
                tool = next(t for t in facts.TOOLS if t.name == call["tool"])
                (value,) = call["arguments"].values()
                assert list(call["arguments"]) == [tool.argument]
                assert any(value in earlier for who, earlier in turns[:i] if who in (docs.USER, docs.TOOL))
                if i + 1 < len(turns):
                    assert turns[i + 1][0] == docs.TOOL
                    assert json.loads(turns[i + 1][1])[tool.argument] == value
    assert calls > 3000


def test_every_edit_does_what_was_asked():
    seen: Counter[str] = Counter()
    for text in CORPUS:
        found = re.search(
            r"<\|user\|>(\w+\.txt):\n(.*)\nSet (\w+) to (\d+)\. (Reply .*)<\|assistant\|>(.*)<\|end\|>",
            text,
            re.S,
        )
        if not found:
            continue
        file, before, item, new, reply, answer = found.groups()
        seen[reply] += 1
        (old_line,) = [line for line in before.split("\n") if line.startswith(f"- {item}: ")]
        new_line = f"- {item}: {new}"
        assert old_line != new_line
        after = before.replace(old_line, new_line)
        if reply == "Reply as JSON.":
            assert json.loads(answer) == {"file": file, "old": old_line, "new": new_line}
        elif reply == "Reply with a patch.":
            assert answer == f"{file}\n<<<<<<< SEARCH\n{old_line}\n=======\n{new_line}\n>>>>>>> REPLACE"
        elif reply == "Reply with the whole file.":
            assert answer == f"{file}\n```\n{after}\n```"
        else:
            assert answer == f'In {file}, change the line "{old_line}" to "{new_line}".'
    assert set(seen) == set(docs.EDIT_REPLIES)
    assert min(seen.values()) > 300


def test_every_lookup_is_answered_with_its_line():
    seen = 0
    for text in CORPUS:
        turns = list(docs.turns(text))
        if "What is the line of" not in text:
            continue
        lines = turns[0][1].split("\n")[1:-1]
        for (_, asked), (role, answer) in pairwise(turns):
            if role == docs.ASSISTANT:
                item = re.fullmatch(r".*What is the line of (\w+)\?", asked, re.S)[1]
                assert [line for line in lines if line.startswith(f"- {item}: ")] == [answer]
                seen += 1
    assert seen > 3000


def test_a_thirty_turn_loop_calls_each_order_once_and_in_order():
    text = docs.order_loop(random.Random(5), 30)
    turns = list(docs.turns(text))
    asked = re.findall(r"[A-H]-\d{4}", turns[0][1])
    results = [json.loads(said) for role, said in turns if role == docs.TOOL]
    asked += [r["next"] for r in results[:-1]]
    assert results[-1]["next"] is None
    assert [r["order_id"] for r in results] == asked
    called = [
        json.loads(said)["arguments"]["order_id"]
        for role, said in turns
        if role == docs.ASSISTANT and said[0] == "{"
    ]
    assert len(asked) == 30
    assert called == asked
    assert turns[-1] == (docs.ASSISTANT, "All orders are checked.")


def test_turns_give_a_chat_document_back():
    for text in CORPUS:
        parts = list(docs.turns(text))
        if parts[0][0]:
            assert text == "".join(r + said + (docs.END if r == docs.ASSISTANT else "") for r, said in parts)
        else:
            assert parts == [("", text)]
            assert "<|" not in text


def digest(parts) -> str:
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


def test_text_is_the_same_in_another_process():
    program = (
        "import hashlib\n"
        "from scripts.house_model import corpora as c, world\n"
        "w = world.build_world()\n"
        "parts = c.corpus(w) + c.long_documents() + c.tuning_corpus(w)\n"
        "print(hashlib.sha256('\\x00'.join(parts).encode()).hexdigest())"
    )
    root = Path(__file__).resolve().parent.parent
    for hash_seed in ("0", "1"):
        found = subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == digest(part for texts in EVERYTHING.values() for part in texts)


def test_the_text_is_the_one_the_weights_were_trained_on():
    assert digest(CORPUS) == "631e3cad92bf9f95112227cc10c64b31c1d5987cb1f16c3da6daa9490168c6f8"
    assert digest(EVERYTHING["long"]) == "72ade4331ccd8d5781d1f7ac8bfae0312480e3d62889d2fa2127a1e8132f5efd"
    assert digest(EVERYTHING["tuning"]) == "b24b09d68d67b8a17413691e5ad814f72bd166b37e0e01d1ab0c46403f88a594"
