"""Certificates that were tampered with are rejected, or what they claim is still true.

Each number, label, arrow and weight of certificates of every method is changed, and the statement with it, so that it
is never the words alone that give a change away. What the checker still accepts is decided anew by trying words.
"""

import copy
import hashlib
import itertools
import json
import random

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

import statewise as sw
from statewise.machines import Machine, machine, minimise
from statewise.models import StateTracker
from statewise.tasks import legal_moves
from statewise.theory import checker, compile_machine, network_of
from statewise.theory.certify import Verdict, certify, decide_by_orbit
from statewise.theory.certify.trained import prove_by_cones
from statewise.theory.certify.witness import write_certificate

# words that are tried to decide whether an accepted claim is true
MOST_WORDS = 800


def weights_of(model):
    return save({f"model.{name}": value.contiguous() for name, value in model.state_dict().items()})


def tracker(matrices, initial, readout, level="full"):
    """A network of the full level, or of another one whose only tensor is given."""
    matrices = torch.tensor(np.array(matrices, dtype=float), dtype=torch.float64)
    readout = torch.tensor(np.array(readout, dtype=float), dtype=torch.float64)
    symbols = len(matrices) if level == "full" else matrices.shape[1]
    model = StateTracker(symbols, len(readout), len(initial), level).double()
    with torch.no_grad():
        (model.transition.matrices if level == "full" else model.transition.weight).copy_(matrices)
        model.initial_state.copy_(torch.tensor(initial))
        model.readout.copy_(readout)
    return model


def noisy(name, noise, level="full"):
    m = machine(name)
    made = compile_machine(m, level, dtype=torch.float64).model
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.transition.parameters():
            parameter += noise * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return made


def growing():
    """Parity in two entries, and a third that grows by another factor for each symbol and is never read."""
    stay, flip = np.eye(3), np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1.0]])
    stay[2, 0], flip[2, 2], flip[2, 1] = 1, 3, 2
    return tracker([stay, flip], [1.0, 0, 1], [[1, 0, 0], [0, 1, 0]])


def robust():
    """Parity as the sign of a growing entry, with noise on every weight."""
    random = np.random.default_rng(3)
    parts = [np.diag([1.0, 0.2]), np.diag([-1.0, 0.2])], [1.0, 0.0], [[1.0, 0.0], [-1.0, 0.0]]
    return tracker(*(part + 0.1 * random.normal(size=np.shape(part)) for part in map(np.array, parts)))


def bases():
    """Small networks, their level, the machine, the shortest word, and whether all words are judged."""
    arithmetic = machine("modular_arithmetic(2)")
    return {
        "orbit": (compile_machine(machine("symmetric(3)"), "auto").model, "block(2)", machine("symmetric(3)"), 0, True),
        "legal": (compile_machine(arithmetic, "full").model, "full", arithmetic, 2, False),
        "series": (growing(), "full", machine("parity"), 0, True),
        "counts": (compile_machine(machine("tomita(1)"), "diagonal").model, "diagonal", machine("tomita(1)"), 0, True),
        "decays": (compile_machine(machine("tomita(1)"), "positive").model, "positive", machine("tomita(1)"), 1, True),
        "cones": (robust(), "full", machine("parity"), 2, True),
        "growth": (noisy("parity", 0.25), "full", machine("parity"), 0, True),
        "turns": (noisy("modular_addition(3)", 0.3, "rotation"), "rotation", machine("modular_addition(3)"), 0, True),
        "words": (noisy("modular_addition(3)", 0.2), "full", machine("modular_addition(3)"), 1, True),
        "wrong": (compile_machine(machine("symmetric(3)"), "auto").model, "block(2)", _other(), 0, True),
    }


def _other():
    delta = machine("symmetric(3)").delta.copy()
    delta[4, 5] = (delta[4, 5] + 1) % 6
    return machine("symmetric(3)").replace(delta=delta)


@pytest.fixture(scope="module")
def certified():
    made = {}
    for name, (model, level, m, shortest, every) in bases().items():
        # a search would refute what is noisy
        verdict = certify(network_of(model), m, shortest, work=0, all_words=every)
        if name == "words":
            verdict = Verdict("horizon", "all words", "", shortest, 3)
        if name == "cones":
            proof = prove_by_cones(network_of(model), m, shortest)
            verdict = Verdict("proven", "cones", "", shortest, witness=proof)
        minimal = minimise(m)
        legal = legal_moves(minimal) if verdict.restricted else None
        assert verdict.restricted == (name == "legal")
        weights = weights_of(model)
        made[name] = model, level, weights, json.loads(write_certificate(weights, level, minimal, verdict, legal))
    methods = {name: held["witness"]["method"] for name, (_, _, _, held) in made.items()}
    assert methods == {
        "orbit": "orbit",
        "legal": "orbit",
        "series": "series",
        "counts": "counts",
        "decays": "counts",
        "cones": "cones",
        "growth": "growth of errors",
        "turns": "growth of errors",
        "words": "all words",
        "wrong": "counterexample",
    }
    return made


