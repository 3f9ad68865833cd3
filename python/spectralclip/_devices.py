# SPDX-License-Identifier: Apache-2.0
"""Which clippers have kernels of their own for their gradients.  Triton is imported when it is asked for, or when
there is a device for it."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

import torch

from .options import Backend

if TYPE_CHECKING:
    from .triton.backend import TritonBackend

DEFAULT_COLUMNS = 16


@functools.lru_cache(maxsize=1)
def _triton_works() -> bool:
    """Whether there is a device for kernels, and Triton to make them."""
    has_device = torch.cuda.is_available() or (hasattr(torch, "xpu") and torch.xpu.is_available())
    return has_device and importlib.util.find_spec("triton") is not None


def require_triton() -> None:
    if importlib.util.find_spec("triton") is None:
        raise ValueError(
            'backend = "triton" needs the package triton, which GPU builds of torch bring; backend = "aten" does not'
        )


@dataclasses.dataclass(frozen=True)
class Options:
    """Of a clipper, beside what its core knows of its layers.  ``columns`` of a pass; None: not given."""

    columns: Optional[int] = None
    leave_all: bool = False
    raises: bool = False


def backend_of(
    backend: Backend, core: Any, parameters: Sequence[torch.Tensor], options: Options
) -> Optional[TritonBackend]:
    """The backend of the gradients that the core does not take; None: ATen operators take them.  ``core`` is None where
    parameters are split over ranks: those have a core of their own."""
    if core is None:
        if backend == "triton":
            raise ValueError('backend "triton" does not take gradients that are split over ranks; "auto" clips them')
        return None
    if backend != "triton":
        if options.columns is not None and backend != "auto":
            raise ValueError(f'device_columns is an option of backend "triton" and of "auto", not of "{backend}"')
        if backend != "auto" or not _triton_works():
            return None
    else:
        require_triton()
    from .triton.backend import TritonBackend
    from .triton.layers import layers_of, refusal

    columns = DEFAULT_COLUMNS if options.columns is None else options.columns
    if backend == "auto" and refusal(layers_of(core), columns) is not None:
        return None
    return TritonBackend(core, parameters, columns=columns, leave_all=options.leave_all, raises=options.raises)


def require_taken(name: str, gradient: torch.Tensor) -> None:
    """backend = "triton" was asked for by name, and this is none of its gradients."""
    if gradient.layout != torch.strided or gradient.numel() == 0:
        return  # left alone by every backend
    if gradient.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        reason = f"{gradient.dtype} has no kernels; float32, bfloat16 and float16 have"
    elif gradient.device.type == "cpu":
        reason = "kernels run on CPU tensors in Triton's interpreter only: TRITON_INTERPRET=1 before the first import"
    else:
        reason = f"{gradient.device.type} has none"
    raise ValueError(f'parameter "{name}": backend "triton" does not take its gradient: {reason}')


def total_of(norms: Sequence[torch.Tensor], first: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The norm over all of them, 0-d, where the first gradient lies."""
    squares = [norm.to(device=first.device, dtype=torch.float64).square() for norm in norms]
    return torch.stack(squares).sum().sqrt().to(dtype) if len(squares) > 1 else norms[0].to(first.device, dtype)


def promoted(gradients: Sequence[torch.Tensor]) -> torch.dtype:
    dtype = gradients[0].dtype
    for gradient in gradients[1:]:
        dtype = torch.promote_types(dtype, gradient.dtype)
    return dtype
