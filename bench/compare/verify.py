# SPDX-License-Identifier: Apache-2.0
"""The proof that a contender did its work, before its time counts.

Every layer: tau follows from the known past, as many directions were clipped as stand above it, and a layer with none
is unchanged bit for bit.  Layers with a float64 reference: the removed part is the right one.
"""

from __future__ import annotations

import math

import torch

from .contenders import EMA_DECAY, Contender, LayerResult, always_tau
from .gradients import VARIANTS, Layer, LayerSet
from .reference import Pair, Reference
from .rivals import RANK

TAU_TOLERANCE = 1e-3  # tau is an average of past sigma_max, and those are estimates
# Beyond a contender's `wrong_share` of its norm a removed part is wrong, not inaccurate (accuracy has its own bar in
# the findings); beside it a share of tau is allowed, for the case that hardly anything was above.
TAU_SHARE = 1e-3
MARGIN = 1e-3  # the default of spectralclip's option: "ok" promises no more than tau (1 + margin)


def expected_tau(contender: Contender, layer: Layer, step: int) -> float:
    """From the sigma_max that the layer is known to have had in steps 0 to step - 1."""
    if contender.task == "always":
        return always_tau(layer)
    average = 0.0
    for past in range(step):
        average = EMA_DECAY * average + (1 - EMA_DECAY) * layer.sigma_max(past % VARIANTS)
    return average / (1 - EMA_DECAY**step)


def expected_clipped(contender: Contender, layer: Layer, variant: int) -> int:
    if contender.task == "always":
        return RANK
    return layer.directions if layer.loud[variant] else 0


def removed_error(
    reference: Reference, before: torch.Tensor, after: torch.Tensor, tau: float, wrong_share: float
) -> tuple[float, bool]:
    """Relative error of the removed part, and whether it is small enough to be called right."""
    distance, size = reference.distance(before, after, tau), reference.removed_norm(tau)
    right = distance <= wrong_share * size + TAU_SHARE * tau + reference.rounding()
    return (distance / size if size > 0 else math.nan), right  # a NaN distance is not right


def _check_claims(contender: Contender, layer: Layer, step: int, result: LayerResult) -> str | None:
    tau, clipped = expected_tau(contender, layer, step), expected_clipped(contender, layer, step % VARIANTS)
    # A fixed rank that is used up says so, unless no eleventh value can be above tau.
    allowed = (None, "ok", "rank_exhausted") if contender.task == "always" else (None, "ok")
    if not abs(result.tau - tau) <= TAU_TOLERANCE * tau:
        return f"tau = {result.tau:.6g} instead of {tau:.6g}"
    least = clipped - contender.may_miss if contender.task == "always" else clipped
    if not least <= result.clipped <= clipped:
        return f"{result.clipped} directions clipped instead of {clipped}"
    if result.status not in allowed:
        return f"status {result.status}"
    if clipped == 0 and not torch.equal(layer.result, layer.master[step % VARIANTS]):
        return "changed though nothing was above tau"
    return None


def _check_promise(
    contender: Contender, reference: Reference, layer: Layer, step: int, result: LayerResult
) -> str | None:
    """Status ok is a promise: what is left is within 3 (tolerance ||D|| + margin tau) of C_tau(G), D being what that
    removes; rounding aside."""
    if result.status != "ok":
        return None
    distance = reference.distance(layer.master[step % VARIANTS], layer.result, result.tau)
    allowed = 3 * (contender.tolerance * reference.removed_norm(result.tau) + MARGIN * result.tau)
    allowed += reference.rounding()
    return None if distance <= allowed else f"ok, but {distance / allowed:.3g} times as far off as that allows"


def _check_norm(set_: LayerSet, step: int) -> list[str]:
    """Every layer is the same multiple of what it was, below one."""
    factors = []
    for layer in set_.layers:
        before, after = layer.master[step % VARIANTS], layer.result
        factor = float(torch.sum(before.double() * after) / torch.sum(before.double().square()))
        factors.append(factor)
        if not torch.allclose(after, before * factor, rtol=1e-5, atol=0):
            return [f"{layer.name}: not a multiple of what it was"]
    if not (max(factors) < 1 and max(factors) - min(factors) <= 1e-5):
        return [f"factors from {min(factors)} to {max(factors)}: not one factor below one"]
    return []


def verify_step(set_: LayerSet, contender: Contender, step: int, references: dict[Pair, Reference]) -> list[str]:
    """Judges the gradients as the contender left them after step `step`; adds to its errors.  Returns what is wrong."""
    if contender.task == "norm":
        return [f"{contender.name}, {what}" for what in _check_norm(set_, step)]
    wrong = []
    results = contender.results()
    if len(results) != len(set_.layers):
        return [f"{contender.name}: {len(results)} results for {len(set_.layers)} layers"]
    for number, (layer, result) in enumerate(zip(set_.layers, results)):
        what = _check_claims(contender, layer, step, result)
        reference = references.get((number, step % VARIANTS))
        if reference is not None and expected_clipped(contender, layer, step % VARIANTS) > 0:
            before = layer.master[step % VARIANTS]
            error, right = removed_error(reference, before, layer.result, result.tau, contender.wrong_share)
            contender.errors.append(error)
            what = what or (None if right else f"removed part wrong by {error:.3g}")
            what = what or _check_promise(contender, reference, layer, step, result)
        if what is not None:
            wrong.append(f"{contender.name}, {layer.name}, step {step}: {what}")
    return wrong


def verify_references(set_: LayerSet, references: dict[Pair, Reference]) -> list[str]:
    """The references must find the spectrum that the gradients were made with."""
    wrong = []
    for (number, variant), reference in references.items():
        made = torch.tensor(set_.layers[number].sigma(variant), dtype=torch.float64).sort(descending=True).values
        if not (reference.sigma - made).abs().max() <= 1e-5 * made[0] + reference.rounding():
            wrong.append(f"reference of {set_.layers[number].name}, step {variant}: not the spectrum it was made with")
    return wrong
