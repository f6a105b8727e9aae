"""What the laws range over: a new machine or transition is tested by being added here."""

import torch
from hypothesis import strategies as st

from statewise.kernels import library
from statewise.machines import Machine
from statewise.models import TABLE
from statewise.models.levels import build_transition as transition
from statewise.transitions import Additive, LinearTransition
from tests import needs

MACHINES = [
    "parity",
    "modular_addition(2)",
    "modular_addition(5)",
    "modular_arithmetic(3)",
    "modular_arithmetic(5)",
    "modular_arithmetic(3, precedence=true)",
    "random_machine(10, seed=3, kind=permutation)",
    "random_machine(7, symbols=3, seed=1, kind=map)",
    "random_machine(1)",
    "cyclic(1)",
    "cyclic(6, generators=standard)",
    "cyclic(4)*cyclic(6)",
    "dihedral(1)",
    "dihedral(2)",
    "dihedral(5)",
    "dihedral(4, generators=standard)",
    "quaternion",
    "quaternion(generators=standard)",
    "symmetric(2, generators=standard)",
    "symmetric(3)",
    "symmetric(5, generators=standard)",
    "symmetric(4, states=points)",
    "alternating(4)",
    "alternating(5, generators=standard)",
    'permutation_group("(0 1 2)(3 4)", "(0 3)")',
    "flip_flop",
    "flip_flop(4)",
    "even_pairs",
    "cycle_navigation",
    *[f"tomita({n})" for n in range(1, 8)],
    "dyck(3)",
    "dyck(2, kinds=2)",
    'regex("(ab)*")',
    'regex("a(b|c){2,3}[^a]?")',
    "tomita(5)*parity",
    "tcp",
]

# every level of the table of models
LEVELS = [spec for kind in TABLE if kind.is_level for spec in kind.examples]
INPUT, HIDDEN = 5, 6


def level(spec: str, init: str = "features", seed: int = 0) -> LinearTransition:
    """Builds a level in float64, of odd input and small hidden size."""
    name = spec[:-1] + f", init={init})" if spec.endswith(")") else f"{spec}(init={init})"
    built = transition(name, INPUT, HIDDEN, generator=torch.Generator().manual_seed(seed))
    assert isinstance(built, LinearTransition)
    return built.double()


def affine(spec: str, terms: str) -> Additive:
    """Builds a level with an additive term that is not zero."""
    built = transition(spec, INPUT, HIDDEN, additive=terms, generator=torch.Generator().manual_seed(1)).double()
    assert isinstance(built, Additive)
    torch.nn.init.normal_(built.offset, generator=torch.Generator().manual_seed(2))
    return built


@st.composite
def machines(draw: st.DrawFn, states: int = 6, symbols: int = 3, classes: int = 3) -> Machine:
    """Draws any machine: unreachable states, unused classes and strange names included."""
    n, k = draw(st.integers(1, states)), draw(st.integers(1, symbols))
    delta = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=k, max_size=k), min_size=n, max_size=n))
    outputs = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4)
    alphabet = draw(st.lists(names, min_size=k, max_size=k, unique=True))
    named = draw(st.booleans())
    output_names = draw(st.lists(names, min_size=classes, max_size=classes, unique=True)) if named else None
    state_names = draw(st.lists(names, min_size=n, max_size=n, unique=True)) if named else None
    return Machine(delta, draw(st.integers(0, n - 1)), outputs, alphabet, output_names, state_names)


def need_kernels(backend):
    """Skips a test of the compiled kernels where they cannot be built; in CI, which installs a compiler, that fails."""
    if backend == "native" and library() is None:
        needs.absent("needs a C++ compiler that builds the kernels; install the package g++")
