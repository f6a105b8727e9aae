"""A worker lives as long as its sweep, so it must not grow with the runs that it has done."""

from contextlib import closing

import pytest

from statewise.store import Store
from statewise.sweep import Costs, Limits, make_packs, run_packs
from statewise.sweep.local import LocalEngine, _memory

from .jobs import job

_RUNS, _WARM, _MOST = 1_000, 100, 0.050


@pytest.mark.slow
def test_a_worker_grows_by_less_than_50_mb_over_a_thousand_runs(tmp_path):
    jobs = [
        job(task, model, seed=seed)
        for seed in range(_RUNS // 4)
        for task, model in (("parity", "full"), ("modular_addition(3)", "cp(4)"), ("parity", "rnn"), ("parity", "lstm"))
    ]
    engine = LocalEngine(1, tmp_path / "work", Limits())
    seen = []

    def show(progress):
        if progress.done >= _WARM:
            seen.append(_memory(engine._workers[0].process.pid))

    with closing(engine), Store.open(tmp_path / "store", write=True) as store:
        run_packs(store, make_packs(jobs, Costs(), 1), engine, show)
        assert store.counts() == {"done": _RUNS}
    # the highest of all, not the last, which may have been given back
    assert len(seen) > 1
    assert max(seen) - seen[0] < _MOST, (seen[0], max(seen))
