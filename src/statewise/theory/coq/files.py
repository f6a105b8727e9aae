"""The Coq file of a verdict: the library, the network, the machine, the witness, and the verdict as its theorem."""

from collections.abc import Sequence
from importlib.resources import files

from statewise.errors import NetworkError
from statewise.machines import Machine
from statewise.runs.run import Run
from statewise.theory.certify import Verdict
from statewise.theory.coq.balls import balls_for
from statewise.theory.coq.growth import growth_table
from statewise.theory.coq.tables import orbit_table, series_table
from statewise.theory.coq.terms import growth_terms, language_term, machine_term, naturals, network_terms, table_terms
from statewise.theory.network import Network
from statewise.theory.statement import Statement, described, statement_of

# what reading the weights costs Coq: some seconds for each hundred thousand
_MAX_WEIGHTS = 500_000
_CAN = "proofs by orbit and by series, counterexamples, and horizons by growth of errors are"
_LARGEST = "the logit of the machine's answer is strictly the largest."
_BY_COMPUTATION = "vm_cast_no_check (eq_refl true)."
_ASSUMPTIONS = "Print Assumptions verdict."
# what `right` of Networks.v says, written out
_RIGHT = """  (answer the_machine w < classes the_network)%N /\\
  forall k, (k < classes the_network)%N -> k <> answer the_machine w ->
    logit the_network k w < logit the_network (answer the_machine w) w.
"""


def coq_file(network: Network, machine: Machine, verdict: Verdict, run: Run | None = None) -> str:
    """Write a verdict as a Coq file, to be compiled with `coqc FILE.v`.

    Args:
        network: the network that was judged.
        machine: what it was compared with.
        verdict: what was decided.
        run: where the network came from; None for one in memory.
    """
    statement = statement_of(network, machine, verdict.shortest, verdict.restricted)
    weights = sum(int((part != 0).sum()) for part in (statement.matrices, statement.readout))
    if weights > _MAX_WEIGHTS:
        raise NetworkError(f"the network has {weights:,} weights; Coq files are written of at most {_MAX_WEIGHTS:,}")
    if verdict.status == "refuted":
        library, proof = _refuted(statement, verdict)
    elif verdict.status == "proven":
        library, proof = _proven(statement, verdict)
    else:
        library, proof = _horizon(statement, verdict, network)
    about = _comment(described(statement, run))
    language = [language_term(statement.language)] if statement.restricted else []
    parts = [about, *map(_library, library), *network_terms(statement), machine_term(machine), *language, *proof]
    return "\n\n".join(parts) + "\n"


def library_text(*names: str) -> str:
    """Return parts of the library as one text, in an order in which each needs only those before it."""
    return "\n\n".join(map(_library, names))


def _proven(statement: Statement, verdict: Verdict) -> tuple[tuple[str, ...], list[str]]:
    """Write the theorem that a network is right on every word."""
    table = orbit_table(statement) or series_table(statement)
    if table is None:
        raise _refused(verdict)
    words, checked = _words(statement, "checked_right")
    theorem = (
        f"(* The verdict: on every {_kind(statement)} of at least {statement.shortest} symbols {_LARGEST} *)\n"
        f"Theorem verdict : forall w, {words} -> ({statement.shortest} <= size w)%N ->\n{_RIGHT}"
        f"Proof. apply ({checked} {statement.shortest} the_table). {_BY_COMPUTATION} Qed.\n{_ASSUMPTIONS}"
    )
    return ("Networks", "Tables", "Orbit"), [*table_terms(table), theorem]


