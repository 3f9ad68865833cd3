# SPDX-License-Identifier: Apache-2.0
"""Gradients that are split over processes, on real ones (gloo): what is left is what one process leaves, thresholds are
equal everywhere, what travels is what the formula says, and who cannot go on says so on every rank."""

from __future__ import annotations

import datetime
import math

import pytest
import ranks
import sharded_scenarios as scenarios
import torch
from torch import distributed, nn

import spectralclip

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)
if distributed.is_available():
    from torch.distributed.tensor import Replicate, Shard

EMA = {"threshold": spectralclip.Ema(0.9), "method": "tracked"}
SKETCHED = {"threshold": spectralclip.Ema(0.9), "method": "sketched"}
ROUNDINGS = 512  # of the storage type, relative to the norm: sums in another order


def alone(names, dtype, steps, transposed, **options):
    """One process.  By columns, a matrix is worked on as its transpose."""
    parameters = {}
    for name in names:
        shape = scenarios.SHAPES[name]
        parameters[name] = nn.Parameter(torch.zeros(shape[::-1] if transposed else shape, dtype=dtype))
    clipper = spectralclip.SpectralClipper(list(parameters.items()), **options)
    found = {"steps": [], "after": []}
    for step in range(steps):
        for name, parameter in parameters.items():
            full = scenarios.full_gradient(name, step, dtype)
            parameter.grad = (full.mT if transposed and full.dim() == 2 else full).contiguous()
        found["steps"].append(scenarios.records(clipper.step()))
        found["after"].append({
            name: (p.grad.mT if transposed and p.grad.dim() == 2 else p.grad).clone() for name, p in parameters.items()
        })  # fmt: skip
    return found


def check(found, dtype, steps, transposed, options):
    expected = alone(found[0]["names"], dtype, steps, transposed, **options)
    epsilon = torch.finfo(torch.float32 if dtype == torch.float64 else dtype).eps
    for rank in found:
        assert rank["state"] == found[0]["state"]
        for one, here, first in zip(expected["steps"], rank["steps"], found[0]["steps"]):
            assert here == first  # thresholds, reports, totals: the same bits
            assert here["total_norm"] == pytest.approx(one["total_norm"], rel=64 * epsilon)
            for name, (status, clipped, tau, sigma, _) in one["layers"].items():
                assert here["layers"][name][:2] == (status, clipped), name
                assert here["layers"][name][2] == pytest.approx(tau, rel=1e-5)
                assert here["layers"][name][3] == pytest.approx(sigma, rel=1e-5)
        for one, here in zip(expected["after"], rank["after"]):
            for name, gradient in one.items():
                error = torch.linalg.vector_norm((here[name] - gradient).double())
                assert error <= ROUNDINGS * epsilon * torch.linalg.vector_norm(gradient.double()), name
    assert sum(len([1 for layer in step["layers"].values() if layer[1] > 0]) for step in expected["steps"]) > steps


@pytest.mark.parametrize("count", [1, 2, 3])
def test_shards_by_rows_and_columns_are_what_one_process_leaves(tmp_path, count):
    cases = [
        ((count,), [Shard(0)], torch.float32, 7, EMA),
        ((count,), [Shard(0)], torch.bfloat16, 4, EMA),
        ((count,), [Shard(1)], torch.float32, 7, EMA),
        ((count,), [Shard(0)], torch.float32, 4, SKETCHED),
        ((count,), [Replicate()], torch.float32, 4, EMA),
    ]
    found = ranks.run(scenarios.many_layouts, count, tmp_path, cases)
    for number, (_, placements, dtype, steps, options) in enumerate(cases):
        by_columns = placements == [Shard(1)]
        results = [rank[number] for rank in found]
        check(results, dtype, steps, by_columns, options)
        assert all(rank["bytes"] == results[0]["bytes"] for rank in results)
        assert (results[0]["bytes"][-1] > 0) == (placements != [Replicate()])


