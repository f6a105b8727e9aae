"""The compiled kernels: C++ sources, how they are built and cached, and how they are called."""

from statewise.kernels.native import BACKENDS, Backend, call, choose, doubles, in_memory, library

__all__ = ["BACKENDS", "Backend", "call", "choose", "doubles", "in_memory", "library"]
