"""Short horizons as SMT-LIB files: a third opinion, from any solver of linear arithmetic.

The file asks for a wrong word of L to N symbols. Each step chooses a symbol, by Booleans, which says which linear
equations hold between the entries of two hidden states, and which state of the machine follows. `unsat` means that
there is no wrong word; `sat` comes with one: `x3_1` is true if the third symbol is 1, `a3` if there is a third symbol.
"""

from collections.abc import Iterator, Sequence

from statewise.errors import NetworkError
from statewise.machines import Machine
from statewise.runs.run import Run
from statewise.theory.certify import Verdict
from statewise.theory.network import Network
from statewise.theory.statement import Statement, described, statement_of

# a counterexample of up to so many symbols is asked for
_LONGEST_WRONG = 12
# other files are about so many words at most
_MAX_WORDS = 5_000
_MAX_TERMS = 1_000_000


def smt_file(network: Network, machine: Machine, verdict: Verdict, run: Run | None = None) -> str:
    """Write a short horizon as an SMT-LIB file: `unsat` means that all judged words of up to N symbols are right.

    N is the length of the counterexample, if that is short; otherwise so small that there are few words.

    Args:
        network: the network that was judged.
        machine: what it was compared with.
        verdict: what was decided.
        run: where the network came from; None for one in memory.
    """
    statement = statement_of(network, machine, verdict.shortest, verdict.restricted)
    longest = _longest(statement, verdict)
    terms = longest * int((statement.matrices != 0).sum())
    if terms > _MAX_TERMS:
        raise NetworkError(
            f"an SMT-LIB file of all words of up to {longest} symbols would have {terms:,} terms; expected at most "
            f"{_MAX_TERMS:,}; leave --smt out"
        )
    judged = f"{'legal ' if statement.restricted else ''}word of {statement.shortest} to {longest} symbols"
    about = [
        *described(statement, run),
        f"unsat: on every {judged} the logit of the machine's answer is strictly the largest",
        "sat: on some such word it is not; x3_1 says that the third symbol is 1, a3 that there is a third symbol",
    ]
    comments = ["; " + " ".join(line.split()) for line in about]
    return "\n".join([*comments, "(set-logic QF_LRA)", *_declared(statement, longest), *_asserted(statement, longest)])


def _longest(statement: Statement, verdict: Verdict) -> int:
    """Return up to which length words are asked for."""
    found = verdict.counterexample
    if found is not None and len(found.word) <= _LONGEST_WRONG:
        return len(found.word)
    length = statement.shortest
    while statement.symbols ** (length + 1) <= _MAX_WORDS and length < _LONGEST_WRONG:
        length += 1
    return length if verdict.horizon is None else max(statement.shortest, min(length, verdict.horizon))


def _declared(statement: Statement, longest: int) -> Iterator[str]:
    """Declare, for each time: symbols, states of machine and language, entries of the hidden state, logits."""
    for t in range(longest + 1):
        yield from (f"(declare-const h{t}_{i} Real)" for i in range(statement.hidden))
        yield from (f"(declare-const y{t}_{k} Real)" for k in range(statement.classes))
        yield from (f"(declare-const q{t}_{s} Bool)" for s in range(statement.machine.states))
        yield from (f"(declare-const r{t}_{s} Bool)" for s in range(len(statement.language)))
        if t:
            yield f"(declare-const a{t} Bool)"
            yield from (f"(declare-const x{t}_{a} Bool)" for a in range(statement.symbols))


def _asserted(statement: Statement, longest: int) -> Iterator[str]:
    machine = statement.machine
    yield from (f"(assert (= h0_{i} {_number(value)}))" for i, value in enumerate(statement.initial.tolist()))
    yield f"(assert q0_{machine.start})"
    yield "(assert r0_0)"
    for t in range(longest + 1):
        yield from _one([f"q{t}_{s}" for s in range(machine.states)])
        yield from _one([f"r{t}_{s}" for s in range(len(statement.language))])
        yield from (f"(assert (= y{t}_{k} {_sum(f'h{t}', row)}))" for k, row in enumerate(statement.readout.tolist()))
        if t:
            yield from _step(statement, t)
    wrong = [
        f"(and {'true' if t == 0 else f'a{t}'} {_wrong(statement, t)})" for t in range(statement.shortest, longest + 1)
    ]
    yield f"(assert (or false {' '.join(wrong)}))"
    yield "(check-sat)\n(get-model)\n"


def _step(statement: Statement, t: int) -> Iterator[str]:
    """Say what follows if there is a symbol at a time; if there is none, there is none later."""
    machine, symbols = statement.machine, range(statement.symbols)
    if t > 1:
        yield f"(assert (=> a{t} a{t - 1}))"
    yield f"(assert (=> a{t} (or false {' '.join(f'x{t}_{a}' for a in symbols)})))"
    yield from _one([f"x{t}_{a}" for a in symbols])
    for a in symbols:
        for i, row in enumerate(statement.matrices[a].tolist()):
            yield f"(assert (=> (and a{t} x{t}_{a}) (= h{t}_{i} {_sum(f'h{t - 1}', row)})))"
        for s, there in enumerate(machine.delta[:, a].tolist()):
            yield f"(assert (=> (and a{t} x{t}_{a} q{t - 1}_{s}) q{t}_{there}))"
        for s, moves in enumerate(statement.language):
            there = "false" if moves[a] is None else f"r{t}_{moves[a]}"
            yield f"(assert (=> (and a{t} x{t}_{a} r{t - 1}_{s}) {there}))"


def _wrong(statement: Statement, t: int) -> str:
    """Write that at a time another logit is not below that of the machine's answer."""
    cases = []
    for own in sorted(set(statement.machine.outputs.tolist())):
        states = [f"q{t}_{s}" for s, output in enumerate(statement.machine.outputs.tolist()) if output == own]
        rivals = [f"(>= y{t}_{k} y{t}_{own})" for k in range(statement.classes) if k != own]
        cases.append(f"(and (or {' '.join(states)}) (or false {' '.join(rivals)}))")
    return f"(or {' '.join(cases)})"


def _one(names: Sequence[str]) -> Iterator[str]:
    """Say that at most one of some Booleans is true."""
    for place, name in enumerate(names):
        yield from (f"(assert (or (not {other}) (not {name})))" for other in names[:place])


def _sum(vector: str, row: Sequence[int]) -> str:
    terms = [f"(* {_number(value)} {vector}_{j})" for j, value in enumerate(row) if value]
    return f"(+ {' '.join(terms)})" if len(terms) > 1 else terms[0] if terms else "0.0"


def _number(value: int) -> str:
    return f"{value}.0" if value >= 0 else f"(- {-value}.0)"
