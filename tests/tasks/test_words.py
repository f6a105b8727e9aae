"""A user's own labelled sequences: read from files, split, checked, and made into batches and test sets."""

import json

import numpy as np
import pytest

from statewise.errors import StatewiseError, TaskError, WordsError
from statewise.tasks import Lengths, build_source
from statewise.tasks.word_files import WordFile, read_word_file
from statewise.tasks.words import SHARES, WordsSource, evaluation_source, shares_of, split_words, words, words_task


def write(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def parity_words(count=400, longest=12, seed=0, aligned=False):
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        word = generator.integers(0, 2, size=generator.integers(1, longest + 1))
        labels = ["even" if total % 2 == 0 else "odd" for total in word.cumsum()]
        found.append(("".join(map(str, word)), labels if aligned else labels[-1]))
    return found


def parity_file(path, **options):
    pairs = parity_words(**options)
    key = "labels" if options.get("aligned") else "label"
    return write(path, [json.dumps({"word": word, key: label}) for word, label in pairs])


def make(pairs, shares=SHARES):
    return split_words(WordFile.from_pairs(pairs), shares, "words(memory)")


def test_every_layout_gives_the_same_sequences(tmp_path):
    final = [
        write(tmp_path / "a.csv", ["word,label", "a b,x", "b,y"]),
        write(tmp_path / "a.jsonl", ['{"word": ["a", "b"], "label": "x"}', '{"word": "b", "label": "y"}']),
    ]
    folder = tmp_path / "flare"
    folder.mkdir()
    write(folder / "main.tok", ["a b", "b"])
    write(folder / "labels.txt", ["x", "y"])
    for read in map(read_word_file, [*final, folder]):
        assert not read.aligned
        assert [(list(e.word), list(e.labels)) for e in read.words] == [(["a", "b"], ["x"]), (["b"], ["y"])]
    aligned = [
        write(tmp_path / "b.csv", ["word,labels", "0 1,5 10", "1,10"]),
        write(tmp_path / "b.jsonl", ['{"word": [0, 1], "labels": [5, 10]}', '{"word": "1", "labels": ["10"]}']),
        write(tmp_path / "c.csv", ["seed,input,target", "7,0 1,5 10", "7,1,10"]),
    ]
    for read in map(read_word_file, aligned):
        assert read.aligned
        assert [(list(e.word), list(e.labels)) for e in read.words] == [(["0", "1"], ["5", "10"]), (["1"], ["10"])]


def test_equal_sequences_are_never_in_two_sets():
    pairs = [pair for pair in parity_words(count=300, longest=6) for _ in range(3)]
    source = make(pairs, (0.6, 0.2, 0.2))
    train, validation, test = ({word.tobytes() for word in part.words} for part in source.sets)
    assert not train & validation
    assert not train & test
    assert not validation & test
    assert sum(map(len, source.sets)) == len(pairs)


def test_shares_are_met_and_the_split_does_not_depend_on_the_order():
    pairs = list(dict(parity_words(count=4_000, longest=16)).items())
    source, turned = make(pairs), make(pairs[::-1])
    shares = [len(part) / len(pairs) for part in source.sets]
    np.testing.assert_allclose(shares, SHARES, atol=0.03)
    assert {w.tobytes() for w in source.sets[2].words} == {w.tobytes() for w in turned.sets[2].words}


def test_the_hash_changes_with_any_label_and_any_symbol():
    pairs = parity_words()
    other = [(word, "odd" if label == "even" else "even") for word, label in pairs]
    digests = {make(pairs).digest, make(other).digest, make(pairs[:-1]).digest, make(pairs, (0.7, 0.2, 0.1)).digest}
    assert len(digests) == 4
    assert make(pairs).digest == make(list(pairs)).digest


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([], "no sequence"),
        ([("ab", "x"), ("ba", "x")], "at least two different labels"),
        ([("ab", "x"), ("ba", "y"), ("ab", "y")], r'"a b" is labelled both "x" and "y" \(line 1 of .* and line 3 of'),
        ([("ab", ["x", "y"]), ("ab", ["x", "x"])], r'both "y" and "x"'),
        ([("ab", ["x"])], "2 symbols and 1 labels"),
        ([("ab", 1.5)], "label"),
        ([("", "x"), ("", "y")], "no sequence"),
    ],
)
def test_sequences_that_cannot_be_learned_are_one_sentence(pairs, sentence):
    with pytest.raises(StatewiseError, match=sentence):
        make(pairs, (1.0, 0.0, 0.0) if len(pairs) else SHARES)


@pytest.mark.parametrize(
    "shares", ["0.5,0.4,0.2", "0.5,0.5", "a,b,c", (0.5, 0.5), "-0.2,0.6,0.6", "1,0,0", "0,0.5,0.5"]
)
def test_shares_are_three_numbers_that_add_up_to_one(shares):
    with pytest.raises(WordsError, match="shares are"):
        shares_of(shares)


def test_a_set_that_is_left_empty_is_named(tmp_path):
    file = write(tmp_path / "few.csv", ["word,label", "a,x", "b,y"])
    with pytest.raises(WordsError, match="none of them is left for"):
        words(str(file))


def test_symbols_and_labels_of_other_sets_occur_in_training(tmp_path):
    train = write(tmp_path / "train.csv", ["word,label", "a b,x", "b,y"])
    for line, kind in (("a c,x", "symbol"), ("a,z", "label")):
        test = write(tmp_path / "test.csv", ["word,label", "b b,y", line])
        with pytest.raises(WordsError, match=f"line 3 of test.csv has the {kind} .* never occurs in training"):
            words(str(train), test=str(test))
        test.unlink()


