"""Check a certificate: that a network of stored weights answers as a machine does. Shares nothing with any search.

Run `python checker.py FILE.cert model.safetensors config.json`. This file is all to be trusted, and where cones are the
witness cone_checker.py, which lies beside it; docs/certificates.md has the format. A word a_1 ... a_t leads the machine
to a state and the network to h = A(a_t) ... A(a_1) h_0. It is right if the logit (U h)_o of the state's output exceeds
all others. Positive factors of A(a), h_0 and U change no answer, so that whole numbers stand for each. Judged are words
of at least `shortest` symbols, each of them legal in the state in which it is read.
"""

import hashlib
import json
import math
import struct
import sys
from fractions import Fraction
from functools import reduce
from operator import mul
from pathlib import Path
from runpy import run_path
from typing import Any

FORMAT, MAX_BYTES, MAX_WORK, BITS = "statewise certificate 1", 64_000_000, 1_000_000_000, 256
CONES = str(Path(__file__).with_name("cone_checker.py"))


class InvalidError(Exception):
    """A certificate that does not prove its statement of these weights."""


def need(condition: Any, otherwise: str) -> None:
    """Reject the certificate unless a condition holds."""
    if not condition:
        raise InvalidError(otherwise)


def exponential(x: Fraction, turning: bool) -> tuple[int, int, int]:
    """Enclose e^x for x <= 0, or e^(ix): real and imaginary part times 2^BITS, and by how much each may be off.

    For n > 2 |x| the terms of the Taylor series from the n-th on sum up to at most twice that term.
    """
    need(abs(x) < BITS, "an angle or a logarithm is too large")
    parts, term, n = [Fraction(0), Fraction(0)], Fraction(1), 0
    while n <= 2 * abs(x) or abs(term) * 2**BITS >= 1:
        parts[n % 2 if turning else 0] += -term if turning and n % 4 > 1 else term
        n, term = n + 1, term * x / (n + 1)
    return math.floor(parts[0] * 2**BITS), math.floor(parts[1] * 2**BITS), 3 * (x != 0)


