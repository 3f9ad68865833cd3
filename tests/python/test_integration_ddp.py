# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel needs nothing: backward leaves the averaged gradients in every process, so the clippers,
which exchange nothing, leave the same bits."""

from __future__ import annotations

import datetime
import pathlib

import pytest
import torch
from reference import bits
from torch import distributed, multiprocessing, nn

from spectralclip import Ema, SpectralClipper

RANKS, STEPS = 2, 4
METHODS = ("tracked", "sketched")
VIEWS = (False, True)  # gradient_as_bucket_view: gradients that alias DDP's buckets

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)


def make_model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 8))


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Every process has data of its own; every other step is loud."""
    generator = torch.Generator().manual_seed(100 * rank + step)
    return (
        torch.randn(16, 12, generator=generator) * (1 + 5 * (step % 2)),
        torch.randn(16, 8, generator=generator) * (1 + 5 * (step % 2)),
    )


def gradients_of(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters()]


def local_gradients(rank: int) -> list[torch.Tensor]:
    """Of the first step, without the others."""
    model = make_model()
    x, y = batch(rank, 0)
    nn.functional.mse_loss(model(x), y).backward()
    return gradients_of(model)


def train(rank: int, method: str, bucket_view: bool) -> dict:
    model = nn.parallel.DistributedDataParallel(make_model(), gradient_as_bucket_view=bucket_view)
    clipper = SpectralClipper(model, Ema(0.9), method=method)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record: dict = {"before": [], "after": [], "norms": [], "clipped": 0}
    for step in range(STEPS):
        x, y = batch(rank, step)
        nn.functional.mse_loss(model(x), y).backward()
        record["before"].append(gradients_of(model))
        report = clipper.step()
        record["after"].append(gradients_of(model))
        record["norms"].append(report.total_norm)
        record["clipped"] += len(report.clipped)
        optimizer.step()
        optimizer.zero_grad()
    record["parameters"] = [p.detach().clone() for p in model.parameters()]
    record["state"] = clipper.state_dict()
    return record


def work(rank: int, folder: str) -> None:
    """One process.  A file instead of a port: nothing that another run could hold."""
    torch.set_num_threads(1)
    limit = datetime.timedelta(minutes=2)
    meeting = f"file://{folder}/meeting"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS, timeout=limit)
    try:
        found: dict = {(method, view): train(rank, method, view) for method in METHODS for view in VIEWS}
        torch.save({"local": local_gradients(rank), "runs": found}, f"{folder}/rank{rank}.pt")
    finally:
        distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict]:
    folder: pathlib.Path = tmp_path_factory.mktemp("ddp")
    multiprocessing.spawn(work, (str(folder),), nprocs=RANKS)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(RANKS)]


def all_bits(values: object) -> object:
    if isinstance(values, torch.Tensor):
        return bits(values)
    return [all_bits(value) for value in values] if isinstance(values, list) else values


def test_processes_have_gradients_of_their_own_until_backward_averages_them(ranks):
    """Teeth: without this, equal bits would say nothing."""
    assert all_bits(ranks[0]["local"]) != all_bits(ranks[1]["local"])
    mean = [sum(parts) / RANKS for parts in zip(*(rank["local"] for rank in ranks))]
    for rank in ranks:
        torch.testing.assert_close(rank["runs"]["tracked", False]["before"][0], mean)


@pytest.mark.parametrize("bucket_view", VIEWS, ids=["own storage", "bucket view"])
@pytest.mark.parametrize("method", METHODS)
def test_all_processes_clip_to_the_same_bits(ranks, method, bucket_view):
    one, other = (rank["runs"][method, bucket_view] for rank in ranks)
    for what in ("before", "after", "norms", "parameters"):
        assert all_bits(one[what]) == all_bits(other[what]), what
    assert one["state"] == other["state"] and one["clipped"] == other["clipped"]
    assert one["clipped"] >= STEPS // 2  # something happened
    assert all_bits(one["before"]) != all_bits(one["after"])


@pytest.mark.parametrize("method", METHODS)
def test_one_process_with_the_averaged_gradients_gives_these_bits_too(ranks, method):
    """And its state, which knows nothing of DDP, is theirs: a run may go on with another number of processes."""
    theirs = ranks[0]["runs"][method, False]
    model = make_model()
    clipper = SpectralClipper(model, Ema(0.9), method=method)
    for before, after in zip(theirs["before"], theirs["after"]):
        for parameter, gradient in zip(model.parameters(), before):
            parameter.grad = gradient.clone()
        clipper.step()
        assert all_bits(gradients_of(model)) == all_bits(after)
    assert clipper.state_dict() == theirs["state"]
