from statewise.papers import judge_claims, read_paper, table_of
from statewise.papers.claims import reached_by
from statewise.papers.contrasts import judge_contrast
from tests.papers.synthetic import record

PAPER = read_paper()


def judged(name, score, inside=lambda options: 1.0):
    records = [record(options, score(options), inside(options)) for options in PAPER.runs(name, "quick")]
    counted, *lines = judge_claims(PAPER, table_of(PAPER, name, "quick", records))
    return counted, dict(line.split(": ", 1) for line in lines)


def test_the_least_number_of_sequences_is_that_of_the_median_seed():
    enough = {"full": 8192, "rotation": 128, "lstm": 10**9}

    def far(options):
        # a single seed with fewer sequences is not the median
        lucky = options.seed in (0, 30) and options.samples == 32
        return 0.9 * lucky + float(options.samples >= enough.get(options.model, 512))

    counted, lines = judged("figure2", far, lambda options: float(options.samples >= 512))
    assert "0.95" in counted
    assert lines["full bilinear (statewise)"] == "512 on the training length, 8,192 at 500"
    assert lines["rotations (R2) (stated)"] == "512 on the training length, 128 at 500"
    assert lines["LSTM (squared)"] == "512 on the training length, not with 8,192 at 500"
    verdict = lines["the paper claims that bilinear models need fewer sequences than the others"]
    # an RNN learns from 512 sequences both near and far, an LSTM never far
    assert verdict.startswith(
        "on the training length, 0 of 16 rows do; at 500, 4 of 16 rows do (rotations (R2) (stated), "
    )
    assert verdict.endswith("(with smaller networks and fewer steps than the paper's)")


def test_rows_that_need_fewer_sequences_than_every_baseline_are_counted():
    def near(options):
        return float(
            options.samples >= {"full": 2048, "rotation": 32, "rnn": 2048, "lstm": 8192}.get(options.model, 128)
        )

    _, lines = judged("figure2", lambda options: 0.0, near)
    verdict = lines["the paper claims that bilinear models need fewer sequences than the others"]
    assert verdict.startswith("on the training length, 8 of 16 rows do (block-diagonal, size 2 (stated), ")
    assert "full bilinear" not in verdict
    assert "; at 500, no row scores 0.95, so that there is nothing to compare" in verdict


def test_what_was_not_run_does_not_count_as_failing():
    first = PAPER.plan("figure2", "quick")[0]
    records = [record(options, 0.0) for cell in first.cells[:2] for options in cell.runs]
    lines = judge_claims(PAPER, table_of(PAPER, "figure2", "quick", records))[1:]
    assert lines[0] == "full bilinear (stated): 32 on the training length, not with 128 at 500"


def test_networks_that_are_shifted_on_long_sequences_are_counted():
    _, lines = judged("figure2", lambda options: -0.25 if options.seed % 10 else 1.0)
    shifted = next(line for label, line in lines.items() if label.startswith("sequences of one length"))
    # two seeds at one rate of 20 rows in 5 columns
    assert shifted.startswith("of 200 seeds")
    assert "100 are below chance" in shifted


def test_terms_are_compared_where_the_model_without_one_has_learned():
    def far(options):
        if options.model == "full":
            return {"none": 1.0, "constant": 0.95, "input": 0.5}[options.additive]
        return float(options.task == "modular_addition(2)" and options.additive == "none")

    _, lines = judged("figure3", far)
    columns = len(PAPER.columns("figure3", "quick"))
    assert lines["full bilinear, constant term (statewise)"] == f"0 of {columns}"
    assert lines["full bilinear, term of the input (statewise)"] == f"{columns} of {columns}"
    others = [line for label, line in lines.items() if label.startswith("block")]
    # two terms under four readings
    assert others == ["1 of 1"] * 8
    assert lines["the paper claims that terms lower the score"].startswith(
        f"here they do in {4 * columns + 8} of {8 * columns + 8} "
    )


def test_factored_models_are_shown_at_the_largest_m():
    def far(options):
        return 0.9 if options.task == "modular_addition(50)" and options.recipe == "statewise" else 0.25

    _, lines = judged("table-addition", far, lambda options: 0.5)
    assert lines["CP-factored, rank 128 (statewise), m = 50"] == "0.90 at 500, 0.50 on training lengths"
    assert lines["CP-factored, rank 128 (stated), m = 50"] == "0.25 at 500, 0.50 on training lengths"
    assert lines["CP-factored, rank 64 (squared), m = 25"] == "0.25 at 500, 0.50 on training lengths"
    assert len(lines) == 8


def test_scores_that_a_reading_reaches_are_counted_where_they_were_run():
    runs = [run for run in PAPER.runs("table-addition", "quick") if run.model in ("full", "lstm")]
    normalised = [run for run in runs if run.readout == "normalised" and run.recipe == "stated"]
    letter = [run for run in runs if (run.readout, run.loss, run.recipe) == ("plain", "cross-entropy", "stated")]
    records = [record(run, 1.0 if "(5)" in run.task else 0.0) for run in normalised]
    records += [record(run, 0.0) for run in letter if run.task == "modular_addition(5)"]
    table = table_of(PAPER, "table-addition", "quick", records)
    found = {name: reached_by([table], name) for name in table.readings}
    # m of 3 or more; baselines are not counted
    assert (found["normalised"].count, len(found["normalised"].cells)) == (1, 5)
    assert (found["stated"].count, len(found["stated"].cells)) == (0, 1)
    assert found["squared"].cells == found["statewise"].cells == ()


def contrast_of(claim, score, inside=lambda options: 1.0):
    records = [record(options, score(options), inside(options)) for options in PAPER.runs("losses", "quick")]
    (contrast,) = [one for one in PAPER.contrasts if claim in one.claim]
    judged = judge_contrast(table_of(PAPER, "losses", "quick", records), contrast)
    return {(one.reading, one.behind, one.column): one.outcome for one in judged}


def test_a_contrast_survives_where_the_model_behind_has_learned_and_is_wrong_at_500():
    def far(options):
        return 0.0 if options.model == "lstm" and options.loss == "cross-entropy" else 1.0

    found = contrast_of("modulo 25 and 50", far)
    assert found["equal-cross-entropy", "lstm", "addition 25"] == "survives"
    assert found["equal-squared", "lstm", "addition 25"] == "does not survive"
    assert len(found) == 4


def test_what_was_not_learned_or_not_run_shows_nothing():
    unlearned = contrast_of(
        "modulo 25 and 50",
        lambda options: float(options.model == "full"),
        lambda options: 1.0 if options.model == "full" else 0.98,
    )
    assert set(unlearned.values()) == {"training lengths were not learned"}
    assert set(contrast_of("modulo 25 and 50", lambda options: 0.0).values()) == {"the model ahead is not right either"}
    empty = judge_contrast(table_of(PAPER, "losses", "quick", []), PAPER.contrasts[0])
    assert {one.outcome for one in empty} == {"not run"}
    # a model that is not planned is not compared
    other = PAPER.contrasts[0].model_copy(update={"behind": ("mamba(2)",)})
    assert not judge_contrast(table_of(PAPER, "losses", "quick", []), other)


def test_nothing_is_judged_without_records_or_claims_of_the_paper():
    assert judge_claims(PAPER, table_of(PAPER, "figure2", "quick", [])) == []
    options = PAPER.runs("table-addition", "quick")[0]
    assert judge_claims(PAPER, table_of(PAPER, "table-addition", "quick", [record(options, 1.0)])) == []
