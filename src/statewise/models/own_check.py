"""What a model must satisfy before it is trained, one law after the other, on a few small sequences.

    logits(x)_s does not change with x_t for t > s         causal
    logits(x_b) does not change with the other rows        batch
    advance(x_(n+1..m), state after x_1..n) = logits(x)_m  streaming

Each law that a model breaks is one sentence. Numbers are compared relative to the spread of the logits, since the same
sums in another order differ by rounding.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from statewise.errors import ModelError, StatewiseError, shorten
from statewise.models.catalogue import ModelOptions
from statewise.models.interface import AdaptedModel, SequenceModel
from statewise.models.own import describe_error

_BATCH, _TIME, _MORE = 4, 9, 3
# of the spread of all logits, and of the largest of them: a leak is far above, rounding far below
_OF_SPREAD, _OF_SIZE = 1e-3, 1e-5
# of weights that are all zero where logits are, as a readout often is at first
_NOISE = 0.1
_SEED = 0


@dataclass(frozen=True)
class ModelLaw:
    """A law, and whether a model keeps it.

    Args:
        name: of the law.
        meaning: what it asks for.
        broken: how the model breaks it, in one sentence; empty if it does not.
        checked: whether it was tried; a model that gives no logits is not tried further.
    """

    name: str
    meaning: str
    broken: str = ""
    checked: bool = True


class _BrokenLawError(Exception):
    """A law is broken in the way that the text says."""


def check_laws(
    options: ModelOptions, symbols: int, classes: int, own: type[nn.Module] | None = None
) -> tuple[ModelLaw, ...]:
    """Try every law on a model that is built for this, and forgotten.

    Args:
        options: its kind and sizes.
        symbols: how many tokens there are.
        classes: how many output classes there are.
        own: the class, where the model is a user's own.
    """
    found = [ModelLaw(name, meaning, checked=False) for name, meaning, _ in _LAWS]
    # torch's own modules draw from the global generator, which is put back as it was
    with torch.random.fork_rng(devices=[]):
        tried: _Tried | None = None
        for place, (name, meaning, law) in enumerate(_LAWS):
            broken = ""
            try:
                tried = tried or _Tried(_built(options, symbols, classes, own), own, symbols, classes)
                law(tried)
            except _BrokenLawError as error:
                broken = str(error)
            found[place] = ModelLaw(name, meaning, broken)
            if broken and name in _ALL_NEED:
                break
    return tuple(found)


@lru_cache(maxsize=256)
def check_own(own: type[nn.Module], options: ModelOptions, symbols: int, classes: int) -> None:
    """Refuse a user's own class with the sentence of the first law that it breaks; tried once, whatever the seed."""
    for law in check_laws(options, symbols, classes, own):
        if law.broken:
            raise ModelError(law.broken)


class _Tried:
    """A model on small sequences, and what the laws ask of it."""

    def __init__(self, model: SequenceModel, own: type | None, symbols: int, classes: int) -> None:
        self.model, self.own, self.symbols, self.classes = model, own, symbols, classes
        # the module itself, whose shapes nothing has checked yet
        self.inner = model.module if isinstance(model, AdaptedModel) else model
        self.name = type(self.inner).__name__ if own is None else own.__name__
        longest = model.longest
        if longest is not None and (not isinstance(longest, int) or longest < 1):
            raise _BrokenLawError(
                f"{self.name}.longest is {shorten(longest)}; expected None or a whole number of at least 1"
            )
        most = _TIME + _MORE if longest is None else min(_TIME + _MORE, longest)
        drawn = torch.randint(0, symbols, (_BATCH, most), generator=torch.Generator().manual_seed(_SEED))
        # the last symbol too must be one that the model knows
        drawn[0, 0] = symbols - 1
        self.longer, self.tokens = drawn, drawn[:, : max(1, most - _MORE)]

    @property
    def time(self) -> int:
        return self.tokens.shape[1]

    def read(self, tokens: Tensor, training: bool = False) -> Any:
        """Return the logits of sequences, drawn noise being the same each time; exceptions become one sentence."""
        with torch.no_grad(), self.mode(training):
            return self.run(lambda: self.model(tokens.clone()), "forward")

    @contextmanager
    def mode(self, training: bool) -> Iterator[None]:
        """Set the mode; statistics that a layer gathers in training are put back as they were."""
        kept = [(buffer, buffer.clone()) for buffer in self.model.buffers()] if training else []
        self.model.train(training)
        torch.manual_seed(_SEED)
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, before in kept:
                    buffer.copy_(before)

    def run(self, call: Callable[[], Any], what: str) -> Any:
        try:
            return call()
        except _BrokenLawError:
            raise
        except StatewiseError as error:
            raise _BrokenLawError(str(error)) from error
        except Exception as error:
            raised = describe_error(error, self.own or type(self.model))
            raise _BrokenLawError(f"{self.name}.{what} raised {raised}; correct it") from error

    @cached_property
    def whole(self) -> Any:
        """The logits of all sequences, in evaluation mode."""
        return self.read(self.tokens)

    def differ(self, found: Tensor, expected: Tensor) -> bool:
        """Return whether logits differ by more than rounding."""
        spread = (self.whole.max() - self.whole.min()).item()
        bound = _OF_SPREAD * spread + _OF_SIZE * self.whole.abs().max().item() + 1e-12
        return not bool(((found - expected).abs() <= bound).all())

    def wake(self) -> None:
        """Change weights a little if the logits are the same everywhere: such a model would keep every law."""
        flat = self.whole.reshape(-1, self.whole.shape[-1])
        if bool(((flat - flat[0]).abs() > 1e-6 * (1e-6 + flat.abs().max())).any()):
            return
        kept = {name: value.clone() for name, value in self.model.state_dict().items()}
        generator = torch.Generator().manual_seed(_SEED)
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.is_floating_point():
                    parameter += _NOISE * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        del self.whole
        if not bool(self.whole.isfinite().all()):
            self.model.load_state_dict(kept)
            del self.whole


