"""The learner without gradients on every rung of the ladder, three seeds.

A row for each rung and seed is appended to results/ladder-learner.jsonl, and what stands there is not run again;
docs/make_ladder.py shows the rows beside the models.
Usage: python benchmarks/ladder_learner.py
"""

from pathlib import Path

from statewise.papers.cards import LENGTHS
from statewise.papers.ladder_learner import learn_rung, read_rows
from statewise.papers.rungs import RUNGS
from statewise.sweep.terms import Terms

RESULTS = Path(__file__).parents[1] / "results" / "ladder-learner.jsonl"
SEEDS = range(3)
TERMS = Terms(3_000, LENGTHS, 500)


def main() -> None:
    known = {(row.task, row.seed) for row in read_rows(RESULTS)} if RESULTS.exists() else set()
    for rung in RUNGS:
        for seed in SEEDS:
            if (rung.task, seed) not in known:
                row = learn_rung(rung.task, seed, TERMS)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(row.model_dump_json(exclude_unset=True) + "\n")


if __name__ == "__main__":
    main()
