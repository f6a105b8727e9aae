"""Models of token sequences: the bilinear levels, the baselines, and a user's own."""
