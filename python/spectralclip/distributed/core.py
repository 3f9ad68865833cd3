# SPDX-License-Identifier: Apache-2.0
"""The clipper's core over processes: local passes in C++, one sum over the ranks for each bucket of layers, decisions.

Sums of a bucket are under way while the next bucket works.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from .. import _settings
from .layout import Groups, Layout, is_distributed, layout_of


class ShardedCore:
    """Has the methods of ``torch.classes.spectralclip.Clipper``; its step wants the parameters instead of gradients."""

    def __init__(
        self,
        names: list[str],
        parameters: list[torch.Tensor],
        own: list[list[str]],
        settings: list[str],
        rules: list[list[str]],
        share: Any = None,
    ) -> None:
        self._groups = Groups()
        self._share = share
        if share is not None:
            self._groups.add(share)
        self._layouts: list[Layout] = []
        self.bytes_summed = 0
        shapes, shards = self._describe(names, parameters)
        self._made_of = [(list(names), shapes, own)]
        self._options = (settings, rules)
        self._core = torch.classes.spectralclip.ShardedClipper(names, shapes, shards, own, settings, rules)
        if share is not None:
            self._core.share_work(share.rank(), share.size())

    def _describe(self, names: list[str], parameters: list[torch.Tensor]) -> tuple[list[list[int]], list[list[int]]]:
        layouts = [layout_of(name, parameter) for name, parameter in zip(names, parameters)]
        shards = [
            layout.numbers(self._groups.number(layout, parameter)) for layout, parameter in zip(layouts, parameters)
        ]
        self._layouts += layouts
        return [list(layout.shape) for layout in layouts], shards

    # A step

    @torch.no_grad()
    def step(self, parameters: list[torch.Tensor]) -> torch.Tensor:
        self._require_presence_of_blocks(parameters)
        gradients, numbers, returns = [], [], []
        for number, (parameter, layout) in enumerate(zip(parameters, self._layouts)):
            if parameter.grad is None:
                continue
            gradient: Any = _laid_out_as(parameter)
            local = gradient
            if is_distributed([gradient]):
                worked: Any = gradient
                if layout.working is not None:
                    worked = worked.redistribute(placements=layout.working)
                    returns.append((number, gradient, worked))
                local = _local(worked)
            gradients.append(local)
            numbers.append(number)
        self._core.begin(gradients, numbers)
        while buckets := self._core.next():
            self._exchange(buckets)
        if self._share is not None:
            self._exchange_shares()
        total: torch.Tensor = self._core.finish()
        for number, gradient, worked in returns:
            if self._core.written(number):
                _local(gradient).copy_(_local(worked.redistribute(placements=gradient.placements)))
        return total

    def _exchange_shares(self) -> None:
        """What each process did to its layers, as padded bytes: directions and coefficients, reports, subspaces."""
        from torch import distributed

        device = self._groups.devices[0]
        own = self._core.share().to(device)
        count = self._share.size()
        lengths = torch.zeros(count, dtype=torch.int64, device=device)
        distributed.all_gather_into_tensor(lengths, torch.tensor([own.numel()], device=device), group=self._share)
        longest = int(lengths.max())
        padded = torch.zeros(longest, dtype=torch.uint8, device=device)
        padded[: own.numel()] = own
        everything = torch.zeros(count * longest, dtype=torch.uint8, device=device)
        distributed.all_gather_into_tensor(everything, padded, group=self._share)
        self.bytes_summed += 8 + longest
        for rank, length in enumerate(lengths.tolist()):
            if rank != self._share.rank():
                self._core.take_share(everything[rank * longest : rank * longest + length])

    def _exchange(self, buckets: int) -> None:
        from torch import distributed

        under_way = []
        for bucket in range(buckets):
            number = self._core.group(bucket)
            group = self._groups.groups[number] if self._groups.groups else None
            works = []
            for sums in self._core.run(bucket):
                if sums.numel() == 0 or group is None:
                    continue
                self.bytes_summed += sums.numel() * sums.element_size()
                device = self._groups.devices[number]
                sent = sums if device.type == "cpu" else sums.to(device)
                works.append((distributed.all_reduce(sent, group=group, async_op=True), sent, sums))
            under_way.append((bucket, works))
        for bucket, works in under_way:
            for work, sent, sums in works:
                work.wait()
                if sent is not sums:
                    sums.copy_(sent)
            self._core.give(bucket)

    def _require_presence_of_blocks(self, parameters: list[torch.Tensor]) -> None:
        """Blocks are laid out anew before the core can compare who has a gradient: all or none, said here."""
        from torch import distributed

        blocks = [number for number, layout in enumerate(self._layouts) if layout.working is not None]
        for ranks, group, device in zip(self._groups.ranks, self._groups.groups, self._groups.devices):
            own = [number for number in blocks if self._layouts[number].ranks == ranks]
            if not own:
                continue
            here = torch.tensor(
                [parameters[number].grad is not None for number in own], dtype=torch.int32, device=device
            )
            distributed.all_reduce(here, group=group)
            some = [number for number, count in zip(own, here.tolist()) if 0 < count < len(ranks)]
            if some:
                raise RuntimeError(f"ranks disagree about who has a gradient (parameters {some}); nothing was clipped")

    # The rest of the interface

    def step_parameter(self, number: int, gradient: torch.Tensor) -> None:
        raise RuntimeError(
            "gradients that are split over processes cannot be clipped inside backward (hook_each_parameter): the sums "
            "over ranks need all of them in the same order. Call step()."
        )

    def add_parameters(self, names: list[str], parameters: list[torch.Tensor], own: list[list[str]]) -> None:
        known = len(self._layouts)
        shapes, shards = self._describe(names, parameters)
        try:
            self._core.add_parameters(names, shapes, shards, own)
        except Exception:
            del self._layouts[known:]
            raise
        self._made_of.append((list(names), shapes, own))

    def handle(self) -> int:
        return -1  # no operator steps it: rounds are driven from here

    def report(self) -> Any:
        return self._core.report()

    def report_values(self) -> torch.Tensor:
        values: torch.Tensor = self._core.report()[4]
        return values

    def thresholds(self) -> list[str]:
        """In words, per layer: those that a clipper of whole parameters of these shapes has."""
        names = [name for part in self._made_of for name in part[0]]
        whole = [torch.empty(shape, device="meta") for part in self._made_of for shape in part[1]]
        own = [texts for part in self._made_of for texts in part[2]]
        found: list[str] = torch.classes.spectralclip.Clipper(names, whole, own, *self._options).thresholds()
        return found

    def hints(self) -> list[str]:
        return [""] * len(self._core.report()[0])

    def load_notes(self) -> list[str]:
        return []  # the sharded object keeps none

    def steps(self) -> int:
        return int(self._core.steps())

    def serialize(self) -> torch.Tensor:
        found: torch.Tensor = self._core.serialize()
        return found

    def deserialize(self, state: torch.Tensor) -> None:
        self._core.deserialize(state)


def group_to_share(wanted: Any) -> Any:
    """The process group whose members hold the same gradients, or None where nothing is shared."""
    if wanted is None or wanted is False:
        return None
    from torch import distributed

    if not distributed.is_initialized():
        raise ValueError("share_work needs an initialized process group (torch.distributed.init_process_group)")
    group: Any = distributed.group.WORLD if wanted is True else wanted
    return group if group.size() > 1 else None


def _local(tensor: Any) -> torch.Tensor:
    """The part that lies here, and its memory: no collective, no autograd."""
    local: Any = tensor._local_tensor
    waited: torch.Tensor = local.wait() if hasattr(local, "wait") and hasattr(local, "elem") else local
    return waited


def _laid_out_as(parameter: torch.Tensor) -> torch.Tensor:
    """The gradient with the parameter's placements: partial sums are reduced first, and that is kept."""
    gradient: Any = parameter.grad
    if not is_distributed([parameter]):
        return _local(gradient) if is_distributed([gradient]) else gradient
    target: Any = parameter
    if not is_distributed([gradient]):
        raise ValueError("a DTensor parameter has a gradient that is no DTensor")
    if tuple(gradient.placements) != tuple(target.placements):
        parameter.grad = gradient = gradient.redistribute(placements=target.placements)
    return gradient  # type: ignore[no-any-return]


