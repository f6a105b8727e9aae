"""Angles of planes, in the paper's unit."""

import math


def harmonic(angle: float, m: int) -> float:
    """Gives an angle in parts of 2 pi / m, without whole turns: from -m/2, which is left out, to m/2."""
    turns = angle / (2 * math.pi)
    return m * (turns - math.ceil(turns - 0.5))
