"""Are our Mamba, Transformer and rivals at least as fast as those of others, forward and backward?"""

import os
import warnings
from typing import Any

import torch
from torch import Tensor

from statewise.bench.rivals import Case, compare_both_ways, measure_rivals
from statewise.bench.timing import Row
from statewise.errors import ToolMissingError
from statewise.models.baselines import MambaTracker, TransformerTracker

SYMBOLS, CLASSES, BATCH, TIME = 5, 5, 64, 10

# a weight of ours, the other's, and whether that is transposed
Pair = tuple[Tensor, Tensor, bool]


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
    return measure_published() + measure_rivals()


def measure_published(
    batch: int = BATCH, widths: tuple[int, ...] = (64, 256), depths: tuple[int, ...] = (1, 4), repeats: int = 7
) -> list[Row]:
    """Time whole networks against those of `transformers`.

    Args:
        batch: how many sequences.
        widths: hidden sizes.
        depths: numbers of layers.
        repeats: how often each is timed.
    """
    tokens = torch.randint(0, SYMBOLS, (batch, TIME), generator=torch.Generator().manual_seed(0))
    rows = []
    for width in widths:
        for layers in depths:
            for name, build in (("transformer", transformer_pair), ("mamba", mamba_pair)):
                ours, theirs, pairs = build(SYMBOLS, CLASSES, width, layers)
                copy_weights(pairs)
                what = f"{name}({layers}), H {width}, B {batch}, T {TIME}, forward and backward"
                rows.append(compare_both_ways(what, _case(ours, theirs, pairs, tokens), repeats))
    return rows


def _case(ours: Any, theirs: Any, pairs: list[Pair], tokens: Tensor) -> Case:
    return Case(
        "transformers",
        tuple(mine for mine, _, _ in pairs),
        lambda: ours(tokens),
        lambda: ours.readout(theirs(input_ids=tokens).last_hidden_state),
        tuple(other for _, other, _ in pairs),
        frozenset(place for place, (_, _, transposed) in enumerate(pairs) if transposed),
    )


def copy_weights(pairs: list[Pair]) -> None:
    """Give the other network our weights."""
    with torch.no_grad():
        for mine, other, transposed in pairs:
            other.copy_(mine.T if transposed else mine)


def transformer_pair(symbols: int, classes: int, width: int, layers: int) -> tuple[TransformerTracker, Any, list[Pair]]:
    """Build our Transformer and that of `transformers`, with the pairs of their weights."""
    ours, theirs = TransformerTracker(symbols, classes, width, layers), gpt2(symbols, width, layers)
    assert ours.positions is not None
    pairs: list[Pair] = [
        (ours.embedding.weight, theirs.wte.weight, False),
        (ours.positions.weight, theirs.wpe.weight, False),
        (ours.norm.weight, theirs.ln_f.weight, False),
        (ours.norm.bias, theirs.ln_f.bias, False),
    ]
    for block, other in zip(ours.blocks, theirs.h, strict=True):
        alike = {"ln_1": other.ln_1, "ln_2": other.ln_2}
        # theirs are convolutions, whose weights are transposed
        turned = {
            "attention": other.attn.c_attn,
            "projection": other.attn.c_proj,
            "widen": other.mlp.c_fc,
            "narrow": other.mlp.c_proj,
        }
        for name, found in (alike | turned).items():
            mine = {kind: block.get_parameter(f"{name}.{kind}") for kind in ("weight", "bias")}
            pairs += [(mine["weight"], found.weight, name in turned), (mine["bias"], found.bias, False)]
    return ours, theirs, pairs


def mamba_pair(symbols: int, classes: int, width: int, layers: int) -> tuple[MambaTracker, Any, list[Pair]]:
    """Build our Mamba and that of `transformers`, with the pairs of their weights."""
    ours, theirs = MambaTracker(symbols, classes, width, layers), mamba(symbols, width, layers)
    named = {
        "embedding.weight": theirs.embeddings.weight,
        "norm.weight": theirs.norm_f.weight,
    }
    for place, other in enumerate(theirs.layers):
        named |= {f"blocks.{place}.{name}": value for name, value in other.named_parameters()}
    mine = dict(ours.named_parameters())
    return ours, theirs, [(mine[name], value, False) for name, value in named.items()]


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
