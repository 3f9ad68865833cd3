# SPDX-License-Identifier: Apache-2.0
"""The parameters of a clipper, and what becomes of them: a module and an optimizer's groups are followed where their
parameters are replaced or added to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

import torch
from torch import nn

from ._parameters import Entry, Model, Thresholds, entries_of, once_each


class Watch:
    """Whether a module, or a list of parameter groups, still has the parameters and submodules it had when
    :meth:`note` was called last.  A look at the modules known, no walk through the model: 30 us for GPT-2."""

    def __init__(self, model: Model) -> None:
        self._model = model if isinstance(model, nn.Module) else None
        groups = model if isinstance(model, list) and all(isinstance(item, dict) for item in model) else []
        self._groups: list[Mapping[str, Any]] = groups
        self._modules: list[nn.Module] = []
        self._seen: list[object] = []
        self._addresses: Optional[list[int]] = None  # nothing was noted yet: a model that is just being made or copied

    def note(self) -> None:
        self._modules = list(self._model.modules()) if self._model is not None else []
        self._seen = self._now()  # the objects themselves: an address alone may be taken by another one
        self._addresses = [id(item) for item in self._seen]

    def changed(self) -> bool:
        return self._addresses is None or self._addresses != [id(item) for item in self._now()]

    def _now(self) -> list[object]:
        inside = [item for m in self._modules for item in (*m._parameters.values(), *m._modules.values())]
        return inside + [p for group in self._groups for p in group["params"]]


@dataclasses.dataclass
class Changes:
    """``replaced``: numbers of parameters that are other tensors now; ``reshaped``: in words; ``added``: new ones, not
    taken up yet."""

    replaced: list[int] = dataclasses.field(default_factory=list)
    reshaped: list[str] = dataclasses.field(default_factory=list)
    added: list[Entry] = dataclasses.field(default_factory=list)


class Followed:
    """Names, parameters and settings of their own, each parameter once, in the order of the clipper."""

    def __init__(self, model: Model, defaults: Mapping[str, object], thresholds: Optional[Thresholds]) -> None:
        self.model = model
        self._defaults, self._thresholds = defaults, thresholds
        self.names: list[str] = []
        self.parameters: list[torch.Tensor] = []
        self.own: list[list[str]] = []
        self.gone: set[int] = set()  # numbers of those that the model no longer has
        self._others: set[int] = set()  # … and of those that were never of this model
        self._watch = Watch(model)

    def entries(self, model: Optional[Model] = None) -> list[Entry]:
        """All that ``model``, or the one followed, has now."""
        return once_each(entries_of(self.model if model is None else model, self._defaults, self._thresholds))

    def unknown(self, entries: list[Entry]) -> list[Entry]:
        return once_each(entries, self.parameters)

    def append(self, entries: list[Entry], of_this_model: bool = True) -> None:
        if not of_this_model:
            self._others.update(range(len(self.names), len(self.names) + len(entries)))
        self.names += [entry.name for entry in entries]
        self.parameters += [entry.tensor for entry in entries]
        self.own += [entry.own for entry in entries]

    def copied(self, model: Model, parameters: list[torch.Tensor]) -> Followed:
        twin = Followed(model, self._defaults, self._thresholds)
        twin.append([Entry(*entry) for entry in zip(self.names, parameters, self.own)])
        twin.gone, twin._others = set(self.gone), set(self._others)
        return twin

    def look(self) -> Optional[Changes]:
        """None where all is as it was; else the changes, of which the replaced parameters are in place already."""
        if not self._watch.changed():
            return None
        self._watch.note()
        changes = Changes()
        entries = self.entries()
        by_name = {entry.name: entry.tensor for entry in entries}
        present = {id(entry.tensor) for entry in entries}
        for number, (name, parameter) in enumerate(zip(self.names, self.parameters)):
            successor = by_name.get(name)
            self.gone.discard(number)
            if id(parameter) in present or number in self._others:
                continue
            if successor is not None and successor.shape == parameter.shape:
                self.parameters[number] = successor
                changes.replaced.append(number)
                continue
            self.gone.add(number)
            if successor is not None:
                changes.reshaped.append(f"{name} {tuple(parameter.shape)} -> {tuple(successor.shape)}")
        known = set(self.names)
        changes.added = [entry for entry in self.unknown(entries) if entry.name not in known]
        return changes
