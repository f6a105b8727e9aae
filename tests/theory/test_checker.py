"""The checker reads networks exactly, and what it accepts is true on all words that can be tried."""

import ast
import itertools
import json
import math
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

from statewise.models import StateTracker
from statewise.theory import checker, cone_checker, network_of

FILE, CONES = Path(checker.__file__), Path(cone_checker.__file__)


def weights_of(model, **more):
    return save({f"model.{name}": value.contiguous() for name, value in model.state_dict().items()} | more)


@pytest.mark.parametrize("file", [FILE, CONES])
def test_it_is_one_short_file_of_the_standard_library(file):
    tree = ast.parse(file.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names) | {"collections.abc"}
    assert len(file.read_text().splitlines()) < 300


def test_its_numbers_are_whole_or_fractions():
    """No float takes part: not in the text, and not by a true division of whole numbers."""
    for file in (FILE, CONES):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        assert not [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, float)]
    assert not [node for node in nodes if isinstance(node, ast.Div) or getattr(node, "id", "") == "float"]
    tree = ast.parse(FILE.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    # floats are read, and turned into ratios at once
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "as_integer_ratio"]
    assert "float" in names
    assert len(uses) == 2


@pytest.mark.parametrize("turning", [False, True])
def test_exponentials_are_enclosed(turning):
    flint = pytest.importorskip("flint")
    generator = random.Random(1)
    given = [generator.choice([1e-30, 1e-3, 1.0, 15.0]) * generator.uniform(-1, 1) for _ in range(80)]
    before = flint.ctx.prec
    flint.ctx.prec = 700
    try:
        for x in [0.0, 255.5, *given]:
            x = Fraction(x if turning else -abs(x))
            re, im, off = checker.exponential(x, turning)
            exact = flint.arb(x.numerator) / x.denominator
            true = (exact.cos(), exact.sin()) if turning else (exact.exp(), flint.arb(0))
            for got, value in zip((re, im), true, strict=True):
                assert abs(value * flint.arb(2) ** checker.BITS - got) <= off
            assert off <= 3
            assert (off == 0) == (x == 0)
    finally:
        flint.ctx.prec = before


LEVELS = ["full", "cp(3)", "block(2)", "rotation", "diagonal", "positive"]