def accepted(held, weights, level):
    """Whether the checker accepts a certificate, with its statement as tampering leaves it or put right."""
    try:
        text = held if isinstance(held, bytes) else json.dumps(held).encode()
        checker.check(text, weights, json.dumps({"model": level}).encode())
    except (checker.InvalidError, ValueError, RecursionError):
        return False
    return True


def reworded(held):
    """Put the statement right, as someone would who tampers with the rest."""
    try:
        return held | {"statement": checker.state(held)}
    except (AttributeError, LookupError, TypeError, ValueError):
        return held


def leads(network, word, output):
    """By how much the output's logit exceeds the others, over the size of the largest."""
    h = network.initial
    for a in word:
        h = network.matrices[a] @ h
        h = h / max(1e-300, np.abs(h).max())
    logits = network.readout @ h
    return [float(logits[output] - logit) for c, logit in enumerate(logits) if c != output]


def is_true(held, model):
    """Decide by trying words whether a claim holds; claims about more words than can be tried do not."""
    network = network_of(model)
    m = Machine(held["machine"]["delta"], held["machine"]["start"], held["machine"]["outputs"])
    legal, shortest, length = np.array(held["language"]["legal"]), held["language"]["shortest"], held["length"]
    witness = held["witness"]
    if witness["method"] == "counterexample":
        word = witness["prefix"] + witness["loop"] * witness["times"] + witness["suffix"]
        states = [m.start, *m.track(np.array(word, dtype=int)).tolist()] if word else [m.start]
        may = all(legal[q, a] for q, a in zip(states, word, strict=False))
        wrong = min(leads(network, word, int(m.outputs[states[-1]]))) <= 1e-9
        return may and wrong and shortest <= length == len(word)
    layer, tried, place = [((), m.start)], 0, 0
    while layer:
        tried += len(layer)
        if tried > MOST_WORDS:
            # all lengths are claimed: these words are right, and an exact decision must agree where there is one
            decided = decide_by_orbit(network, m, min(shortest, 20), 500, legal.astype(bool))
            exact = decided is None or decided.equal
            return exact and witness["method"] in ("orbit", "series", "counts", "cones")
        for word, q in layer:
            if place >= shortest and not min(leads(network, word, int(m.outputs[q]))) > -1e-12:
                return False
        if witness["method"] in ("growth of errors", "all words") and place == length:
            return True
        layer = [((*word, a), int(m.delta[q, a])) for word, q in layer for a in np.flatnonzero(legal[q]).tolist()]
        place += 1
    return True


