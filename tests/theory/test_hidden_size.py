"""What `--level auto` costs: the smallest hidden size that is found, never more than one-hot states."""

import itertools

import numpy as np
import pytest

from statewise.machines import Machine, access_words, machine, minimise
from statewise.machines.dot import from_dot
from statewise.theory import compile_machine, network_of
from statewise.theory.answer_space import answer_space
from statewise.theory.certify import certify
from tests.catalogues import MACHINES
from tests.theory.test_compile import proven, runs_right


def hidden_size(compiled):
    return len(compiled.model.initial_state)


def hankel_rank(m, longest):
    """The rank of the table of one-hot answers: a word to each state, by all suffixes of so many symbols."""
    suffixes = [w for n in range(longest + 1) for w in itertools.product(range(m.symbols), repeat=n)]
    rows = [[m.answer([*u, *v]) for v in suffixes] for u in access_words(m).values()]
    return int(np.linalg.matrix_rank(np.eye(m.classes)[np.array(rows)].reshape(len(rows), -1)))


@pytest.mark.parametrize("expression", MACHINES)
def test_auto_never_takes_more_hidden_units_than_states(expression):
    m = machine(expression)
    compiled = compile_machine(m)
    assert hidden_size(compiled) <= minimise(m).states
    levels = ("full", "block", "diagonal", "positive")
    sizes = [hidden_size(other) for level in levels if (other := written(m, level)) is not None and other.exact]
    assert hidden_size(compiled) <= min(sizes)


def written(m, level):
    try:
        return compile_machine(m, level)
    except Exception as error:
        assert type(error).__name__ == "CompileError"
        return None


SMALL = {
    "parity": ("diagonal", 1),
    "modular_addition(8)": ("block(2)", 2),
    "modular_addition(12)": ("block(2)", 4),
    # blocks of 2 and 4 leave a gap in blocks of 4, and none in a full network
    "modular_addition(15)": ("full", 6),
    "symmetric(5, generators=standard)": ("block(4)", 4),
    "symmetric(4, states=points)": ("block(3)", 3),
    "even_pairs": ("full", 4),
    "tomita(3)": ("full", 5),
    "cyclic(1)": ("positive", 1),
}


@pytest.mark.parametrize("expression", SMALL)
def test_known_hidden_sizes(expression):
    compiled = compile_machine(machine(expression))
    assert (compiled.level, hidden_size(compiled)) == SMALL[expression]


def mealy(states, symbols, outputs, seed):
    """A random Mealy machine, as its Moore form."""
    random = np.random.default_rng(seed)
    edges = [
        f's{q} -> s{random.integers(states)} [label="{a}/{random.integers(outputs)}"];'
        for q in range(states)
        for a in range(symbols)
    ]
    return from_dot("digraph {" + "".join(edges) + "__start0 -> s0; }")


@pytest.mark.parametrize("seed", range(6))
def test_mealy_machines_take_states_and_outputs_not_their_product(seed):
    m = minimise(mealy(8, 6, 5, seed))
    compiled = compile_machine(m)
    assert m.states > 20
    # eight states, five outputs, and what is shown before the first symbol
    assert hidden_size(compiled) <= 8 + 6
    assert proven(compiled, m)
    assert runs_right(compiled.model, m)


@pytest.mark.parametrize(
    "expression", ["tomita(3)", "even_pairs", "tcp", "dyck(2)", "flip_flop(3)", "modular_addition(3)"]
)
def test_the_answer_space_has_the_rank_of_the_hankel_table(expression):
    m = minimise(machine(expression))
    found = answer_space(m)
    assert found is not None
    module, weights = found
    assert module.size == hankel_rank(m, 5 if m.symbols == 2 else 2)
    for a in range(m.symbols):
        assert np.array_equal(module.vectors @ module.matrices[a].T, module.vectors[m.delta[:, a]])
    assert np.array_equal((module.vectors @ weights.T).argmax(axis=1), m.outputs)


def test_answer_spaces_of_random_machines_are_whole_numbers():
    """Where functions of suffixes are no basis in whole numbers, one of their lattice is."""
    random = np.random.default_rng(0)
    kinds = {"prime": 0, "lattice": 0, "smaller": 0}
    for _ in range(400):
        n, k, c = random.integers(2, 20), random.integers(1, 4), random.integers(2, 5)
        # of a class without states the logit is never the largest
        m = minimise(Machine(random.integers(0, n, (n, k)), 0, random.integers(0, c, n), output_names="abcdef"))
        if m.states == 1:
            continue
        found = answer_space(m)
        assert found is not None
        module, weights = found
        kinds["smaller"] += module.size < m.states
        kinds["prime" if set(module.vectors.ravel().tolist()) <= {0, 1} else "lattice"] += 1
        for a in range(m.symbols):
            assert np.array_equal(module.vectors @ module.matrices[a].T, module.vectors[m.delta[:, a]])
        logits = module.vectors @ weights.T
        own = logits[np.arange(m.states), m.outputs]
        assert ((logits >= own[:, None]).sum(axis=1) == 1).all()
    assert min(kinds.values()) > 0, kinds


def test_protocol_machines_are_compiled_into_less_than_their_states(machine_files):
    """The Moore form of a Mealy machine has far more states than hidden units are needed."""
    sizes = {}
    for file in sorted(machine_files.glob("*.dot")):
        m = machine(str(file))
        compiled = compile_machine(m)
        verdict = certify(network_of(compiled.model), m, seconds=0.0, all_words=True)
        assert verdict.status == "proven", file.name
        assert runs_right(compiled.model, m)
        sizes[file.stem] = (minimise(m).states, hidden_size(compiled))
    assert all(hidden <= states for states, hidden in sizes.values())
    known = {
        "tcp_server_ubuntu_trans": (155, 64),
        "TCP_Linux_Client": (42, 26),
        "mosquitto__two_client_will_retain": (55, 32),
        "CC2650": (25, 12),
    }
    assert {name: sizes.get(name) for name in known} == known
