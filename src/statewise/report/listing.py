"""All runs of a store as one block of JSON that a page can hold."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from statewise.report.entries import Run, judged_at

# inside a script element these would end it, or begin a comment
_UNSAFE = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def listing(runs: Sequence[Run]) -> Markup:
    """Writes runs compactly: what most configs share is written once, and each run says what is its own."""
    common = _common([run.config for run in runs])
    made_by: dict[str, int] = {}
    rows = [_row(run, common, made_by) for run in runs]
    text = json.dumps(
        {"common": common, "made": list(made_by), "runs": rows, "far": judged_at(run.scores for run in runs)},
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    return Markup(text.translate(_UNSAFE))


def made_by(run: Run) -> str:
    """Tells with what a run was made: versions, and the commit of the source."""
    versions = run.record.get("versions") or {}
    commit = run.record.get("commit")
    parts = [f"{name} {version}" for name, version in versions.items()]
    return ", ".join([*parts, f"commit {str(commit)[:12]}"] if commit else parts)


def moment_of(run: Run) -> str | None:
    """Tells when a run finished, in UTC, where that was recorded."""
    finished = run.record.get("finished")
    if isinstance(finished, int | float) and math.isfinite(finished):
        return datetime.fromtimestamp(finished, UTC).strftime("%Y-%m-%d %H:%M")
    return str(finished)[:16].replace("T", " ") if finished else None


def _common(configs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Gives each key's most frequent value."""
    counts: dict[str, Counter[str]] = {}
    for config in configs:
        for name, value in config.items():
            counts.setdefault(name, Counter())[json.dumps(_finite(value))] += 1
    return {name: json.loads(counter.most_common(1)[0][0]) for name, counter in counts.items()}


def _row(run: Run, common: dict[str, Any], made: dict[str, int]) -> dict[str, Any]:
    own = {name: value for name, value in _finite(run.config).items() if value != common[name]}
    record = run.record
    row = {
        "k": run.key,
        "s": run.status,
        "c": own,
        # keys that most configs have and this one has not
        "x": [name for name in common if name not in run.config],
        "r": {str(length): round(score, 6) for length, score in run.scores.items()},
        "i": None if run.near is None else round(run.near, 6),
        "l": _short(record.get("loss")),
        "n": record.get("steps"),
        "t": record.get("seconds"),
        "p": record.get("parameters"),
        "v": made.setdefault(made_by(run), len(made)),
        "f": moment_of(run),
        "e": record.get("reason"),
    }
    return {name: _finite(value) for name, value in row.items() if value not in (None, [], {})}


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) and math.isfinite(value) else None


def _finite(value: Any) -> Any:
    """Replaces what JSON has no word for."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
