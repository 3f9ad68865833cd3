# SPDX-License-Identifier: Apache-2.0
"""What processes do in the tests of sharded clipping: functions of a rank, imported by the children."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import spectralclip

SHAPES = {
    "attn.weight": (72, 61), "mlp.weight": (56, 90), "out.weight": (80, 144), "few.weight": (3, 64),
    "conv.weight": (8, 3, 3, 3),
    "norm.bias": (37,), "wte.weight": (50, 8),
}  # fmt: skip
MATRICES = ("attn.weight", "mlp.weight", "out.weight", "few.weight", "norm.bias")


def full_gradient(name: str, step: int, dtype: torch.dtype) -> torch.Tensor:
    """The same in every process: noise, a direction that turns, a loud one in every third step."""
    shape = SHAPES[name]
    generator = torch.Generator().manual_seed(1000 * sorted(SHAPES).index(name) + step)
    rows, cols = shape[0], max(int(torch.Size(shape).numel()) // shape[0], 1)
    x, y = torch.arange(rows, dtype=torch.float64), torch.arange(cols, dtype=torch.float64)
    drift = torch.outer(torch.sin(x + 0.05 * step), torch.cos(0.7 * y + 0.05 * step))
    loud = torch.outer(torch.cos(1.3 * x + step), torch.sin(2.1 * y + 3 * step)) * (8 if step % 3 == 2 else 0)
    return (0.1 * torch.randn(rows, cols, generator=generator).double() + drift + loud).reshape(shape).to(dtype)


def distributed_parameter(name: str, mesh: Any, placements: list, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(distribute_tensor(torch.zeros(SHAPES[name], dtype=dtype), mesh, placements, src_data_rank=None))


def records(report: spectralclip.StepReport) -> dict[str, Any]:
    layers = {
        layer.name: (layer.clip.status, layer.clip.clipped, layer.clip.tau, layer.clip.sigma_max, layer.clip.norm_after)
        for layer in report
        if layer.clip is not None
    }
    return {"layers": layers, "total_norm": float(report.total_norm)}


def clip_shards(rank: int, mesh_shape: tuple, placements: list, dtype: torch.dtype, steps: int, **options: Any) -> dict:
    """The shards of a few layers over several steps: gathered gradients, reports, state, bytes."""
    names = tuple(SHAPES) if all(not isinstance(p, Shard) or p.dim == 0 for p in placements) else MATRICES
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=("a", "b")[: len(mesh_shape)])
    per_name = {
        name: [Shard(0) if isinstance(p, Shard) and p.dim >= len(SHAPES[name]) else p for p in placements]
        for name in names
    }
    parameters = {name: distributed_parameter(name, mesh, per_name[name], dtype) for name in names}
    clipper = spectralclip.SpectralClipper(list(parameters.items()), **options)
    found: dict[str, Any] = {"steps": [], "after": [], "bytes": [0]}
    torch.manual_seed(rank)  # nothing may depend on the global generator
    for step in range(steps):
        for name, parameter in parameters.items():
            full = full_gradient(name, step, dtype)
            parameter.grad = distribute_tensor(full, mesh, per_name[name], src_data_rank=None)
        found["steps"].append(records(clipper.step()))
        found["after"].append({name: p.grad.full_tensor() for name, p in parameters.items()})
        torch.rand(rank + 1)
        found["bytes"].append(clipper._core.bytes_summed)
    found["state"] = clipper.state_dict()
    found["names"] = names
    return found


def many_layouts(rank: int, cases: list[tuple]) -> list[dict]:
    return [clip_shards(rank, *case[:4], **case[4]) for case in cases]


# What may come in the place of shards


def partial_and_replicated(rank: int) -> dict:
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    full = full_gradient("attn.weight", 2, torch.float32)
    whole = nn.Parameter(distribute_tensor(torch.zeros(72, 61), mesh, [Replicate()], src_data_rank=None))
    rows = nn.Parameter(distribute_tensor(torch.zeros(72, 61), mesh, [Shard(0)], src_data_rank=None))
    share = full / distributed.get_world_size()
    whole.grad = DTensor.from_local(share, mesh, [Partial()], run_check=False)
    rows.grad = DTensor.from_local(share.clone(), mesh, [Partial()], run_check=False)
    clipper = spectralclip.SpectralClipper([("whole.weight", whole), ("rows.weight", rows)], threshold=3.0)
    report = clipper.step()
    return {
        "whole": whole.grad.full_tensor(), "rows": rows.grad.full_tensor(), "placements": str(rows.grad.placements),
        "clipped": report.clipped, "total_norm": float(report.total_norm),
    }  # fmt: skip


def drop_in(rank: int) -> dict:
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    found = {}
    for name in ("attn.weight", "mlp.weight", "norm.bias"):
        parameter = distributed_parameter(name, mesh, [Shard(0)], torch.float32)
        parameter.grad = distribute_tensor(full_gradient(name, 2, torch.float32), mesh, [Shard(0)], src_data_rank=None)
        total = spectralclip.clip_grad_spectral_([parameter], 0.5)
        found[name] = (float(total), parameter.grad.full_tensor())
    empty = spectralclip.clip_grad_spectral_(
        [distributed_parameter("attn.weight", mesh, [Shard(0)], torch.float32)], 1.0
    )
    found["none"] = (float(empty), torch.zeros(()))
    return found


def exchanges(rank: int) -> dict:
    """Of one layer over some steps: how many numbers of either type each exchange had."""
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    found = {}
    for axis in (0, 1):
        parameter = distributed_parameter("out.weight", mesh, [Shard(axis)], torch.float32)
        clipper = spectralclip.SpectralClipper(
            [("out.weight", parameter)], spectralclip.Ema(0.9), method="tracked", rank=4
        )
        core, sizes = clipper._core._core, []

        class Watched:
            def __getattr__(self, name: str, core: Any = core) -> Any:
                return getattr(core, name)

            def run(self, bucket: int, core: Any = core, sizes: list = sizes) -> Any:
                sums = core.run(bucket)
                sizes.append(tuple(numbers.numel() for numbers in sums))
                return sums

        clipper._core._core = Watched()
        for step in range(6):
            full = full_gradient("out.weight", step, torch.float32)
            parameter.grad = distribute_tensor(full, mesh, [Shard(axis)], src_data_rank=None)
            clipper.step()
        found[axis] = (sizes, clipper._core.bytes_summed)
    return found


def experts(rank: int) -> dict:
    """Stacks (e, m, n), whole matrices on each process."""
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    generator = torch.Generator().manual_seed(5)
    full = torch.randn(5, 40, 30, generator=generator)
    parameter = nn.Parameter(distribute_tensor(torch.zeros(5, 40, 30), mesh, [Shard(0)], src_data_rank=None))
    rule = spectralclip.Rule("experts", batch_axes=1)
    clipper = spectralclip.SpectralClipper([("experts", parameter)], threshold=4.0, rules=[rule])
    parameter.grad = distribute_tensor(full, mesh, [Shard(0)], src_data_rank=None)
    report = clipper.step()
    return {
        "after": parameter.grad.full_tensor(),
        "sigma": [layer.sigma_max for layer in report],
        "bytes": clipper._core.bytes_summed,
    }


# A small GPT under fully_shard


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class TinyGPT(nn.Module):
    def __init__(self, vocabulary: int = 31, width: int = 32, depth: int = 2, context: int = 16) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(x)


def batch(step: int, part: int, parts: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, 31, (8, 17), generator=generator)
    return tokens.chunk(parts)[part]


def train_gpt(rank: int, kind: str, steps: int) -> dict:
    """kind: "alone" (all data), "fsdp2", "ddp" (a share of the data each)."""
    parts = 1 if kind == "alone" else distributed.get_world_size()
    torch.manual_seed(3)
    model: nn.Module = TinyGPT()
    trained = model
    if kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (parts,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif kind.startswith("ddp"):
        trained = nn.parallel.DistributedDataParallel(model)
    clipper = spectralclip.SpectralClipper(model, spectralclip.Ema(0.9), share_work=kind == "ddp, shared")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    found: dict[str, Any] = {"losses": [], "norms": [], "clipped": [], "taus": []}
    for step in range(steps):
        tokens = batch(step, rank if parts > 1 else 0, parts)
        logits = trained(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        report = clipper.step()
        found["norms"].append(float(report.total_norm))
        found["clipped"].append(len(report.clipped))
        found["taus"].append([layer.tau for layer in report])
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        if parts > 1:
            distributed.all_reduce(mean, op=distributed.ReduceOp.SUM)
        found["losses"].append(float(mean) / parts)
    found["state"] = clipper.state_dict()
    found["weights"] = {
        name: (p.full_tensor() if isinstance(p, DTensor) else p).detach().clone()
        for name, p in model.named_parameters()
    }
    return found


def train_both(rank: int, steps: int) -> dict:
    return {kind: train_gpt(rank, kind, steps) for kind in ("fsdp2", "ddp", "ddp, shared")}


# State through torch.distributed.checkpoint


def save_state(rank: int, folder: str, placements: list, steps: int) -> dict:
    import torch.distributed.checkpoint as dcp

    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    parameters = {name: distributed_parameter(name, mesh, placements, torch.float32) for name in MATRICES[:3]}
    clipper = spectralclip.SpectralClipper(list(parameters.items()), spectralclip.Ema(0.9))
    for step in range(steps):
        for name, parameter in parameters.items():
            parameter.grad = distribute_tensor(
                full_gradient(name, step, torch.float32), mesh, placements, src_data_rank=None
            )
        clipper.step()
    dcp.save({"clipper": clipper.state_dict()}, checkpoint_id=folder)
    return {"state": clipper.state_dict()}


def load_state(rank: int, folder: str, placements: list, step: int) -> dict:
    import torch.distributed.checkpoint as dcp

    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    parameters = {name: distributed_parameter(name, mesh, placements, torch.float32) for name in MATRICES[:3]}
    clipper = spectralclip.SpectralClipper(list(parameters.items()), spectralclip.Ema(0.9))
    state = {"clipper": clipper.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    clipper.load_state_dict(state["clipper"])
    loaded = clipper.state_dict()
    for name, parameter in parameters.items():
        parameter.grad = distribute_tensor(
            full_gradient(name, step, torch.float32), mesh, placements, src_data_rank=None
        )
    return {"state": loaded, **records(clipper.step())}


# Faults


def fault(rank: int, kind: str) -> dict:
    """One step after something went wrong on rank 1; what it raised, and whether this rank's gradients changed."""
    import os

    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    names = ["attn.weight", "mlp.weight", "out.weight"]
    if kind == "order" and rank == 1:
        names = ["mlp.weight", "attn.weight", "out.weight"]
    if kind == "layers" and rank == 1:
        names = names[:2]
    parameters = {name: distributed_parameter(name, mesh, [Shard(0)], torch.float32) for name in names}
    clipper = spectralclip.SpectralClipper(list(parameters.items()), threshold=3.0)
    for name, parameter in parameters.items():
        parameter.grad = distribute_tensor(full_gradient(name, 2, torch.float32), mesh, [Shard(0)], src_data_rank=None)
    if rank == 1:
        if kind == "missing":
            parameters["mlp.weight"].grad = None
        if kind == "nan":
            parameters["mlp.weight"].grad._local_tensor[0, 3] = float("nan")
        if kind.startswith("dies"):
            after = int(kind.split()[1])
            core = clipper._core._core
            calls = [0]

            class Dying:
                def __getattr__(self, name: str) -> Any:
                    return getattr(core, name)

                def next(self) -> int:
                    calls[0] += 1
                    if calls[0] > after:
                        os._exit(7)
                    return core.next()

            clipper._core._core = Dying()
    before = {name: p.grad._local_tensor.clone() for name, p in parameters.items() if p.grad is not None}
    found: dict[str, Any] = {"error": "", "not_finite": []}
    try:
        report = clipper.step()
        found["not_finite"], found["clipped"] = report.not_finite, report.clipped
    except Exception as error:
        found["error"] = str(error)
    found["changed"] = [
        name for name, value in before.items() if not torch.equal(value, parameters[name].grad._local_tensor)
        and not value.isnan().any()
    ]  # fmt: skip
    return found


