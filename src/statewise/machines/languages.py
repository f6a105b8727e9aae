"""Regular languages as machines with two outputs: 1 for words in the language, 0 for all others."""

import itertools

import numpy as np

from statewise.errors import ExpressionError, TooLargeError
from statewise.expressions import Call
from statewise.machines.behaviour import minimise
from statewise.machines.machine import MAX_ENTRIES, Machine
from statewise.machines.regex import compile_regex


def even_pairs() -> Machine:
    """Return the machine for whether "ab" and "ba" together occur an even number of times: aabba -> 1.

    That is so exactly when the first and the last symbol agree, or the word is empty.
    """
    # the start, then (first, last) for aa, ab, ba, bb
    delta = [[1, 4], [1, 2], [1, 2], [3, 4], [3, 4]]
    return Machine(delta, outputs=[1, 1, 0, 0, 1], alphabet="ab", name="even_pairs")


# Tomita (1982); tables are (rows of delta for symbols 0 and 1, accepting states)
_TOMITA: dict[int, tuple[list[list[int]], list[int]]] = {
    # 1*
    1: ([[1, 0], [1, 1]], [0]),
    # (10)*
    2: ([[2, 1], [0, 2], [2, 2]], [0]),
    # no odd run of zeros anywhere after an odd run of ones
    3: ([[0, 1], [2, 0], [4, 3], [3, 3], [2, 4]], [0, 1, 4]),
    # no 000
    4: ([[1, 0], [2, 0], [3, 0], [3, 3]], [0, 1, 2]),
    # an even number of zeros and an even number of ones
    5: ([[2, 1], [3, 0], [0, 3], [1, 2]], [0]),
    # zeros minus ones is a multiple of 3
    6: ([[1, 2], [2, 0], [0, 1]], [0]),
    # 0*1*0*1*
    7: ([[0, 1], [2, 1], [2, 3], [4, 3], [4, 4]], [0, 1, 2, 3]),
}


def tomita(number: int) -> Machine:
    """Return one of Tomita's seven languages over 0 and 1 (Tomita 1982): tomita(4), 1001 -> 1."""
    if number not in _TOMITA:
        raise ExpressionError(f"tomita needs a number from 1 to 7, got {number}; correct it")
    delta, accepting = _TOMITA[number]
    return Machine(delta, outputs=np.isin(np.arange(len(delta)), accepting).astype(np.int64), name=f"tomita({number})")


def dyck(depth: int, kinds: int = 1) -> Machine:
    """Return the machine of balanced brackets up to a depth: dyck(2), "(())" -> 1.

    Args:
        depth: how many brackets may be open at once; one more leads to an error state that is never left.
        kinds: how many kinds of brackets, written (0 )0 (1 )1 ... where there are several.
    """
    if depth < 1 or kinds < 1:
        raise ExpressionError(f"dyck needs depth and kinds of at least 1, got {depth} and {kinds}; correct them")
    states = 2
    for level in range(1, depth + 1):
        states += kinds**level if level < 64 else MAX_ENTRIES
        if states * 2 * kinds > MAX_ENTRIES:
            raise TooLargeError(f"dyck({depth}, kinds={kinds}) passes {MAX_ENTRIES:,} entries; use a smaller depth")
    stacks = [stack for length in range(depth + 1) for stack in itertools.product(range(kinds), repeat=length)]
    number = {stack: q for q, stack in enumerate(stacks)}
    dead = len(stacks)
    delta = np.full((dead + 1, 2 * kinds), dead)
    for stack, q in number.items():
        for kind in range(kinds):
            if len(stack) < depth:
                delta[q, 2 * kind] = number[(*stack, kind)]
            if stack and stack[-1] == kind:
                delta[q, 2 * kind + 1] = number[stack[:-1]]
    outputs = np.zeros(dead + 1, dtype=np.int64)
    outputs[0] = 1
    brackets = ["(", ")"] if kinds == 1 else [f"{mark}{kind}" for kind in range(kinds) for mark in "()"]
    names = ["".join(f"({kind}" for kind in stack) or "empty" for stack in stacks]
    written = f"dyck({depth})" if kinds == 1 else f"dyck({depth}, kinds={kinds})"
    return Machine(delta, outputs=outputs, alphabet=brackets, state_names=[*names, "error"], name=written)


def regex(pattern: str, alphabet: str = "") -> Machine:
    """Return the minimal machine of a regular expression: regex("(ab)*"), abab -> 1.

    Args:
        pattern: literals, `|`, `*`, `+`, `?`, `{m}`, `{m,n}`, `( )`, `.`, `[abc]`, `[a-z]`, `[^a]`, and `\\` before a
            character that is to stand for itself. The whole word must match.
        alphabet: the symbols; empty means those that the pattern names.
    """
    machine = minimise(compile_regex(pattern, alphabet))
    options = {"alphabet": alphabet} if alphabet else {}
    return machine.replace(state_names=None, name=str(Call("regex", (pattern,), options)))
