"""Machines in DOT, the language of graphviz.

A graph is read in one of four ways, inferred from its labels:

    mealy    every edge is labelled "input/output"
    moore    every node is labelled "state|output" (in a record, perhaps), or by its output alone
    dfa      accepting states are double circles; one edge may carry several symbols, "a,b"
    states   no outputs: each state is its own (only when asked for)

A node named __start0, or of shape none, point or plaintext, that nothing leads to, points at the start.
"""

import json
import re
from typing import Literal, get_args

from statewise.errors import (
    IncompleteMachineError,
    MachineFileError,
    NondeterministicMachineError,
    TooLargeError,
    shorten,
    unknown_name,
)
from statewise.machines.dot_graph import KEYWORDS, Graph, read_graph
from statewise.machines.machine import MAX_ENTRIES, Machine

Kind = Literal["auto", "dfa", "moore", "mealy", "states"]
MISSING = "missing"
_PROBABILITY = re.compile(r"\s*+([01]?\.\d++|[01]|\d(?:\.\d++)?e-\d++)\s*+")
_MAX_NAMES = 256_000_000
# probabilities are written with few digits
_NEAR_ONE = 0.02


def from_dot(text: str, kind: Kind = "auto", complete: bool = False) -> Machine:
    """Read a machine from DOT; see the head of this file for the forms.

    Args:
        text: one digraph.
        kind: what the labels mean; "auto" infers it, and raises an error where it cannot.
        complete: lead missing transitions to a new state, from which nothing leads back, with an output of its own
            ("0" in a dfa) instead of refusing them.
    """
    if kind not in get_args(Kind):
        raise unknown_name("kind", kind, get_args(Kind))
    graph = read_graph(text)
    start = _take_start(graph)
    if not graph.nodes:
        raise MachineFileError("the graph has no states; expected at least one; add them")
    _refuse_probabilities(graph)
    kind = _find_kind(graph) if kind == "auto" else kind
    moves = _moves(graph, kind)
    states = list(graph.nodes)
    alphabet = list(dict.fromkeys(symbol for move in moves.values() for symbol in move))
    if not alphabet:
        raise MachineFileError("the graph has no labelled edges; expected a transition per state and symbol; add them")
    if len(states) * len(alphabet) > MAX_ENTRIES:
        raise TooLargeError(f"the graph has {len(states)} states and {len(alphabet)} symbols; that is too large")
    if start not in graph.nodes:
        raise MachineFileError(f'the start "{shorten(start)}" is not a state; point the start at one')
    for q in states:
        for symbol in alphabet:
            if symbol not in moves[q]:
                if not complete:
                    raise IncompleteMachineError(
                        f'state "{shorten(q)}" has no transition on "{shorten(symbol)}"; expected one per symbol; '
                        'add it, or use read("FILE", complete=true)'
                    )
                moves[q][symbol] = (None, MISSING)
    if kind == "mealy":
        built = _mealy_to_moore(states, start, alphabet, moves)
    else:
        built = _moore(graph, kind, states, start, alphabet, moves)
    return built.replace(name=_unescape(graph.attributes.get("name", "")))


def _take_start(graph: Graph) -> str:
    """Remove the invisible node that points at the start, and return the state it points at."""
    entered = {q for _, q, _ in graph.edges}
    leaving: dict[str, list[str]] = {}
    for p, q, _ in graph.edges:
        leaving.setdefault(p, []).append(q)
    pointers = [
        node
        for node, attributes in graph.nodes.items()
        if node not in entered
        and (re.fullmatch(r"__start\d*", node) or attributes.get("shape") in ("none", "point", "plaintext"))
    ]
    targets = list(dict.fromkeys(q for p in pointers for q in leaving.get(p, [])))
    if len(targets) > 1:
        raise MachineFileError(f"the graph marks {len(targets)} starts; expected one; remove the others")
    if not targets:
        raise MachineFileError('the graph marks no start; expected an edge from "__start0"; add __start0 -> STATE')
    for pointer in pointers:
        del graph.nodes[pointer]
    graph.edges = [edge for edge in graph.edges if edge[0] not in pointers]
    # only AALpy, of those that write such files, gives its pointer this name
    graph.attributes["start"] = "aalpy" if any(p.startswith("__start") for p in pointers) else "drawn"
    return targets[0]


