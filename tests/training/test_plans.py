import pytest

from statewise.errors import RunError
from statewise.training import EvaluationPlan, Optimisation


def test_rates_rise_fall_and_slow_down_with_length():
    constant = Optimisation(lr=0.1, steps=100, warmup=4)
    assert [constant.rate(step) for step in (0, 1, 3, 50)] == pytest.approx([0.025, 0.05, 0.1, 0.1])
    cosine = Optimisation(lr=0.1, steps=100, schedule="cosine")
    assert [cosine.rate(step) for step in (0, 50, 100)] == pytest.approx([0.1, 0.05, 0.0])
    slowed = Optimisation(lr=0.1, steps=100, length_power=1.0)
    assert [slowed.rate(5, stretch) for stretch in (0.5, 1.0, 4.0)] == pytest.approx([0.1, 0.1, 0.025])


@pytest.mark.parametrize(
    "build",
    [
        lambda: Optimisation(lr=0.0),
        lambda: Optimisation(steps=0),
        lambda: Optimisation(average=2.0),
        lambda: Optimisation(length_power=-1.0),
        lambda: EvaluationPlan(every=0),
        lambda: EvaluationPlan(probe=()),
        lambda: EvaluationPlan(lengths=(0,)),
    ],
)
def test_bad_plans_are_refused(build):
    with pytest.raises(RunError):
        build()
