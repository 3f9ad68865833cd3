# SPDX-License-Identifier: Apache-2.0
"""The kernels that an engine launches, down to machine code for devices that are not here, and what they take of them.

An engine is made with a launcher that writes down instead of launching: what is compiled is what would run.  Triton
must not interpret (TRITON_INTERPRET unset or 0)."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import tempfile
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from spectralclip.triton import engine as engines
from spectralclip.triton import layout
from spectralclip.triton.windows import Window

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
TYPES = {
    torch.float32: "fp32", torch.float64: "fp64", torch.int32: "i32", torch.int64: "i64", torch.bfloat16: "bf16",
    torch.float16: "fp16",
}  # fmt: skip
GRADIENTS = (torch.float32, torch.bfloat16, torch.float16)


@dataclasses.dataclass(frozen=True)
class Launch:
    kernel: Any
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    warps: int
    stages: int

    @property
    def name(self) -> str:
        return str(self.kernel.__name__).removesuffix("_kernel")


class _Recorder(engines.Engine):
    """Launches nothing."""

    def _launch(
        self, kernel: Any, programs: int, *arguments: Any, warps: int, stages: int = 3, **constants: Any
    ) -> None:
        self.log: list[Launch] = getattr(self, "log", [])
        self.log.append(Launch(kernel, arguments, constants, warps, stages))


def launches_of(dtype: torch.dtype, *, columns: int = 16, short_side: int = 768, cuda: bool = True) -> list[Launch]:
    """One of each kernel: of the later passes, which have all that the first has."""
    window = Window(0, 4 * short_side, short_side, short_side, False)
    options = [2.0, 1.0, 0.9, 0.85, 100.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1e-4, 1e-3, 0.0, 0.0]
    matrix = engines.Matrix("G", window.rows, window.cols, int(layout.SPECTRAL.value), options, 1, dtype)
    recorder = _Recorder([matrix], [window], torch.device("cpu"), columns=columns, passes=3, leave_all=True)
    recorder._precision = "tf32x3" if cuda else "ieee"
    recorder.start(torch.ones(1, dtype=torch.int32))
    recorder.step([16])
    latest = {}
    for launch in recorder.log:
        if launch.name != "decide" or launch.constants["LAST"] == 0:  # which decides about another pass, too
            latest[launch.name] = launch
    return list(latest.values())


@dataclasses.dataclass(frozen=True)
class Usage:
    """Registers of a thread; bytes of shared memory of a program and of local memory, where registers are spilled."""

    registers: int
    shared: int
    spilled: int


def _typed(value: Any) -> str:
    return "*" + TYPES[value.dtype] if isinstance(value, torch.Tensor) else "i32"


def compile_for(launch: Launch, target: GPUTarget) -> Usage:
    names = launch.kernel.arg_names
    given = dict(zip([n for n in names if n not in launch.constants], launch.arguments))
    signature = {n: "constexpr" if n in launch.constants else _typed(given[n]) for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if signature[n].startswith("*")}
    source = ASTSource(fn=launch.kernel, signature=signature, constexprs=launch.constants, attrs=aligned)
    made = triton.compile(source, target=target, options={"num_warps": launch.warps, "num_stages": launch.stages})
    if "cubin" in made.asm:
        registers, spilled = _of_cubin(made.asm["cubin"])
    else:
        registers, spilled = _of_amdgcn(made.asm["amdgcn"])
    return Usage(registers, made.metadata.shared, spilled)


def _of_cubin(code: bytes) -> tuple[int, int]:
    tool = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
    return found["REG"], found["STACK"] + found["LOCAL"]


def _of_amdgcn(text: str) -> tuple[int, int]:
    def number(key: str) -> int:
        found = re.search(re.escape(key) + r":\s*(\d+)", text)
        if found is None:
            raise ValueError(f"the assembly does not say {key}")
        return int(found.group(1))

    spilled = number(".vgpr_spill_count") + number(".sgpr_spill_count") + number(".private_segment_fixed_size")
    return number(".vgpr_count"), spilled