def _refuse_probabilities(graph: Graph) -> None:
    """Refuse a Markov decision process: every label ends in a probability, and those of one input mostly sum to 1.

    AALpy writes "input:0.9" where states have outputs, and "input/output:0.9" where steps have. Files with a sum of 2
    here and there exist; names that end in numbers do not sum to 1. Records "state|output" are of Moore machines.
    """
    if all("|" in node.get("label", "") and node.get("shape") == "record" for node in graph.nodes.values()):
        return
    sums: dict[tuple[str, str], float] = {}
    shares: list[tuple[str, str, str]] = []
    for p, _, attributes in graph.edges:
        head, colon, tail = attributes.get("label", "").rpartition(":")
        match = _PROBABILITY.fullmatch(tail) if colon else None
        if match is None:
            return
        symbol, share = head.partition("/")[0], match[1]
        if set(share) - {"0", "1"}:
            shares.append((p, symbol, share))
        sums[p, symbol] = sums.get((p, symbol), 0.0) + float(share)
    # a name such as "set:1" is no probability unless some are written as fractions
    if shares and 2 * sum(abs(total - 1) < _NEAR_ONE for total in sums.values()) >= len(sums):
        state, symbol, share = min(shares, key=lambda found: float(found[2]))
        raise NondeterministicMachineError(
            f'the edges have probabilities (from "{shorten(state)}" on "{shorten(symbol)}" {share}): this is a Markov '
            "decision process; expected one next state for each symbol; give a deterministic machine"
        )


def _accepts(attributes: dict[str, str]) -> bool:
    return attributes.get("shape") == "doublecircle" or attributes.get("peripheries") == "2"


def _find_kind(graph: Graph) -> Kind:
    """Infer what the labels mean."""
    labels = [attributes.get("label", "") for _, _, attributes in graph.edges]
    if all("|" in attributes.get("label", "") for attributes in graph.nodes.values()):
        return "moore"
    mealy = bool(labels) and all(label.partition("/")[0].strip() and "/" in label for label in labels)
    dfa = any(_accepts(attributes) for attributes in graph.nodes.values())
    if mealy and dfa:
        raise MachineFileError(
            'the graph has double circles, and labels that could be input/output; say which counts with read("FILE", '
            "kind=mealy) or kind=dfa"
        )
    if mealy or dfa:
        return "mealy" if mealy else "dfa"
    own_name = [attributes.get("label", node) in (node, r"\N") for node, attributes in graph.nodes.items()]
    if not any(own_name):
        return "moore"
    raise MachineFileError(
        "the graph shows no outputs: no double circle, no label state|output, no edge input/output; "
        'say what it is with read("FILE", kind=states) or kind=dfa'
    )


Moves = dict[str, dict[str, tuple[str | None, str]]]


def _moves(graph: Graph, kind: Kind) -> Moves:
    """Return for each state and symbol the next state and the output of the edge ("" unless mealy)."""
    labels = [attributes.get("label", "") for _, _, attributes in graph.edges]
    # drawings, automata-lib's too, join the symbols of parallel edges by commas; in AALpy a comma is part of a name
    commas = kind == "dfa" and graph.attributes["start"] == "drawn"
    moves: Moves = {node: {} for node in graph.nodes}
    for (p, q, _), label in zip(graph.edges, labels, strict=True):
        output = ""
        if kind in ("mealy", "dfa") and re.search(r"(?<!\\)\\[nlr]|\n", label):
            raise MachineFileError(f'the edge "{shorten(p)}" -> "{shorten(q)}" has a label of several lines; split it')
        if kind == "mealy":
            symbol, slash, output = (_strip(part) for part in label.partition("/"))
            if not slash:
                raise MachineFileError(f'the edge "{shorten(p)}" -> "{shorten(q)}" has no input/output label; add it')
            symbols = [_unescape(symbol)]
        else:
            symbols = _split_symbols(label) if commas else [_unescape(_strip(label))]
        if symbols == [""]:
            raise MachineFileError(f'the edge "{shorten(p)}" -> "{shorten(q)}" has no label; expected a symbol; add it')
        for symbol in symbols:
            if symbol in moves[p]:
                raise NondeterministicMachineError(
                    f'state "{shorten(p)}" has two transitions on "{shorten(symbol)}"; expected one; remove the other'
                )
            moves[p][symbol] = (q, _unescape(output))
    return moves


