"""Search for vectors and coordinates in which the errors of a trained network grow slowly.

Nothing here is trusted: what is found is proved, or not, by `frames`. Vectors are mean states of random words.
Coordinates come in two kinds. Where all matrices have the same blocks on the diagonal (planes of rotations, entries of
a diagonal), each block is tracked, or bounded by its norm. Elsewhere the tracked directions are those that long
products keep, and the functionals those that long products read; the rest is forgotten, in a norm in which it shrinks.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine
from statewise.randomness import stream
from statewise.theory.certify.enclosures import Enclosed
from statewise.theory.certify.frames import Frames
from statewise.theory.certify.planes import planes_of

_WORDS, _LONGEST, _FORGOTTEN = 3_000, 14, 6
_PRODUCT_LENGTH = 10
# blocks that drift by more than this are bounded by their norm; several limits are tried
_DRIFTS = (1e-9, 0.01, 0.03, 0.1, 0.2, 0.4, 0.8)
_MAX_FACTORS = 5e6
# how much the directions of all words count beside those of one
_SHARED = 0.05
_MAX_EDGES = 20_000


def search_frames(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], seed: int = 0, pairs: int = 700
) -> Iterator[Frames]:
    """Yield frames to try, the cheapest first.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        legal: which symbols may follow which states.
        seed: of the words that are drawn.
        pairs: how many matrices of coordinates to have at most; each costs an eigenproblem of the hidden size.
    """
    sampled = Sampled(network, machine, legal, seed)
    yield from _by_blocks(network, machine, legal, sampled)
    if planes_of(network.matrices.mid) is None:
        yield from _by_rank(network, machine, legal, sampled, pairs)


def _products(hidden: int) -> int:
    """Return how many products of matrices to draw."""
    return int(np.clip(4e8 / hidden**3, 16, 200))


class Sampled:
    """States after random legal words, once what came first is forgotten."""

    def __init__(self, network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], seed: int) -> None:
        random = stream(seed, "frames")
        matrices, h = network.matrices.mid, np.repeat(network.initial.mid[None], _WORDS, axis=0)
        states = np.full(_WORDS, machine.start)
        self.symbols, self.kept = machine.symbols, []
        history = np.zeros(_WORDS, dtype=np.int64)
        for length in range(1, _LONGEST + 1):
            symbols = _legal_symbols(random, legal[states])
            h = np.einsum("bij,bj->bi", matrices[symbols], h) if h.size < 1e5 else _grouped(matrices, symbols, h)
            h = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-300)
            states = machine.delta[states, symbols]
            history = (history * machine.symbols + symbols) % machine.symbols**4
            if length >= _FORGOTTEN:
                self.kept.append((h, states, history))
        self.h = np.concatenate([part[0] for part in self.kept])
        self.states = np.concatenate([part[1] for part in self.kept])
        self.history = np.concatenate([part[2] for part in self.kept])

    def centres(self, machine: Machine) -> Float[np.ndarray, "state hidden"]:
        """Return the mean state after words that lead to each machine state; 0 where no word led there."""
        counts = np.bincount(self.states, minlength=machine.states)
        sums = np.zeros((machine.states, self.h.shape[1]))
        np.add.at(sums, self.states, self.h)
        return sums / np.maximum(counts, 1)[:, None]

    def means(self, machine: Machine, past: int) -> Float[np.ndarray, "state past hidden"]:
        """Return mean directions for each state and its last symbols; 0 where no word led there."""
        pasts = self.symbols**past
        sums = np.zeros((machine.states * pasts, self.h.shape[1]))
        np.add.at(sums, self.states * pasts + self.history % pasts, self.h)
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-300)
        return sums.reshape(machine.states, pasts, -1)


def _legal_symbols(random: np.random.Generator, legal: Bool[np.ndarray, "word symbol"]) -> Int[np.ndarray, " word"]:
    return np.argmax(np.where(legal, random.random(legal.shape), -1.0), axis=1)


def _grouped(matrices: np.ndarray, symbols: np.ndarray, h: np.ndarray) -> np.ndarray:
    made = np.empty_like(h)
    for symbol in np.unique(symbols).tolist():
        rows = symbols == symbol
        made[rows] = h[rows] @ matrices[symbol].T
    return made


def _by_blocks(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], sampled: Sampled
) -> Iterator[Frames]:
    """Yield frames of networks whose matrices share blocks on the diagonal."""
    parts = _components(np.abs(network.matrices.mid).max(axis=0) > 0)
    if len(parts) < 2:
        return
    means = sampled.centres(machine)
    gains = _gains(network, machine, legal, means)
    unit = network.matrices.mid / gains[:, None, None]
    nearest, begun = np.zeros_like(means), np.zeros_like(means)
    drift, weight = np.zeros(len(parts)), np.zeros(len(parts))
    into, back = np.eye(network.hidden), np.eye(network.hidden)
    for i, part in enumerate(parts):
        own = unit[:, part[:, None], part]
        initial = network.initial.mid[part]
        nearest[:, part], begun[:, part], drift[i] = _carried(own, machine, legal, means[:, part], initial)
        weight[i] = (nearest[:, part] ** 2).sum()
        square = own.swapaxes(1, 2) @ own
        if np.abs(square - np.einsum("aii->a", square)[:, None, None] / len(part) * np.eye(len(part))).max() > 1e-9:
            into[np.ix_(part, part)] = metric_of(own, 20)
            back[np.ix_(part, part)] = np.linalg.inv(into[np.ix_(part, part)])
    edges = int(legal.sum())
    tried = set()
    for limit in _DRIFTS:
        order = [i for i in np.argsort(-weight).tolist() if drift[i] < limit and weight[i] > 0]
        if not order or tuple(order) in tried:
            continue
        tried.add(tuple(order))
        others = [i for i in np.argsort(-weight).tolist() if i not in order]
        entries = np.concatenate([parts[i] for i in order + others])
        ends = np.cumsum([0] + [len(parts[i]) for i in order + others]).tolist()
        # blocks of their own are tighter than one for several, as far as memory goes
        most = max(2, int((_MAX_FACTORS / edges) ** 0.5))
        blocks = tuple(ends) if len(ends) <= most + 1 else (*ends[:most], network.hidden)
        norms = ("euclid",) * (len(blocks) - 1)
        for given in (begun, nearest):
            vectors = np.zeros_like(means)
            for i in order:
                vectors[:, parts[i]] = given[:, parts[i]]
            sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
            if not (sizes > 0).all():
                continue
            yield Frames(
                0, 0, (vectors / sizes.mean())[:, None], into[entries][None], back[:, entries][None], blocks, norms
            )


def _carried(
    matrices: Float[np.ndarray, "symbol out in"],
    machine: Machine,
    legal: Bool[np.ndarray, "state symbol"],
    means: Float[np.ndarray, "state part"],
    initial: Float[np.ndarray, " part"],
) -> tuple[Float[np.ndarray, "state part"], Float[np.ndarray, "state part"], float]:
    """Return, of the vectors that symbols carry best into each other, those nearest to the means, and those that begin
    nearest to the first state; and the drift.
    """
    states, size = means.shape
    form = np.zeros((states * size, states * size))
    for q in range(states):
        for symbol in np.flatnonzero(legal[q]).tolist():
            edge = np.zeros((size, states * size))
            edge[:, q * size : (q + 1) * size] = matrices[symbol]
            there = int(machine.delta[q, symbol])
            edge[:, there * size : (there + 1) * size] -= np.eye(size)
            form += edge.T @ edge
    values, vectors = np.linalg.eigh(form)
    best = vectors[:, values <= 1.5 * values[0] + 1e-9]
    nearest = (best @ (best.T @ means.ravel())).reshape(states, size)
    start = slice(machine.start * size, (machine.start + 1) * size)
    begun = (best @ np.linalg.lstsq(best[start], initial, rcond=1e-6)[0]).reshape(states, size)
    return nearest, begun, float(np.sqrt(max(values[0], 0.0)))


def _components(linked: Bool[np.ndarray, "out in"]) -> list[Int[np.ndarray, " entry"]]:
    """Return the sets of entries that no matrix mixes with others."""
    labels = np.arange(len(linked))
    linked = linked | linked.T | np.eye(len(linked), dtype=bool)
    while True:
        least = np.where(linked, labels[None], len(labels)).min(axis=1)
        if (least == labels).all():
            return [np.flatnonzero(labels == label) for label in np.unique(labels)]
        labels = least


def _by_rank(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], sampled: Sampled, most: int
) -> Iterator[Frames]:
    """Yield frames that split the hidden space into what is tracked and what is forgotten."""
    symbols, states = machine.symbols, machine.states
    matrices = network.matrices.mid
    gains = _gains(network, machine, legal, sampled.means(machine, 0)[:, 0])
    unit = matrices / gains[:, None, None]
    strength = product_spaces(unit, 0)[0]
    for past, future in ((0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (4, 3)):
        pairs = symbols ** (past + future + 1)
        if pairs > most or pairs * states > _MAX_EDGES:
            return
        vectors = sampled.means(machine, past)
        columns = product_spaces(unit, past)[1]
        rows = product_spaces(unit.swapaxes(1, 2), future)[1]
        for rank in _ranks(strength, states)[: 2 if past + future < 2 else 1]:
            made = _split(vectors, columns[:, :, :rank], rows[:, :, :rank], unit, past, future)
            if made is not None:
                yield made


def _gains(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], vectors: np.ndarray
) -> Float[np.ndarray, " symbol"]:
    """Return by how much each symbol stretches the vectors, in the mean; states without a vector do not count."""
    moved = np.linalg.norm(vectors @ network.matrices.mid.swapaxes(1, 2), axis=2)
    counted = legal & (vectors != 0).any(axis=1)[:, None]
    return np.array(
        [
            np.exp(np.log(np.maximum(moved[a, counted[:, a]], 1e-300)).mean()) if counted[:, a].any() else 1.0
            for a in range(machine.symbols)
        ]
    )


def product_spaces(
    matrices: Float[np.ndarray, "symbol out in"], last: int
) -> tuple[Float[np.ndarray, " hidden"], Float[np.ndarray, "word hidden hidden"]]:
    """Return how strong directions are in long products that end in a given word, and these directions, for each word.

    Words are numbers in base K with the last symbol in the lowest digit. Of transposed matrices these are the
    functionals of long products that begin with a word, its first symbol in the lowest digit.
    """
    symbols, hidden = len(matrices), matrices.shape[-1]
    random = stream(0, "products")
    count = _products(hidden)
    words = random.integers(0, symbols, (count, _PRODUCT_LENGTH))
    product = np.broadcast_to(np.eye(hidden), (count, hidden, hidden))
    for step in range(_PRODUCT_LENGTH - last):
        product = matrices[words[:, step]] @ product
        product = product / np.maximum(np.linalg.norm(product, axis=(1, 2), keepdims=True), 1e-300)
    grams = np.zeros((symbols**last, hidden, hidden))
    for word in range(symbols**last):
        ended = product
        for place in reversed(range(last)):
            ended = matrices[word // symbols**place % symbols] @ ended
        sizes = np.linalg.norm(ended, axis=(1, 2))[:, None, None]
        ended = ended / np.maximum(sizes, 1e-300)
        grams[word] = (ended @ ended.swapaxes(1, 2)).mean(axis=0)
    # a symbol that resets keeps fewer directions than others do: the rest is taken from all
    common = grams.mean(axis=0)
    values = np.linalg.eigvalsh(common)[::-1]
    return values, np.linalg.eigh(grams + _SHARED * common)[1][:, :, ::-1]


def leading_functionals(matrices: Float[np.ndarray, "symbol out in"]) -> Float[np.ndarray, "word hidden"]:
    """Return, for random long products, the functional that they read most."""
    random = stream(0, "functionals")
    count = _products(matrices.shape[-1])
    product = np.broadcast_to(np.eye(matrices.shape[-1]), (count, *matrices.shape[1:]))
    for _ in range(_PRODUCT_LENGTH):
        product = matrices[random.integers(0, len(matrices), count)] @ product
        product = product / np.maximum(np.linalg.norm(product, axis=(1, 2), keepdims=True), 1e-300)
    return np.linalg.svd(product)[2][:, 0]


def _ranks(strength: Float[np.ndarray, " hidden"], states: int) -> list[int]:
    """Return where the strength of directions falls most, best first."""
    most = min(len(strength) - 1, 2 * states + 2)
    falls = np.log(np.maximum(strength[:most], 1e-30)) - np.log(np.maximum(strength[1 : most + 1], 1e-30))
    return [int(i) + 1 for i in np.argsort(-falls)[:2]]


def _split(
    vectors: Float[np.ndarray, "state past hidden"],
    columns: Float[np.ndarray, "past hidden rank"],
    rows: Float[np.ndarray, "future hidden rank"],
    unit: Float[np.ndarray, "symbol out in"],
    past: int,
    future: int,
) -> Frames | None:
    """Build coordinates: those of the tracked directions, in one gauge for all modes, and those of the rest."""
    _, pasts, hidden = vectors.shape
    symbols, rank, futures = len(unit), columns.shape[2], rows.shape[0]
    plain_columns = np.linalg.svd(np.concatenate(list(columns), axis=1))[0][:, :rank]
    plain_rows = np.linalg.svd(np.concatenate(list(rows), axis=1))[0][:, :rank]
    reference = np.linalg.lstsq(plain_rows.T @ plain_columns, plain_rows.T, rcond=None)[0]
    mean = vectors.sum(axis=1)
    mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-300)
    metric = metric_of(reference @ unit @ plain_columns, 40)
    goal = (metric @ reference @ mean.T).T
    size = np.linalg.norm(goal, axis=1).mean()
    if not 1e-12 < size < 1e12:
        return None
    goal, metric = goal / size, metric / size
    across = np.eye(hidden) - plain_columns @ reference
    outer = metric_of(across @ unit @ across, 20)
    outer_back = np.linalg.inv(outer)
    into = np.zeros((pasts * futures, rank + hidden, hidden))
    back = np.zeros((pasts * futures, hidden, rank + hidden))
    made = vectors.copy()
    for p in range(pasts):
        live = np.abs(vectors[:, p]).max(axis=1) > 0
        if not live.any():
            continue
        for f in range(futures):
            # the next symbol is the highest digit of a future, and the lowest where spaces are numbered
            other = sum(f // symbols**place % symbols * symbols ** (future - 1 - place) for place in range(future))
            cross = rows[other].T @ columns[p]
            if np.linalg.cond(cross) > 1e6:
                return None
            read = np.linalg.solve(cross, rows[other].T)
            seen = vectors[live, p] @ read.T
            if live.sum() >= rank and np.linalg.cond(seen) < 1e6:
                gauge = np.linalg.lstsq(seen, goal[live], rcond=None)[0].T
            else:
                gauge = metric @ reference @ columns[p]
            if np.linalg.cond(gauge) > 1e8:
                return None
            mode = p * futures + f
            rest = np.eye(hidden) - columns[p] @ read
            into[mode] = np.vstack([gauge @ read, outer @ rest])
            back[mode] = np.column_stack([columns[p] @ np.linalg.inv(gauge), rest @ outer_back])
    norms = ("euclid", "euclid")
    return Frames(past, future, made, into, back, (0, rank, rank + hidden), norms)


def metric_of(matrices: Float[np.ndarray, "symbol rank rank"], steps: int) -> Float[np.ndarray, "rank rank"]:
    """Return R such that |R x|^2 is the mean of |A_w x|^2 over random words w of up to so many symbols."""
    random = stream(0, "metric")
    rank = matrices.shape[-1]
    count = _products(rank)
    products = np.broadcast_to(np.eye(rank), (count, rank, rank))
    total = np.eye(rank)
    for _ in range(steps):
        products = matrices[random.integers(0, len(matrices), count)] @ products
        size = np.linalg.norm(products, axis=(1, 2)).max()
        if not np.isfinite(size) or size > 1e6:
            break
        total = total + (products.swapaxes(1, 2) @ products).mean(axis=0)
    values, vectors = np.linalg.eigh(total)
    return (vectors * np.sqrt(np.maximum(values, 1e-12))) @ vectors.T