def test_meshes_of_two_dimensions(tmp_path):
    cases = [
        ((2, 2), [Replicate(), Shard(0)], torch.float32, 4, EMA),  # HSDP
        ((2, 2), [Shard(0), Shard(0)], torch.float32, 4, EMA),
        ((2, 2), [Shard(0), Shard(1)], torch.float32, 4, EMA),  # blocks
    ]
    found = ranks.run(scenarios.many_layouts, 4, tmp_path, cases)
    for number, (_, _, dtype, steps, options) in enumerate(cases):
        check([rank[number] for rank in found], dtype, steps, False, options)


def other_layouts(rank):
    return {
        "partial": scenarios.partial_and_replicated(rank),
        "drop_in": scenarios.drop_in(rank),
        "experts": scenarios.experts(rank),
        "exchanges": scenarios.exchanges(rank),
    }


def test_partial_sums_the_drop_in_and_experts(tmp_path):
    for rank in ranks.run(other_layouts, 2, tmp_path):
        gradient = scenarios.full_gradient("attn.weight", 2, torch.float32)
        one, report = spectralclip.clip_singular_values(gradient, 3.0, method="exact")
        for name in ("whole", "rows"):
            torch.testing.assert_close(rank["partial"][name], one, rtol=0, atol=4e-3 * 3)
        assert "Shard" in rank["partial"]["placements"] and rank["partial"]["clipped"] == [
            "whole.weight",
            "rows.weight",
        ]
        assert rank["partial"]["total_norm"] == pytest.approx(math.sqrt(2) * report.norm_before, rel=1e-5)

        for axis, (sizes, sent) in rank["exchanges"].items():
            length = scenarios.SHAPES["out.weight"][1 - axis]
            passes = [(singles, doubles) for singles, doubles in sizes if singles > 0]
            assert len(passes) >= 6
            for singles, doubles in passes:  # Z of k columns, S and the norm: not a number more
                columns = singles // length
                assert singles == columns * length and doubles == 1 + columns**2 and 2 <= columns <= 16
            others = [doubles for singles, doubles in sizes if singles == 0]
            # Nothing, norms of updates, who has a gradient, the comparison of ranks.
            assert set(others) <= {0, 1, 2, 26}
            assert sent == sum(4 * singles + 8 * doubles for singles, doubles in sizes)

        for name, (total, after) in rank["drop_in"].items():
            if name == "none":
                assert total == 0
                continue
            full = scenarios.full_gradient(name, 2, torch.float32)
            assert total == pytest.approx(float(full.norm()), rel=1e-5)
            sigma = torch.linalg.matrix_norm(after.double(), 2) if after.dim() == 2 else after.double().norm()
            assert 0.49 <= float(sigma) <= 0.5 * 1.0011
        full = torch.randn(5, 40, 30, generator=torch.Generator().manual_seed(5))
        exact, reports = spectralclip.clip_singular_values(full, 4.0, method="exact")
        torch.testing.assert_close(rank["experts"]["after"], exact, rtol=0, atol=4e-3 * 4)
        assert rank["experts"]["sigma"] == pytest.approx([r.sigma_max for r in reports], rel=1e-3)


STEPS = 50


def test_a_small_gpt_trains_as_in_one_process(tmp_path):
    found = ranks.run(scenarios.train_both, 2, tmp_path, STEPS)
    one = scenarios.train_gpt(0, "alone", STEPS)
    for kind in ("fsdp2", "ddp"):
        for rank in found:
            here = rank[kind]
            # Sums over data in another order, and what 50 steps make of that.
            assert here["losses"] == pytest.approx(one["losses"], rel=2e-3)
            assert here["norms"][0] == pytest.approx(one["norms"][0], rel=1e-5)
            assert here["taus"] == found[0][kind]["taus"]  # equal on all ranks, to the bit
            assert sum(here["clipped"]) > STEPS
            for name, weight in one["weights"].items():
                error = torch.linalg.vector_norm(here["weights"][name] - weight)
                assert error <= 5e-3 * torch.linalg.vector_norm(weight), name
    assert one["losses"][-1] < one["losses"][0]
    for rank in found:  # each process its share of the layers, or all of them: the same bits
        shared, replicated = rank["ddp, shared"], found[0]["ddp"]
        assert shared["losses"] == replicated["losses"] and shared["taus"] == replicated["taus"]
        assert shared["state"] == replicated["state"] and shared["clipped"] == replicated["clipped"]
        assert all(torch.equal(weight, replicated["weights"][name]) for name, weight in shared["weights"].items())


