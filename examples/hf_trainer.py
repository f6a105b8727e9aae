"""A statewise network in Hugging Face's Trainer: any nn.Module whose forward returns a loss and logits.

Needs `pip install transformers accelerate`; nothing is downloaded.
"""

import tempfile

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

import statewise as sw


class ForTrainer(nn.Module):
    """A network, called as the Trainer calls it."""

    def __init__(self, net: sw.StateTracker) -> None:
        super().__init__()
        self.net = net

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.net(input_ids)
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class Sums(Dataset):
    """Sequences of symbols, each with its machine's state after every symbol."""

    def __init__(self, machine: sw.Machine, count: int, length: int, seed: int) -> None:
        tokens = torch.randint(machine.symbols, (count, length), generator=torch.Generator().manual_seed(seed))
        self.tokens, self.states = tokens, torch.from_numpy(machine.track(tokens.numpy()))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {"input_ids": self.tokens[place], "labels": self.states[place]}


def main() -> None:
    machine = sw.machine("modular_addition(3)")
    net = sw.StateTracker(3, 3, 32, generator=torch.Generator().manual_seed(0))
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            output_dir=folder, max_steps=300, per_device_train_batch_size=64, per_device_eval_batch_size=64,
            learning_rate=5e-3, lr_scheduler_type="cosine", weight_decay=0.0, seed=0, use_cpu=True,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = Trainer(ForTrainer(net), options, train_dataset=Sums(machine, 6_400, 8, seed=1))
        trainer.train()
        found = trainer.predict(Sums(machine, 256, 40, seed=2))
    accuracy = (found.predictions.argmax(axis=-1) == found.label_ids).mean()
    print(f"trained on 8 symbols; accuracy on 40: {accuracy:.3f}")
    assert accuracy > 0.9


if __name__ == "__main__":
    main()
