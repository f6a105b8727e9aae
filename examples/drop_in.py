"""nn.LSTM and BilinearRNN side by side on one batch."""

import torch

from statewise import BilinearRNN


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def main() -> None:
    x = torch.randn(8, 100, 64)

    lstm = torch.nn.LSTM(64, 256, batch_first=True)
    output, (h_n, _) = lstm(x)
    print("nn.LSTM     ", tuple(output.shape), tuple(h_n.shape), count(lstm), "parameters")

    rnn = BilinearRNN(64, 256, transition="block(2)")
    output, h_n = rnn(x)
    print("BilinearRNN ", tuple(output.shape), tuple(h_n.shape), count(rnn), "parameters")

    # rows of different lengths, and a stream: the same numbers
    lengths = torch.randint(0, 101, (8,))
    _, ends = rnn(x, lengths=lengths)
    state = rnn.init_state(1)
    for t in range(int(lengths[0])):
        _, state = rnn.step(x[:1, t], state)
    print("step by step differs by", f"{float((state - ends[:, :1]).detach().abs().max()):.1e}")


if __name__ == "__main__":
    main()