def read_network(content: bytes, level: str) -> tuple[list[Any], list[int], list[list[int]]]:
    """Build A, h_0 and U from a safetensors file, whose floats are whole numbers over powers of two."""

    def split(values: list[Any], count: int) -> list[list[Any]]:
        return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]

    (size,), tensors = struct.unpack_from("<Q", content), {}
    for name, held in json.loads(content[8 : 8 + size]).items():
        if not name.startswith(("optimiser.", "averaged.", "__metadata__")):
            kind = str(math.prod(held["shape"])) + {"F32": "f", "F64": "d"}[held["dtype"]]
            floats = struct.unpack_from("<" + kind, content, 8 + size + held["data_offsets"][0])
            scale = max(x.as_integer_ratio()[1] for x in floats)
            values = [n * (scale // d) for n, d in map(float.as_integer_ratio, floats)]
            tensors[name.removeprefix("model.").removeprefix("transition.")] = values, scale, held["shape"]
    (start, _, (hidden,)), (readout, _, (classes, width)) = (tensors.pop(name) for name in ("initial_state", "readout"))
    values, scale, shape = tensors.pop({"full": "matrices", "cp": "gate"}.get(level, "weight"))
    # the coefficients of each input, whose axis is the first or the last
    inputs = shape[0 if level in ("full", "cp") else -1]
    table = split(values, inputs) if level in ("full", "cp") else [values[k::inputs] for k in range(inputs)]
    if "embeddings" in tensors:
        mixing, divisor, (symbols, _) = tensors.pop("embeddings")
        need(len(mixing) == symbols * inputs, "the embeddings are of another size")
        table = [[sum(map(mul, x, c)) for c in zip(*table, strict=True)] for x in split(mixing, symbols)]
        scale *= divisor
    factors = [split(tensors.pop(name)[0], hidden) for name in ("left", "right") if level == "cp"]
    side = {"full": hidden, "cp": hidden, "block": shape[1], "rotation": 2}.get(level, 1)
    matrices = []
    for c in table:
        # the entries of the blocks along the diagonal, row by row, and by how much each may be off
        entries = [(x, 0) for x in c]
        if level == "cp":
            entries = [(sum(map(math.prod, zip(u, c, v, strict=True))), 0) for u in factors[0] for v in factors[1]]
        elif level == "positive":
            entries = [exponential(Fraction(log - max(c), scale), False)[::2] for log in c]
        elif level == "rotation":
            turns = [exponential(Fraction(angle, scale), True) for angle in c]
            entries = [entry for x, y, off in turns for entry in ((x, off), (-y, off), (y, off), (x, off))]
        need(width == hidden and not tensors and len(entries) == hidden * side, f"the weights are not of level {level}")
        rows = enumerate(split(entries, hidden))
        matrices.append([[(i // side * side + j, x, d) for j, (x, d) in enumerate(row) if x or d] for i, row in rows])
    return matrices, start, split(readout, classes)


def step(matrix: Any, h: Any, off: Any) -> tuple[list[int], list[int]]:
    """Multiply a matrix, in rows of (column, value, by how much that may be off), with a vector that may be off."""
    product = [sum(value * h[j] for j, value, _ in row) for row in matrix]
    if not any(off) and not any(d for row in matrix for _, _, d in row):
        return product, [0] * len(product)
    return product, [sum(abs(v) * off[j] + d * (abs(h[j]) + off[j]) for j, v, d in row) for row in matrix]


def shorten(columns: list[Any]) -> list[Any]:
    """Divide vectors by one power of two, so that their numbers do not grow for ever."""
    excess = max(abs(x).bit_length() for h, _ in columns for x in h) - 4 * BITS
    return [([x >> excess for x in h], [(d >> excess) + 2 for d in o]) for h, o in columns] if excess > 0 else columns


class Case:
    """A network, a machine and the words that are judged. Each method rejects a witness that does not prove a claim."""

    def __init__(self, network: Any, machine: Any, language: Any, length: Any) -> None:
        self.matrices, self.initial, self.readout = network
        self.delta, self.outputs, self.start = machine["delta"], machine["outputs"], machine["start"]
        self.shortest, self.legal, self.length = language["shortest"], language["legal"], length
        states, symbols, self.zero = len(self.delta), len(self.matrices), [0] * len(self.initial)
        self.units = [[int(i == j) for i in range(len(self.zero))] for j in range(len(self.zero))]
        tables = [(self.delta, states, symbols, states), (self.legal, states, symbols, 2)]
        tables += [([self.outputs], 1, states, len(self.readout)), ([[self.start]], 1, 1, states)]
        for table, rows, columns, below in [*tables, ([[self.shortest, length]], 1, 2, 2**999)]:
            need(len(table) == rows and all(len(row) == columns for row in table), "a table is of another size")
            need(all(type(x) is int and 0 <= x < below for row in table for x in row), "a number is out of its range")

    def leads(self, h: Any, off: Any, output: int) -> list[int]:
        """Return by how much the logit of an output exceeds those of all others, at least."""
        own, used = self.readout[output], [j for j, x in enumerate(h) if x or off[j]]
        rows = [row for c, row in enumerate(self.readout) if c != output]
        return [sum((own[j] - row[j]) * h[j] - abs(own[j] - row[j]) * off[j] for j in used) for row in rows]

    def check_table(self, witness: Any) -> None:
        """Lemma 1. All words are right if they lead into entries of a table, and those of judged lengths are right.

        An entry has a set, a state and a number of symbols. Its set is all positive multiples of x + y, with x within
        `widths` of `point` and y in the span of `basis`. By induction a word leads into an entry of as many symbols, or
        of at least `shortest`, if h_0 lies in the first one and each legal symbol leads every entry into another.
        """
        entries, (p, q) = witness["entries"], witness["start"]
        sets = [(point, widths or self.zero, basis) for point, widths, basis in witness["sets"]]

        def inside(h: Any, off: Any, p: int, q: int, place: int) -> bool:
            # p (h + what it may be off by) lies in q times a set: eliminate the basis, then compare with the widths
            (point, widths, basis), factor = sets[place], 1
            rest = [p * x - q * y for x, y in zip(h, point, strict=True)]
            for vector in basis:
                pivot = [x != 0 for x in vector].index(True)
                factor *= abs(vector[pivot])
                rest = [vector[pivot] * x - rest[pivot] * y for x, y in zip(rest, vector, strict=True)]
            return all(abs(x) <= factor * (q * w - p * d) for x, d, w in zip(rest, off, widths, strict=True))

        begun = p > 0 and q > 0 and entries[0][1] == self.start and entries[0][2] >= 0
        need(begun and inside(self.initial, self.zero, p, q, entries[0][0]), "the first entry does not hold the start")
        for (place, state, length), arrows in zip(entries, witness["arrows"], strict=True):
            point, widths, basis = sets[place]
            if length >= self.shortest:
                right = all(lead > 0 for lead in self.leads(point, widths, self.outputs[state]))
                need(right and not any(any(self.leads(b, self.zero, 0)) for b in basis), "an answer may be wrong")
            for a, matrix in enumerate(self.matrices):
                if self.legal[state][a]:
                    (target, p, q), images = arrows[a], [(*step(matrix, vector, self.zero), 1, 0) for vector in basis]
                    there, reached, longer = entries[target]
                    follows = reached == self.delta[state][a] and longer >= min(length + 1, self.shortest)
                    need(p > 0 and q > 0 and follows, "an arrow leads to another state, or to too few symbols")
                    images.append((*step(matrix, point, widths), p, q))
                    need(all(inside(*image, there) for image in images), "a set does not hold what leads there")

    def check_words(self, _: Any, holds: Any = lambda *_: True) -> None:
        """Check all words up to a length, one after the other, and what else is to hold where they lead."""
        waiting, work = [(self.initial, self.zero, self.start, 0)], 0
        while waiting:
            h, off, state, length = waiting.pop()
            work += (len(h) + 8) * (len(h) + len(self.readout) + 8)
            right = length < self.shortest or min(self.leads(h, off, self.outputs[state]), default=1) > 0
            need(right and work < MAX_WORK and holds(h, off, state, length), "a word is wrong, or there are too many")
            for a, matrix in enumerate(self.matrices):
                if length < self.length and self.legal[state][a]:
                    waiting.append((*shorten([step(matrix, h, off)])[0], self.delta[state][a], length + 1))

    def check_counterexample(self, witness: Any) -> None:
        """Check that x u^n z is legal and answered wrong: the logit of a rival is at least that of the output."""
        word, loop, times, suffix = (witness[key] for key in ("prefix", "loop", "times", "suffix"))
        outside, rival, symbols = len(self.delta), witness["rival"], range(len(self.matrices))
        need(0 <= times < 2**64 and all(a in symbols for a in word + loop + suffix), "a number is out of its range")
        need(self.shortest <= self.length == len(word) + len(loop) * times + len(suffix), "the word has another length")
        # where each symbol leads; one more state is for what is not legal, and one more symbol for a pair of symbols
        rows, matrices = list(zip(self.delta, self.legal, strict=True)), list(self.matrices)
        moves = [[q[a] if legal[a] else outside for q, legal in rows] + [outside] for a in symbols]

        def join(a: int, b: int) -> int:
            columns = shorten([step(matrices[b], *step(matrices[a], unit, self.zero)) for unit in self.units])
            matrices.append([[(j, h[i], off[i]) for j, (h, off) in enumerate(columns)] for i in range(len(columns))])
            moves.append([moves[b][q] for q in moves[a]])
            return len(moves) - 1

        power = reduce(join, loop) if times else 0
        while times:
            word, times = word + [power] * (times % 2), times // 2
            power = join(power, power) if times else 0
        state, column = self.start, (self.initial, self.zero)
        for a in word + suffix:
            state, (column,) = moves[a][state], shorten([step(matrices[a], *column)])
        need(state < outside and 0 <= rival != self.outputs[state], "the word is not legal, or has no other output")
        need(self.leads(column[0], column[1], rival)[(o := self.outputs[state]) - (o > rival)] >= 0, "it is right")

    def growth(self, witness: Any) -> tuple[Fraction, ...]:
        """Lemma 2. Let N(e) be the least of weight sum |c_q| + sum |d_j| over all e = sum c_q v_q + d, q in one room.

        Write h = c (v_q + e) with c > 0. If A v_q = s v_q' + r, then e' = (r + A e) / s, so N(e') <= rho + kappa N(e)
        where rho >= N(r) / s, and kappa >= N(A x) / s for each vertex x of the unit ball: v_q / weight, unit vectors.
        The answer is right while N(e) < radius, as w e <= N(e) max |w x|. Any c bounds N. Return all of these.
        """
        v, cuts, rooms, over, weight = (witness[key] for key in ("vectors", "cuts", "rooms", "over", "weight"))
        members = {room: [q for q, r in enumerate(rooms) if r == room] for room in rooms if room >= 0}
        need(over > 0 and weight > 0 and rooms[self.start] >= 0, "the witness has another form")

        def size(x: Any, off: Any, room: int) -> Fraction:
            c = [sum(map(mul, cuts[q], x)) for q in members[room]]
            rest = [over * y - sum(map(mul, c, (v[q][j] for q in members[room]))) for j, y in enumerate(x)]
            return Fraction(weight * sum(map(abs, c)) + sum(map(abs, rest)), over) + sum(off)

        def error(y: Any, off: Any, q: int) -> tuple[Fraction, Fraction]:
            s = Fraction(sum(map(mul, y, v[q])), sum(map(mul, v[q], v[q])))
            rest = [s.denominator * a - s.numerator * b for a, b in zip(y, v[q], strict=True)]
            need(s > 0, "a vector is turned round")
            return s, size(rest, self.zero, rooms[q]) / s.denominator + sum(off)

        rho, kappa, radii = Fraction(0), Fraction(1), []
        for inside in members.values():
            for a, matrix in enumerate(self.matrices):
                legal = [q for q in inside if self.legal[q][a]]
                if legal:
                    (there,) = {rooms[self.delta[q][a]] for q in inside}
                    moved = {q: error(*step(matrix, v[q], self.zero), self.delta[q][a]) for q in inside}
                    sizes = [size(*step(matrix, unit, self.zero), there) for unit in self.units]
                    grown = max(*sizes, *(s + r / weight for s, r in moved.values()))
                    rho = max(rho, *(moved[q][1] / moved[q][0] for q in legal))
                    kappa = max(kappa, *(grown / moved[q][0] for q in legal))
            for q in inside:
                vertices = [(v[q], 1), *((v[p], weight) for p in inside), *((unit, 1) for unit in self.units)]
                table = [[Fraction(x, d) for x in self.leads(y, self.zero, self.outputs[q])] for y, d in vertices]
                radii += [lead / max(map(abs, others)) for lead, *others in zip(*table, strict=True)]
        scale, first = error(self.initial, self.zero, self.start)
        return kappa, rho, first / scale, min(radii)

    def check_growth(self, witness: Any) -> None:
        """Bound N(e) after so many symbols by repeated squaring, in units of 2^-BITS and rounded up."""
        *bounds, radius = self.growth(witness)
        left, (k, r, n) = self.length, (math.ceil(x * 2**BITS) for x in bounds)
        while left:
            left, n = left // 2, (k * n >> BITS) + 1 + r if left % 2 else n
            k, r = (k * k >> BITS) + 1, (k * r >> BITS) + 1 + r
            need(k >> 2 * BITS == 0, "errors grow too fast")
        need(n < radius * 2**BITS, "errors may grow so large that an answer turns")


METHODS = {
    **dict.fromkeys(("orbit", "series", "counts"), ("right on all words of {0} or more symbols", Case.check_table)),
    "cones": ("right on all words of {0} or more symbols", lambda *given: run_path(CONES)["check_cones"](*given, need)),
    "growth of errors": ("right on all words of {0} to {1} symbols", Case.check_growth),
    "all words": ("right on all words of {0} to {1} symbols", Case.check_words),
    "counterexample": ("wrong on a word of {1} symbols", Case.check_counterexample),
}


def state(held: Any) -> str:
    """Say in words what a certificate claims."""
    legal, claim = held["language"]["legal"], METHODS[held["witness"]["method"]][0]
    claim = claim.format(held["language"]["shortest"], held["length"])
    judged = f"by a machine of {len(legal)} states, {sum(map(sum, legal))} of {sum(map(len, legal))} moves judged"
    return f"the network (level {held['level']}, weights {held['weights'][:12]}, exact arithmetic) is {claim}, {judged}"


def check(certificate: bytes, weights: bytes, config: bytes) -> str:
    """Return the statement that a certificate proves of these weights; raise ValueError where it is no certificate."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    held = json.loads(certificate, object_pairs_hook=once, parse_float=int, parse_constant=int)
    if type(held) is not dict or held.get("format") != FORMAT:
        raise ValueError(f'it is not of the format "{FORMAT}"')
    try:
        run, witness = json.loads(config), held["witness"]
        level = run.get("options", run)["model"].partition("(")[0]
        need(held["weights"] == hashlib.sha256(weights).hexdigest(), "the weights are not those of the certificate")
        case = Case(read_network(weights, level), held["machine"], held["language"], held["length"])
        METHODS[witness["method"]][1](case, witness)
        need((held["level"], held["statement"]) == (level, state(held)), "the statement is not what was proven")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error) as error:
        raise InvalidError(f"the certificate or the weights are not of the form that is specified ({error})") from None
    return held["statement"]


if __name__ == "__main__":
    try:
        first, *others = map(Path, sys.argv[1:])
        need(first.stat().st_size <= MAX_BYTES, f"a certificate has at most {MAX_BYTES:,} bytes")
        print("valid:", check(first.read_bytes(), *(file.read_bytes() for file in others)))
    except (InvalidError, OSError, ValueError, TypeError, RecursionError) as error:
        print(f"{'invalid' if isinstance(error, InvalidError) else 'not checked'}: {error}")
        sys.exit(1 if isinstance(error, InvalidError) else 2)