_SPECTRAL = [["name_pattern=*", "max_dims=1", "treatment=norm"], ["name_pattern=*"]]


def clip_gradients(
    parameters: list[torch.Tensor], max_sigma: float, options: dict[str, Any], error_if_nonfinite: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`spectralclip.clip_grad_spectral_` where gradients are split over processes: the total norm of all, and
    the status of each."""
    settings = {"exhausted": "go_exact", **options}
    texts = [
        *_settings.texts({name: value for name, value in settings.items() if value is not None}, "clip."),
        *_settings.texts({"kind": "constant", "tau": float(max_sigma)}, "threshold."),
        *_settings.texts({
            "on_nonfinite": "leave_all" if error_if_nonfinite else "leave_layer",
            "error_if_nonfinite": error_if_nonfinite,
        }),
    ]  # fmt: skip
    names = [str(number) for number in range(len(parameters))]
    core = ShardedCore(names, parameters, [[] for _ in names], texts, _SPECTRAL)
    total = core.step(parameters)
    _, _, _, numbers, values = core.report()
    statuses = torch.zeros(len(names), dtype=torch.int64)
    status: Optional[float]
    for (owner, *_), (status, *_) in zip(numbers.tolist(), values.tolist()):
        statuses[owner] = 0 if status != status else max(int(statuses[owner]), int(status))
    return total, statuses