@pytest.mark.parametrize("embedding", [0, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", LEVELS)
def test_networks_are_read_as_they_are(level, dtype, embedding):
    generator = torch.Generator().manual_seed(3)
    model = StateTracker(5, 4, 6, level, embedding=embedding, generator=generator).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    noise = {"optimiser.exp_avg.readout": torch.ones(2), "averaged.readout": torch.ones(3)}
    matrices, start, readout = checker.read_network(weights_of(model, **noise), level.partition("(")[0])
    network = network_of(model)
    for mine, theirs in ((start, network.initial), (np.ravel(readout).tolist(), network.readout.ravel())):
        ratios = {Fraction(x) / Fraction(y) for x, y in zip(mine, theirs.tolist(), strict=True)}
        assert len(ratios) == 1
        assert ratios.pop() > 0
    for a, matrix in enumerate(matrices):
        dense = np.zeros((6, 6), dtype=object)
        for i, row in enumerate(matrix):
            for j, value, off in row:
                dense[i, j] = value
                assert off == 0 or level in ("rotation", "positive")
        if network.dyadics is not None:
            # whole numbers that differ by one positive factor
            exact = network.dyadics[a].whole
            place = np.unravel_index(np.argmax(np.abs(exact.astype(float))), exact.shape)
            assert dense[place] * exact[place] > 0
            assert (dense * exact[place] == exact * dense[place]).all()
        else:
            mid, off = network.scaled.matrices.mid[a], network.scaled.matrices.off[a]
            scale = max(map(abs, dense.ravel())) / Fraction(float(np.abs(mid).max()))
            for x, y, d in zip(dense.ravel(), mid.ravel().tolist(), off.ravel().tolist(), strict=True):
                assert abs(x / scale - Fraction(y)) <= 4 * Fraction(d) + Fraction(2) ** -200


def test_weights_of_another_level_are_refused():
    for level, other in itertools.permutations(LEVELS, 2):
        if {level, other} == {"diagonal", "positive"}:
            # the same tensors: what they mean is in the run's options
            continue
        model = StateTracker(5, 4, 6, level)
        with pytest.raises((checker.InvalidError, LookupError, ValueError, ZeroDivisionError)):
            checker.read_network(weights_of(model), other.partition("(")[0])
    additive = StateTracker(3, 2, 4, "full", additive="constant")
    with pytest.raises((checker.InvalidError, LookupError)):
        checker.read_network(weights_of(additive), "full")


def case(matrices, start, readout, delta, outputs, legal=None, shortest=0, length=0, radius=0):
    """A case of small whole numbers; every entry of a matrix may be off by `radius`."""
    rows = [[[(j, int(x), radius) for j, x in enumerate(row)] for row in matrix] for matrix in matrices]
    machine = {"delta": delta, "outputs": outputs, "start": 0}
    legal = [[1] * len(matrices) for _ in delta] if legal is None else legal
    network = (rows, [int(x) for x in start], [[int(x) for x in row] for row in readout])
    return checker.Case(network, machine, {"shortest": shortest, "legal": legal}, length)


def random_case(generator, length, radius=0):
    hidden, symbols, states, classes = (generator.randint(1, 3) for _ in range(4))
    draw = lambda *shape: np.array([generator.randint(-3, 3) for _ in range(math.prod(shape))]).reshape(shape)  # noqa: E731
    delta = [[generator.randrange(states) for _ in range(symbols)] for _ in range(states)]
    outputs = [generator.randrange(classes) for _ in range(states)]
    legal = [[int(generator.random() < 0.8) for _ in range(symbols)] for _ in range(states)]
    shortest = generator.randint(0, 2)
    parts = [40 * draw(symbols, hidden, hidden), draw(hidden), draw(classes, hidden)]
    return case(*parts, delta, outputs, legal, shortest, length, radius), parts


def words_of(subject, longest):
    """All legal words up to a length, with the states that they lead to."""
    layer = [((), subject.start)]
    for _ in range(longest + 1):
        yield from layer
        layer = [
            ((*word, a), subject.delta[q][a])
            for word, q in layer
            for a in range(len(subject.matrices))
            if subject.legal[q][a]
        ]


def is_right(parts, word, output):
    matrices, h, readout = (part.astype(object) for part in parts)
    for a in word:
        h = matrices[a] @ h
    logits = (readout @ h).tolist()
    return all(logit < logits[output] for c, logit in enumerate(logits) if c != output)


def accepts(method, witness):
    try:
        method(witness)
    except (checker.InvalidError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False
    return True


def test_all_words_are_tried():
    generator, seen = random.Random(2), {True: 0, False: 0}
    for _ in range(400):
        subject, parts = random_case(generator, generator.randint(0, 3))
        judged = [(w, q) for w, q in words_of(subject, subject.length) if len(w) >= subject.shortest]
        right = all(is_right(parts, word, subject.outputs[q]) for word, q in judged)
        assert accepts(subject.check_words, {}) == right
        seen[right] += 1
    assert min(seen.values()) > 30


def test_what_holds_for_balls_holds_for_all_that_they_contain():
    generator, proven = random.Random(4), 0
    for _ in range(300):
        radius = generator.choice([1, 3])
        subject, parts = random_case(generator, generator.randint(1, 3), radius)
        if accepts(subject.check_words, {}):
            proven += len(subject.readout) > 1
            judged = [(w, q) for w, q in words_of(subject, subject.length) if len(w) >= subject.shortest]
            for _ in range(3):
                off = np.array([generator.choice([-radius, radius]) for _ in parts[0].ravel()])
                moved = [parts[0] + off.reshape(parts[0].shape), *parts[1:]]
                assert all(is_right(moved, word, subject.outputs[q]) for word, q in judged)
    assert proven > 10


def test_counterexamples_are_wrong_words():
    generator, found = random.Random(5), 0
    for _ in range(1_000):
        subject, parts = random_case(generator, 0)
        draw = lambda most: [generator.randrange(len(subject.matrices)) for _ in range(generator.randint(0, most))]  # noqa: B023, E731
        prefix, loop, suffix, times = draw(2), draw(3) or [0], draw(2), generator.randint(0, 5)
        word = tuple(prefix + loop * times + suffix)
        subject.length = len(word)
        rival = generator.randrange(len(subject.readout))
        witness = {"prefix": prefix, "loop": loop, "times": times, "suffix": suffix, "rival": rival}
        state, legal = subject.start, True
        for a in word:
            legal = legal and bool(subject.legal[state][a])
            state = subject.delta[state][a]
        logits = [row @ _after(parts, word) for row in parts[2].astype(object)]
        output = subject.outputs[state]
        wrong = legal and len(word) >= subject.shortest and rival != output and logits[rival] >= logits[output]
        assert accepts(subject.check_counterexample, witness) == wrong
        found += wrong
    assert found > 50


def _after(parts, word):
    h = parts[1].astype(object)
    for a in word:
        h = parts[0][a].astype(object) @ h
    return h


def test_long_powers_are_replayed():
    """A turn whose tangent is 1/10^9 is wrong after a quarter of a circle, some 10^9 turns, and not before."""
    tangent = 10**9
    turn = [[tangent, -1], [1, tangent]]
    subject = case([turn], [1, 0], [[1, 0], [0, 1]], [[0]], [0])
    eighth = round(math.pi / 4 * tangent)
    for times, wrong in ((eighth - 1_000, False), (eighth + 1_000, True)):
        subject.length = times
        witness = {"prefix": [], "loop": [0], "times": times, "suffix": [], "rival": 1}
        assert accepts(subject.check_counterexample, witness) == wrong


def test_bounds_on_errors_bound_them():
    """For random vectors and norms, whatever is accepted holds on all words of the length."""
    generator, proven = random.Random(7), 0
    for _ in range(600):
        hidden, symbols, states = generator.randint(1, 3), generator.randint(1, 2), generator.randint(1, 3)
        delta = [[generator.randrange(states) for _ in range(symbols)] for _ in range(states)]
        base = np.array([[generator.randint(-2, 2) for _ in range(hidden)] for _ in range(states)])
        coefficients = np.linalg.pinv(base.T.astype(float))
        moved = np.array([[base[delta[q][a]] for q in range(states)] for a in range(symbols)])
        # matrices that nearly carry each vector to the next, as far as there are any
        solved = np.array([np.rint(100 * moved[a].T @ coefficients) for a in range(symbols)]).astype(int)
        solved += np.array([generator.randint(-2, 2) for _ in range(solved.size)]).reshape(solved.shape)
        readout = np.array([[generator.randint(-3, 3) for _ in range(hidden)] for _ in range(2)])
        outputs = [int(np.argmax(readout @ base[q])) for q in range(states)]
        subject = case(solved, base[0], readout, delta, outputs, length=generator.randint(0, 5))
        witness = {
            "vectors": base.tolist(),
            "cuts": np.rint(1000 * coefficients).astype(int).tolist(),
            "rooms": [0] * states,
            "over": 1000,
            "weight": generator.choice([1, 2, 5]),
        }
        if accepts(subject.check_growth, witness):
            proven += 1
            parts = [solved, base[0], readout]
            for word, q in words_of(subject, subject.length):
                assert is_right(parts, word, outputs[q])
    assert proven > 50


def test_positive_definite_is_never_claimed_of_a_matrix_that_is_not():
    generator, seen = random.Random(8), {True: 0, False: 0}
    for _ in range(600):
        size, scale = generator.randint(1, 4), generator.choice([1, 10**6, 10**30])
        base = [[generator.randint(-3, 3) for _ in range(size)] for _ in range(size)]
        square = [[sum(x * y for x, y in zip(one, two, strict=True)) for two in base] for one in base]
        second = [[scale * square[i][j] for j in range(size)] for i in range(size)]
        for i in range(size):
            # on the edge or just beside it
            second[i][i] += generator.choice([-1, 0, 1, scale])
        nothing = [[0] * size for _ in range(size)]
        minors = [_determinant([row[:k] for row in second[:k]]) for k in range(1, size + 1)]
        claimed = cone_checker.exceeds(1, second, 1, nothing)
        assert claimed == all(minor > 0 for minor in minors)
        shifted = [[5 * x + y for x, y in zip(*rows, strict=True)] for rows in zip(second, square, strict=True)]
        assert cone_checker.exceeds(3, shifted, 3, square) == claimed
        seen[claimed] += 1
        assert not cone_checker.exceeds(0, second, 1, nothing)
        assert not cone_checker.exceeds(1, second, -1, nothing)
    assert min(seen.values()) > 30


def _determinant(rows):
    if not rows:
        return 1
    minors = ([row[:k] + row[k + 1 :] for row in rows[1:]] for k in range(len(rows)))
    return sum((-1) ** k * rows[0][k] * _determinant(minor) for k, minor in enumerate(minors))


def test_a_cone_contains_all_that_a_vector_may_be():
    generator, seen = random.Random(9), {True: 0, False: 0}
    draw = lambda most: [generator.randint(-most, most) for _ in range(3)]  # noqa: E731
    for _ in range(500):
        rows, h, off = [draw(5), *(draw(2) for _ in range(2))], draw(9), [generator.randint(0, 1) for _ in range(3)]
        claimed = cone_checker.contains(rows, h, off)
        seen[claimed] += 1
        for signs in itertools.product((-1, 0, 1), repeat=3) if claimed else ():
            moved = [x + s * d for x, s, d in zip(h, signs, off, strict=True)]
            lead, *others = [sum(w * x for w, x in zip(row, moved, strict=True)) for row in rows]
            assert lead > 0
            assert lead**2 >= sum(x * x for x in others)
    assert min(seen.values()) > 50


def test_it_runs_alone_without_anything_installed(tmp_path):
    """As a single file, with neither the environment nor site-packages."""
    model = StateTracker(1, 1, 1, "full").double()
    with torch.no_grad():
        model.transition.matrices.fill_(1.5)
    (tmp_path / "model.safetensors").write_bytes(weights_of(model))
    (tmp_path / "config.json").write_text(json.dumps({"format": 2, "options": {"model": "full"}}))
    (tmp_path / "checker.py").write_text(FILE.read_text())
    held = {
        "format": checker.FORMAT,
        "weights": checker.hashlib.sha256(weights_of(model)).hexdigest(),
        "level": "full",
        "machine": {"start": 0, "delta": [[0]], "outputs": [0]},
        "language": {"shortest": 0, "legal": [[1]]},
        "length": 3,
        "witness": {"method": "all words"},
    }
    held["statement"] = checker.state(held)
    # one class, one line of states: the cone of all positive numbers
    cones = {"method": "cones", "cones": [[0, [[1]], [1], []]], "arrows": [[[0, 1, 10**60]]], "burn_in": 0}
    wide = held | {"length": 0, "witness": cones}
    expected = {
        "good": (0, "valid: the network"),
        "cone": (0, "valid: the network"),
        "bad": (1, "invalid: "),
        "other": (2, "not checked: "),
        "no": (2, ""),
    }
    (tmp_path / "good.cert").write_text(json.dumps(held))
    (tmp_path / "bad.cert").write_text(json.dumps(held | {"weights": "0" * 64}))
    (tmp_path / "other.cert").write_text("{}")
    (tmp_path / "cone.cert").write_text(json.dumps(wide | {"statement": checker.state(wide)}))
    command = [sys.executable, "-I", "-S", "checker.py", "cone.cert", "model.safetensors", "config.json"]
    assert subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=600).returncode == 2
    (tmp_path / "cone_checker.py").write_text(CONES.read_text())
    for name, (code, says) in expected.items():
        files = [f"{name}.cert", "model.safetensors", "config.json"]
        done = subprocess.run(
            [sys.executable, "-I", "-S", "checker.py", *files],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=600,
        )
        assert (done.returncode, done.stderr) == (code, ""), done.stderr
        assert done.stdout.startswith(says)
        assert len(done.stdout.strip().splitlines()) == 1
