# SPDX-License-Identifier: Apache-2.0
"""What a clip did.  Reports are numbers that stay on their device until somebody looks at them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional

import torch

from ._library import ops

if TYPE_CHECKING:
    from .clipper import SpectralClipper

STATUS = (
    "ok", "not_finite", "rank_exhausted", "factorization_failed", "not_converged", "out_of_range", "out_of_memory",
)  # fmt: skip
METHODS = ("exact", "gram", "sketched", "tracked", "newton_schulz", "auto")
BOUNDS = ("certain", "estimated")
FIELDS: tuple[str, ...] = tuple(ops.report_fields())


@dataclasses.dataclass(frozen=True)
class ClipReport:
    """One matrix, or a batch of them.  ``status`` "ok" is a promise: nothing above tau (1 + margin) is left, and the
    result is within 3 (tolerance ||D|| + margin tau) of the exact one, D being what that removes.

    ``sigma_bound`` is an upper bound on the largest singular value left: ``bound_kind`` "certain" when it follows from
    the energy that was not captured, "estimated" when from random probes (fails at most once in 1000).

    The report of a batch speaks of it as of one block-diagonal matrix: the largest ``sigma_max``, the sum of
    ``clipped``, the norm of everything, the worst ``status``.  The reports of its matrices are its items:
    ``report[3]``, ``len(report)``, ``for one in report``.  A single matrix is its own only item.
    """

    status: str
    method: str
    tau: float
    sigma_max: float
    clipped: int
    norm_before: float
    norm_after: float
    removed_energy: float
    sigma_bound: float
    bound_kind: str
    error_estimate: float
    passes: int
    columns: int
    batch: Optional[tuple[ClipReport, ...]] = dataclasses.field(default=None, repr=False)
    """Reports of the matrices of a batch, None of a single matrix."""

    @property
    def _each(self) -> tuple[ClipReport, ...]:
        return (self,) if self.batch is None else self.batch

    def __len__(self) -> int:
        return len(self._each)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[ClipReport]:
        return iter(self._each)

    def __getitem__(self, place: int) -> ClipReport:
        return self._each[place]

    @classmethod
    def from_row(cls, row: list[float]) -> ClipReport:
        values: dict[str, Any] = dict(zip(FIELDS, row))
        for name, names in (("status", STATUS), ("method", METHODS), ("bound_kind", BOUNDS)):
            values[name] = names[int(values[name])]
        for name in ("clipped", "passes", "columns"):
            values[name] = int(values[name])
        return cls(**values)

    @classmethod
    def from_row_or_none(cls, row: list[float]) -> Optional[ClipReport]:
        """None for the row of a layer that had no gradient, in which nothing is a number."""
        return None if all(math.isnan(value) for value in row) else cls.from_row(row)

    @classmethod
    def of_batch(cls, rows: list[list[float]], tau: float) -> ClipReport:
        """Of no matrix at all: nothing was there, and nothing clipped."""
        each = tuple(cls.from_row(row) for row in rows)
        if len(each) == 1:
            return each[0]
        methods = {one.method for one in each}
        before, after = (_root(getattr(one, name) for one in each) for name in ("norm_before", "norm_after"))
        return cls(
            status=max((one.status for one in each), key=_SEVERITY.index, default="ok"),
            method=methods.pop() if len(methods) == 1 else "auto",
            tau=tau,
            sigma_max=_largest(one.sigma_max for one in each),
            clipped=sum(one.clipped for one in each),
            norm_before=before,
            norm_after=after,
            removed_energy=max(0.0, 1 - (after / before) ** 2) if before > 0 else 0.0,
            sigma_bound=_largest(one.sigma_bound for one in each),
            bound_kind="estimated" if any(one.bound_kind == "estimated" for one in each) else "certain",
            error_estimate=_largest(one.error_estimate for one in each),
            passes=max((one.passes for one in each), default=0),
            columns=max((one.columns for one in each), default=0),
            batch=each,
        )


_SEVERITY = (
    "ok", "not_converged", "rank_exhausted", "out_of_range", "factorization_failed", "out_of_memory", "not_finite",
)  # fmt: skip


def _root(norms: Iterable[float]) -> float:
    return math.sqrt(sum(norm**2 for norm in norms))


def _largest(values: Iterable[float]) -> float:
    """NaN if one of them is."""
    found = list(values)
    return math.nan if any(math.isnan(value) for value in found) else max(found, default=0.0)


@dataclasses.dataclass(frozen=True)
class LayerReport:
    """One matrix of one parameter: what it is, which rule applied, and its latest clip (None without a gradient)."""

    name: str
    parameter: str
    shape: tuple[int, int]
    treatment: str
    rule: str
    steps: int
    steps_clipped: int
    clip: Optional[ClipReport]

    # The fields of the clip, read from the layer.  Without a gradient numbers are NaN, counts 0, words None.

    @property
    def status(self) -> Optional[str]:
        return None if self.clip is None else self.clip.status

    @property
    def method(self) -> Optional[str]:
        return None if self.clip is None else self.clip.method

    @property
    def tau(self) -> float:
        return math.nan if self.clip is None else self.clip.tau

    @property
    def sigma_max(self) -> float:
        return math.nan if self.clip is None else self.clip.sigma_max

    @property
    def clipped(self) -> int:
        return 0 if self.clip is None else self.clip.clipped

    @property
    def norm_before(self) -> float:
        return math.nan if self.clip is None else self.clip.norm_before

    @property
    def norm_after(self) -> float:
        return math.nan if self.clip is None else self.clip.norm_after

    @property
    def removed_energy(self) -> float:
        return math.nan if self.clip is None else self.clip.removed_energy

    @property
    def sigma_bound(self) -> float:
        return math.nan if self.clip is None else self.clip.sigma_bound

    @property
    def bound_kind(self) -> Optional[str]:
        return None if self.clip is None else self.clip.bound_kind

    @property
    def error_estimate(self) -> float:
        return math.nan if self.clip is None else self.clip.error_estimate

    @property
    def passes(self) -> int:
        return 0 if self.clip is None else self.clip.passes

    @property
    def columns(self) -> int:
        return 0 if self.clip is None else self.clip.columns

    @property
    def clipped_share(self) -> float:
        """How often this layer was clipped, in [0, 1]."""
        return self.steps_clipped / self.steps if self.steps else 0.0


def layer_reports(of_core: Any, parameters: Sequence[str]) -> list[LayerReport]:
    """What the core returns, in objects.  ``parameters``: their names."""
    names, treatments, rules, numbers, values = of_core
    return [
        LayerReport(
            name=name,
            parameter=parameters[owner],
            shape=(m, n),
            treatment=treatment,
            rule=rule,
            steps=steps,
            steps_clipped=clipped,
            clip=ClipReport.from_row_or_none(row),
        )
        for name, treatment, rule, (owner, m, n, steps, clipped), row in zip(
            names, treatments, rules, numbers.tolist(), values.tolist()
        )
    ]


Moment = tuple[int, int]
"""Steps of a clipper and changes outside of steps: the reports that a clipper holds belong to one of them."""


class StepReport:
    """A step.  ``total_norm``, the norm before clipping, is a 0-d tensor that stays on its device; everything else is
    fetched from the clipper, and kept, when first asked for.

    That must be before the clipper goes on: afterwards it raises RuntimeError instead of speaking of another step.
    Inside torch.compile ``step`` is not known (-1), and the report speaks of the latest step.

    >>> from spectralclip import SpectralClipper
    >>> layer = torch.nn.Linear(2, 2, bias=False)
    >>> clipper = SpectralClipper(layer, threshold=1.0)
    >>> layer.weight.grad = torch.diag(torch.tensor([3.0, 4.0]))
    >>> report = clipper.step()
    >>> report.step, float(report.total_norm), report.clipped, round(report.norm_after, 3)
    (1, 5.0, ['weight'], 1.414)
    >>> [(layer.name, layer.tau, round(layer.sigma_max, 3)) for layer in report]
    [('weight', 1.0, 4.0)]
    """

    def __init__(self, clipper: SpectralClipper, total_norm: torch.Tensor, moment: Optional[Moment]) -> None:
        self._clipper = clipper
        self.total_norm = total_norm
        self.step = -1 if moment is None else moment[0]
        self._moment = moment
        self._layers: Optional[list[LayerReport]] = None

    def _is_late(self) -> bool:
        return self._layers is None and self._moment is not None and self._moment != self._clipper._moment()

    @property
    def layers(self) -> list[LayerReport]:
        if self._is_late():
            raise RuntimeError(
                f"this is the report of step {self.step}, and its clipper has gone on (step {self._clipper.steps}). "
                "Read a report before the next step; what was read once, such as report.layers, stays."
            )
        if self._layers is None:
            self._layers = self._clipper.report()
        return self._layers

    def _with_status(self, status: str) -> list[str]:
        return [layer.name for layer in self.layers if layer.clip is not None and layer.clip.status == status]

    @property
    def clipped(self) -> list[str]:
        """Names of the layers that were clipped."""
        return [layer.name for layer in self.layers if layer.clip is not None and layer.clip.clipped > 0]

    @property
    def not_finite(self) -> list[str]:
        """Names of the layers with NaN or Inf; they were left alone and their thresholds learnt nothing."""
        return self._with_status("not_finite")

    @property
    def rank_exhausted(self) -> list[str]:
        """Names of the layers in which as many values were lowered as the rank allows; others above tau may remain."""
        return self._with_status("rank_exhausted")

    @property
    def not_converged(self) -> list[str]:
        """Names of the layers whose budget of passes was used up; something above tau may remain."""
        return self._with_status("not_converged")

    @property
    def out_of_range(self) -> list[str]:
        """Names of the layers that were left alone because their norm or sigma_max is beyond the largest float64."""
        return self._with_status("out_of_range")

    @property
    def out_of_memory(self) -> list[str]:
        """Names of the layers that were left alone because memory ran out."""
        return self._with_status("out_of_memory")

    @property
    def norm_after(self) -> float:
        return math.sqrt(sum(layer.clip.norm_after**2 for layer in self.layers if layer.clip is not None))

    def __iter__(self) -> Iterator[LayerReport]:
        return iter(self.layers)

    def __repr__(self) -> str:
        clipped = "unread" if self._is_late() else len(self.clipped)
        return f"StepReport(step={self.step}, total_norm={float(self.total_norm):.4g}, clipped={clipped})"
