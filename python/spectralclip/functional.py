# SPDX-License-Identifier: Apache-2.0
"""Stateless clipping: one matrix or a batch, and the drop-in for ``torch.nn.utils.clip_grad_norm_``."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional, Union

import torch

from . import _devices, _fakes, _settings, distributed  # noqa: F401  (_fakes: torch.compile looks them up)
from ._library import ops
from .options import Backend, ClipOptions
from .reports import STATUS, ClipReport

if TYPE_CHECKING:
    from typing_extensions import Unpack

TensorOrTensors = Union[torch.Tensor, Iterable[torch.Tensor]]


def clip_singular_values_(
    G: torch.Tensor, tau: float, *, backend: Backend = "auto", **options: Unpack[ClipOptions]
) -> ClipReport:
    """Clamps the singular values of ``G`` at ``tau``, in place: sigma becomes min(sigma, tau).

    ``G`` is a matrix (m, n) or a batch (..., m, n), whose report speaks of the whole and holds one for each matrix;
    matrices without entries have none.  ``options`` are those of :class:`ClipOptions`.

    >>> G = torch.diag(torch.tensor([3.0, 2.0, 0.5]))
    >>> report = clip_singular_values_(G, 1.0, method="exact")
    >>> report.clipped, [round(float(x), 3) for x in G.diagonal()]
    (2, [1.0, 1.0, 0.5])
    """
    with torch.no_grad():
        if backend == "triton":
            rows = _kernels().clip_matrices(G, float(tau), options)
        else:
            rows = ops.clip_singular_values_(G, float(tau), _settings.texts(options), backend)
        return ClipReport.of_batch(rows.tolist(), float(tau))


def clip_singular_values(
    G: torch.Tensor, tau: float, *, backend: Backend = "auto", **options: Unpack[ClipOptions]
) -> tuple[torch.Tensor, ClipReport]:
    """As :func:`clip_singular_values_`, of a copy: returns it with the report.

    >>> clipped, report = clip_singular_values(4 * torch.eye(3), 1.0, method="gram")
    >>> round(report.sigma_max, 3), bool(torch.allclose(clipped, torch.eye(3)))
    (4.0, True)
    """
    if backend == "triton":
        copied = G.detach().clone()
        return copied, clip_singular_values_(copied, tau, backend=backend, **options)
    with torch.no_grad():
        clipped, rows = ops.clip_singular_values(G, float(tau), _settings.texts(options), backend)
        return clipped, ClipReport.of_batch(rows.tolist(), float(tau))


def _kernels() -> types.ModuleType:
    _devices.require_triton()
    from .triton import functional

    return functional


def _listed(parameters: TensorOrTensors) -> list[torch.Tensor]:
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    if isinstance(parameters, (torch.nn.Module, torch.optim.Optimizer)) or not isinstance(parameters, Iterable):
        hint = ": model.parameters()" if isinstance(parameters, torch.nn.Module) else ""
        raise TypeError(f"parameters must be a tensor or an iterable of tensors, not {type(parameters).__name__}{hint}")
    is_generator = isinstance(parameters, types.GeneratorType)
    listed = list(parameters)
    for item in listed:
        if not isinstance(item, torch.Tensor):
            raise TypeError(f"parameters must be tensors, not {type(item).__name__}: model.parameters(), perhaps?")
    if is_generator and not listed:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    return listed


def _require_foreach(gradients: list[torch.Tensor]) -> None:
    """As torch's own clip does on devices for which it has no foreach operators."""
    known = ("cpu", "cuda", "xpu", torch._C._get_privateuse1_backend_name())
    for device in (gradient.device.type for gradient in gradients):
        if device not in known:
            raise RuntimeError(f"foreach=True was passed, but can't use the foreach API on {device} tensors")


def clip_grad_spectral_(
    parameters: TensorOrTensors,
    max_sigma: float,
    *,
    error_if_nonfinite: bool = False,
    foreach: Optional[bool] = None,
    backend: Backend = "auto",
    **options: Unpack[ClipOptions],
) -> torch.Tensor:
    """Clips the gradients of ``parameters`` in place where ``torch.nn.utils.clip_grad_norm_`` did: the singular values
    of each gradient matrix (tensors of more axes as (out, rest)) and the norm of each vector, at ``max_sigma``.

    Takes a tensor or any iterable of tensors; gradients that are None are ignored.  Returns the total norm *before*
    clipping, a 0-d tensor on the first gradient's device; ``tensor(0.)`` without gradients.  ``error_if_nonfinite``
    raises before anything is touched; otherwise a layer with NaN or Inf is left alone and the norm is not finite.
    ``foreach`` is accepted for the sake of the signature: equal shapes are batched on devices in any case.
    ``options`` are those of :class:`ClipOptions`.  By default nothing above max_sigma (1 + margin) is left, whatever
    the spectrum (on a device that takes a look, which waits for it).  A ``rank``, ``method="sketched"`` or
    ``exhausted="report"`` may leave more, and then a warning names the parameters.

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); w.grad = torch.diag(torch.tensor([3.0, 0.5]))
    >>> float(clip_grad_spectral_([w], 1.0)) > 3, [round(float(x), 3) for x in w.grad.diagonal()]
    (True, [1.0, 0.5])
    """
    everything = _listed(parameters)
    with_gradient = [(i, p.grad) for i, p in enumerate(everything) if p.grad is not None]
    gradients = [gradient for _, gradient in with_gradient]
    if not gradients and not distributed.is_distributed(everything):
        return torch.tensor(0.0)
    if foreach:
        _require_foreach(gradients)
    total_norm: torch.Tensor
    with torch.no_grad():
        if distributed.is_distributed(everything):
            total_norm, statuses = distributed.clip_gradients(everything, max_sigma, dict(options), error_if_nonfinite)
        elif backend == "triton":
            total_norm, statuses = _kernels().clip_gradients(gradients, float(max_sigma), options, error_if_nonfinite)
        else:
            total_norm, statuses = ops.clip_grads_(
                gradients, float(max_sigma), _settings.texts(options), backend, error_if_nonfinite
            )
    if _may_leave_some(options) and not torch.compiler.is_compiling():
        told = statuses[[i for i, _ in with_gradient]] if len(statuses) == len(everything) else statuses
        _warn_of_leftovers([i for i, _ in with_gradient], gradients, told.tolist(), max_sigma, options)
    return total_norm


def _may_leave_some(options: ClipOptions) -> bool:
    limited = options.get("method") == "sketched" or options.get("rank") is not None
    return limited or options.get("exhausted") == "report"


def _warn_of_leftovers(
    places: list[int], gradients: list[torch.Tensor], statuses: list[int], max_sigma: float, options: ClipOptions
) -> None:
    """One warning a call.  ``sketched`` is "not_converged" wherever it cannot prove more: that is no news."""
    telling = {"rank_exhausted"} if options.get("method") == "sketched" else {"rank_exhausted", "not_converged"}
    left = [
        f"parameter {place} {tuple(gradient.shape)}: {STATUS[status]}"
        for place, gradient, status in zip(places, gradients, statuses)
        if STATUS[status] in telling
    ]
    if left:
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        warnings.warn(
            f"singular values above max_sigma = {max_sigma:g} may remain ({'; '.join(left[:3])}{more}): a larger rank, "
            'or the defaults (method="auto", no rank), would clip them all',
            stacklevel=3,
        )
