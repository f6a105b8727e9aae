"""Run directories: what a run leaves behind, and how it is opened again."""
