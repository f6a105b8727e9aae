"""Whole numbers out of real ones: lattices, relations, coordinates, rank-one terms."""

import math
from fractions import Fraction

import numpy as np
import pytest

from statewise.theory.learning.hankel import Basis
from statewise.theory.polish.block_bases import anchored_basis, directions, near_points, null_space, turned_basis
from statewise.theory.polish.lattices import find_relation, nearest_fraction, reduce_lattice, spanning_basis
from statewise.theory.polish.rational import whole_coordinates, whole_matrices
from statewise.theory.polish.whole_levels import cp_terms


def totient(m):
    return sum(math.gcd(m, k) == 1 for k in range(m))


def polygon(m):
    """Return the corners of a regular polygon, and how adding a number moves them."""
    angles = 2 * np.pi * np.arange(m) / m
    return np.stack([np.cos(angles), np.sin(angles)], axis=1), (np.arange(m)[:, None] + np.arange(m)) % m


def test_a_number_near_a_fraction_is_that_fraction():
    assert nearest_fraction(1 / 3 + 1e-14, 1_000) == Fraction(1, 3)
    assert nearest_fraction(-355 / 113 + 1e-13, 1_000) == Fraction(-355, 113)


def test_a_reduced_lattice_is_the_same_lattice_with_short_vectors():
    random = np.random.default_rng(0)
    for size in (2, 3, 5, 8):
        rows = random.integers(-50, 50, (size, size)).astype(object)
        # long rows of the same lattice
        mixed = np.tril(random.integers(-9, 9, (size, size)), -1).astype(object) + np.eye(size, dtype=int) * 1
        long = mixed.dot(mixed.T).dot(rows)
        short = np.array(reduce_lattice(long.tolist()), dtype=object)
        before = Basis()
        for row in long.tolist():
            before.add([Fraction(int(x)) for x in row])
        for row in short.tolist():
            parts = before.express([Fraction(int(x)) for x in row])
            assert all(x.denominator == 1 for x in parts.values())
        volume = abs(np.linalg.det(rows.astype(float)))
        assert abs(np.linalg.det(short.astype(float))) == pytest.approx(volume, rel=1e-6)
        # the bound of Lenstra, Lenstra and Lovasz on the first vector
        assert np.linalg.norm(short[0].astype(float)) <= 2 ** ((size - 1) / 4) * volume ** (1 / size) * (1 + 1e-9)


def test_relations_are_found_where_they_stand_out_and_nowhere_else():
    corners, _ = polygon(7)
    assert find_relation(corners, 1e-13) in ([1] * 7, [-1] * 7)
    assert find_relation(corners[:6], 1e-13) is None
    random = np.random.default_rng(0)
    for _ in range(20):
        assert find_relation(random.normal(size=(6, 2)), 1e-13) is None


def test_a_spanning_basis_spans_neither_more_nor_less():
    given = [[Fraction(1, 2), Fraction(1, 3)], [Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]]
    found = spanning_basis(given)
    assert len(found) == 2
    basis = Basis()
    for row in found:
        basis.add(row)
    for row in given:
        assert all(x.denominator == 1 for x in basis.express(row).values())
    # the given vectors span a lattice of index 6 above the plain one
    assert abs(found[0][0] * found[1][1] - found[0][1] * found[1][0]) == Fraction(1, 6)


@pytest.mark.parametrize("m", [3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 25])
def test_corners_of_a_polygon_have_as_many_coordinates_as_the_cyclotomic_field(m):
    corners, moves = polygon(m)
    turned = corners @ np.random.default_rng(m).normal(size=(2, 2))
    found = whole_coordinates(turned, moves, 1e-14)
    assert (found[0].size, found[0].rank, found[-1].size) == (totient(m), 2, m)
    matrices = whole_matrices(found[0].points, moves)
    for symbol, matrix in enumerate(matrices):
        assert (found[0].points @ matrix.T == found[0].points[moves[:, symbol]]).all()
    # one step is a root of the cyclotomic polynomial: of order m, and of no smaller one
    orders = [k for k in range(1, m + 1) if (np.linalg.matrix_power(matrices[1], k) == np.eye(totient(m))).all()]
    assert orders == [m]


def test_denominators_vanish_in_a_basis_of_what_the_points_span():
    # halves in a basis of any two of these points
    points = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0], [-1.0, 1.0]]) @ np.array([[1.0, 0.3], [0.2, 1.1]])
    found = whole_coordinates(points, np.full((4, 1), -1), 1e-14)[0]
    assert found.size == 2
    assert abs(found.points).max() <= 2


def test_coordinates_that_do_not_move_with_the_points_are_refused():
    _, moves = polygon(5)
    wrong = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 1]])
    assert whole_matrices(wrong, moves) is None
    # without known moves any coordinates will do
    assert (whole_matrices(wrong, np.full((5, 1), -1)) == 0).all()