def _split_symbols(label: str) -> list[str]:
    """Split "a,b" into its symbols; a comma may itself be one, and sorts before the letters: ",,a"."""
    parts = [_unescape(_strip(part)) for part in label.split(",")]
    if label.strip() == "," or "," not in label:
        return [_unescape(_strip(label))]
    symbols = [part for part in parts if part]
    return [",", *symbols] if "" in parts else symbols


def _moore(graph: Graph, kind: Kind, states: list[str], start: str, alphabet: list[str], moves: Moves) -> Machine:
    number = {q: index for index, q in enumerate(states)}
    names = list(states)
    if kind == "dfa":
        outputs = ["1" if _accepts(graph.nodes[q]) else "0" for q in states]
    elif kind == "states":
        outputs = list(states)
    else:
        labelled = [_state_and_output(_with_name(graph.nodes[q].get("label", q), q), q) for q in states]
        outputs = [output for _, output in labelled]
        if len({name for name, _ in labelled}) == len(states):
            names = [name for name, _ in labelled]
    trap = len(states)
    delta = [[trap if moves[q][a][0] is None else number[moves[q][a][0] or ""] for a in alphabet] for q in states]
    if any(trap in row for row in delta):
        delta.append([trap] * len(alphabet))
        names.append(_fresh_name(MISSING, names))
        outputs.append("0" if kind == "dfa" else _fresh_name(MISSING, outputs))
    classes = ["0", "1"] if kind == "dfa" else _classes(graph, outputs)
    return Machine(delta, number[start], _lookup(classes, outputs), alphabet, classes, names)


def _lookup(classes: list[str], outputs: list[str]) -> list[int]:
    number = {name: index for index, name in enumerate(classes)}
    return [number[output] for output in outputs]


def _classes(graph: Graph, outputs: list[str]) -> list[str]:
    """Order output names: as the file lists them, by value if all are whole numbers, else by first appearance."""
    found = list(dict.fromkeys(outputs))
    try:
        listed = json.loads(_unescape(graph.attributes["output_names"]))
        if isinstance(listed, list) and all(isinstance(x, str) for x in listed) and set(found) <= set(listed):
            return listed
    except (KeyError, ValueError, RecursionError):
        pass
    if all(re.fullmatch(r"\d{1,9}", name) for name in found):
        return sorted(found, key=int)
    return found


def _mealy_to_moore(states: list[str], start: str, alphabet: list[str], moves: Moves) -> Machine:
    """Split each state by the output of the edge that entered it.

    After a word, the Moore machine has the output of the Mealy machine's last step. Before the first symbol there is
    none: the start has the output "start".
    """
    number: dict[tuple[str | None, str | None], int] = {}
    waiting: list[tuple[str | None, str | None]] = []

    def visit(pair: tuple[str | None, str | None]) -> int:
        if pair not in number:
            number[pair] = len(number)
            waiting.append(pair)
        return number[pair]

    # no output yet, which is not an empty one
    visit((start, None))
    missing = _fresh_name(MISSING, [output for move in moves.values() for target, output in move.values() if target])
    delta = []
    for q, _ in waiting:
        entered = [(None, MISSING) if q is None else moves[q][a] for a in alphabet]
        delta.append([visit((None, missing) if target is None else (target, output)) for target, output in entered])
        if len(delta) * len(alphabet) > MAX_ENTRIES:
            raise TooLargeError(f"the Moore form has more than {MAX_ENTRIES:,} entries; use a smaller machine")
    seen = [output or "" for _, output in waiting[1:]]
    nothing = _fresh_name("start", seen)
    outputs = [nothing, *seen]
    classes = list(dict.fromkeys(outputs))
    if sum(len(q or MISSING) + len(output or "") for q, output in waiting) > _MAX_NAMES:
        raise TooLargeError(f"the states of the Moore form have names of over {_MAX_NAMES:,} characters; shorten them")
    state_names = [f"{MISSING if q is None else q}/{output or ''}" for q, output in waiting]
    split = _distinct(state_names)
    return Machine(delta, 0, _lookup(classes, outputs), alphabet, classes, split, mealy_states=len(states))


