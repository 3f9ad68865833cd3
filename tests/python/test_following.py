# SPDX-License-Identifier: Apache-2.0
"""A clipper and what becomes of its model: parameters that are replaced, added, unfrozen, given memory later.  Nothing
goes unclipped without a word."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from spectralclip import Ema, Rule, SpectralClipper, skip

TAU = 0.01


def model_of(width: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def backward(model: nn.Module) -> None:
    model.zero_grad()
    model(torch.ones(5, 3)).square().sum().backward()


def sigmas(model: nn.Module) -> list[float]:
    return [float(torch.linalg.matrix_norm(p.grad, 2)) for p in model.parameters() if p.dim() == 2]


def clipped(model: nn.Module) -> list[bool]:
    return [sigma <= TAU * 1.01 for sigma in sigmas(model)]


def test_a_replaced_parameter_is_followed_and_keeps_its_threshold():
    model = model_of()
    clipper = SpectralClipper(model, Ema(0.9))
    for _ in range(3):
        backward(model)
        clipper.step()
    model[0].weight = nn.Parameter(100 * model[0].weight.detach())
    backward(model)
    report = clipper.step()
    assert report.layers[0].steps == 4 and report.layers[0].clip is not None
    assert clipper.parameters[0] is model[0].weight


def test_a_meta_model_is_followed_through_to_empty():
    with torch.device("meta"):
        model = model_of()
    clipper = SpectralClipper(model, TAU)
    model.to_empty(device="cpu")
    for p in model.parameters():
        nn.init.normal_(p)
    backward(model)
    clipper.step()
    assert all(clipped(model))


def test_a_replaced_submodule_and_an_added_one_are_taken_up():
    model = model_of()
    clipper = SpectralClipper(model, TAU)
    backward(model)
    clipper.step()
    model[2] = nn.Linear(4, 2)
    model.append(nn.Linear(2, 2))
    backward(model)
    report = clipper.step()
    assert all(clipped(model)) and {"2.weight", "3.weight", "3.bias"} <= {layer.name for layer in report}


def test_another_shape_is_named_once():
    model = model_of()
    clipper = SpectralClipper(model, TAU)
    model[2] = nn.Linear(4, 3)
    backward(model)
    with pytest.warns(UserWarning, match=r"2\.weight \(2, 4\) -> \(3, 4\).*NOT clipped: build a new SpectralClipper"):
        clipper.step()
    assert clipped(model) == [True, False]
    backward(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipper.step()


def test_a_parameter_that_left_the_model_is_left_alone():
    model = model_of()
    old = model[0].weight
    clipper = SpectralClipper(model, TAU)
    backward(model)
    model[0] = nn.Linear(3, 5)
    model[2] = nn.Linear(5, 2)
    before = old.grad.clone()
    backward(model)
    with pytest.warns(UserWarning, match="another shape"):
        clipper.step()
    assert torch.equal(old.grad, before)


def test_groups_of_an_optimizer_are_followed():
    model = model_of()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    clipper = SpectralClipper(optimizer.param_groups, TAU)
    backward(model)
    clipper.step()
    assert clipped(model) == [True, False]
    optimizer.add_param_group({"params": list(model[2].parameters())})
    # The list that was given was optimizer.param_groups itself: a new group is in it.
    backward(model)
    clipper.step()
    assert all(clipped(model))


def test_no_change_changes_nothing_and_a_copy_follows_its_own_model():
    model = model_of()
    clipper = SpectralClipper(model, TAU)
    twin_model, twin = copy.deepcopy((model, clipper))
    twin_model[0].weight = nn.Parameter(twin_model[0].weight.detach().clone())
    for m, c in ((model, clipper), (twin_model, twin)):
        backward(m)
        c.step()
        assert all(clipped(m)) and c.names == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert clipper.parameters[0] is model[0].weight


# --- inside backward ------------------------------------------------------------------------------------------------


def test_what_is_unfrozen_after_the_hooks_is_clipped():
    model = model_of()
    model[0].requires_grad_(False)
    clipper = SpectralClipper(model, TAU)
    clipper.hook_each_parameter()
    assert not model[0].weight.requires_grad and model[0].weight.grad is None
    backward(model)
    model[0].requires_grad_(True)
    backward(model)
    assert all(clipped(model))
    clipper.remove_hooks()
    backward(model)
    assert not any(clipped(model))


def test_what_is_replaced_after_the_hooks_is_clipped_from_the_next_backward_on():
    model = model_of()
    clipper = SpectralClipper(model, TAU)
    clipper.hook_each_parameter()
    model[2].weight = nn.Parameter(model[2].weight.detach().clone())
    backward(model)
    backward(model)
    assert all(clipped(model))


def test_hooks_on_parameters_without_data_are_refused():
    with torch.device("meta"):
        model = model_of()
    with pytest.raises(RuntimeError, match=r"0\.weight.*no data yet.*after to_empty\(\)"):
        SpectralClipper(model, TAU).hook_each_parameter()


# --- said once ------------------------------------------------------------------------------------------------------


def test_a_rule_that_decides_for_nothing_is_named():
    with pytest.warns(UserWarning, match=r"'layers\.\*' decides for no parameter.*Names are 0\.weight, 0\.bias"):
        SpectralClipper(model_of(), TAU, rules=skip("layers.*"))
    with pytest.warns(UserWarning, match=r"'0\.weight' decides for no parameter.*earlier rules"):
        SpectralClipper(model_of(), TAU, rules=[Rule("*", label="all"), Rule("0.weight")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SpectralClipper(model_of(), TAU, rules=skip("0.*"))
        SpectralClipper([], TAU, rules=skip("0.*"))


def test_a_step_that_finds_no_gradient_says_so_once():
    model = model_of()
    clipper = SpectralClipper(model, TAU)
    with pytest.warns(UserWarning, match=r"none of the 4 parameters .* has a gradient, so nothing was clipped"):
        clipper.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipper.step()
    with pytest.warns(UserWarning, match="has no parameters"):
        SpectralClipper([], TAU).step()
