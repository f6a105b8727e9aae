"""Are our Mamba and Transformer at least as fast as those of `transformers`, forward and backward?"""

import os
import warnings
from typing import Any

import torch
from torch import nn

from statewise.baselines import MambaTracker, TransformerTracker
from statewise.bench.timing import Row, best_times
from statewise.errors import ToolMissingError, WrongAnswerError

SYMBOLS, CLASSES, BATCH, TIME = 5, 5, 64, 10


def measure() -> list[Row]:
    """Times a forward and a backward pass over a batch of training words."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore", module="transformers.*")
    try:
        from transformers import GPT2Config, GPT2Model, MambaConfig, MambaModel
        from transformers.utils import logging
    except ImportError:
        raise ToolMissingError("transformers is not installed; install it to measure against it") from None
    logging.set_verbosity_error()
    rows = []
    for width in (64, 256):
        for layers in (1, 4):
            gpt2 = GPT2Model(
                GPT2Config(
                    vocab_size=SYMBOLS,
                    n_embd=width,
                    n_layer=layers,
                    n_head=4,
                    resid_pdrop=0,
                    embd_pdrop=0,
                    attn_pdrop=0,
                    use_cache=False,
                )
            )
            mamba = MambaModel(
                MambaConfig(vocab_size=SYMBOLS, hidden_size=width, num_hidden_layers=layers, use_cache=False)
            )
            for name, ours, theirs in (
                ("transformer", TransformerTracker(SYMBOLS, CLASSES, width, layers), gpt2),
                ("mamba", MambaTracker(SYMBOLS, CLASSES, width, layers), mamba),
            ):
                case = f"{name}({layers}), H {width}, B {BATCH}, T {TIME}, forward and backward"
                rows.append(_compare(case, ours, theirs))
    return rows


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
