"""State merging (RPNI, Oncina and Garcia 1992), by AALpy: any machine, from words without label noise."""

import warnings

import numpy as np

from statewise.errors import ToolMissingError
from statewise.machines import Machine
from statewise.theory.learning.labelled import LabelledWords


def merge_states(data: LabelledWords) -> Machine:
    """Learn a machine that answers every word as it is labelled.

    States of the prefix tree are merged wherever no label forbids it. Edges that no word uses lead back to their own
    state, and states in which no word ends have the most frequent label: the words determine neither, and
    `check_uniqueness` reports it.
    """
    data.refuse_contradictions("rpni")
    try:
        from aalpy.learning_algs import run_RPNI
    except ImportError:
        raise ToolMissingError(
            "the method rpni needs the package aalpy, which is not installed; install statewise[learn], "
            "or use --method least-squares or hankel"
        ) from None
    with warnings.catch_warnings():
        # missing edges are reported by check_uniqueness
        warnings.simplefilter("ignore")
        learned = run_RPNI([[word, label] for word, label in data.label_of.items()], "moore", print_info=False)
    assert learned is not None, "contradictions were refused"
    number = {state: q for q, state in enumerate(learned.states)}
    usual = int(data.counts.sum(axis=0).argmax())
    outputs = [usual if state.output is None else state.output for state in learned.states]
    delta = np.repeat(np.arange(len(number))[:, None], len(data.alphabet), axis=1)
    for state, q in number.items():
        for symbol, target in state.transitions.items():
            delta[q, symbol] = number[target]
    return Machine(delta, number[learned.initial_state], outputs, data.alphabet, data.output_names)
