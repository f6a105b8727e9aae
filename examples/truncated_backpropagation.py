"""Truncated backpropagation along a stream without end: the state goes from chunk to chunk, the gradient does not.

The stream is a tank: level_t = keep_t level_(t-1) + flow_t, where a valve opens at random. The level remembers up to
50 steps, and a chunk has 10, so a network that forgets between chunks cannot know it.
"""

import torch
from torch import Tensor, nn

from statewise import BilinearRNN

STREAMS, CHUNK, CHUNKS = 16, 10, 500


def draw_chunk(level: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Go on with all streams: inputs [streams, time, 2], and the level after each."""
    flow = torch.rand(STREAMS, CHUNK, generator=generator) - 0.5
    keep = torch.where(torch.rand(STREAMS, CHUNK, generator=generator) < 0.1, 0.3, 0.98)
    levels = []
    for t in range(CHUNK):
        level = keep[:, t] * level + flow[:, t]
        levels.append(level)
    return torch.stack([flow, keep], dim=-1), torch.stack(levels, dim=1)


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    rnn = BilinearRNN(2, 8, transition="diagonal", additive="input", generator=generator)
    readout = nn.utils.skip_init(nn.Linear, 8, 1)
    nn.init.normal_(readout.weight, std=0.3, generator=generator)
    nn.init.zeros_(readout.bias)
    optimiser = torch.optim.Adam([*rnn.parameters(), *readout.parameters()], lr=0.03)

    level, state = torch.zeros(STREAMS), rnn.init_state(STREAMS)
    carried, fresh, spread = [], [], []
    for _ in range(CHUNKS):
        x, levels = draw_chunk(level, generator)
        output, after = rnn(x, state)
        loss = (readout(output).squeeze(-1) - levels).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        # the next chunk begins where this one ends; a product that has grown too far is cut
        level, state = levels[:, -1], after.detach().clamp(-5, 5)
        with torch.no_grad():
            fresh.append((readout(rnn(x)[0]).squeeze(-1) - levels).square().mean())
        carried.append(loss.detach())
        spread.append(levels.var())
    share = [
        float(torch.stack(errors[-100:]).mean() / torch.stack(spread[-100:]).mean()) for errors in (carried, fresh)
    ]
    print(f"share of the variance missed: {share[0]:.3f} with the state carried, {share[1]:.3f} without")
    assert share[0] < share[1] / 5


if __name__ == "__main__":
    main()