def test_state_goes_to_other_ranks_and_splits_by_dcp(tmp_path):
    folder = str(tmp_path / "checkpoint")
    saved = ranks.run(scenarios.save_state, 3, tmp_path / "save", folder, [Shard(0)], 5)
    assert all(rank["state"] == saved[0]["state"] for rank in saved)
    steps = {}
    for name, (count, placements) in {
        "two": (2, [Shard(0)]),
        "columns": (2, [Shard(1)]),
        "one": (1, [Replicate()]),
    }.items():
        loaded = ranks.run(scenarios.load_state, count, tmp_path / name, folder, placements, 5)
        for rank in loaded:
            assert rank["state"] == saved[0]["state"]
        steps[name] = loaded[0]
    for name in ("two", "columns"):
        for layer, (status, clipped, tau, sigma, _) in steps["one"]["layers"].items():
            assert steps[name]["layers"][layer][:2] == (status, clipped)
            assert steps[name]["layers"][layer][2] == pytest.approx(tau, rel=1e-12)
            assert steps[name]["layers"][layer][3] == pytest.approx(sigma, rel=2e-3)


def test_every_rank_hears_what_is_wrong_on_one(tmp_path):
    found = ranks.run(scenarios.faults, 2, tmp_path, ["missing", "nan", "order", "layers"])
    for rank in found:
        assert "some have none for mlp.weight" in rank["missing"]["error"] and rank["missing"]["changed"] == []
        for kind in ("order", "layers"):
            assert "disagree about the layers" in rank[kind]["error"] and rank[kind]["changed"] == []
        assert rank["nan"]["error"] == "" and rank["nan"]["not_finite"] == ["mlp.weight"]
        assert rank["nan"]["clipped"] == ["attn.weight", "out.weight"]


@pytest.mark.parametrize("death", [1, 3])
def test_a_rank_that_dies_ends_the_step_of_the_other(tmp_path, death):
    """Within the group's time-out, and with its gradients as they were."""
    found = ranks.outcome(scenarios.fault, 2, tmp_path, f"dies {death}", limit=datetime.timedelta(seconds=20))
    assert "found" not in found[1]
    # The step raised; what the process then did with its broken group is not our business.
    assert "found" in found[0], found[0]
    assert found[0]["found"]["error"] != "" and found[0]["found"]["changed"] == []


def test_what_cannot_be_clipped_is_refused_when_the_clipper_is_made(tmp_path):
    for rank in ranks.run(refusals, 2, tmp_path):
        assert "method exact needs the whole matrix" in rank["exact"]
        assert "inside backward" in rank["hooks"]
        assert "fully_shard" in rank["flat"]


def refusals(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel

    mesh = init_device_mesh("cpu", (2,))
    parameter = scenarios.distributed_parameter("attn.weight", mesh, [Shard(0)], torch.float32)
    found = {}

    def refused(name, call):
        try:
            call()
            found[name] = "not refused"
        except (ValueError, RuntimeError, TypeError) as error:
            found[name] = str(error)

    refused("exact", lambda: spectralclip.SpectralClipper([("w", parameter)], method="exact"))
    refused("hooks", lambda: spectralclip.SpectralClipper([("w", parameter)]).hook_each_parameter())
    flat = FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu"))
    refused("flat", lambda: spectralclip.SpectralClipper(flat))
    return found


def test_a_clipper_that_was_built_before_the_model_was_sharded_goes_on(tmp_path):
    found = ranks.run(scenarios.built_before_it_was_sharded, 2, tmp_path)
    for rank in found:
        assert all(sigma <= 0.05 * 1.01 for sigma in rank["left"].values())
        before, after = rank["steps"]
        assert set(before.values()) == {1} and set(after.values()) == {2}
        assert rank["clipped"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert rank["table"].splitlines()[-1] == "-> 2 by singular values, 2 by norm, 0 skipped; 158 entries"
        assert rank["proposed"] == found[0]["proposed"] and len(rank["proposed"]) == 4
