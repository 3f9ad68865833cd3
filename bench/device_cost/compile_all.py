# SPDX-License-Identifier: Apache-2.0
"""``python -m device_cost.compile_all [target …]``: a JSON line a kernel, with what it takes of the device."""

from __future__ import annotations

import json
import sys

from .compiled import GRADIENTS, TARGETS, TYPES, compile_for, launches_of

TOUCH_GRADIENTS = ("pass", "update")


def main(targets: list[str]) -> None:
    for target in targets or list(TARGETS):
        for dtype in GRADIENTS:
            for launch in launches_of(dtype, cuda=TARGETS[target].backend == "cuda"):
                if launch.name not in TOUCH_GRADIENTS and dtype != GRADIENTS[0]:
                    continue  # they see float32 sums only
                usage = compile_for(launch, TARGETS[target])
                line = {"target": target, "kernel": launch.name, "type": TYPES[dtype], "warps": launch.warps,
                        "registers": usage.registers, "shared": usage.shared, "spilled": usage.spilled}  # fmt: skip
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
