# %% [markdown]
# # Does my architecture track state?
#
# Take a class of your own, check it, compare two variants of it, and see how far up the ladder one gets. Open this
# file in an editor that knows `# %%` cells, or run it as a script.

# %%
import torch
from torch import Tensor, nn

import statewise as sw

# %% [markdown]
# ## The class
#
# A gated linear recurrence, as in many state-space layers: each channel is multiplied by a gate that depends on the
# input. Gates lie between 0 and 1; in the second class between -1 and 1.


# %%
class Gated(nn.Module):
    """h_t = a(x_t) h_(t-1) + b(x_t), channel by channel."""

    squash = staticmethod(torch.sigmoid)

    def __init__(self, symbols: int, classes: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.enter = nn.Embedding(symbols, hidden), nn.Embedding(symbols, hidden)
        self.read = nn.Linear(hidden, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        gates, entered = self.squash(3 * self.gate(tokens)).unbind(dim=1), self.enter(tokens).unbind(dim=1)
        states = [entered[0]]
        for gate, enter in zip(gates[1:], entered[1:], strict=True):
            states.append(gate * states[-1] + enter)
        return self.read(torch.stack(states, dim=1))


class Signed(Gated):
    """The same, with gates that can be negative."""

    squash = staticmethod(torch.tanh)


# %% [markdown]
# ## Check it before it is trained
#
# Shapes, gradients, no look into the future, the same logits whatever else is in the batch. A law that is broken is
# one sentence.

# %%
print(sw.check_model(Signed))

# %% [markdown]
# ## Compare
#
# Parity: how often was there a 1, modulo 2? Both classes get the same sequences and steps, and the same tuning of loss
# and rate. A name such as "lstm" in `models` puts a baseline beside them.

# %%
table = sw.compare(["parity"], [Gated, Signed], seeds=1, steps=300, hidden=16, lengths=[10, 100], test_sequences=100)
print(table)

# %% [markdown]
# ## Two rungs of the ladder
#
# A factor of -1 is enough for parity. Permutations of three things do not commute, and products of channels do: no
# number of steps helps. `sw.ladder([Signed])` tries all thirteen rungs, in minutes.

# %%
print(f"{'':14}{'':10}2 to 10   10  100   (0 chance, 1 perfect)")
for rung in ["parity", "symmetric(3)"]:
    for name, model in {"Signed": Signed, "full": "full"}.items():
        run = sw.train(rung, model, hidden=16, steps=250, lr=0.01, loss="cross-entropy", supervision="aligned")
        near, far = sw.evaluate(run, lengths=[10, 100]).to_dict()["score"]
        print(f"{rung:14}{name:10}{run.record.score_id:7.2f}{near:5.2f}{far:5.2f}")

# %% [markdown]
# A score at training lengths is not yet state tracking: look at 100. For matrices linear in the input `sw.certify` goes
# further than scores can, and says up to which length every sequence is right.
