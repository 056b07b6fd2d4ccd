"""The book's notation: every symbol with one meaning and one unit, and how the page prints it.

The two source chapters reuse symbols: T_max is a token limit and a deadline, M a prompt length, a mask and
a memory bound. Here each symbol means one thing in all chapters, and ``elsewhere`` says what the sources
write for it. The glossary of terms is in ``notation_terms``.
"""

from __future__ import annotations

from dataclasses import dataclass

from modelcall.lab.notation_terms import TERMS, Term

__all__ = ["CHAPTERS", "SYMBOLS", "TERMS", "Symbol", "Term", "symbols_markdown", "terms_markdown"]

# The pages of the chapters that exist; the glossary links to these and names the others by number.
CHAPTERS: dict[int, str] = {
    1: "01-on-ramp.ipynb",
    2: "02-boundary.ipynb",
    3: "03-tokens.ipynb",
    4: "04-kv-cache.ipynb",
}


@dataclass(frozen=True)
class Symbol:
    """A symbol in TeX, what it stands for, its unit ("" for none), and what the sources write for it."""

    tex: str
    meaning: str
    unit: str = ""
    elsewhere: str = ""


SYMBOLS: dict[str, tuple[Symbol, ...]] = {
    "One call": (
        Symbol("x_{1:S}", "the context: all tokens that the model reads before it writes", "token ids"),
        Symbol("y_{1:K}", "the continuation: the tokens that the model writes", "token ids"),
        Symbol("S", "prompt tokens of one call", "tokens", "M in A, n in B"),
        Symbol("K", "generated tokens of one call", "tokens", "m and N in B"),
        Symbol("S_{\\max}", "context window: the most that S + K can be", "tokens", "also S_total in A"),
        Symbol("K_{\\max}", "cap on generated tokens, set by the caller", "tokens", "also T_max in A"),
        Symbol("T_{\\max}", "deadline of a call, set by the caller", "s"),
        Symbol("V", "size of the vocabulary", "tokens"),
        Symbol("\\theta", "the values of the model's parameters", "", "Θ in A"),
    ),
    "Distributions and sampling": (
        Symbol("z_i", "logit of token i", "nats"),
        Symbol("p_i", "probability of token i under the model that is sampled", "", "also P in A"),
        Symbol("T", "temperature; always without a subscript", "", "τ in A"),
        Symbol("k", "tokens kept by top-k", "tokens"),
        Symbol("p", "mass that the tokens kept by top-p must reach; always without a subscript"),
        Symbol("u", "number drawn evenly from 0 up to, and not including, 1"),
        Symbol("H", "entropy of a distribution over tokens", "bits"),
        Symbol("q_i", "probability of token i under the draft model", ""),
        Symbol("\\alpha", "probability that a draft token is accepted", "", "also a false-pass rate in A"),
        Symbol("\\gamma", "draft tokens checked in one pass", "tokens", "K in A"),
        Symbol("c", "time of a draft step over time of a target step", ""),
    ),
    "Model and machine": (
        Symbol("P", "number of parameters", "", "also performance and probability in A"),
        Symbol("L", "number of layers", ""),
        Symbol("d", "width of the model's hidden state", ""),
        Symbol("d_h", "width of one attention head", ""),
        Symbol("n_q", "query heads in a layer", ""),
        Symbol("n_{kv}", "key-value heads in a layer", ""),
        Symbol("b", "bytes of one stored value", "bytes", "the leading 2 in one formula of A"),
        Symbol("m_{kv}", "bytes of KV cache for one token", "bytes/token", "M_token in A"),
        Symbol("B", "batch: sequences that one step advances", "sequences"),
        Symbol("\\pi", "peak arithmetic rate, named with its number format", "FLOP/s", "P_peak in A"),
        Symbol("\\beta", "memory bandwidth", "bytes/s", "B_mem in A"),
        Symbol("I", "arithmetic intensity of a step", "FLOP/byte"),
        Symbol("I^*", "ridge of the roofline, where I equals π/β", "FLOP/byte"),
        Symbol("\\eta", "share of the peak arithmetic rate in use", ""),
    ),
    "Time": (
        Symbol("T_{\\text{prep}}", "preparing and tokenizing the prompt", "s"),
        Symbol("T_{\\text{queue}}", "waiting to be scheduled", "s"),
        Symbol("T_{\\text{prefill}}", "reading the prompt, up to the first sampled token", "s"),
        Symbol("T_{\\text{decode}}", "writing the tokens after the first", "s"),
        Symbol("T_{\\text{post}}", "decoding text and checking it", "s"),
        Symbol("T_{\\text{call}}", "all five together", "s"),
        Symbol(
            "\\text{TTFT}",
            "time to first token: request sent to first token received",
            "ms",
            "four definitions in A and B",
        ),
        Symbol("\\text{TPOT}", "time per output token: mean gap between tokens, over K − 1 gaps", "ms"),
        Symbol("\\text{ITL}", "inter-token latency: one gap between two tokens", "ms"),
        Symbol("\\lambda", "arrival rate of calls at a server", "calls/s"),
    ),
    "Checking and trajectories": (
        Symbol("\\varepsilon", "share of candidates that are defective", ""),
        Symbol("r_{tp}", "share of sound candidates that a check passes", "", "true-pass rate"),
        Symbol("r_{fp}", "share of defective candidates that a check passes", "", "α in A"),
        Symbol("\\mathcal{Q}", "states of an automaton", ""),
        Symbol("\\delta", "transition of an automaton: a state and a byte give a state", ""),
        Symbol("N", "calls in a trajectory", "calls"),
        Symbol("S_0", "prompt tokens of its first call", "tokens"),
        Symbol("\\Delta", "tokens by which the prompt grows from call to call", "tokens"),
        Symbol("R_{\\text{syntax}}", "share of outputs that parse", ""),
        Symbol("\\text{PASS}", "share of tasks whose result is verified, within the budget", ""),
    ),
}


def symbols_markdown(group: str) -> str:
    """Return one group of symbols as a Markdown table.

    Raises:
        ValueError: there is no such group.

    >>> print(symbols_markdown("Time").splitlines()[-1])
    | $\\lambda$ | arrival rate of calls at a server | calls/s |
    """
    if group not in SYMBOLS:
        raise ValueError(f"group: expected one of {', '.join(SYMBOLS)}; got {group!r}")
    # Pandoc reads the lengths of the dashes as the widths of the columns.
    lines = ["| symbol | meaning | unit |", f"|{'-' * 4}|{'-' * 14}|{'-' * 6}|"]
    for symbol in SYMBOLS[group]:
        aside = f" *({symbol.elsewhere})*" if symbol.elsewhere else ""
        lines.append(f"| ${symbol.tex}$ | {symbol.meaning}{aside} | {symbol.unit} |")
    return "\n".join(lines)


def terms_markdown() -> str:
    """Return the glossary as Markdown, a paragraph and an anchor ``term-...`` for each term.

    >>> print(terms_markdown().splitlines()[0][:60])
    <span id="term-abstention">**abstention**</span> · Declining
    """
    blocks = []
    for term in TERMS:
        page = CHAPTERS.get(term.chapter)
        chapter = f"[chapter {term.chapter}]({page})" if page else f"chapter {term.chapter}"
        blocks.append(f'<span id="{term.anchor}">**{term.name}**</span> · {term.meaning} ({chapter})')
    return "\n\n".join(blocks)