def _distinct(names: list[str]) -> list[str]:
    return names if len(set(names)) == len(names) else [f"{index}:{name}" for index, name in enumerate(names)]


def _fresh_name(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _state_and_output(label: str, node: str) -> tuple[str, str]:
    """Split "state|output", with or without the braces of a record; a label without a bar is the output."""
    body = _strip(label)
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", body, maxsplit=1)
    if len(parts) == 2:
        bar = body.index("|", len(parts[0]))
        return _field(body[:bar]), _field(body[bar + 1 :])
    return node, _unescape(body)


def _with_name(label: str, node: str) -> str:
    r"""Replace \N in a label by the node's name; a backslash after a backslash is no escape."""
    if label.count(r"\N") * len(node) > _MAX_NAMES:
        raise TooLargeError(f'the label of "{shorten(node)}" repeats its name too often; write it out')
    return re.sub(r"\\(.)", lambda escape: node if escape[1] == "N" else escape[0], label, flags=re.DOTALL)


def _field(text: str) -> str:
    """Read one field of a record, without its port."""
    return _unescape(_strip(re.sub(r"^\s*<[^>]*>", "", text)))


def _strip(label: str) -> str:
    """Remove blanks at both ends, except those after a backslash."""
    begun = label.lstrip()
    ended = begun.rstrip()
    escapes = len(ended) - len(ended.rstrip("\\"))
    # an odd number of backslashes: the last stands before a blank
    return begun[: len(ended) + 1] if escapes % 2 else ended


def _unescape(label: str) -> str:
    r"""Undo the backslashes of labels: \n and \r are line ends; other marks and blanks stand for themselves."""
    ends = {"n": "\n", "l": "\n", "r": "\r"}
    return re.sub(r"\\([nlr|{}<>\\]|\s)", lambda escape: ends.get(escape[1], escape[1]), label)


def _escape(text: str) -> str:
    """Escape a text as part of a record label, so that neither graphviz nor a reader takes it for structure."""
    escaped = re.sub(r"([\\|{}<>])", r"\\\1", text).replace("\n", r"\n").replace("\r", r"\r")
    # blanks at the ends would be stripped
    return re.sub(r"^\s|(?<!^)\s$", lambda blank: "\\" + blank.group(), escaped)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def to_dot(machine: Machine) -> str:
    """Return a machine as DOT in the Moore form that AALpy reads; `from_dot` returns the same machine."""
    names = machine.state_names
    plain = all(re.fullmatch(r"[A-Za-z0-9]\w*", name) for name in names) and not KEYWORDS & {n.lower() for n in names}
    ids = list(names) if plain else [f"s{q}" for q in range(machine.states)]
    lines = ["digraph machine {"]
    shown = [machine.output_names[c] for c in machine.outputs]
    if machine.name:
        lines.append(f"name={_quote(_escape(machine.name))};")
    if tuple(_classes(Graph(), shown)) != machine.output_names:
        lines.append(f"output_names={_quote(_escape(json.dumps(machine.output_names, ensure_ascii=False)))};")
    for q in range(machine.states):
        label = f"{_escape(names[q])}|{_escape(shown[q])}"
        lines.append(f"{ids[q]} [label={_quote(label)}, shape=record, style=rounded];")
    for q in range(machine.states):
        for a, symbol in enumerate(machine.alphabet):
            lines.append(f"{ids[q]} -> {ids[machine.delta[q, a]]} [label={_quote(_escape(symbol))}];")
    lines += ['__start0 [label="", shape=none];', f'__start0 -> {ids[machine.start]} [label=""];', "}"]
    return "\n".join(lines) + "\n"
