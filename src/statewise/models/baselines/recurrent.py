"""Elman network, LSTM and GRU: torch's own, with an embedding and a readout."""

from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from statewise.models.interface import RecurrentModel

_CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


@final
class RecurrentTracker(RecurrentModel):
    """An embedding of the hidden size, one or more recurrent layers of torch, and a linear readout."""

    def __init__(
        self, symbols: int, classes: int, hidden_size: int, cell: Literal["rnn", "lstm", "gru"], layers: int = 1
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, hidden_size)
        self.cells = _CELLS[cell](hidden_size, hidden_size, num_layers=layers, batch_first=True)
        self.readout = nn.Linear(hidden_size, classes)

    def init_state(self, batch: int) -> Any:
        """Return zeros, as torch does."""
        shape = (self.cells.num_layers, batch, self.cells.hidden_size)
        zeros = torch.zeros(shape, dtype=self.readout.weight.dtype, device=self.readout.weight.device)
        return (zeros, zeros) if isinstance(self.cells, nn.LSTM) else zeros

    def run(self, tokens: Int[Tensor, "batch time"], state: Any) -> tuple[Float[Tensor, "batch time classes"], Any]:
        """Run the cells."""
        output, state = self.cells(self.embedding(tokens), state)
        return self.readout(output), state
