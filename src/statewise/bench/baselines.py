"""Are our Mamba, Transformer and rivals at least as fast as those of others, forward and backward?"""

import os
import warnings
from typing import Any

import torch
from torch import nn

from statewise.bench.rivals import measure_rivals
from statewise.bench.timing import Row, best_times
from statewise.errors import ToolMissingError, WrongAnswerError
from statewise.models.baselines import MambaTracker, TransformerTracker

SYMBOLS, CLASSES, BATCH, TIME = 5, 5, 64, 10


def measure() -> list[Row]:
    """Time a forward and a backward pass over a batch of training sequences."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore", module="transformers.*")
    try:
        import slices  # noqa: F401
        import xlstm  # noqa: F401
        from transformers.utils import logging
    except ImportError as error:
        raise ToolMissingError(
            f"{error.name} is not installed; install statewise[bench] to measure against it"
        ) from None
    logging.set_verbosity_error()
    rows = []
    for width in (64, 256):
        for layers in (1, 4):
            for name, ours, theirs in (
                ("transformer", TransformerTracker(SYMBOLS, CLASSES, width, layers), gpt2(SYMBOLS, width, layers)),
                ("mamba", MambaTracker(SYMBOLS, CLASSES, width, layers), mamba(SYMBOLS, width, layers)),
            ):
                case = f"{name}({layers}), H {width}, B {BATCH}, T {TIME}, forward and backward"
                rows.append(_compare(case, ours, theirs))
    return rows + measure_rivals()


def gpt2(symbols: int, width: int, layers: int) -> Any:
    """Build the Transformer of `transformers` of the shape that ours has."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=symbols,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        n_positions=1024,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        use_cache=False,
    )
    return GPT2Model(config)


def mamba(symbols: int, width: int, layers: int) -> Any:
    """Build the Mamba of `transformers` of the shape that ours has."""
    from transformers import MambaConfig, MambaModel

    config = MambaConfig(vocab_size=symbols, hidden_size=width, num_hidden_layers=layers, use_cache=False)
    return MambaModel(config)


def _compare(case: str, ours: Any, theirs: Any) -> Row:
    tokens = torch.randint(0, SYMBOLS, (BATCH, TIME), generator=torch.Generator().manual_seed(0))
    readout = nn.Linear(ours.readout.in_features, CLASSES)
    logits = ours(tokens)
    if logits.shape != (BATCH, TIME, CLASSES) or not torch.isfinite(logits).all():
        raise WrongAnswerError(f"{case}: logits are not finite")
    times = best_times(
        {
            "ours": lambda: ours(tokens).square().sum().backward(),
            "theirs": lambda: readout(theirs(input_ids=tokens).last_hidden_state).square().sum().backward(),
        }
    )
    return Row(case, "transformers", times["ours"], times["theirs"], target=1.0)