def places(value, path=()):
    """The paths of all that a certificate holds."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def replaced(held, path, value):
    made = copy.deepcopy(held)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


def changes(value, generator):
    """Other values in place of one."""
    if isinstance(value, bool) or value is None:
        return [0, [0, 1, 1]]
    if isinstance(value, int):
        other = [-value, value * 2 + 1, 10**40, str(value), None, [value], float(value), True, generator.randrange(7)]
        return [value + 1, value - 1, *(x for x in generator.sample(other, 2) if x != value)]
    if isinstance(value, str):
        return ["", value + "x", 5, "full", "positive", "orbit", "all words"]
    if isinstance(value, list) and value:
        kept = [value[:-1], [*value, value[-1]], value[1:], {}, []]
        swapped = [value[1], value[0], *value[2:]] if len(value) > 1 else [value[0]] * 2
        return [swapped, *generator.sample(kept, 2)]
    return [None, []] if isinstance(value, dict) else [[1], [[1]]]


NAMES = list(bases())
UNREAD = ("alphabet", "output_names")


@pytest.mark.parametrize("name", NAMES)
def test_changed_certificates(certified, name, monkeypatch):
    monkeypatch.setattr(checker, "MAX_WORK", 3_000_000)
    model, level, weights, held = certified[name]
    assert accepted(held, weights, level)
    assert is_true(held, model)
    generator, tried, survived, decided = random.Random(0), 0, 0, {}
    paths = [path for path in places(held) if path and not set(path) & set(UNREAD)]
    if len(paths) > 700:
        paths = [path for path in paths if len(path) <= 2] + generator.sample(paths, 700)
    for path in paths:
        value = held
        for key in path:
            value = value[key]
        for other in changes(value, generator):
            if type(other) is type(value) and other == value:
                continue
            made = replaced(held, path, other)
            tried += 1
            if path[0] not in ("statement", "weights"):
                assert not accepted(made, weights, level) or made == reworded(made)
                made = reworded(made)
            if accepted(made, weights, level):
                survived += 1
                claim = json.dumps([made["machine"], made["language"], made["length"]])
                if name == "wrong" or claim not in decided:
                    decided[claim] = is_true(made, model)
                assert decided[claim], (path, other)
    assert tried > 100
    # cones have room: what is changed a little proves the same
    assert survived < (tried - 50 if name == "cones" else tried / 2)


def test_a_thousand_changes_are_tried(certified):
    """How many leaves there are to be changed, so that a smaller certificate does not go unnoticed."""
    leaves = sum(len(list(places(held))) for _, _, _, held in certified.values())
    assert leaves > 1_000


@pytest.mark.parametrize("name", NAMES)
def test_changed_weights(certified, name, monkeypatch):
    """One unit in the last place of each weight; the hash is put right, so that the proof alone can tell."""
    monkeypatch.setattr(checker, "MAX_WORK", 3_000_000)
    model, level, weights, held = certified[name]
    assert not accepted(held, weights[:-1], level)
    tensors, tried, rejected = load(weights), 0, 0
    for tensor_name, tensor in tensors.items():
        for place in range(min(tensor.numel(), 40)):
            for direction in (torch.inf, -torch.inf):
                changed = {key: value.clone() for key, value in tensors.items()}
                flat = changed[tensor_name].view(-1)
                flat[place] = torch.nextafter(flat[place], torch.tensor(direction, dtype=flat.dtype))
                content = save(changed)
                tried += 1
                assert not accepted(held, content, level)
                rehashed = reworded(held | {"weights": hashlib.sha256(content).hexdigest()})
                if accepted(rehashed, content, level):
                    other = copy.deepcopy(model)
                    other.load_state_dict({key.removeprefix("model."): value for key, value in changed.items()})
                    assert is_true(rehashed, other)
                else:
                    rejected += 1
    assert tried > 5
    # where sets are points, the last bit of a weight that moves them matters
    assert rejected or name not in ("orbit", "legal", "series")


def test_pieces_of_other_certificates(certified):
    """A witness, a machine or a language of another certificate does not fit."""
    for (name, one), (other_name, other) in itertools.permutations(certified.items(), 2):
        model, level, weights, held = one
        for key in ("witness", "machine", "language", "length"):
            made = reworded(held | {key: other[3][key]})
            if accepted(made, weights, level):
                assert is_true(made, model), (name, other_name, key)
        assert not accepted(other[3], weights, level) or other[2] == weights


def test_changed_cones(certified):
    """Cones that are turned, widened, swapped or left out, and factors that are too large, prove nothing."""
    _, level, weights, held = certified["cones"]
    states = len(held["machine"]["delta"])
    cones, arrows = held["witness"]["cones"], held["witness"]["arrows"]
    tampered = [(("cones", 0, 1), cones[1][1]), (("cones",), []), (("cones",), cones[:1]), (("arrows",), arrows[::-1])]
    for place, (state, rows, point, shares) in enumerate(cones):
        at = ("cones", place)
        tampered += [
            ((*at, 0), (state + 1) % states),
            ((*at, 0), state - states),
            ((*at, 1), [[-x for x in rows[0]], *rows[1:]]),
            ((*at, 1), [rows[0], *([x // 1000 for x in row] for row in rows[1:])]),
            ((*at, 1), rows[:1]),
            ((*at, 1), []),
            ((*at, 1), [[0] * len(rows[0])] * len(rows)),
            ((*at, 2), [-x for x in point]),
            ((*at, 2), [0] * len(point)),
            ((*at, 3), []),
            *(((*at, 3, k), [sign * p, sign * q]) for k, (p, q) in enumerate(shares) for sign in (-1, 0)),
            *(((*at, 3, k), [1000 * p, q]) for k, (p, q) in enumerate(shares)),
        ]
        for a, (target, p, q) in enumerate(arrows[place]):
            tampered += [
                (("arrows", place, a), [(target + 1) % len(cones), p, q]),
                (("arrows", place, a), [len(cones), p, q]),
                (("arrows", place, a), [target, 1000 * p, q]),
                (("arrows", place, a), [target, -p, q]),
                (("arrows", place, a), [target, -p, -q]),
            ]
    tampered += [(("burn_in",), value) for value in (-1, None, [1], "1")]
    for path, value in tampered:
        assert not accepted(replaced(held, ("witness", *path), value), weights, level), (path, value)
    assert not accepted(reworded(held | {"length": 5}), weights, level)


def test_redirected_arrows_and_swapped_labels(certified):
    model, level, weights, held = certified["orbit"]
    states = len(held["machine"]["delta"])
    for q, a, there in itertools.product(range(states), range(states), range(states)):
        if held["machine"]["delta"][q][a] != there:
            assert not accepted(reworded(replaced(held, ("machine", "delta", q, a), there)), weights, level)
            target = held["witness"]["arrows"][q][a][0]
            if there != target:
                made = replaced(held, ("witness", "arrows", q, a, 0), there)
                assert not accepted(made, weights, level)
    for one, two in itertools.combinations(range(states), 2):
        outputs = list(held["machine"]["outputs"])
        outputs[one], outputs[two] = outputs[two], outputs[one]
        assert not accepted(reworded(replaced(held, ("machine", "outputs"), outputs)), weights, level)
    assert is_true(held, model)


def test_words_that_are_not_judged_stay_so(certified):
    """An entry cannot pretend to be shorter than the words that lead there: that would hide wrong answers."""
    model = compile_machine(machine("parity"), "full").model
    with torch.no_grad():
        # right on words of two symbols and more only for a machine that is wrong before
        model.readout.copy_(model.readout.flip(0))
    weights, m = weights_of(model), minimise(machine("parity"))
    held = json.loads(
        write_certificate(
            weights_of(compile_machine(machine("parity"), "full").model),
            "full",
            m,
            certify(network_of(compile_machine(machine("parity"), "full").model), m, 2),
        )
    )
    held["weights"] = hashlib.sha256(weights).hexdigest()
    for least in range(-4, 3):
        made = copy.deepcopy(held)
        for entry in made["witness"]["entries"]:
            entry[2] = min(least, entry[2])
        assert not accepted(reworded(made), weights, "full")


BROKEN = {
    "truncated": lambda text: text[: len(text) // 2],
    "empty": lambda text: b"",
    "NaN": lambda text: text.replace(b'"length":0', b'"length":NaN'),
    "infinite": lambda text: text.replace(b'"length":0', b'"length":-Infinity'),
    "float": lambda text: text.replace(b'"length":0', b'"length":0.0'),
    "exponent": lambda text: text.replace(b'"length":0', b'"length":1e400000000'),
    "key twice": lambda text: text.replace(b'"length":0', b'"length":0,"length":0'),
    "inner key twice": lambda text: text.replace(b'"start":0', b'"start":0,"start":0'),
    "long number": lambda text: text.replace(b'"length":0', b'"length":' + b"9" * 5_000),
    "deep": lambda text: b"[" * 100_000 + b"]" * 100_000,
    "deep witness": lambda text: text.replace(b'"length":0', b'"length":' + b"[" * 5_000 + b"]" * 5_000),
    "list": lambda text: b"[" + text + b"]",
    "number": lambda text: b"7",
    "binary": lambda text: bytes(range(256)),
    "another format": lambda text: text.replace(b"certificate 1", b"certificate 2"),
    "no format": lambda text: text.replace(b'"format"', b'"former"'),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_files_that_are_no_certificates(certified, kind):
    _, level, weights, held = certified["orbit"]
    text = json.dumps(held, separators=(",", ":")).encode()
    broken = BROKEN[kind](text)
    assert broken != text
    with pytest.raises((ValueError, RecursionError)):
        checker.check(broken, weights, json.dumps({"model": level}).encode())


def test_other_options_of_the_run(certified):
    """Diagonal and positive networks have the same tensors: the run's options tell them apart."""
    _, _, weights, held = certified["counts"]
    assert accepted(held, weights, "diagonal")
    for level in ("positive", "full", "lstm", "rotation", "cp(2)"):
        assert not accepted(held, weights, level)
        assert not accepted(reworded(held | {"level": level}), weights, "diagonal")
    for config in (b"", b"[]", b"{}", b'{"model": 5}', b'{"options": {}}'):
        with pytest.raises(checker.InvalidError):
            checker.check(json.dumps(held).encode(), weights, config)


def test_a_run_of_a_network_is_checked_by_name_too(tmp_path):
    """The single file goes by numbers; the command sees that names are those of the run."""
    run = sw.compile("flip_flop", run=10, out=tmp_path / "run")
    sw.certify(run, out=tmp_path / "good.cert")
    held = json.loads((tmp_path / "good.cert").read_text())
    for path, value in {
        ("machine", "alphabet"): held["machine"]["alphabet"][::-1],
        ("machine", "output_names"): held["machine"]["output_names"][::-1],
        ("matrices",): "A = 0",
    }.items():
        (tmp_path / "named.cert").write_text(json.dumps(replaced(held, path, value)))
        found = sw.check(tmp_path / "named.cert", run)
        assert (found.valid, found.statement) == (False, None)
    assert sw.check(tmp_path / "good.cert", run).valid
