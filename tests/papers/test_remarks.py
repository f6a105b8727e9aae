from statewise.papers import read_paper, table_of
from statewise.papers.remarks import reply
from tests.papers.synthetic import record

PAPER = read_paper()


def replied(name, score, inside=lambda config: 1.0):
    records = [record(config, score(config), inside(config)) for config in PAPER.runs(name, "quick")]
    told, *lines = reply(table_of(PAPER, name, "quick", records))
    return told, dict(line.split(": ", 1) for line in lines)


def test_the_least_number_of_words_is_that_of_the_median_seed():
    enough = {"full": 8192, "rotation": 128, "lstm": 10**9}

    def far(config):
        # a single seed with fewer words is not the median
        lucky = config["seed"] == 0 and config["samples"] == 32
        return 0.9 * lucky + float(config["samples"] >= enough.get(config["model"], 512))

    told, lines = replied("figure2", far, lambda config: float(config["samples"] >= 512))
    assert "0.95" in told
    assert lines["full bilinear (statewise)"] == "512 on the training length, 8,192 at 500"
    assert lines["rotations (R2) (stated)"] == "512 on the training length, 128 at 500"
    assert lines["LSTM (baseline)"] == "512 on the training length, not with 32,768 at 500"
    verdict = lines["the paper says that bilinear models need fewer words than the others"]
    # an RNN is right with 512 words both near and far, an LSTM never far
    assert verdict.startswith("on the training length, 0 of 6 rows do, not full bilinear (stated), ")
    assert "; at 500, 2 of 6 rows do, not full bilinear (stated), block-diagonal, size 2 (stated), " in verdict
    assert verdict.endswith("(with smaller networks and fewer steps than the paper's)")


def test_rows_that_need_fewer_words_than_every_baseline_are_counted():
    def near(config):
        return float(
            config["samples"] >= {"full": 2048, "rotation": 32, "rnn": 2048, "lstm": 8192}.get(config["model"], 128)
        )

    _, lines = replied("figure2", lambda config: 0.0, near)
    verdict = lines["the paper says that bilinear models need fewer words than the others"]
    assert verdict.startswith(
        "on the training length, 4 of 6 rows do, not full bilinear (stated), full bilinear (statewise); "
    )
    assert "; at 500, no row is right, so that it cannot be told" in verdict


def test_what_was_not_run_is_not_said_to_fail():
    first = PAPER.plan("figure2", "quick")[0]
    records = [record(config, 0.0) for cell in first.cells[:2] for config in cell.configs]
    lines = reply(table_of(PAPER, "figure2", "quick", records))[1:]
    assert lines[0] == "full bilinear (stated): 32 on the training length, not with 128 at 500"


def test_networks_that_are_shifted_on_long_words_are_counted():
    _, lines = replied("figure2", lambda config: -0.25 if config["seed"] else 1.0)
    shifted = next(line for label, line in lines.items() if label.startswith("words of one length"))
    assert shifted.startswith("of 96 seeds")
    assert "48 are below chance" in shifted


def test_terms_are_compared_where_the_model_without_one_is_right():
    def far(config):
        if config["model"] == "full":
            return {"none": 1.0, "constant": 0.95, "input": 0.5}[config["additive"]]
        return float(config["task"] == "modular_addition(2)" and config["additive"] == "none")

    _, lines = replied("figure3", far)
    columns = len(PAPER.columns("figure3", "quick"))
    assert lines["full bilinear, constant term (statewise)"] == f"0 of {columns}"
    assert lines["full bilinear, term of the input (statewise)"] == f"{columns} of {columns}"
    others = [line for label, line in lines.items() if label.startswith("block")]
    assert others == ["1 of 1"] * 4
    assert lines["the paper says that terms lower the score"].startswith(
        f"here they do in {2 * columns + 4} of {4 * columns + 4} "
    )


def test_factored_models_are_told_at_the_largest_m():
    def far(config):
        return 0.9 if config["task"] == "modular_addition(50)" and config["recipe"] == "statewise" else 0.25

    _, lines = replied("table-addition", far, lambda config: 0.5)
    assert lines["CP-factored, rank 64 (statewise)"] == "0.90 at 500, 0.50 on short words"
    assert lines["CP-factored, rank 64 (stated)"] == "0.25 at 500, 0.50 on short words"
    assert len(lines) == 2


def test_nothing_is_said_without_records_or_words_of_the_paper():
    assert reply(table_of(PAPER, "figure2", "quick", [])) == []
    config = PAPER.runs("table-addition", "quick")[0]
    assert reply(table_of(PAPER, "table-addition", "quick", [record(config, 1.0)])) == []
