"""BilinearRNN: a recurrent layer with nn.LSTM's conventions and a state transition bilinear in input and state."""

import warnings
from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from statewise.errors import InputError, TransitionError, shorten
from statewise.kernels import choose
from statewise.models.layer_states import (
    State,
    guard_state,
    in_autocast,
    is_zero,
    reverse_rows,
    warn_of_scale,
    without_autocast,
)
from statewise.models.levels import build_transition, transition_spec
from statewise.models.pretrained import Pretrained
from statewise.models.tracker import check_transition
from statewise.recurrence import sequence_backend, to_unit_size, unroll_normalised, unroll_sequence
from statewise.transitions import Transition
from statewise.transitions.transition import divide_by_largest

Inputs = Float[Tensor, "batch time input"]
Outputs = Float[Tensor, "batch time output"]
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class BilinearRNN(Pretrained):
    """h_t = A(x_t) h_{t-1}, for every h_t of a sequence; stacked if asked to.

    Layouts are nn.LSTM's: inputs [batch, time, input] (or [time, batch, input], or [time, input] for one sequence),
    states [layers, batch, hidden]. There is one state, not two, and it begins as a trained vector, since a product
    that begins with 0 stays 0. Under autocast the recurrence keeps the dtype of its weights: errors of a product of
    many matrices grow with its length.

    Args:
        input_size: D.
        hidden_size: H.
        transition: a level by name: "full", "cp(rank)", "block(size)", "rotation", "diagonal" or "positive"; with
            options as in "block(2, init=tokens, frozen=true)"; or a `Transition` of these sizes, of one's own or not.
        additive: "none", or an additive term "constant" or "input" in the update.
        batch_first: whether batch comes before time.
        device: where the parameters are.
        dtype: their type.
        num_layers: how many recurrences are stacked.
        normalise: divide each state by its root mean square before the next step, so that no length overflows or
            vanishes; a state then is a direction. None does so where there are several layers.
        norm: put an RMSNorm between layers.
        residual: add a layer's input to its output between layers, where the sizes agree.
        dropout: the share of outputs dropped between layers in training.
        bidirectional: also read each sequence from its end; outputs of both directions stand side by side.
        bias: refused; see `additive`.
        proj_size: refused; put a linear layer behind this one.
        generator: where the initial weights are drawn from; None is torch's global one.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        transition: str | Transition = "full",
        additive: str = "none",
        batch_first: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        num_layers: int = 1,
        normalise: bool | None = None,
        norm: bool = False,
        residual: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        bias: bool = False,
        proj_size: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if bias:
            raise TransitionError('bias=True: the update is a product; give additive="constant" for an additive term')
        if proj_size:
            raise TransitionError(
                f"proj_size={proj_size} is not built in; put nn.Linear({hidden_size}, {proj_size}) behind"
            )
        if not isinstance(transition, str | Transition) or not isinstance(additive, str):
            wrong = additive if isinstance(transition, str | Transition) else transition
            raise TransitionError(
                f'transition and additive are names such as "block(2)" and "none", got {wrong!r}; '
                "give num_layers and other options by keyword"
            )
        if isinstance(num_layers, bool) or not isinstance(num_layers, int) or num_layers < 1:
            raise TransitionError(f"num_layers is {num_layers!r}; expected a whole number of at least 1; correct it")
        if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise TransitionError(f"dropout is {dropout!r}; expected a share from 0 below 1; correct it")
        if dropout and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} acts between layers, and num_layers is 1; it does nothing",
                UserWarning,
                stacklevel=2,
            )
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise TransitionError(f"dtype is {dtype}; expected a floating type such as torch.float32; correct it")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.transition = transition if isinstance(transition, str) else type(transition).__name__
        self.additive = additive
        self.batch_first, self.residual, self.dropout = batch_first, residual, dropout
        self.normalise = num_layers > 1 if normalise is None else normalise
        self._forced: str | None = None
        self.bidirectional, self._directions = bidirectional, 2 if bidirectional else 1
        width = self._directions * hidden_size
        if isinstance(transition, str):
            self.layers = nn.ModuleList(
                build_transition(transition, width if layer else input_size, hidden_size, additive, generator)
                for layer in range(num_layers)
                for _ in range(self._directions)
            )
        elif num_layers * self._directions > 1:
            raise TransitionError(
                f"num_layers is {num_layers} and bidirectional {bidirectional}, and a transition that is a value makes "
                "one recurrence; stack such layers, or give a name"
            )
        else:
            self.layers = nn.ModuleList([check_transition(transition, input_size, hidden_size, additive)])
        self.norms = nn.ModuleList(nn.RMSNorm(width) if norm else nn.Identity() for _ in range(num_layers - 1))
        # entries of size 1, none of them 0: every channel, block and eigenvector of a diagonal level takes part
        trained = any(parameter.requires_grad for parameter in self.layers.parameters())
        self.initial_state = nn.Parameter(torch.ones(len(self.layers), hidden_size), requires_grad=trained)
        self.to(device=device, dtype=dtype)

    @classmethod
    def earlier_arguments(cls) -> dict[str, Any]:
        """Return the arguments of layers that were saved before these existed."""
        return {"normalise": False}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this layer again, up to its weights."""
        transition, additive = transition_spec(self.transitions[0])
        return {
            "input_size": self.input_size,
            "hidden_size": self.hidden_size,
            "transition": transition,
            "additive": additive,
            "batch_first": self.batch_first,
            "num_layers": self.num_layers,
            "normalise": self.normalise,
            "norm": any(isinstance(norm, nn.RMSNorm) for norm in self.norms),
            "residual": self.residual,
            "dropout": self.dropout,
            "bidirectional": self.bidirectional,
        }

    def extra_repr(self) -> str:
        """Show the arguments."""
        stack = f", num_layers={self.num_layers}, residual={self.residual}, dropout={self.dropout}"
        return (
            f"{self.input_size}, {self.hidden_size}, transition={self.transition!r}, additive={self.additive!r}, "
            f"batch_first={self.batch_first}"
            + (stack if self.num_layers > 1 else "")
            + (", normalise=True" if self.normalise else "")
            + (", bidirectional=True" if self.bidirectional else "")
        )

    @property
    def transitions(self) -> list[Transition]:
        """The transition of each layer, from the input up; of two directions the forward one first."""
        return cast("list[Transition]", list(self.layers))

    @property
    def backend(self) -> str:
        """What computes a sequence: "native", compiled kernels and closed forms, or "torch", step by step.

        Setting it forces one of them; None goes back to what there is.
        """
        return sequence_backend(self.transitions[0], self._forced, self.initial_state)

    @backend.setter
    def backend(self, name: str | None) -> None:
        choose(name, self.initial_state)
        self._forced = name

    def init_state(self, batch: int) -> State:
        """Return the state before the first input, the same for each row; gradients reach its parameter."""
        if batch < 0:
            raise InputError(f"init_state got a batch of {batch}; expected 0 or more; correct it")
        return self.initial_state.unsqueeze(1).repeat(1, batch, 1)

    def forward(
        self,
        x: Tensor | PackedSequence,
        h0: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Run over a sequence: return the last layer's h_t for every t, and every layer's last state.

        Args:
            x: inputs, or a PackedSequence of them, in which case the output is one too.
            h0: the state to begin with; None is the trained one.
            lengths: how many inputs of each row count, in any order, 0 allowed; outputs past them are 0.
        """
        if isinstance(x, PackedSequence):
            return self._forward_packed(x, h0, lengths)
        batched, state, valid = self._arrange(x, h0, lengths)
        finals = []
        with without_autocast(batched.device.type):
            for layer in range(self.num_layers):
                sides = []
                for place in range(layer * self._directions, (layer + 1) * self._directions):
                    turned = bool(place % self._directions)
                    entered = reverse_rows(batched, valid) if turned else batched
                    outputs, final = unroll_sequence(
                        self.transitions[place], entered, state[place], valid, self._forced, self.normalise
                    )
                    sides.append(reverse_rows(outputs, valid) if turned else outputs)
                    finals.append(final)
                batched = self._between(layer, batched, sides[0] if len(sides) == 1 else torch.cat(sides, dim=-1))
        last = torch.stack(finals)
        if self.additive == "none" and not self.normalise:
            warn_of_scale(last, state)
        output, h_n = self._restore(batched, last, x)
        return output, guard_state(h_n)

    def step(self, x_t: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Advance by one input [batch, input]: return the last layer's h_t [batch, hidden], and the new state."""
        self._check_one_direction("step reads one input after the other")
        self._check_step(x_t, state)
        finals = []
        with without_autocast(x_t.device.type):
            value = x_t.to(self.initial_state.dtype)
            state = self._of_size(state.to(value.dtype))
            for layer, transition in enumerate(self.transitions):
                h = self._of_size(transition.act(transition.coefficients(value), state[layer]))
                finals.append(h)
                value = self._between(layer, value, h)
        return value, torch.stack(finals)

    def normalised(
        self, x: Tensor, h0: Tensor | None = None, lengths: Tensor | Sequence[int] | None = None
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Run over a sequence with states of norm 1 and the logarithms of their norms, at any length.

        exp(log_norm) h is what `forward` gives without `normalise`, where that can be represented. Layers after the
        first see inputs of norm 1, which changes nothing if there is a norm between them, and is refused if there is
        none.

        Returns:
            (h_t of norm 1, log-norms) of the last layer for every t, and (last states, log-norms) of all layers.
        """
        if isinstance(x, PackedSequence):
            raise InputError("a normalised run takes padded inputs; unpack them, and give their lengths")
        if self.num_layers > 1 and not isinstance(self.norms[0], nn.RMSNorm):
            raise InputError("a normalised run of several layers needs norm=True between them; build the layer with it")
        if self.normalise and self.additive != "none":
            raise InputError(
                "this layer normalises h before it adds to it: there is no log-norm; build another without"
            )
        self._check_one_direction("a normalised run has one direction")
        batched, state, valid = self._arrange(x, h0, lengths)
        finals, scales = [], []
        log_norms = batched.new_zeros(batched.shape[:2])
        with without_autocast(batched.device.type):
            for layer, transition in enumerate(self.transitions):
                (outputs, log_norms), (final, scale) = unroll_normalised(transition, batched, state[layer], valid)
                finals.append(final)
                scales.append(scale)
                batched = self._between(layer, batched, outputs)
        output, h_n = self._restore(batched, torch.stack(finals), x)
        times, lasts = self._restore(log_norms.unsqueeze(-1), torch.stack(scales).unsqueeze(-1), x)
        return (output, times.squeeze(-1)), (h_n, lasts.squeeze(-1))

    def _of_size(self, state: Tensor) -> Tensor:
        """Return a state as the recurrence keeps it."""
        return to_unit_size(state) if self.normalise else state

    def _between(self, layer: int, entered: Tensor, left: Tensor) -> Tensor:
        """Make the next layer's input of this layer's output; the last layer's output stays as it is."""
        if layer == self.num_layers - 1:
            return left
        norm = self.norms[layer]
        if isinstance(norm, nn.RMSNorm):
            # a state of any scale, however small, then means the same: the norm's epsilon would tell them apart
            left, _, _ = divide_by_largest(left)
        value = norm(left)
        # not called without need: a compiler takes a share that it sees for one that may change
        if self.training and self.dropout:
            value = nn.functional.dropout(value, self.dropout)
        return value + entered if self.residual and entered.shape[-1] == value.shape[-1] else value

    def _arrange(self, x: Tensor, h0: Any, lengths: Any) -> tuple[Inputs, State, Int[Tensor, " batch"] | None]:
        """Check the arguments, and return them as [batch, time, input], [layers, batch, hidden] and a tensor."""
        where = f"BilinearRNN({self.input_size}, {self.hidden_size})"
        if h0 is not None and not isinstance(h0, Tensor):
            raise InputError(
                f"{where} has one state, a tensor, got {type(h0).__name__} for h0; "
                "give the hidden state alone, and lengths by keyword"
            )
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            layout = "[batch, time, input]" if self.batch_first else "[time, batch, input]"
            raise InputError(
                f"{where} needs inputs {layout} with {self.input_size} entries last, got shape {tuple(x.shape)}; "
                "transpose them, or build the layer for this size"
            )
        dtype = self.initial_state.dtype
        self._check_kind(x)
        if h0 is not None:
            self._check_kind(h0, "h0", converted=True)
        one = x.ndim == 2
        batched = x.unsqueeze(0) if one else (x if self.batch_first else x.transpose(0, 1))
        state = self.init_state(batched.shape[0]) if h0 is None else (h0.unsqueeze(1) if one else h0)
        expected = (len(self.layers), batched.shape[0], self.hidden_size)
        if tuple(state.shape) != expected:
            wanted = (expected[0], expected[2]) if one else expected
            raise InputError(f"{where} needs a state h0 of shape {wanted}, got {tuple(h0.shape)}; reshape it")  # pyright: ignore[reportOptionalMemberAccess]
        if h0 is not None and self.additive == "none" and is_zero(h0):
            raise InputError(
                f"{where} got an h0 of zeros, and a product that begins with 0 stays 0; "
                "leave h0 out, or begin with init_state(batch)"
            )
        return batched.to(dtype), self._of_size(state.to(dtype)), self._check_lengths(lengths, batched)

    def _check_lengths(self, lengths: Any, x: Inputs) -> Int[Tensor, " batch"] | None:
        if lengths is None:
            return None
        try:
            given = torch.as_tensor(lengths, device=x.device)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"lengths must be whole numbers, one per row, got {shorten(lengths)}; correct them"
            ) from None
        if given.numel() == 0:
            given = given.long()
        if tuple(given.shape) != (x.shape[0],) or given.dtype not in _WHOLE:
            raise InputError(
                f"lengths must be {x.shape[0]} whole numbers, one per row, got {shorten(lengths)}; correct them"
            )
        # looking at values would break a compiled program in two, and wait for another device
        if not torch.compiler.is_compiling() and given.device.type == "cpu":
            wrong = given[(given < 0) | (given > x.shape[1])]
            if len(wrong):
                raise InputError(
                    f"lengths holds {int(wrong[0])}; expected 0 to {x.shape[1]}, the time steps; correct it"
                )
        return given

    def _restore(self, output: Outputs, state: State, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return output and state in the layout of the inputs."""
        if x.ndim == 2:
            return output.squeeze(0), state.squeeze(1)
        return (output if self.batch_first else output.transpose(0, 1)), state

    def _forward_packed(
        self, packed: PackedSequence, h0: Tensor | None, lengths: Tensor | Sequence[int] | None
    ) -> tuple[PackedSequence, Tensor]:
        if lengths is not None:
            raise InputError("a PackedSequence carries its lengths; call without lengths")
        padded, counts = pad_packed_sequence(packed, batch_first=True)
        along = padded if self.batch_first else padded.transpose(0, 1)
        output, state = self.forward(along, h0, counts.to(padded.device))
        assert isinstance(output, Tensor)
        rows = output if self.batch_first else output.transpose(0, 1)
        order = packed.sorted_indices
        if order is not None:
            rows, counts = rows[order], counts[order.cpu()]
        inside = torch.arange(rows.shape[1], device=counts.device).unsqueeze(1) < counts
        data = rows.transpose(0, 1)[inside.to(rows.device)]
        return PackedSequence(data, packed.batch_sizes, order, packed.unsorted_indices), state

    def _check_one_direction(self, why: str) -> None:
        if self.bidirectional:
            raise InputError(f"{why}, and this layer reads both ways; build it without bidirectional")

    def _check_kind(self, x: Tensor, name: str = "a tensor", converted: bool = False) -> None:
        """Refuse a tensor of another dtype, unless it can be converted, on another device, or of another layout."""
        dtype, device = self.initial_state.dtype, self.initial_state.device
        if x.device != device:
            raise InputError(f"the weights are on the device {device}, got {name} on {x.device}; move one to the other")
        converted = x.is_floating_point() and (converted or in_autocast(device.type))
        if x.dtype != dtype and not converted:
            raise InputError(f"the weights are of {dtype}, got {name} of {x.dtype}; convert one to the other")
        if x.layout != torch.strided:
            raise InputError(f"got {name} of layout {x.layout}; expected a dense one; call to_dense()")

    def _check_step(self, x_t: Tensor, state: Tensor) -> None:
        self._check_kind(x_t)
        self._check_kind(state)
        if x_t.ndim != 2 or x_t.shape[-1] != self.input_size:
            raise InputError(
                f"step needs inputs [batch, {self.input_size}], got shape {tuple(x_t.shape)}; reshape them"
            )
        expected = (self.num_layers, x_t.shape[0], self.hidden_size)
        if tuple(state.shape) != expected:
            raise InputError(f"step needs a state of shape {expected}, got {tuple(state.shape)}; use init_state")
