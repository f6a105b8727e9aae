"""All runs of a store as one block of JSON that a page can hold."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from statewise.report.certified import RunVerdict
from statewise.report.entries import Entry, judged_at
from statewise.runs.record import Record

# inside a script element these would end it, or begin a comment
_UNSAFE = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def listing(entries: Sequence[Entry], verdicts: Mapping[str, RunVerdict] | None = None) -> Markup:
    """Write runs compactly: what most configs share is written once, and each run has what is its own.

    Args:
        entries: the runs.
        verdicts: by key, what is decided of them.
    """
    configs = [entry.options.to_dict() for entry in entries]
    common = _most_frequent(configs)
    versions: dict[str, int] = {}
    rows = [_row(entry, config, common, versions) for entry, config in zip(entries, configs, strict=True)]
    for row in rows:
        if verdicts is not None and row["k"] in verdicts:
            row["w"] = str(verdicts[row["k"]])
    far = judged_at(entry.scores for entry in entries)
    text = json.dumps(
        {"common": common, "made": list(versions), "runs": rows, "far": far},
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    return Markup(text.translate(_UNSAFE))


def made_with(record: Record) -> str:
    """Write with what a run was made: versions, and the commit of the source."""
    parts = [f"{name} {version}" for name, version in record.versions.items()]
    return ", ".join([*parts, f"commit {record.commit[:12]}"] if record.commit else parts)


def moment_of(record: Record) -> str | None:
    """Write when a run finished, in UTC, where that was recorded."""
    return time_text(record.finished)


def time_text(seconds: float | None) -> str | None:
    """Write a time in seconds since 1970, in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _most_frequent(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return each option's most frequent value."""
    counts: dict[str, Counter[str]] = {}
    for config in configs:
        for name, value in config.items():
            counts.setdefault(name, Counter())[json.dumps(value)] += 1
    return {name: json.loads(counter.most_common(1)[0][0]) for name, counter in counts.items()}


def _row(
    entry: Entry, config: Mapping[str, Any], common: Mapping[str, Any], versions: dict[str, int]
) -> dict[str, Any]:
    record, inside = entry.record, entry.record.in_distribution
    row = {
        "k": entry.key,
        "s": entry.status,
        "c": {name: value for name, value in config.items() if value != common[name]},
        # options that most configs have and this one has not
        "x": [name for name in common if name not in config],
        "r": {str(length): round(score, 6) for length, score in entry.scores.items()},
        # the best constant answers beside them
        "b": {str(length): round(constant, 6) for length, constant in entry.constants.items()},
        "i": None if entry.score_id is None else round(entry.score_id, 6),
        "j": None if inside is None or inside.measured_constant is None else round(inside.constant, 6),
        "l": None if record.loss is None else float(f"{record.loss:.4g}"),
        "n": None if record.status == "failed" else record.steps,
        "t": record.seconds,
        "p": record.parameters,
        "v": versions.setdefault(made_with(record), len(versions)),
        "f": moment_of(record),
        "e": record.reason,
    }
    return {name: value for name, value in row.items() if value not in (None, [], {})}