def _horizon(statement: Statement, verdict: Verdict, network: Network) -> tuple[tuple[str, ...], list[str]]:
    """Write the theorem that a network is right on every word up to a length."""
    table = None if verdict.horizon is None else growth_table(statement, network)
    if table is None or verdict.horizon is None:
        raise _refused(verdict)
    least, upto = statement.shortest, min(table.upto, verdict.horizon)
    words, checked = _words(statement, "checked_horizon")
    shorter = f" (here; {verdict.horizon} by {verdict.method})" if upto < verdict.horizon else ""
    theorem = (
        f"(* The verdict: on every {_kind(statement)} of {least} to {upto} symbols{shorter} {_LARGEST} *)\n"
        f"Theorem verdict : forall w, {words} -> ({least} <= size w)%N -> (size w <= {upto})%N ->\n{_RIGHT}"
        f"Proof. apply ({checked} {least} {upto} the_growth the_rooms the_places). {_BY_COMPUTATION} Qed.\n"
        f"{_ASSUMPTIONS}"
    )
    return ("Networks", "Tables", "Horizon"), [*growth_terms(table), theorem]


def _refused(verdict: Verdict) -> NetworkError:
    return NetworkError(
        f"the verdict is {verdict.status} by {verdict.method}, which is not written for Coq; {_CAN}; leave --coq out"
    )


def _refuted(statement: Statement, verdict: Verdict) -> tuple[tuple[str, ...], list[str]]:
    """Write the theorem that a network is wrong on a word."""
    found = verdict.counterexample
    assert found is not None
    word, own, given = found.word, found.replayed.right, found.replayed.given
    balls = balls_for(statement, word, own, given)
    if balls is None:
        raise NetworkError(
            f"the counterexample has {len(word):,} symbols, which takes Coq too long at hidden size "
            f"{statement.hidden}; find a shorter one, or leave --coq out"
        )
    parts = f"{naturals(word.prefix)} {naturals(word.loop)} {word.times} {naturals(word.suffix)}"
    language = "the_language" if statement.restricted else f"(every {statement.symbols})"
    words, _ = _words(statement, "", "the_word")
    legal = "exact L" if statement.restricted else "exact (legal_is_over _ _ L)"
    theorem = (
        f"(* The verdict: on this {_kind(statement)} of {len(word)} symbols the machine's answer is {own}, and the "
        f"logit of {given} is not below that of {own}. *)\n"
        f"Definition the_word : list N := word {parts}.\n"
        f"Theorem verdict : {words} /\\ size the_word = {len(word)}%N /\\ answer the_machine the_word = {own}%N /\\\n"
        f"  logit the_network {own} the_word <= logit the_network {given} the_word /\\\n"
        "  ~ right the_network the_machine the_word.\n"
        "Proof.\n"
        f"  destruct (checked_wrong the_network the_machine {language} {balls.bits} {parts} {own} {given})\n"
        f"    as (L & S & A & G & R); [{_BY_COMPUTATION[:-1]} |].\n"
        f"  split; [{legal} |]. split; [exact S |]. split; [exact A |]. split; [exact G | exact R].\n"
        f"Qed.\n{_ASSUMPTIONS}"
    )
    return ("Networks", "Tables", "Words"), [theorem]


def _words(statement: Statement, theorem: str, word: str = "w") -> tuple[str, str]:
    """Write that a word is judged, and a theorem of the library for such words."""
    if statement.restricted:
        return f"legal the_language {word}", f"{theorem} the_network the_machine the_language"
    return f"over {statement.symbols} {word}", f"{theorem}_on_all the_network the_machine {statement.symbols}"


def _kind(statement: Statement) -> str:
    return "legal word" if statement.restricted else "word"


def _library(name: str) -> str:
    text = (files("statewise.theory.coq") / f"{name}.v").read_text(encoding="utf-8")
    # one file needs no other
    return "\n".join(line for line in text.splitlines() if not line.startswith("Require Import Networks"))


def _comment(lines: Sequence[str]) -> str:
    """Write a comment; what would end it, or begin a text in it, is written otherwise."""
    text = "\n   ".join(" ".join(line.split()) for line in lines)
    for mark, other in (('"', "'"), ("(*", "( *"), ("*)", "* )")):
        text = text.replace(mark, other)
    return f"(* {text} *)"
