"""The exercises of chapter 1 on decisions and costs; those on the call itself are in ``ch01``."""

from __future__ import annotations

import random

from modelcall import ch01
from modelcall.checks.grading import Answer, Wrong, apart, close, exercise, number, sequence
from modelcall.checks.values import retyped

__all__ = ["exercise_1_5", "exercise_1_6", "exercise_1_7"]


@exercise(
    "1.5",
    "Turn confidence into an action",
    "decide",
    [
        "What does each action cost on average? A right answer costs nothing.",
        "Answering costs `(1 - confidence) * wrong_usd` on average, a handoff `handoff_usd` for certain.",
        'Answer if `(1 - confidence) * wrong_usd <= handoff_usd`, otherwise `"hand off"`.',
    ],
)
def exercise_1_5(answer: Answer, rng: random.Random) -> None:
    cases = [(0.9, 3.0, 1.5), (0.9, 60.0, 1.5), (0.2, 1.0, 5.0), (0.75, 8.0, 2.0), (1.0, 100.0, 0.0)]
    cases += [(0.5, 0.0, 0.0), (0.0, 4.0, 1.0), (0.3, 10.0, 8.0), (0.85, 10.0, 8.0)]
    for _ in range(200):
        sure, wrong, handoff = rng.random(), rng.uniform(0.5, 80), rng.uniform(0.1, 20)
        if abs((1 - sure) * wrong - handoff) > 0.05:
            cases.append((sure, wrong, handoff))
    got = []
    for case in cases:
        action = answer(*case)
        if action not in ("answer", "hand off"):
            raise Wrong(f"{answer.shown(*case)} returns {action!r}; expected 'answer' or 'hand off'")
        got.append(action == "answer")
    want = [(1 - sure) * wrong <= handoff for sure, wrong, handoff in cases]
    if got == want:
        return
    if got == [sure * wrong <= handoff for sure, wrong, handoff in cases]:
        raise Wrong(
            "decide: it weighs the loss by the chance of being right; a wrong answer costs, so 1 - confidence"
        )
    turned = [not right for right in want]
    if sum(a != b for a, b in zip(got, turned, strict=True)) <= 2:
        raise Wrong("decide: the two actions are exchanged")
    cuts = [sure for (sure, _, _), yes in zip(cases, got, strict=True) if yes]
    passed_over = [sure for (sure, _, _), yes in zip(cases, got, strict=True) if not yes]
    if not cuts or not passed_over:
        raise Wrong(f"decide: it always says {'answer' if cuts else 'hand off'!r}")
    if min(cuts) >= max(passed_over):
        raise Wrong(
            "decide: one threshold on the confidence for all costs: at 60 USD for a wrong answer it must be "
            "far higher than at 3 USD"
        )
    if all(
        yes == (sure >= min(1.0, h / w if w else 0.0)) for (sure, w, h), yes in zip(cases, got, strict=True)
    ):
        raise Wrong(
            "decide: the threshold is handoff / wrong; that is the highest *risk* to take, so 1 minus it"
        )
    at = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b)
    sure, wrong, handoff = cases[at]
    loss = (1 - sure) * wrong
    tie = "; at a tie, answer" if close(loss, handoff) else ""
    raise Wrong(
        f"{answer.shown(*cases[at])}: answering loses {loss:.2f} USD on average, a handoff costs "
        f"{handoff:.2f}, but it says {'answer' if got[at] else 'hand off'!r}{tie}"
    )