def faults(rank: int, kinds: list[str]) -> dict:
    return {kind: fault(rank, kind) for kind in kinds}


# Other people's trainers


def _choose_fsdp2() -> None:
    """Accelerate prepares models for FSDP2 by itself on accelerators only; on CPUs its state has to be told."""
    from accelerate import Accelerator
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    original = Accelerator.__init__

    def told(self: Accelerator, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self.state.distributed_type = DistributedType.FSDP
        self.state.fsdp_plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="no_wrap")

    Accelerator.__init__ = told  # type: ignore[method-assign]


def accelerate_loop(rank: int, kind: str) -> dict:
    from accelerate import Accelerator

    from spectralclip.integrations.accelerate import clip_gradients

    if kind == "fsdp2":
        _choose_fsdp2()
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    clipper = spectralclip.SpectralClipper(model, spectralclip.Ema(0.9, slack=0.9))
    clipped, norms = [], []
    for step in range(6):
        generator = torch.Generator().manual_seed(step)
        x, y = (
            torch.randn(12, 8, generator=generator).chunk(2)[rank],
            torch.randn(12, 4, generator=generator).chunk(2)[rank],
        )
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.mse_loss(model(x), y))
            report = clip_gradients(accelerator, clipper)
            clipped.append(len(report.clipped))
            norms.append(float(report.total_norm))
            optimizer.step()
            optimizer.zero_grad()
    kinds = {type(p).__name__ for p in model.parameters()}
    weights = torch.cat(
        [(p.full_tensor() if isinstance(p, DTensor) else p).detach().flatten() for p in model.parameters()]
    )
    return {"clipped": clipped, "norms": norms, "kinds": kinds, "weights": weights}


