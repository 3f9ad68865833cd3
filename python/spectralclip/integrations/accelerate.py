# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: unscale, then clip, once per optimizer step.

The state needs nothing from here: ``accelerator.register_for_checkpointing(clipper)``.
"""

from __future__ import annotations

from typing import Optional

from ..clipper import SpectralClipper
from ..reports import StepReport

try:
    from accelerate import Accelerator
    from accelerate.utils import DistributedType
except ImportError as error:
    raise ImportError(
        "spectralclip.integrations.accelerate needs Accelerate, which is not installed: pip install accelerate"
    ) from error

__all__ = ["clip_gradients"]


def clip_gradients(accelerator: Accelerator, clipper: SpectralClipper) -> Optional[StepReport]:
    """Clips where ``accelerator.clip_grad_norm_`` stood: after ``accelerator.backward``, before ``optimizer.step``.

    Returns None, and does nothing, while gradients are still being accumulated.  Otherwise gradients are unscaled
    (mixed precision) and clipped, and the report is returned; its ``total_norm`` is the norm before clipping::

        with accelerator.accumulate(model):
            accelerator.backward(loss)
            report = clip_gradients(accelerator, clipper)
            optimizer.step()
            optimizer.zero_grad()
    """
    if not accelerator.sync_gradients:
        return None
    require_true_gradients(accelerator.distributed_type, accelerator.is_fsdp2)
    accelerator.unscale_gradients()
    return clipper.step()


def require_true_gradients(distributed_type: DistributedType, is_fsdp2: bool) -> None:
    """Refuses set-ups in which ``parameter.grad`` is not the gradient, nor a shard of it that knows its place (FSDP2):
    clipping it would be silently wrong."""
    if distributed_type == DistributedType.FSDP:
        if is_fsdp2:
            return
        raise RuntimeError(
            "FSDP of version 1 cuts flattened parameters without regard to rows and columns: there are no matrices to "
            "clip. Use FullyShardedDataParallelPlugin(fsdp_version=2), whose shards are clipped where they lie."
        )
    hidden = {DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM, DistributedType.XLA}
    if distributed_type in hidden:
        raise RuntimeError(
            f"spectral clipping needs the gradients in parameter.grad, and {distributed_type.value} keeps them to "
            "itself. Use a single process, DDP or FSDP2."
        )
