"""A LightningModule around StateTracker: it learns to follow permutations of three things.

Needs `pip install pytorch-lightning`.
"""

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import statewise as sw

MACHINE = sw.machine("symmetric(3)")


class Tracker(pl.LightningModule):
    """The state of the machine after each symbol, by cross-entropy."""

    def __init__(self, hidden: int = 32, lr: float = 5e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = sw.StateTracker(MACHINE.symbols, MACHINE.states, hidden, transition="full")

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        tokens, states = batch
        return nn.functional.cross_entropy(self.net(tokens).flatten(0, 1), states.flatten())

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        tokens, states = batch
        self.log("accuracy", (self.net(tokens).argmax(dim=-1) == states).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


def draw(count: int, length: int, seed: int) -> TensorDataset:
    tokens = torch.randint(MACHINE.symbols, (count, length), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(tokens, torch.from_numpy(MACHINE.track(tokens.numpy())))


def main() -> None:
    pl.seed_everything(0, verbose=False)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", devices=1, num_sanity_val_steps=0, **quiet)
    train, test = (DataLoader(draw(*size), batch_size=64) for size in [(6_400, 8, 1), (256, 40, 2)])
    trainer.fit(Tracker(), train, test)
    accuracy = float(trainer.callback_metrics["accuracy"])
    print(f"trained on 8 symbols; accuracy on 40: {accuracy:.3f}")
    assert accuracy > 0.9


if __name__ == "__main__":
    main()
