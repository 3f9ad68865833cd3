# SPDX-License-Identifier: Apache-2.0
"""Everything measured, as Markdown for the eye and JSON for the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import machine
from .contenders import NORM, Contender
from .dense_run import DenseContender
from .findings import Finding, number
from .set_run import SetResult
from .timing import deviation, median, paired_ratio, quantile
from .trainees import NONE
from .training import TrainingResult


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _mebibytes(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value / 2**20:.2g}"


def contender_facts(result: SetResult, contender: Contender | DenseContender) -> dict[str, object]:
    """The figures of one row.  Ratios are paired within rounds; a scaled contender has rounds of its own."""
    norm = result[NORM].ms
    whole = contender if isinstance(contender, Contender) else None
    return {
        "name": contender.name,
        "scaled": whole is None,
        "median_ms": median(contender.ms),
        "mad_ms": deviation(contender.ms) if len(contender.ms) > 1 else None,
        "ratio": paired_ratio(whole.ms, norm) if whole else median(contender.ms) / median(norm),
        "error_median": median(contender.errors) if contender.errors else None,
        "error_90": quantile(contender.errors, 0.9) if contender.errors else None,
        "verified_clips": len(contender.errors),
        "state_bytes": whole.state_bytes() if whole else None,
        "peak_bytes": None if math.isnan(contender.peak_bytes) else contender.peak_bytes,
        "clipped_share": median(whole.shares) if whole and whole.shares else None,
        "ms": contender.ms,
    }


def set_facts(result: SetResult) -> dict[str, object]:
    contenders: list[Contender | DenseContender] = [*result.contenders, *result.dense]
    return {
        "key": result.plan.key,
        "title": result.plan.title,
        "layers": result.layers,
        "entries": result.entries,
        "references": result.references,
        "contenders": [contender_facts(result, c) for c in contenders],
    }


def _set_row(facts: dict) -> list[str]:
    share = facts["clipped_share"]
    return [
        facts["name"] + ("*" if facts["scaled"] else ""),
        number(facts["median_ms"]),
        number(facts["mad_ms"]) if facts["mad_ms"] is not None else "one run",
        number(facts["ratio"]) + " x",
        number(facts["error_median"]),
        number(facts["error_90"]),
        str(facts["verified_clips"] or ""),
        _mebibytes(facts["state_bytes"]) if facts["state_bytes"] else "",
        _mebibytes(facts["peak_bytes"]),
        "" if share is None else f"{100 * share:.0f} %",
    ]


_SET_HEADER = (
    "contender", "ms", "MAD", "to clip_grad_norm_", "error, median", "error, 90 %", "of clips", "state, MiB",
    "peak, MiB", "layers clipped",
)  # fmt: skip


def set_lines(result: SetResult) -> list[str]:
    facts = set_facts(result)
    lines = [
        f"## {result.plan.title}: {result.layers} matrices, {result.entries / 1e6:.3g} M float32 entries",
        "",
        *_table(_SET_HEADER, [_set_row(row) for row in facts["contenders"]]),  # type: ignore[attr-defined]
        "",
        f"Errors: of the removed part against {result.references} float64 references. Peak: growth of the resident set "
        "in the first step, state included.",
    ]
    if result.dense:
        lines.append(
            "\\* timed on one layer of each shape, scaled by the count; peak of one layer. The soft clip is another "
            "operator and is judged by its own definition."
        )
    return [*lines, ""]


def training_facts(result: TrainingResult) -> dict[str, object]:
    rows = []
    for trainee in result.trainees:
        clips = trainee.name != NONE
        overhead, error = result.paired_overhead(trainee.name) if clips else (None, None)
        rows.append({
            "name": trainee.name,
            "median_ms": median(trainee.step_ms),
            "mad_ms": deviation(trainee.step_ms) if len(trainee.step_ms) > 1 else None,
            "clip_ms": median(trainee.clip_ms) if clips else None,
            "clip_ratio": result.clip_ratio(trainee.name) if clips else None,
            "clip_percent": result.clip_share(trainee.name) if clips else None,
            "paired_percent": overhead,
            "paired_percent_error": error if len(trainee.step_ms) > 1 else None,
            "error_median": median(trainee.errors) if trainee.errors else None,
            "error_90": quantile(trainee.errors, 0.9) if trainee.errors else None,
            "verified_clips": len(trainee.errors),
            "clipped_share": sum(trainee.shares) / len(trainee.shares) if trainee.shares else None,
            "loss": trainee.loss,
            "step_ms": trainee.step_ms,
            "clips_ms": trainee.clip_ms,
        })  # fmt: skip
    shape = result.options.shape
    return {
        "layers": shape.layers,
        "width": shape.width,
        "batch": result.options.batch,
        "context": shape.context,
        "parameters": result.parameters,
        "matrices": result.matrices,
        "rounds": result.options.rounds,
        "trainees": rows,
    }


def _training_row(row: dict) -> list[str]:
    percent, error = row["paired_percent"], row["paired_percent_error"]
    return [
        row["name"],
        number(row["median_ms"]),
        number(row["mad_ms"]) if row["mad_ms"] is not None else "one run",
        number(row["clip_ms"]),
        "" if row["clip_ratio"] is None else number(row["clip_ratio"]) + " x",
        "" if percent is None else f"{row['clip_percent']:.2f} %",
        "" if percent is None else f"{percent:+.2f} %" if error is None else f"{percent:+.2f} ± {error:.2f} %",
        number(row["error_median"]),
        number(row["error_90"]),
        str(row["verified_clips"] or ""),
        "" if row["clipped_share"] is None else f"{100 * row['clipped_share']:.0f} %",
    ]


_TRAINING_HEADER = (
    "contender", "step, ms", "MAD", "clip, ms", "to clip_grad_norm_", "clip, of the step", "step, paired difference",
    "error, median", "error, 90 %", "of clips", "matrices clipped",
)  # fmt: skip


def training_lines(result: TrainingResult) -> list[str]:
    facts = training_facts(result)
    title = "## Training step: {layers} x {width}, {batch} x {context} tokens, {parameters:,} parameters"
    return [
        title.format(**facts),
        "",
        *_table(_TRAINING_HEADER, [_training_row(row) for row in facts["trainees"]]),  # type: ignore[attr-defined]
        "",
        "The paired difference is the median over rounds, ± its standard error; the clip's own clock resolves more.",
        "",
    ]


def findings_lines(findings: Sequence[Finding], failures: Sequence[str], shown: int = 10) -> list[str]:
    rows = [[f.what, f"{number(f.value)} {f.unit}".strip(), f.bar_text(), f.verdict(), f.note] for f in findings]
    lines = ["## Findings", "", *_table(("what", "measured", "bar", "", "note"), rows), ""]
    lines += [f"FAILED: {failure}" for failure in failures[:shown]]
    if len(failures) > shown:
        lines.append(f"… and {len(failures) - shown} more")
    return lines + ([] if failures else ["Every timed contender was verified."])


def markdown(
    facts: dict, sets: Sequence[SetResult], training: TrainingResult | None, findings: Sequence[Finding],
    failures: Sequence[str],
) -> str:  # fmt: skip
    lines = ["# spectralclip beside its alternatives", "", machine.sentence(facts), ""]
    for result in sets:
        lines += set_lines(result)
    if training is not None:
        lines += training_lines(training)
    return "\n".join([*lines, *findings_lines(findings, failures)]) + "\n"