def _built(options: ModelOptions, symbols: int, classes: int, own: type | None) -> SequenceModel:
    try:
        return options.build(symbols, classes, _SEED, own)
    except ModelError as error:
        raise _BrokenLawError(str(error)) from error


def _constructor(tried: _Tried) -> None:
    """A model that was built has kept this law."""


def _forward(tried: _Tried) -> None:
    given = tried.tokens.clone()
    with torch.no_grad(), tried.mode(training=False):
        tried.run(lambda: tried.inner(given), "forward")
    if not torch.equal(given, tried.tokens):
        raise _BrokenLawError(f"{tried.name}.forward changes the tokens that it is given; let it work on a copy")


def _shape(tried: _Tried) -> None:
    found, expected = tried.whole, (*tried.tokens.shape, tried.classes)
    shown = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shown != expected or not found.is_floating_point():
        what = shown if shown != expected else f"numbers of type {found.dtype}"
        raise _BrokenLawError(
            f"{tried.name}.forward gave {what} for tokens of shape {tuple(tried.tokens.shape)}; expected logits "
            f"[batch, time, classes], {expected}, of floating point; return one row of logits after each token"
        )


def _finite(tried: _Tried) -> None:
    for training in (False, True):
        found = tried.read(tried.tokens, training)
        if not bool(found.isfinite().all()):
            kind = "NaN" if bool(found.isnan().any()) else "infinite"
            raise _BrokenLawError(
                f"{tried.name}.forward gave logits that are {kind}, untrained; expected finite numbers"
            )


def _gradient(tried: _Tried) -> None:
    trained = [parameter for parameter in tried.model.parameters() if parameter.requires_grad]
    if not trained:
        raise _BrokenLawError(
            f"{tried.name} has no trainable parameters; assign layers or nn.Parameter in its __init__"
        )
    lengths = torch.arange(tried.tokens.shape[0]) % tried.time + 1

    def lower() -> None:
        loss = tried.model.at_end(tried.tokens, lengths).square().mean()
        if not loss.requires_grad:
            raise _BrokenLawError(f"{tried.name} has logits without a gradient; leave out detach and no_grad")
        loss.backward()

    with tried.mode(training=True):
        tried.run(lower, "forward or its gradient")
    if any(p.grad is not None and not bool(p.grad.isfinite().all()) for p in trained):
        raise _BrokenLawError(f"{tried.name} has gradients that are not finite, untrained; expected finite numbers")
    tried.model.zero_grad(set_to_none=True)
    tried.wake()


def _one_token(tried: _Tried) -> None:
    found = tried.read(tried.tokens[:, :1])
    if tuple(found.shape) != (_BATCH, 1, tried.classes) or not bool(found.isfinite().all()):
        raise _BrokenLawError(
            f"{tried.name} cannot read sequences of length 1; expected finite logits of shape [batch, 1, c]"
        )


def _repeatable(tried: _Tried) -> None:
    with torch.no_grad(), tried.mode(training=False):
        torch.manual_seed(_SEED + 1)
        again = tried.run(lambda: tried.model(tried.tokens.clone()), "forward")
    if tried.differ(again, tried.whole):
        raise _BrokenLawError(
            f"{tried.name} gives other logits each time, in evaluation mode too; leave out what is random then "
            "(pass self.training to functional.dropout)"
        )


