# SPDX-License-Identifier: Apache-2.0
"""The clipper as an object: what it shows of itself, copies of it, reports that are read late, embeddings by type."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from reference import bits
from torch import nn

import spectralclip
from spectralclip import Ema, SpectralClipper, skip_embeddings


def with_gradient(G: torch.Tensor) -> nn.Parameter:
    p = nn.Parameter(torch.zeros_like(G))
    p.grad = G
    return p


def test_names_and_parameters_are_public_and_cannot_be_changed_from_outside():
    model = nn.Linear(3, 2)
    clipper = SpectralClipper(model)
    assert clipper.names == ("weight", "bias")
    assert [id(p) for p in clipper.parameters] == [id(p) for p in model.parameters()]
    late = nn.Parameter(torch.zeros(2, 2))
    assert clipper.add_parameters([("late", late)]) == ["late"]
    assert clipper.names == ("weight", "bias", "late") and clipper.parameters[2] is late
    with pytest.raises(AttributeError):
        clipper.names = ()


def test_clip_is_step():
    assert SpectralClipper.clip is SpectralClipper.step


# --- reports --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stepped():
    """A clipper with one parameter, the function that steps it by a multiple of one, and its first, unread, report."""
    p = with_gradient(torch.eye(3))
    clipper = SpectralClipper([("w", p)], 1.0, method="exact")

    def step(scale: float):
        p.grad = scale * torch.eye(3)
        return clipper.step()

    return clipper, step, step(2.0)


def test_a_report_that_was_read_stays(stepped):
    _, step, report = stepped
    layers = report.layers
    step(5.0)
    assert report.layers is layers
    assert report.layers[0].sigma_max == pytest.approx(2.0) and report.clipped == ["w"]
    assert "step=1" in repr(report) and "clipped=1" in repr(report)


def test_a_report_read_late_refuses_to_speak_of_another_step(stepped):
    _, step, report = stepped
    later = step(5.0)
    for read in (lambda: report.layers, lambda: report.clipped, lambda: report.norm_after, lambda: list(report)):
        with pytest.raises(RuntimeError, match=r"report of step 1, and its clipper has gone on \(step 2\)"):
            read()
    assert report.step == 1 and float(report.total_norm) == pytest.approx(2 * 3**0.5)  # these it knows by itself
    assert "step=1" in repr(report) and "unread" in repr(report)
    assert later.layers[0].sigma_max == pytest.approx(5.0)


def test_a_report_is_late_after_another_state_was_loaded(stepped):
    clipper, step, _ = stepped
    state = clipper.state_dict()
    report = step(3.0)
    clipper.load_state_dict(state)
    step(4.0)  # step 2 as well, and not the one reported
    with pytest.raises(RuntimeError, match="gone on"):
        _ = report.layers


def test_a_report_is_late_after_a_clip_inside_backward():
    layer = nn.Linear(3, 3, bias=False)
    clipper = SpectralClipper(layer, 0.1)
    layer(torch.ones(1, 3)).sum().backward()
    report = clipper.step()
    clipper.hook_each_parameter()
    layer(torch.ones(1, 3)).sum().backward()
    with pytest.raises(RuntimeError, match="gone on"):
        _ = report.layers


def test_parameters_added_while_hooked_are_clipped_inside_backward_too():
    model = nn.Sequential(nn.Linear(3, 3, bias=False))
    clipper = SpectralClipper(model, 0.1, method="exact")
    clipper.hook_each_parameter()
    model.append(nn.Linear(3, 2, bias=False))
    clipper.add_parameters()
    model(torch.ones(4, 3)).sum().backward()
    assert [layer.clipped for layer in clipper.report()] == [1, 1]
    assert all(torch.linalg.matrix_norm(p.grad, 2) < 0.1001 for p in model.parameters())
    clipper.remove_hooks()
    model.zero_grad()
    model(torch.ones(4, 3)).sum().backward()
    assert all(torch.linalg.matrix_norm(p.grad, 2) > 0.2 for p in model.parameters())


# --- copies ---------------------------------------------------------------------------------------------------------


def losses_and_bits(model: nn.Module, clipper: SpectralClipper, steps: range) -> list:
    record = []
    for step in steps:
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step)) * (1 + 4 * (step % 2))
        model.zero_grad()
        model(x).square().sum().backward()
        report = clipper.step()
        record.append(([layer.tau for layer in report], [bits(p.grad) for p in model.parameters()]))
    return record


class WithClipper(nn.Module):
    """As Lightning modules that clip themselves do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.clipper = SpectralClipper(self, Ema(0.9), seed=3, rules=spectralclip.skip("layers.2.bias"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_a_copied_module_has_a_clipper_of_its_own_that_continues_bit_for_bit():
    model = WithClipper()
    losses_and_bits(model, model.clipper, range(4))
    twin = copy.deepcopy(model)
    assert [id(p) for p in twin.clipper.parameters] == [id(p) for p in twin.parameters()]
    assert twin.clipper._followed.model is twin and twin.clipper.names == model.clipper.names
    here, there = (losses_and_bits(m, m.clipper, range(4, 8)) for m in (model, twin))
    assert here == there
    losses_and_bits(twin, twin.clipper, range(8, 11))
    assert model.clipper.steps == 8 and twin.clipper.steps == 11  # each its own


def test_copies_know_groups_and_later_parameters():
    a, b, c = (with_gradient(5 * torch.eye(4)) for _ in range(3))
    clipper = SpectralClipper([{"params": [a], "threshold": 0.5}, {"params": [b], "method": "gram"}], 0.25)
    clipper.add_parameters([{"params": [c], "names": ["late"], "threshold": 2.0}])
    (x, y, z), twin = copy.deepcopy(([a, b, c], clipper))
    for p in (x, y, z):
        p.grad = 5 * torch.eye(4)
    assert [(layer.name, layer.tau) for layer in twin.step()] == [("0.0", 0.5), ("1.0", 0.25), ("late", 2.0)]
    assert [round(float(p.grad[0, 0]), 4) for p in (x, y, z)] == [0.5, 0.25, 2.0]
    assert clipper.steps == 0 and torch.equal(a.grad, 5 * torch.eye(4))


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy], ids=["pickle", "copy"])
def test_what_cannot_be_copied_says_what_can(attempt):
    with pytest.raises(TypeError, match=r"state_dict\(\).*load_state_dict\(\)"):
        attempt(SpectralClipper(nn.Linear(2, 2)))