def test_files_that_do_not_fit_together_are_one_sentence(tmp_path):
    train = write(tmp_path / "train.csv", ["word,label", "a b,x", "b,y"])
    other = write(tmp_path / "other.csv", ["word,labels", "a b,x y"])
    with pytest.raises(WordsError, match="after each symbol"):
        words(str(train), test=str(other))
    with pytest.raises(WordsError, match="leave the shares or the files out"):
        words(str(train), test=str(train), shares="0.8,0.1,0.1")
    with pytest.raises(WordsError, match="give one for test too"):
        words(str(train), validation=str(train))
    with pytest.raises(WordsError, match=r"line 2 .*which lines before it have not"):
        read_word_file(write(tmp_path / "m.jsonl", ['{"word":"a","label":"x"}', '{"word":"a","labels":["x"]}']))


def test_a_folder_of_flare_has_its_sets(tmp_path):
    for place, lines in (
        ("", ["a b", "b", "", "a"]),
        ("datasets/validation-short", ["a a"]),
        ("datasets/test", ["b b", "b a"]),
    ):
        folder = tmp_path / "language" / place
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "main.tok", lines)
        write(folder / "labels.txt", [str(len(line) % 2) for line in lines])
    write(tmp_path / "language" / "labels.txt", ["1", "0", "1", "0"])
    source = words(str(tmp_path / "language"))
    # the empty sequence is left out
    assert [len(part) for part in source.sets] == [3, 1, 2]


def test_a_task_is_named_by_its_files(tmp_path):
    file = parity_file(tmp_path / "it's a file.jsonl")
    source = build_source(words_task(str(file), shares=(0.5, 0.25, 0.25)))
    assert isinstance(source, WordsSource)
    assert source.name == words_task(str(file), shares="0.5,0.25,0.25")


def test_each_training_sequence_comes_once_before_any_comes_again():
    task = make(parity_words()).task(Lengths(1, 12), "final", None, 0)
    seen = [task.batch(3, position, 1).tokens.tobytes() for position in range(task.samples)]
    again = make(parity_words()).task(Lengths(1, 12), "final", None, 0)
    fixed = task.fixed(3)
    rows = [row[:length].tobytes() for row, length in zip(fixed.tokens, fixed.lengths, strict=True)]
    assert sorted(seen) == sorted(rows)
    np.testing.assert_array_equal(again.batch(3, 50, 8).tokens, task.batch(3, 50, 8).tokens)


def test_labels_after_each_symbol_are_read_up_to_the_longest():
    source = make(parity_words(aligned=True))
    task = source.task(Lengths(1, 5), "aligned", None, 0)
    batch = task.batch(0, 0, 64)
    assert batch.tokens.shape[1] == 5
    assert batch.asked is not None
    odd = source.output_names.index("odd")
    np.testing.assert_array_equal(
        (batch.tokens.cumsum(axis=1) % 2 == 1)[batch.asked], (batch.outputs == odd)[batch.asked]
    )
    # with one answer asked for, any beginning has its label
    final = source.task(Lengths(1, 5), "final", None, 0).batch(0, 0, 64)
    ends = np.array([row[:length].sum() % 2 for row, length in zip(final.tokens, final.lengths, strict=True)])
    np.testing.assert_array_equal(ends == 1, final.finals == odd)
    assert len(set(final.lengths.tolist())) > 2


def test_test_sequences_are_whole_and_each_is_in_one_bucket():
    task = make(parity_words(count=2_000, longest=100, aligned=True)).task(Lengths(1, 5), "aligned", None, 0)
    assert all(bucket & (bucket - 1) == 0 for bucket in task.buckets)
    batches = [task.test(0, bucket, 10_000) for bucket in task.buckets]
    assert sum(len(batch.lengths) for batch in batches) == len(task.sets[2])
    for bucket, batch in zip(task.buckets, batches, strict=True):
        assert bucket // 2 < batch.lengths.min() <= batch.lengths.max() <= bucket
    with pytest.raises(TaskError, match="no test sequence has length 7"):
        task.test(0, 7, 10)


def test_supervision_asks_for_labels_that_there_are():
    final, aligned = make(parity_words()), make(parity_words(aligned=True))
    with pytest.raises(TaskError, match="use supervision final"):
        final.task(Lengths(1, 5), "aligned", None, 0)
    with pytest.raises(TaskError, match="aligned or final"):
        aligned.task(Lengths(1, 5), "chain", None, 0)
    with pytest.raises(TaskError, match="read whole"):
        final.task(Lengths(1, 5, growth=10), "final", None, 0)
    with pytest.raises(TaskError, match="leave samples"):
        final.task(Lengths(1, 5), "final", 10, 0)


def test_sequences_to_evaluate_on_are_numbered_as_the_network_does(tmp_path):
    source = make(parity_words())
    file = write(tmp_path / "test.csv", ["word,label", "1 0,odd", "1 1,even"])
    found = evaluation_source(file, source, "the network").sets[2]
    assert [word.tolist() for word in found.words] == [[1, 0], [1, 1]]
    assert [source.output_names[label[0]] for label in found.labels] == ["odd", "even"]
    with pytest.raises(WordsError, match="never occurs in the network"):
        evaluation_source(write(tmp_path / "o.csv", ["word,label", "2,odd"]), source, "the network")
