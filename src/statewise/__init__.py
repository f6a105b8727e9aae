"""statewise: recurrent networks bilinear in input and hidden state, and the finite-state machines that they track.

    machine      a finite-state machine by name or from a file: machine("modular_addition(5)")
    Machine      the value itself: table, start, outputs
    BilinearRNN  the layer, with nn.LSTM's conventions: BilinearRNN(64, 256, transition="block(2)")

Names that need torch are imported when first used.
"""

from typing import TYPE_CHECKING, Any

from statewise.errors import StatewiseError
from statewise.machines import Machine, machine

if TYPE_CHECKING:
    from statewise.models.layer import BilinearRNN

__version__ = "0.1.0"
__all__ = ["BilinearRNN", "Machine", "StatewiseError", "__version__", "machine"]

_NEEDS_TORCH = {"BilinearRNN": "statewise.models.layer"}


def __getattr__(name: str) -> Any:
    if name in _NEEDS_TORCH:
        from importlib import import_module

        return getattr(import_module(_NEEDS_TORCH[name]), name)
    raise AttributeError(f"module 'statewise' has no attribute {name!r}")
