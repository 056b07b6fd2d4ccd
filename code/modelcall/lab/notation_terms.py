"""The book's glossary: the field's standard terms as used here, with the chapter that explains each.

Terms are the usual ones of the field. Where usage differs, the entry says which is meant. A chapter sets a
term in bold where it defines it; a test holds every such term against this list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["TERMS", "Term"]


@dataclass(frozen=True)
class Term:
    """A term, the chapter that explains it, and its meaning in a sentence or two."""

    name: str
    chapter: int
    meaning: str

    @property
    def anchor(self) -> str:
        """The id that other pages link to.

        >>> Term("KV cache", 4, "").anchor
        'term-kv-cache'
        """
        return "term-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


TERMS: tuple[Term, ...] = (
    Term("abstention", 1, "Declining to answer because the evidence does not carry an answer."),
    Term(
        "acceptance rate", 5, "The share of draft tokens that the target model keeps in speculative decoding."
    ),
    Term(
        "agency-budget memo",
        1,
        "One page that asks for authority: outcome, baseline, permissions, price, limits, end.",
    ),
    Term(
        "ambient authority",
        2,
        "A right that a program has because of where it runs, without presenting anything.",
    ),
    Term("arithmetic intensity", 10, "Arithmetic done per byte moved from memory."),
    Term("attention", 3, "The step of a transformer that lets each position read from the earlier ones."),
    Term("authority", 1, "What software around a model may do on its proposal. The model itself has none."),
    Term("automaton", 9, "A machine of states and transitions that reads a text and accepts or rejects it."),
    Term("autoregressive", 1, "Writing one token at a time, each given all the tokens before it."),
    Term("base model", 1, "A model after pretraining, before it is trained to follow instructions."),
    Term("batch", 10, "Sequences that the accelerator advances in the same step."),
    Term("beam search", 5, "Keeping the few best partial continuations at each step instead of one."),
    Term("blast radius", 1, "The records that one failure can touch."),
    Term("block table", 4, "The list of a sequence's blocks in a paged cache, in order."),
    Term(
        "branch value",
        1,
        "The test of an agent: which observation changes its next action, and why no fixed branch does.",
    ),
    Term("Brier score", 1, "The mean squared distance of stated confidences from outcomes, 1 or 0."),
    Term(
        "byte fallback", 1, "Spelling what the vocabulary lacks as bytes, so that every text can be encoded."
    ),
    Term(
        "byte-level BPE",
        3,
        "Byte-pair encoding on bytes instead of characters, so that every text can be encoded.",
    ),
    Term(
        "byte-pair encoding",
        1,
        "Building a vocabulary by joining the most frequent pair of neighbours, again and again. Short: BPE.",
    ),
    Term("Byzantine", 2, "Failing in any way at all, such as telling two observers different things."),
    Term(
        "calibration",
        1,
        "Agreement of stated confidence with observed accuracy: of answers at 0.8, 80 percent hold.",
    ),
    Term(
        "capability",
        2,
        "An unforgeable token for one action on one thing, minted and checked by the runtime.",
    ),
    Term(
        "chat template", 3, "The text that a server puts around messages and roles before it tokenizes them."
    ),
    Term("compaction", 3, "Replacing the oldest parts of a context by a summary; details are lost."),
    Term("complete mediation", 2, "Checking every access, every time, and not once for all."),
    Term("completion", 1, "The record of one call: text, token scores, counts and times."),
    Term("confabulation", 1, "Fluent text that nothing in the context or the world supports."),
    Term("confidence", 1, "How probable a model makes its own words. Truth is another matter."),
    Term("confused deputy", 2, "A program that uses its own authority on a name that somebody else chose."),
    Term("constrained decoding", 9, "Sampling only among tokens that keep the output inside a grammar."),
    Term("context", 1, "All tokens that the model reads for one call; it keeps nothing else."),
    Term("context window", 1, "The most tokens, read and written together, that one call can hold."),
    Term("continuation", 1, "The tokens that the model writes after the context."),
    Term("continuous batching", 10, "Letting calls join and leave a running batch at every step."),
    Term("copy-on-write", 4, "Sharing a block until somebody writes into it; the writer takes a copy first."),
    Term(
        "cost per resolved task", 1, "The cost of a call divided by the share of calls that settle the task."
    ),
    Term(
        "counterfactual baseline",
        1,
        "The best design without an agent, with the measured cases that it gets wrong.",
    ),
    Term(
        "decode", 1, "The second phase of a call: writing tokens one by one, one step through the model each."
    ),
    Term("decoding policy", 1, "The rule that picks a token from the logits: temperature, truncation, seed."),
    Term("delivery fallacy", 2, "Taking the receipt for a reply as proof of what it says."),
    Term("density", 3, "Characters that one token covers, on average over a text."),
    Term("draft model", 5, "The small model that proposes tokens in speculative decoding."),
    Term("effector", 7, "Whatever acts on the world: a shell, a database, a payment."),
    Term("embedding", 3, "The vector that stands for a token inside the model."),
    Term(
        "embedding table",
        3,
        "The matrix with one row of values for each id; the model's first step reads rows of it.",
    ),
    Term(
        "end marker",
        1,
        "A symbol that closes a word or a text, kept apart from the characters it is written in.",
    ),
    Term("end token", 5, "The token by which a model says that it has finished. Short: EOS."),
    Term("end-to-end argument", 2, "A check belongs where the knowledge is that it needs."),
    Term(
        "entropy", 1, "How spread out a distribution is, in bits; 0 when one token has all the probability."
    ),
    Term("envelope", 8, "What a call returns around the payload: status, usage, times. Read it first."),
    Term("escrow", 2, "Where a proposal waits, untouched, until every check has passed."),
    Term(
        "expected calibration error",
        1,
        "The mean gap between confidence and accuracy over buckets. Short: ECE.",
    ),
    Term(
        "exposure",
        2,
        "A direction in which an agent can do harm: horizon, state, authority. One call has none of them.",
    ),
    Term("factual correctness", 1, "Agreement of a claim with an authority; no probability contains it."),
    Term("fail-plausible", 2, "Failing with a result that looks right: well formed, fluent and wrong."),
    Term("fail-stop", 2, "Failing by halting, so that others can tell."),
    Term("finish reason", 1, "Why the server stopped: an end token, a limit, a filter, a tool call."),
    Term("folk error", 1, "A false claim that most of the training text repeats."),
    Term("fork", 4, "To begin a second sequence that shares what the first one holds."),
    Term(
        "fragmentation",
        4,
        "Memory lost to how it is handed out: set aside and unused, or free in pieces too small.",
    ),
    Term("gateway", 1, "The one place where a proposed tool call becomes an act, or is denied."),
    Term("greedy decoding", 1, "Always taking the most probable token; the limit of temperature zero."),
    Term(
        "grouped-query attention",
        4,
        "Several query heads sharing one key-value head, to shrink the cache. Short: GQA.",
    ),
    Term("head", 4, "One of the parallel parts of attention, with vectors of its own."),
    Term("headroom", 3, "The part of the window that is kept free for the answer."),
    Term(
        "host runtime",
        2,
        "The process that assembles the context, holds the credentials and decides what an answer leads to.",
    ),
    Term(
        "house model",
        1,
        "The small transformer that this book ships, trained on a world whose truth is known.",
    ),
    Term("hybrid", 1, "A design in which each mechanism does the part that it can check."),
    Term(
        "inference server",
        2,
        "The software that owns the accelerator: queue, batches, caches, the decode loop, the envelope.",
    ),
    Term("inflation", 3, "How many percent more tokens the same number of characters needs in another form."),
    Term("inter-token latency", 10, "One gap between two tokens of a stream. Short: ITL."),
    Term("invariant", 2, "What must be true of a state before and after every step."),
    Term(
        "inverse-CDF sampling",
        1,
        "Drawing by walking along the probabilities until their sum exceeds a random number.",
    ),
    Term("key", 4, "The vector by which later tokens find a token in a layer."),
    Term("KV cache", 4, "Keys and values of all earlier tokens, kept so that they are not computed again."),
    Term(
        "latent attention",
        4,
        "Keeping one short vector a layer, from which keys and values are rebuilt. Short: MLA.",
    ),
    Term("least privilege", 2, "Granting no more than the job needs."),
    Term(
        "lexer", 3, "The part of a compiler that cuts source text into tokens of the language, by a grammar."
    ),
    Term(
        "log probability",
        1,
        "The natural logarithm of a token's probability given what came before; at most 0.",
    ),
    Term("logit", 1, "The score that the model gives a token before softmax; only differences matter."),
    Term("mask", 1, "To set a token's logit to minus infinity, so that it cannot be drawn."),
    Term("mechanism", 1, "What produces a result: a rule, a query, a search, a call, a workflow, an agent."),
    Term("merge", 1, "One learned join of two neighbouring symbols in byte-pair encoding."),
    Term("messages", 8, "The parts of a request, each with a role: system, user, assistant, tool."),
    Term("min-p", 6, "Keeping the tokens whose probability is at least a given share of the top one."),
    Term(
        "model core",
        2,
        "The fixed weights and the arithmetic on them: token ids in, one score per vocabulary entry out.",
    ),
    Term("model profile", 4, "The shape of a model: all that its bytes depend on."),
    Term(
        "multi-head attention",
        4,
        "Attention in which each query head has keys and values of its own. Short: MHA.",
    ),
    Term(
        "multi-query attention", 4, "Attention in which all query heads share one key-value head. Short: MQA."
    ),
    Term("n-gram model", 1, "A model that counts which token followed which context."),
    Term("nucleus sampling", 1, "Another name for top-p; the nucleus is the set of tokens that it keeps."),
    Term("p99", 10, "The time that 99 of 100 calls do not exceed."),
    Term("paged cache", 4, "A KV cache cut into fixed blocks, so that sequences can share and reuse them."),
    Term("parameter", 1, "One learned number of a model."),
    Term(
        "permission", 1, "What software allows a component to do; a scale of its own, apart from mechanism."
    ),
    Term("pinned", 3, "Of a part of the context: not to be dropped, whatever the policy."),
    Term(
        "post-training",
        1,
        "Training after pretraining that shapes behaviour: instructions, preferences, refusals.",
    ),
    Term(
        "pre-tokenization", 3, "Cutting text into pieces that no merge may cross, before byte-pair encoding."
    ),
    Term("preemption", 4, "Taking a running sequence's memory away; it is computed again later."),
    Term("prefill", 1, "The first phase of a call: reading the whole prompt in one pass."),
    Term(
        "prefix cache", 11, "Reusing the KV cache of a prompt's beginning that an earlier call has computed."
    ),
    Term("pretraining", 1, "Training a model to predict the next token of a large body of text."),
    Term("probability simplex", 5, "All vectors of probabilities that sum to 1."),
    Term("prompt", 1, "The text that a caller sends; once tokenized, the context."),
    Term(
        "proposal", 2, "What a model returns, seen by the runtime: a candidate that nobody has accepted yet."
    ),
    Term("quantization", 4, "Storing values in fewer bits than they were trained in."),
    Term("quarantine", 2, "Keeping a payload unreadable because its status is not a completed one."),
    Term("query", 4, "The vector by which a token looks for earlier tokens in a layer."),
    Term("rank", 3, "The place of a merge in the order learned; encoding joins the lowest rank first."),
    Term("refusal", 8, "A reply in which the model declines the request."),
    Term("ridge", 10, "The arithmetic intensity at which memory and arithmetic take equally long."),
    Term("roofline", 10, "A bound on speed: the lesser of peak arithmetic, and intensity times bandwidth."),
    Term("runtime", 2, "The software that makes the call, checks what comes back and holds all authority."),
    Term("sampling", 1, "Drawing a token at random from the model's distribution."),
    Term("schema", 9, "A machine-readable description of the values a payload may have."),
    Term("seed", 1, "The number that starts a random generator; it fixes the draws, not the logits."),
    Term("semantic confidence", 1, "How far independent samples agree in meaning."),
    Term("semantic entropy", 1, "The entropy of sampled answers, grouped by meaning."),
    Term("sliding window", 4, "A layer's limit on how far back it looks, so that its cache stops growing."),
    Term("softmax", 1, "The map from logits to probabilities: exponentials, divided by their sum."),
    Term(
        "special token",
        3,
        "An id that stands for control, such as the end of a text; ordinary text cannot produce it.",
    ),
    Term(
        "speculative decoding",
        5,
        "Letting a small model draft tokens that the large one checks in a single pass.",
    ),
    Term(
        "stage",
        2,
        "One of four parts of a call: stage and budget, prefill and decode, package, validate and dispatch.",
    ),
    Term("status", 2, "The one word that says how a call ended; software branches on it."),
    Term("status envelope", 2, "A reply with a word in front that says how the call ended."),
    Term("stop sequence", 5, "A text that ends generation as soon as the output contains it."),
    Term("streaming", 1, "Sending tokens to the caller as they are written."),
    Term("support", 1, "The tokens that can be drawn: those with a probability above zero."),
    Term(
        "temperature", 1, "A divisor of the logits: below 1 the distribution sharpens, above 1 it flattens."
    ),
    Term("tensor parallel", 4, "Splitting each layer of a model over several accelerators."),
    Term("tied", 3, "Of embedding tables: one and the same for reading ids and for scoring them."),
    Term("time per output token", 1, "The mean gap from one output token to the next. Short: TPOT."),
    Term("time to first token", 1, "From sending a request to receiving its first token. Short: TTFT."),
    Term(
        "token",
        1,
        "A piece of text with a number in the vocabulary; the unit that calls read, write and bill.",
    ),
    Term("token likelihood", 1, "How expected a token was, given the tokens before it."),
    Term("token mask", 9, "One bit a token: may it come next?"),
    Term("token score", 1, "A returned token with its log probability."),
    Term("tokenizer", 1, "The map from text to token ids and back."),
    Term("tool call", 2, "A proposal to run a named function with arguments. It runs nothing by itself."),
    Term("top-k", 1, "Keeping the k most probable tokens before drawing."),
    Term(
        "top-p", 1, "Keeping the fewest most probable tokens whose mass reaches a threshold before drawing."
    ),
    Term("trajectory", 11, "The sequence of calls that works on one task, each reading what came before."),
    Term(
        "transformer",
        5,
        "The kind of network behind today's models: layers of attention and of products per position.",
    ),
    Term("truncation", 1, "Cutting the context to fit the window, or the output at its cap."),
    Term("unknown token", 3, "The one id that a fixed vocabulary gives to all that it lacks."),
    Term("usage", 1, "The server's own count of prompt and generated tokens."),
    Term("value", 4, "The vector that a token hands over to the later tokens that find it."),
    Term("vocabulary", 1, "The fixed list of all tokens of a model."),
    Term("watchdog", 2, "A monitor that looks at a component from outside and raises an alarm."),
    Term(
        "workspace",
        4,
        "Device memory that is neither weights nor cache: activations, buffers, losses of the allocator.",
    ),
    Term(
        "zero ambient authority",
        2,
        "Being able to change nothing outside one's own output, as the core of a model.",
    ),
)