@exercise(
    "1.6",
    "Cost a real request",
    "phases",
    [
        "Which tokens wait for the prompt to be read, and which for the token before them?",
        "The first token comes after the fixed cost and the whole prompt; `K` tokens have `K - 1` gaps.",
        "`simulate_decode(prompt_tokens, output_tokens, jitter_ms=0.0)` gives all arrivals: the first one, "
        "and the last minus the first.",
    ],
)
def exercise_1_6(answer: Answer, rng: random.Random) -> None:
    cases = [(800, 20), (100, 400), (4000, 20), (0, 2), (200, 1)]
    cases += [(rng.randrange(5000), rng.randint(1, 500)) for _ in range(20)]
    for prompt, output in cases:
        call = answer.shown(prompt, output)
        first, second = sequence(answer(prompt, output), 2, call)
        ttft, decode = number(first, f"{call}: the TTFT"), number(second, f"{call}: the decode time")
        want_ttft, want = 8.0 + 0.4 * prompt, 18.0 * (output - 1)
        if close(ttft, want_ttft) and abs(decode - want) < 1e-6:
            continue
        if close(ttft, want_ttft) and (close(decode, want + 18.0) or close(decode, want - 18.0)):
            found = round(decode / 18.0)
            raise Wrong(f"{call}: {output} tokens have {output - 1} gaps between them, not {found}")
        if close(ttft, want_ttft) and close(decode, want_ttft + want):
            raise Wrong(f"{call}: the second result is the total; decode begins at the first token")
        if close(ttft, want_ttft - 8.0):
            raise Wrong(f"{call}: the TTFT lacks the fixed cost of 8.0 ms, which no prompt changes")
        if close(ttft, want_ttft) and output > 1 and close(decode, 18.0):
            raise Wrong(f"{call}: the second result is the time of one token, not of the phase")
        if close(ttft, want_ttft + 18.0):
            raise Wrong(
                f"{call}: the TTFT has the time of an output token in it; the first token comes with the "
                "prompt"
            )
        if close(ttft, want_ttft) and close(decode, want + 8.0):
            raise Wrong(f"{call}: the fixed cost of 8.0 ms is paid once, before the first token")
        if close(ttft, want_ttft) and 0 < abs(decode - want) <= 1.5 * output:
            raise Wrong(f"{call}: the decode time has jitter in it; simulate with jitter_ms=0.0")
        if close(ttft * 1000, want_ttft):
            raise Wrong(f"{call}: the results are in seconds; expected milliseconds")
        if close(ttft, want) and close(decode, want_ttft):
            raise Wrong(f"{call}: the two phases are exchanged")
        name, got, right = (
            ("TTFT", ttft, want_ttft) if not close(ttft, want_ttft) else ("decode time", decode, want)
        )
        raise Wrong(f"{call}: the {name} is {apart(got, right, ' ms')}")


@exercise(
    "1.7",
    "Defend a design without an agent, then price the step",
    "defend",
    [
        "Write the proposal first: an `AgentProposal` with a baseline that somebody measured.",
        "An agent needs a case that the baseline gets wrong, and an observation that changes the next step.",
        "The memo buys steps of `LADDER` on top of the same baseline; `memo_problems` must find nothing.",
    ],
)
def exercise_1_7(answer: Answer, rng: random.Random) -> None:
    proposal, memo = sequence(answer(), 2, "defend()")
    for value, kind in ((proposal, "AgentProposal"), (memo, "AgencyBudgetMemo")):
        if type(value).__name__ != kind:
            raise Wrong(
                f"defend(): expected a proposal and a memo in this order; found {type(value).__name__}"
            )
    if not proposal.name.strip():
        raise Wrong("defend(): the proposal has no name")
    if len(proposal.baseline_right) < 2:
        raise Wrong("defend(): a baseline measured on fewer than two cases is not measured")
    if all(proposal.baseline_right.values()):
        raise Wrong(
            "defend(): the baseline gets every case right, so nothing justifies a step beyond it; name the "
            "measured failure"
        )
    if not any(proposal.baseline_right.values()):
        raise Wrong("defend(): the baseline gets no case right; a best baseline is right somewhere")
    if proposal.listed_in_advance:
        raise Wrong(
            "defend(): all observations can be listed in advance, so a fixed branch does what the agent would"
        )
    if objections := ch01.agent_objections(retyped(proposal, ch01.AgentProposal, ch01)):
        raise Wrong(f"defend(): {objections[0]}")
    if not memo.feature.strip() or memo.feature != proposal.name:
        raise Wrong(f"defend(): the memo is about {memo.feature!r}, the proposal about {proposal.name!r}")
    if memo.baseline != proposal.baseline:
        raise Wrong("defend(): memo and proposal name different baselines; the increment counts from one")
    if not memo.rungs:
        raise Wrong("defend(): the memo buys no step of LADDER; the step to price is the bounded agent")
    for name in ("prompt_cap_tokens", "output_cap_tokens", "review_days"):
        if getattr(memo, name) < 1:
            raise Wrong(f"defend(): {name} is {getattr(memo, name)}; expected at least 1")
    if problems := ch01.memo_problems(retyped(memo, ch01.AgencyBudgetMemo, ch01)):
        raise Wrong(f"defend(): {problems[0]}")
    names = [rung.name for rung in memo.rungs]
    if "bounded agent" not in names:
        raise Wrong(f"defend(): the memo buys {', '.join(names)}; the step to price is the bounded agent")
    if not any(grant is None for grant in memo.authority.values()):
        raise Wrong("defend(): the memo refuses no action; say what the agent may not do")
    if not any(memo.authority.values()):
        raise Wrong("defend(): the memo grants no action; an agent that may do nothing needs no memo")