def test_equal_points_have_equal_coordinates():
    corners, moves = polygon(4)
    half = corners[np.arange(4) % 2 * 2]
    found = whole_coordinates(half, moves[:, [0, 2]], 1e-14)[0]
    assert found.points.tolist() in ([[1], [-1], [1], [-1]], [[-1], [1], [-1], [1]])


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 6, 6), (5, 2, 2), (1, 3, 3)])
def test_rank_one_terms_multiply_out_to_the_matrices(shape):
    random = np.random.default_rng(0)
    for _ in range(5):
        matrices = random.integers(-3, 4, shape) * random.integers(0, 2, shape)
        left, gate, right = cp_terms(matrices)
        assert all((part == np.rint(part)).all() for part in (left, gate, right))
        made = np.einsum("ir,ar,jr->aij", left, gate, right)
        for given, found in zip(matrices, made, strict=True):
            scale = found[given != 0] / given[given != 0]
            assert (found[given == 0] == 0).all()
            assert len(np.unique(scale)) <= 1
            assert (scale > 0).all()
    # one reset for each symbol: one term for each
    resets = np.zeros((4, 4, 4), dtype=np.int64)
    for a in range(4):
        resets[a, a, :] = 1
    assert cp_terms(resets)[0].shape[1] == 4


def triangle():
    """Return the symmetries of a triangle, in a basis that is not orthonormal."""
    c, s = np.cos(2 * np.pi / 3), np.sin(2 * np.pi / 3)
    turn, flip = np.array([[c, -s], [s, c]]), np.diag([1.0, -1.0])
    change = np.array([[1.0, 0.37], [-0.2, 1.3]])
    return np.stack([np.linalg.inv(change) @ m @ change for m in (turn, flip)])


def test_matrices_are_whole_although_no_hidden_state_is():
    matrices = triangle()
    vectors, moves = [np.array([0.9, 0.43])], []
    while len(moves) < len(vectors):
        moves.append([])
        for matrix in matrices:
            following = matrix @ vectors[len(moves) - 1]
            same = [i for i, v in enumerate(vectors) if np.abs(v - following).max() < 1e-9]
            moves[-1].append(same[0] if same else len(vectors))
            vectors += [] if same else [following]
    assert len(vectors) == 6
    points, table = np.array(vectors), np.array(moves)
    assert whole_coordinates(points, table, 1e-14)[0].size == 4
    basis = anchored_basis(matrices, points, 1e-14)
    assert basis.matrices.shape == (2, 2, 2)
    for bits in (4, 12):
        near = near_points(basis.matrices, basis.into @ points[0], table, bits)
        for symbol, matrix in enumerate(basis.matrices):
            assert (near @ matrix.T == near[table[:, symbol]]).all()
        real = points @ basis.into.T
        scale = (near * real).sum() / (real**2).sum()
        assert np.abs(near / scale - real).max() < 4 * 2.0**-bits * np.abs(real).max()
    # a state that a flip must keep is rounded along the axis of the flip
    fixed = np.array([[0, 0]])
    kept = near_points(basis.matrices[1:], basis.into @ points[0], fixed[:, :1], 4)
    assert kept is None or (kept[0] == basis.matrices[1] @ kept[0]).all()


def test_turns_by_an_eighth_and_a_twelfth_are_whole_up_to_a_factor():
    for m in (8, 12):
        corners, moves = polygon(m)
        c, s = np.cos(2 * np.pi / m), np.sin(2 * np.pi / m)
        matrices = np.stack([np.linalg.matrix_power(np.array([[c, -s], [s, c]]), k) for k in range(m)])
        basis = turned_basis(matrices, corners[0], 1e-15)
        found = directions(basis.matrices, (1, 0), moves)
        assert len({tuple(row) for row in found.tolist()}) == m
    for m in (5, 7, 24):
        corners, _ = polygon(m)
        c, s = np.cos(2 * np.pi / m), np.sin(2 * np.pi / m)
        matrices = np.stack([np.linalg.matrix_power(np.array([[c, -s], [s, c]]), k) for k in range(m)])
        assert turned_basis(matrices, corners[0], 1e-15) is None


def test_the_null_space_is_where_all_rows_vanish():
    random = np.random.default_rng(0)
    for rank in range(5):
        rows = random.integers(-3, 4, (rank, 5))
        basis = Basis()
        for row in rows.tolist():
            fractions = [Fraction(x) for x in row]
            if basis.express(fractions) is None:
                basis.add(fractions)
        found = null_space(basis, 5)
        assert len(found) == 5 - len(basis.rows)
        for vector in found:
            assert all(sum(x * y for x, y in zip(row, vector, strict=True)) == 0 for row in rows.tolist())
