# SPDX-License-Identifier: Apache-2.0
"""The report of a step as a flat dict of floats: what Trainer.log, log_dict, Accelerator.log, wandb and tensorboard
take.  A handful of summary numbers by default; values per layer only when asked for, so that boards are not flooded.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Union

from ..reports import ClipReport, LayerReport, StepReport

Report = Union[StepReport, Iterable[LayerReport]]
Log = Callable[[StepReport], dict[str, float]]

FIELDS: tuple[str, ...] = (
    "sigma_max", "tau", "clipped", "norm_before", "norm_after", "removed_energy", "sigma_bound", "error_estimate",
    "passes", "columns", "clipped_share", "steps_clipped",
)  # fmt: skip
"""What may be logged per layer."""

_COUNTED = ("not_finite", "rank_exhausted", "not_converged", "out_of_range")


def metrics(
    report: Report,
    prefix: str = "spectralclip/",
    layers: Union[str, Sequence[str]] = "*",
    every: int = 1,
    fields: Sequence[str] = (),
) -> dict[str, float]:
    """Numbers of one step, by name.  Empty on the steps that ``every`` leaves out.

    Summary, always over all layers that had a gradient:

    - ``total_norm``: norm of the whole gradient before clipping; ``norm_after``: after it
    - ``layers_clipped``: share of the layers that were clipped at this step; ``layers_clipped_so_far``: over all steps
    - ``layers_not_finite``, ``layers_rank_exhausted``, ``layers_not_converged``, ``layers_out_of_range``: how many
    - ``max_sigma_over_tau``: how far the worst layer stood above its threshold (0 while there is none)

    ``fields`` (see :data:`FIELDS`) adds ``<layer>/<field>`` for the layers whose names match the globs ``layers``;
    infinite values, such as tau before there is a threshold, are left out.  ``report`` may also be
    ``clipper.report()``, which is all there is when clipping happens inside backward.

    >>> import torch, spectralclip
    >>> model = torch.nn.Linear(4, 3)
    >>> clipper = spectralclip.SpectralClipper(model, threshold=0.1)
    >>> model(torch.ones(2, 4)).sum().backward()
    >>> found = metrics(clipper.step(), fields=["tau"], layers="w*")
    >>> found["spectralclip/layers_clipped"], found["spectralclip/weight/tau"], "spectralclip/bias/tau" in found
    (1.0, 0.1, False)
    """
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        raise ValueError(f"unknown fields {unknown}; known: {', '.join(FIELDS)}")
    if every < 1:
        raise ValueError(f"every = {every} must be at least 1")
    if every > 1 and _step(report) % every != 0:
        return {}

    with_gradient = [(layer, layer.clip) for layer in report if layer.clip is not None]
    watched = [(layer, clip) for layer, clip in with_gradient if layer.treatment != "skip"]
    steps = sum(layer.steps for layer, _ in watched)
    norm_before = _norm(clip.norm_before for _, clip in with_gradient)
    found = {
        "total_norm": float(getattr(report, "total_norm", norm_before)),
        "norm_after": _norm(clip.norm_after for _, clip in with_gradient),
        "layers_clipped": sum(clip.clipped > 0 for _, clip in watched) / max(len(watched), 1),
        "layers_clipped_so_far": sum(layer.steps_clipped for layer, _ in watched) / max(steps, 1),
        **{f"layers_{name}": float(sum(clip.status == name for _, clip in with_gradient)) for name in _COUNTED},
        "max_sigma_over_tau": max((_ratio(clip) for _, clip in watched), default=0.0),
    }
    globs = [layers] if isinstance(layers, str) else list(layers)
    for layer, _ in with_gradient if fields else ():
        if any(fnmatch.fnmatchcase(layer.name, glob) for glob in globs):
            values = {f"{layer.name}/{field}": float(getattr(layer, field)) for field in fields}
            found.update((name, value) for name, value in values.items() if not math.isinf(value))
    return {prefix + name: value for name, value in found.items()}


def _step(report: Report) -> int:
    return report.step if isinstance(report, StepReport) else max((layer.steps for layer in report), default=0)


def _norm(parts: Iterable[float]) -> float:
    return math.sqrt(sum(part**2 for part in parts))


def _ratio(clip: ClipReport) -> float:
    sigma_max, tau = clip.sigma_max, clip.tau
    if math.isnan(sigma_max):  # Not finite; counted as such, and max() must not depend on where NaN stands.
        return 0.0
    return sigma_max / tau if tau > 0 else (math.inf if sigma_max > 0 else 0.0)
