# SPDX-License-Identifier: Apache-2.0
"""metrics(): the numbers are right, few by default, and filtered and thinned when asked."""

import math

import pytest
import torch

import spectralclip
from spectralclip.integrations import metrics

SUMMARY = {
    "total_norm", "norm_after", "layers_clipped", "layers_clipped_so_far", "layers_not_finite", "layers_rank_exhausted",
    "layers_not_converged", "layers_out_of_range", "max_sigma_over_tau",
}  # fmt: skip


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 4)
        self.up = torch.nn.Linear(4, 6, bias=False)
        self.down = torch.nn.Linear(6, 3, bias=False)


def stepped(up, down, embed=1.0, **options):
    """A clipper and the report of its step on gradients with known singular values."""
    net = Net()
    net.embed.weight.grad = torch.zeros(5, 4).fill_diagonal_(embed)
    net.up.weight.grad = torch.zeros(6, 4).fill_diagonal_(up)
    net.down.weight.grad = torch.zeros(3, 6).fill_diagonal_(down)
    clipper = spectralclip.SpectralClipper(net, **{"threshold": 1.0, **options})
    return net, clipper, clipper.step()


def test_summary_by_hand():
    _, _, report = stepped(up=4.0, down=0.5)  # 4 singular values of 4, 3 of 0.5, and an embedding with 4 of 1
    found = metrics(report)
    assert set(found) == {f"spectralclip/{name}" for name in SUMMARY}
    assert all(type(value) is float for value in found.values())
    got = metrics(report, prefix="")
    assert got["total_norm"] == pytest.approx(math.sqrt(4 * 16 + 3 * 0.25 + 4))
    assert got["norm_after"] == pytest.approx(math.sqrt(4 * 1 + 3 * 0.25 + 4), rel=1e-5)
    assert got["layers_clipped"] == 0.5  # one of the two that are not skipped
    assert got["layers_clipped_so_far"] == 0.5
    assert got["max_sigma_over_tau"] == pytest.approx(4.0, rel=1e-5)
    assert got["layers_not_finite"] == got["layers_rank_exhausted"] == 0
    assert got["layers_not_converged"] == got["layers_out_of_range"] == 0


def test_not_finite_and_rank_exhausted_are_counted():
    net, clipper, _ = stepped(up=4.0, down=0.5)
    net.up.weight.grad[0, 0] = math.nan
    net.down.weight.grad.fill_diagonal_(3.0)
    got = metrics(clipper.step(), prefix="")
    assert math.isnan(got["total_norm"]) and math.isnan(got["norm_after"])
    assert got["layers_not_finite"] == 1
    assert got["max_sigma_over_tau"] == pytest.approx(3.0, rel=1e-5)  # NaN of the other layer does not hide it

    _, _, report = stepped(up=4.0, down=0.5, method="sketched", rank=1, oversampling=0, exhausted="report")
    assert report.rank_exhausted  # four equal values do not fit into one column
    assert metrics(report, prefix="")["layers_rank_exhausted"] == len(report.rank_exhausted)


def test_a_budget_that_is_used_up_is_counted():
    weight = torch.nn.Parameter(torch.zeros(400, 300))
    weight.grad = torch.linalg.qr(torch.randn(400, 300))[0] * 1.001  # all values alike, a hair from tau
    clipper = spectralclip.SpectralClipper([weight], 1.0, method="tracked", max_passes=1)
    report = clipper.step()
    assert [layer.status for layer in report] == ["not_converged"] and report.not_converged == ["0"]
    assert not report.rank_exhausted and not report.not_finite and not report.out_of_range
    assert metrics(report, prefix="")["layers_not_converged"] == 1


def test_share_so_far_counts_all_steps():
    net, clipper, _ = stepped(up=4.0, down=0.5)
    for value in (0.5, 0.5, 2.0):
        net.up.weight.grad = torch.zeros(6, 4).fill_diagonal_(value)
        report = clipper.step()
    assert metrics(report, prefix="")["layers_clipped_so_far"] == 2 / 8  # up was clipped at 2 of 4 steps, down never


def test_no_threshold_yet():
    _, _, report = stepped(up=4.0, down=0.5, threshold=spectralclip.Ema(0.9))
    found = metrics(report, prefix="", fields=["tau", "sigma_max"])
    assert found["max_sigma_over_tau"] == 0.0
    assert "up.weight/tau" not in found and found["up.weight/sigma_max"] == pytest.approx(4.0, rel=1e-5)
    assert not any(math.isinf(value) for value in found.values())


def test_without_any_gradient():
    clipper = spectralclip.SpectralClipper(Net(), threshold=1.0)
    assert set(metrics(clipper.step(), prefix="").values()) == {0.0}


def test_layers_are_filtered_by_glob():
    _, _, report = stepped(up=4.0, down=0.5)
    per_layer = lambda **chosen: {k for k in metrics(report, prefix="", **chosen) if "/" in k}  # noqa: E731
    assert per_layer() == set()
    assert per_layer(layers="up.*") == set()  # a filter alone asks for nothing
    assert per_layer(layers="up.*", fields=["tau"]) == {"up.weight/tau"}
    assert per_layer(layers=["up.*", "d*"], fields=["tau", "clipped_share"]) == {
        "up.weight/tau", "up.weight/clipped_share", "down.weight/tau", "down.weight/clipped_share",
    }  # fmt: skip
    assert per_layer(layers="nothing*", fields=["tau"]) == set()


def test_thinning():
    _, clipper, report = stepped(up=4.0, down=0.5)
    kept = []
    for _ in range(7):
        if metrics(report, every=3):
            kept.append(report.step)
        report = clipper.step()
    assert kept == [3, 6]


def test_report_of_clipping_inside_backward():
    model = torch.nn.Linear(4, 3)
    clipper = spectralclip.SpectralClipper(model, threshold=0.1)
    clipper.hook_each_parameter()
    model(torch.ones(2, 4)).sum().backward()
    found = metrics(clipper.report(), prefix="")
    assert found["total_norm"] == pytest.approx(math.sqrt(3 * 4 * 4 + 3 * 4))
    assert found["norm_after"] == pytest.approx(0.1 * math.sqrt(2), rel=1e-4)
    assert metrics(clipper.report(), every=2) == {}


@pytest.mark.parametrize("wrong", [{"fields": ["sigma"]}, {"fields": ["status"]}, {"every": 0}])
def test_mistakes_are_named(wrong):
    _, _, report = stepped(up=4.0, down=0.5)
    with pytest.raises(ValueError, match="|".join(["unknown fields", "at least 1"])):
        metrics(report, **wrong)


@pytest.mark.parametrize(
    ("module", "missing", "advice"),
    [
        ("transformers", ["transformers"], r"pip install \"transformers\[torch\]\""),
        ("lightning", ["lightning", "lightning.pytorch", "pytorch_lightning"], "pip install lightning"),
        ("accelerate", ["accelerate"], "pip install accelerate"),
    ],
)
def test_a_missing_trainer_is_named(monkeypatch, module, missing, advice):
    import importlib
    import sys

    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"spectralclip.integrations.{module}", raising=False)
    with pytest.raises(ImportError, match=advice):
        importlib.import_module(f"spectralclip.integrations.{module}")
