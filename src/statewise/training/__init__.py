"""Training: options, loss, optimiser, the training step, the loop, evaluation and checkpoints."""