# --- embeddings by type ---------------------------------------------------------------------------------------------


class Tagger(nn.Module):
    """An embedding whose name says nothing, tied to a head that comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 9, bias=False)
        self.table = nn.Embedding(9, 4)
        self.bag = nn.EmbeddingBag(5, 4)
        self.out.weight = self.table.weight
        self.mix = nn.Linear(4, 4)


def treatments(clipper: SpectralClipper) -> dict[str, str]:
    return {layer.name: layer.treatment for layer in clipper.report()}


EXPECTED = {"out.weight": "skip", "bag.weight": "skip", "mix.weight": "spectral", "mix.bias": "norm"}


def test_a_module_shows_its_embeddings_under_whatever_name():
    assert treatments(SpectralClipper(Tagger())) == EXPECTED


def test_names_alone_need_the_rules_of_the_module():
    model = Tagger()
    assert treatments(SpectralClipper(model.named_parameters())) == {
        **EXPECTED, "out.weight": "spectral", "bag.weight": "spectral",
    }  # fmt: skip
    rules = skip_embeddings(model)
    assert treatments(SpectralClipper(model.named_parameters(), rules=rules)) == EXPECTED
    optimizer = torch.optim.SGD(model.named_parameters(), lr=0.1)
    assert treatments(SpectralClipper(optimizer.param_groups, rules=rules)) == EXPECTED


def test_users_rules_go_before_those_of_type():
    clipper = SpectralClipper(Tagger(), rules=[spectralclip.Rule("bag.*")])
    assert treatments(clipper) == {**EXPECTED, "bag.weight": "spectral"}


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="parameter group 0 has 2 names for 1 parameters"):
        SpectralClipper([{"params": [nn.Parameter(torch.zeros(2, 2))], "names": ["a", "b"]}])
