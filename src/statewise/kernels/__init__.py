"""The compiled kernels: C++ sources, how they are built and cached, and how they are called."""

from statewise.kernels.cache import Kernels, find_compiler, kernels
from statewise.kernels.native import BACKENDS, Backend, call, choose, doubles, in_memory, library

__all__ = [
    "BACKENDS",
    "Backend",
    "Kernels",
    "call",
    "choose",
    "doubles",
    "find_compiler",
    "in_memory",
    "kernels",
    "library",
]
