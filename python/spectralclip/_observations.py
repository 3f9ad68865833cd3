# SPDX-License-Identifier: Apache-2.0
"""sigma_max of every layer over the latest steps, left on its device until somebody asks."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any, Optional

import torch

LONGEST = 10_000
"""Steps that are kept: 80 KB a layer."""


class Observations:
    def __init__(self) -> None:
        self._rows: collections.deque[torch.Tensor] = collections.deque(maxlen=LONGEST)
        self._open: Optional[torch.Tensor] = None  # a row that backward fills layer by layer

    def add(self, sigma_max: torch.Tensor) -> None:
        """A step: one value a layer, NaN without a gradient."""
        self._rows.append(sigma_max.detach().clone())

    def add_some(self, sigma_max: torch.Tensor, layers: slice) -> None:
        """Of these layers alone; a layer that comes a second time begins a new step."""
        if self._open is None or len(self._open) != len(sigma_max) or not self._open[layers].isnan().all():
            self._open = torch.full_like(sigma_max, torch.nan)
            self._rows.append(self._open)
        self._open[layers] = sigma_max[layers]

    def __len__(self) -> int:
        return len(self._rows)

    def matrix(self, layers: int) -> torch.Tensor:
        """steps x layers, float64; layers that came later are NaN before."""
        full = torch.full((len(self._rows), layers), torch.nan, dtype=torch.float64)
        for place, row in enumerate(self._rows):
            full[place, : len(row)] = row.to("cpu", torch.float64)
        return full

    def state(self, names: list[str]) -> dict[str, Any]:
        return {"layers": names, "sigma_max": self.matrix(len(names)).numpy().tobytes()}

    def load(self, state: Optional[Mapping[str, Any]], names: list[str]) -> None:
        """What another run saw; nothing where it saw nothing."""
        self._rows.clear()
        self._open = None
        if state is None or not state["sigma_max"]:
            return
        values = torch.frombuffer(bytearray(state["sigma_max"]), dtype=torch.float64)
        saved = {name: column for column, name in enumerate(state["layers"])}
        table = values.view(-1, len(saved))
        order = [saved[name] for name in names if name in saved]
        if len(order) == len(names):
            self._rows.extend(table[:, order].unbind())