def plain_loop() -> dict:
    """The same without Accelerate, in one process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    clipper = spectralclip.SpectralClipper(model, spectralclip.Ema(0.9, slack=0.9))
    norms = []
    for step in range(6):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(12, 8, generator=generator), torch.randn(12, 4, generator=generator)
        nn.functional.mse_loss(model(x), y).backward()
        norms.append(float(clipper.step().total_norm))
        optimizer.step()
        optimizer.zero_grad()
    return {"norms": norms, "weights": torch.cat([p.detach().flatten() for p in model.parameters()])}


def _as_torchrun(rank: int) -> None:
    import os

    os.environ.update(
        TORCHELASTIC_RUN_ID="spectralclip", GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", NODE_RANK="0"
    )


def lightning_fit(rank: int, kind: str, folder: str) -> dict:
    import warnings

    import lightning.pytorch as pl
    from lightning.pytorch.strategies import ModelParallelStrategy
    from torch.distributed.fsdp import fully_shard

    from spectralclip.integrations.lightning import SpectralClipCallback

    _as_torchrun(rank)
    warnings.simplefilter("ignore")

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))

        def configure_model(self) -> None:
            if kind == "fsdp2":
                fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            return nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    generator = torch.Generator().manual_seed(1)
    pairs = [(torch.randn(8, generator=generator), torch.randn(4, generator=generator)) for _ in range(48)]
    callback = SpectralClipCallback(threshold=spectralclip.Ema(0.9, slack=0.9))
    trainer = pl.Trainer(
        accelerator="cpu", devices=2,
        strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1) if kind == "fsdp2" else "ddp",
        max_steps=6, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=folder, callbacks=[callback],
    )  # fmt: skip
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(pairs, batch_size=4))
    layers = [(layer.name, layer.tau, layer.sigma_max) for layer in callback.report]
    return {
        "steps": callback.clipper.steps, "layers": layers, "kinds": {type(p).__name__ for p in module.parameters()},
        "so_far": sum(layer.steps_clipped for layer in callback.report),
    }  # fmt: skip


def trainer_train(rank: int, kind: str, folder: str) -> dict:
    """Hugging Face Trainer on two processes: every process the same thresholds."""
    import transformers

    from spectralclip.integrations.transformers import attach

    _as_torchrun(rank)
    if kind == "fsdp2":
        _choose_fsdp2()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict:
            return {"loss": nn.functional.mse_loss(self.net(x), labels)}

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    data = [
        {"x": torch.randn(8, generator=generator), "labels": torch.randn(4, generator=generator)} for _ in range(48)
    ]
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=5, per_device_train_batch_size=4, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    trainer = transformers.Trainer(model=Model(), args=arguments, train_dataset=data)
    callback = attach(trainer, threshold=spectralclip.Ema(0.9, slack=0.9))
    trainer.train()
    assert kind == "fsdp2" or isinstance(trainer.model_wrapped, nn.parallel.DistributedDataParallel)
    kinds = {type(p).__name__ for p in callback.clipper.parameters}
    return {"steps": callback.clipper.steps, "state": callback.clipper.state_dict(), "kinds": kinds}


def built_before_it_was_sharded(rank: int) -> dict:
    """A clipper that knew the whole parameters; a table and proposals of what is split."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 6))
    whole = {name: p.detach().clone() for name, p in model.named_parameters()}
    x = torch.randn(10, 12)
    clipper = spectralclip.SpectralClipper(model, threshold=0.05)
    observer = spectralclip.SpectralClipper(model, observe_only=True)
    model(x).square().sum().backward()
    clipper.step()
    before = {layer.name: layer.steps for layer in clipper.report()}
    model.zero_grad()
    fully_shard(model)
    model(x).square().sum().backward()
    observer.step()
    report = clipper.step()
    return {
        "left": {name: float(torch.linalg.matrix_norm(p.grad.full_tensor(), 2)) for name, p in model.named_parameters()
                 if p.dim() == 2},
        "steps": (before, {layer.name: layer.steps for layer in report}),
        "clipped": report.clipped, "table": str(clipper.describe()),
        "shapes": {name: tuple(p.shape) for name, p in whole.items()},
        "proposed": observer.propose(0.5).thresholds,
    }  # fmt: skip