def _batch(tried: _Tried) -> None:
    sentence = (
        f"{tried.name} gives a sequence other logits, {{}}, beside other sequences; treat each row by itself "
        "(LayerNorm or RMSNorm in place of BatchNorm)"
    )
    for row in range(_BATCH):
        if tried.differ(tried.read(tried.tokens[row : row + 1]), tried.whole[row : row + 1]):
            raise _BrokenLawError(sentence.format("in evaluation mode"))
    before = tried.read(tried.tokens, training=True)
    # noise that is not torch's own cannot be held still
    if tried.differ(tried.read(tried.tokens, training=True), before):
        return
    others = torch.cat([tried.tokens[:1], (tried.tokens[1:] + 1) % tried.symbols])
    if tried.differ(tried.read(others, training=True)[:1], before[:1]):
        raise _BrokenLawError(sentence.format("in training"))


def _causal(tried: _Tried) -> None:
    for training in (False, True):
        before = tried.read(tried.tokens, training)
        if training and tried.differ(tried.read(tried.tokens, training), before):
            return
        for t in range(1, tried.time):
            changed = tried.tokens.clone()
            changed[:, t] = (changed[:, t] + 1) % tried.symbols
            if tried.differ(tried.read(changed, training)[:, :t], before[:, :t]):
                mode = " in training" if training else ""
                raise _BrokenLawError(
                    f"{tried.name} reads ahead: logits before token {t + 1} change with that token{mode}; let those "
                    "after token t depend on tokens up to t only"
                )


def _padding(tried: _Tried) -> None:
    if tried.differ(tried.read(tried.longer)[:, : tried.time], tried.whole):
        raise _BrokenLawError(
            f"{tried.name} gives other logits where more tokens follow on the right, as padding does; let them not "
            "depend on the length of the whole sequence"
        )


def _at_end(tried: _Tried) -> None:
    lengths = torch.arange(_BATCH) % tried.time + 1
    expected = tried.whole[torch.arange(_BATCH), lengths - 1]
    with torch.no_grad(), tried.mode(training=False):
        found = tried.run(lambda: tried.model.at_end(tried.tokens.clone(), lengths), "at_end")
    if tuple(found.shape) != tuple(expected.shape):
        raise _BrokenLawError(
            f"{tried.name}.at_end gave logits of shape {tuple(found.shape)}; expected those after the last token of "
            f"each row, [batch, classes], here {tuple(expected.shape)}"
        )
    if tried.differ(found, expected):
        raise _BrokenLawError(f"{tried.name}.at_end and {tried.name}.forward disagree; make them compute the same")


def _streaming(tried: _Tried) -> None:
    begin, state = 0, None
    for end in sorted({1, min(4, tried.time), tried.time}):
        expected = tried.whole[:, end - 1]

        def advance(begin: int = begin, end: int = end) -> Any:
            nonlocal state
            state = tried.model.init_state(_BATCH) if begin == 0 else state
            logits, state = tried.model.advance(tried.tokens[:, begin:end], state)
            return logits

        with torch.no_grad(), tried.mode(training=False):
            logits = tried.run(advance, "advance")
        if not isinstance(logits, Tensor) or tuple(logits.shape) != tuple(expected.shape):
            shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise _BrokenLawError(
                f"{tried.name}.advance gave logits of shape {shown}; expected those after the last token, "
                f"[batch, classes], here {tuple(expected.shape)}, and the state"
            )
        if tried.differ(logits, expected):
            raise _BrokenLawError(
                f"{tried.name}.advance and {tried.name}.forward disagree on the same tokens; make them compute the same"
            )
        begin = end


_LAWS: tuple[tuple[str, str, Callable[[_Tried], None]], ...] = (
    ("constructor", "it is built from symbols, classes and hidden", _constructor),
    ("forward", "it reads tokens, and leaves them as they are", _forward),
    ("shape", "logits are [batch, time, classes]", _shape),
    ("finite", "logits are finite numbers", _finite),
    ("gradient", "it has parameters, and its loss has a gradient", _gradient),
    ("one token", "it reads sequences of length 1", _one_token),
    ("repeatable", "logits are the same each time, in evaluation mode", _repeatable),
    ("batch", "logits do not depend on other sequences of the batch", _batch),
    ("causal", "logits do not depend on later tokens", _causal),
    ("padding", "logits do not depend on how many tokens follow", _padding),
    ("at_end", "at_end gives the rows of forward", _at_end),
    ("streaming", "advance gives the rows of forward, in any pieces", _streaming),
)
# what a model must give before anything else can be asked of it
_ALL_NEED = frozenset({"constructor", "forward", "shape", "finite"})
