"""A network is a weighted automaton: hidden Markov models as networks, and weights from Hankel blocks."""

import itertools

import numpy as np
import pytest
import torch

from statewise.machines import machine
from statewise.models import StateTracker

STATES, SYMBOLS = 4, 3


def stochastic(random, *shape):
    drawn = random.random(shape)
    return drawn / drawn.sum(axis=0)


def forward_algorithm(moves, emits, first, word):
    """The probability of a word, state by state, as textbooks have it."""
    alive = first.copy()
    for symbol in word:
        after = np.zeros(STATES)
        for q, p in itertools.product(range(STATES), repeat=2):
            after[p] += alive[q] * emits[symbol, q] * moves[p, q]
        alive = after
    return alive.sum()


def network(matrices, start, readout):
    model = StateTracker(len(matrices), len(readout), len(start), "full", readout="plain").double()
    with torch.no_grad():
        model.transition.matrices.copy_(torch.from_numpy(np.stack(matrices)))
        model.initial_state.copy_(torch.from_numpy(start))
        model.readout.copy_(torch.from_numpy(readout))
    return model


def values(model, words):
    with torch.no_grad():
        return torch.stack([model(torch.tensor([word]))[0, -1] for word in words]).numpy()


@pytest.mark.parametrize("seed", range(3))
def test_the_filter_of_a_hidden_markov_model_is_a_full_network(seed):
    random = np.random.default_rng(seed)
    moves, emits, first = (
        stochastic(random, STATES, STATES),
        stochastic(random, SYMBOLS, STATES),
        stochastic(random, STATES),
    )
    operators = [moves @ np.diag(emits[a]) for a in range(SYMBOLS)]
    model = network(operators, first, np.stack([operator.sum(axis=0) for operator in operators]))
    words = [word for length in (1, 2, 5) for word in itertools.product(range(SYMBOLS), repeat=length)]
    expected = [[forward_algorithm(moves, emits, first, (*word, a)) for a in range(SYMBOLS)] for word in words]
    assert values(model, words) == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("name", ["modular_addition(3)", "tomita(3)", "random_machine(4, seed=2, kind=map)"])
def test_any_factors_of_a_hankel_block_of_full_rank_realise_the_machine(name):
    m = machine(name)

    def one_hot(word):
        return np.eye(m.classes)[m.answer(word) if word else m.outputs[m.start]]

    short = [word for length in range(4) for word in itertools.product(range(m.symbols), repeat=length)]

    def block(middle):
        return np.concatenate([np.stack([one_hot((*u, *middle, *v)) for u in short], axis=1) for v in short])

    whole = block(())
    rank = np.linalg.matrix_rank(whole)
    left, sizes, right = np.linalg.svd(whole)
    mix = np.random.default_rng(0).normal(size=(rank, rank))
    ahead = left[:, :rank] * sizes[:rank] @ np.linalg.inv(mix)
    behind = mix @ right[:rank]
    solved = [np.linalg.pinv(ahead) @ block((a,)) @ np.linalg.pinv(behind) for a in range(m.symbols)]
    model = network(solved, behind[:, 0], ahead[: m.classes])
    longer = [tuple(word) for word in np.random.default_rng(1).integers(0, m.symbols, size=(50, 12)).tolist()]
    assert values(model, longer) == pytest.approx(np.stack([one_hot(word) for word in longer]), abs=1e-6)
