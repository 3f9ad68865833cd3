# SPDX-License-Identifier: Apache-2.0
"""What of a parameter lies in this process, and with whom its sums are to be made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.tensor import DTensor


def is_distributed(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether one of them is a DTensor, without importing what only distributed programs need."""
    return any(hasattr(tensor, "device_mesh") and hasattr(tensor, "placements") for tensor in tensors)


def refuse_flat_parameters(model: Optional[nn.Module], parameters: Iterable[torch.Tensor]) -> None:
    """FSDP1 keeps many weights, cut anywhere, in one vector: no matrix is left to be clipped."""
    wrapped = model is not None and any(type(m).__name__ == "FullyShardedDataParallel" for m in model.modules())
    if wrapped or any(getattr(parameter, "_is_flat_param", False) for parameter in parameters):
        raise TypeError(
            "this model is wrapped by FullyShardedDataParallel (FSDP1), which cuts flattened parameters without regard "
            "to rows and columns: there are no matrices to clip. Use fully_shard (FSDP2) instead: "
            "torch.distributed.fsdp.fully_shard(module); Accelerate: FullyShardedDataParallelPlugin(fsdp_version=2); "
            "Lightning: ModelParallelStrategy."
        )


@dataclasses.dataclass(frozen=True)
class Layout:
    """``axis`` is split, ``extent`` indices from ``first`` on lie here; None where all of it does.  ``working`` are the
    placements under which it is clipped, if they are not its own."""

    shape: tuple[int, ...]
    axis: Optional[int] = None
    extent: int = 0
    first: int = 0
    ranks: tuple[int, ...] = ()
    working: Optional[tuple[Any, ...]] = None

    def numbers(self, group: int) -> list[int]:
        return [-1 if self.axis is None else self.axis, self.extent, self.first, group]


def layout_of(name: str, tensor: torch.Tensor) -> Layout:
    shape = tuple(tensor.shape)
    if not is_distributed([tensor]):
        return Layout(shape)
    distributed: DTensor = tensor  # type: ignore[assignment]
    mesh = distributed.device_mesh
    placements: tuple[Any, ...] = tuple(distributed.placements)
    split = {dim: p.dim % max(len(shape), 1) for dim, p in enumerate(placements) if _is_split(p)}
    if any(placement.is_partial() for placement in placements):
        raise ValueError(
            f"parameter {name!r} is a DTensor with placements {placements}: its values are not summed up yet"
        )
    if not split:
        return Layout(shape)
    axis = next(iter(split.values()))
    working = None
    if any(other != axis for other in split.values()):  # blocks: rows of the whole instead
        working = _along(axis, placements)
    extent, first = _part_of(distributed, axis, working)
    return Layout(shape, axis, extent, first, _ranks(mesh, list(split)), working)


def _part_of(tensor: Any, axis: int, working: Optional[tuple[Any, ...]]) -> tuple[int, int]:
    """How many indices of the axis lie here, and the first of them (of matters only for stacks of matrices)."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if working is None and (axis > 0 or tensor.dim() < 3):
        return int(tensor._local_tensor.shape[axis]), 0
    local, offset = compute_local_shape_and_global_offset(
        tuple(tensor.shape), tensor.device_mesh, working or tensor.placements
    )
    return int(local[axis]), int(offset[axis]) if local[axis] else 0


def _is_split(placement: Any) -> bool:
    return not placement.is_replicate() and not placement.is_partial()


def _along(axis: int, placements: Sequence[Any]) -> tuple[Any, ...]:
    from torch.distributed.tensor import Shard

    return tuple(Shard(axis) if _is_split(placement) else placement for placement in placements)


def _ranks(mesh: Any, dims: list[int]) -> tuple[int, ...]:
    """Global ranks that differ from this one in these dimensions of the mesh only."""
    here = mesh.get_coordinate()
    if here is None:
        raise ValueError("this process is no part of the device mesh of its parameters")
    index = tuple(slice(None) if dim in dims else here[dim] for dim in range(mesh.ndim))
    return tuple(sorted(int(rank) for rank in mesh.mesh[index].flatten()))


class Groups:
    """Process groups by their ranks: those of the meshes where there are any, new ones (made by all processes together,
    in the same order) for several dimensions at once."""

    def __init__(self) -> None:
        self.ranks: list[tuple[int, ...]] = []
        self.devices: list[torch.device] = []
        self.groups: list[Optional[ProcessGroup]] = []

    def add(self, group: ProcessGroup) -> None:
        from torch import distributed

        self.ranks.append(tuple(distributed.get_process_group_ranks(group)))
        self.groups.append(group)
        backend = distributed.get_backend(group)
        self.devices.append(torch.device("cuda" if backend == "nccl" else "cpu"))

    def number(self, layout: Layout, tensor: torch.Tensor) -> int:
        if layout.axis is None:
            return 0
        if layout.ranks not in self.ranks:
            mesh: Any = tensor.device_mesh  # type: ignore[attr-defined]
            self.ranks.append(layout.ranks)
            self.groups.append(_group_of(mesh, layout.ranks))
            self.devices.append(torch.device(mesh.device_type))
        return self.ranks.index(layout.ranks)


def _group_of(mesh: Any, ranks: tuple[int, ...]) -> Any:
    from torch import distributed

    for dim in range(mesh.ndim):
        if _ranks(mesh, [dim]) == ranks:
            return mesh.get_group(dim)
    if len(ranks) == distributed.get_world_size():
        return distributed.group.WORLD
    here = mesh.get_coordinate()
    dims = [dim for dim in range(mesh.ndim) if any(_ranks(mesh, [dim])[0] != r for r in _ranks(mesh, [dim]))]
    found = None  # every process makes every group, as torch asks for
    kept = [dim for dim in range(mesh.ndim) if not _within(mesh, dim, ranks)]
    for block in _blocks(mesh, kept):
        group = distributed.new_group(list(block))
        if tuple(block) == ranks:
            found = group
    assert found is not None, (here, dims)
    return found


def _within(mesh: Any, dim: int, ranks: tuple[int, ...]) -> bool:
    return set(_ranks(mesh, [dim])) <= set(ranks)


def _blocks(mesh: Any, kept: list[int]) -> list[tuple[int, ...]]:
    """The ranks of a mesh in blocks that have the same coordinates along the kept dimensions."""
    array = mesh.mesh.movedim(kept, list(range(len(kept))))
    flat = array.reshape(-1, *array.shape[len(kept) :]) if kept else array.unsqueeze(0)
    return sorted(tuple(sorted(int(rank) for rank in block.flatten())) for block in flat)
