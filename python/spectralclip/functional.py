# SPDX-License-Identifier: Apache-2.0
"""Stateless clipping: one matrix or a batch, and the drop-in for ``torch.nn.utils.clip_grad_norm_``."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Literal, Optional, Union

import torch

from . import _settings
from ._library import ops
from .reports import FIELDS, ClipReport

Method = Literal["exact", "gram", "sketched", "tracked", "newton_schulz", "auto"]
Backend = Literal["auto", "core", "aten"]
TensorOrTensors = Union[torch.Tensor, Iterable[torch.Tensor]]


def _reports(values: torch.Tensor, shape: torch.Size) -> ClipReport | list[ClipReport]:
    rows = [ClipReport.from_row(row) for row in values.tolist()]
    return rows[0] if len(shape) == 2 and rows else rows


def _clip_texts(
    method: Method, rank: Optional[int], oversampling: int, power_passes: int, seed: int, **more: object
) -> list[str]:
    named = {"method": method, "rank": rank, "oversampling": oversampling, "power_passes": power_passes, "seed": seed}
    return _settings.texts({**named, **more})


def clip_singular_values_(
    G: torch.Tensor,
    tau: float,
    *,
    method: Method = "tracked",
    rank: Optional[int] = None,
    oversampling: int = 5,
    power_passes: int = 1,
    seed: int = 0,
    backend: Backend = "auto",
    **more: object,
) -> ClipReport | list[ClipReport]:
    """Clamps the singular values of ``G`` at ``tau``, in place: sigma becomes min(sigma, tau).

    ``G`` is a matrix (m, n) or a batch (..., m, n).  Returns a report for a matrix and a list of them for a batch.
    Further options of the core (``tolerance``, ``max_passes``, ``max_columns``, ``exhausted``) go by keyword.

    >>> G = torch.diag(torch.tensor([3.0, 2.0, 0.5]))
    >>> report = clip_singular_values_(G, 1.0, method="exact")
    >>> report.clipped, [round(float(x), 3) for x in G.diagonal()]
    (2, [1.0, 1.0, 0.5])
    """
    settings = _clip_texts(method, rank, oversampling, power_passes, seed, **more)
    with torch.no_grad():
        return _reports(ops.clip_singular_values_(G, float(tau), settings, backend), G.shape)


def clip_singular_values(
    G: torch.Tensor,
    tau: float,
    *,
    method: Method = "tracked",
    rank: Optional[int] = None,
    oversampling: int = 5,
    power_passes: int = 1,
    seed: int = 0,
    backend: Backend = "auto",
    **more: object,
) -> tuple[torch.Tensor, ClipReport | list[ClipReport]]:
    """As :func:`clip_singular_values_`, of a copy: returns it with the report.

    >>> clipped, report = clip_singular_values(4 * torch.eye(3), 1.0, method="gram")
    >>> round(report.sigma_max, 3), bool(torch.allclose(clipped, torch.eye(3)))
    (4.0, True)
    """
    settings = _clip_texts(method, rank, oversampling, power_passes, seed, **more)
    with torch.no_grad():
        clipped, values = ops.clip_singular_values(G, float(tau), settings, backend)
        return clipped, _reports(values, G.shape)


def _listed(parameters: TensorOrTensors) -> list[torch.Tensor]:
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    is_generator = isinstance(parameters, types.GeneratorType)
    listed = list(parameters)
    if is_generator and not listed:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    return listed


def clip_grad_spectral_(
    parameters: TensorOrTensors,
    max_sigma: float,
    *,
    method: Method = "sketched",
    rank: Optional[int] = None,
    oversampling: int = 5,
    power_passes: int = 1,
    seed: int = 0,
    error_if_nonfinite: bool = False,
    foreach: Optional[bool] = None,
    backend: Backend = "auto",
    **more: object,
) -> torch.Tensor:
    """Clips the gradients of ``parameters`` in place where ``torch.nn.utils.clip_grad_norm_`` did: the singular values
    of each gradient matrix (tensors of more axes as (out, rest)) and the norm of each vector, at ``max_sigma``.

    Takes a tensor or any iterable of tensors; gradients that are None are ignored.  Returns the total norm *before*
    clipping, a 0-d tensor on the first gradient's device; ``tensor(0.)`` without gradients.  ``error_if_nonfinite``
    raises before anything is touched; otherwise a layer with NaN or Inf is left alone and the norm is not finite.
    ``foreach`` is accepted for the sake of the signature: equal shapes are batched on devices in any case.

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); w.grad = torch.diag(torch.tensor([3.0, 0.5]))
    >>> float(clip_grad_spectral_([w], 1.0)) > 3, [round(float(x), 3) for x in w.grad.diagonal()]
    (True, [1.0, 0.5])
    """
    gradients = [p.grad for p in _listed(parameters) if p.grad is not None]
    if not gradients:
        return torch.tensor(0.0)
    if foreach and any(g.device.type not in ("cpu", "cuda", "xpu", torch._C._get_privateuse1_backend_name()) for g in gradients):
        raise RuntimeError(f"foreach=True was passed, but can't use the foreach API on {gradients[0].device.type} tensors")
    settings = _clip_texts(method, rank, oversampling, power_passes, seed, **more)
    with torch.no_grad():
        return ops.clip_grads_(gradients, float(max_sigma), settings, backend, error_if_nonfinite)


# Shapes without data, for torch.compile and export.


def _rows(G: torch.Tensor) -> int:
    count = 1
    for extent in G.shape[:-2]:
        count *= extent
    return count


def _fake_norm(gradients: list[torch.Tensor]) -> torch.Tensor:
    if not gradients:
        return torch.zeros(())
    dtype = gradients[0].dtype
    for gradient in gradients[1:]:
        dtype = torch.promote_types(dtype, gradient.dtype)
    return gradients[0].new_empty((), dtype=dtype)


@torch.library.register_fake("spectralclip::clip_singular_values_")
def _(G, tau, settings, backend):
    return G.new_empty((_rows(G), len(FIELDS)), dtype=torch.float64)


@torch.library.register_fake("spectralclip::clip_singular_values")
def _(G, tau, settings, backend):
    return torch.empty_like(G), G.new_empty((_rows(G), len(FIELDS)), dtype=torch.float64)


@torch.library.register_fake("spectralclip::clip_grads_")
def _(gradients, max_sigma, settings, backend, error_if_nonfinite):
    return _fake_norm(gradients)


@torch.library.register_fake("spectralclip::clipper_step_")
def _(handle, gradients, numbers):
    return _fake_norm(gradients)
