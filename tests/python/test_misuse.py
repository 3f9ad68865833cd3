# SPDX-License-Identifier: Apache-2.0
"""Slips that people make: each is answered with what was given and what to write instead.  And numbers that are not
Python's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import spectralclip
from spectralclip import Constant, Ema, Quantile, Rule, SpectralClipper, clip_grad_spectral_, clip_singular_values

np = pytest.importorskip("numpy", reason="needs numpy")


def with_gradient(G: torch.Tensor) -> nn.Parameter:
    p = nn.Parameter(torch.zeros_like(G))
    p.grad = G
    return p


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": Ema(np.float64(0.9))},
        {"threshold": Ema(np.float32(0.5), slack=np.float64(2))},
        {"threshold": Constant(np.float64(1.5))},
        {"threshold": np.float32(1.5)},
        {"threshold": np.array(1.5)},
        {"threshold": torch.tensor(1.5)},
        {"threshold": Quantile(np.float64(0.5), window=np.int64(100), warmup_steps=np.int32(2))},
        {"threshold": Ema(0.9, observe_zeros=np.bool_(True))},
        {"threshold": {"w": np.float64(2)}},
        {"rank": np.int64(3), "seed": np.uint8(3), "tolerance": np.float64(1e-3), "max_passes": torch.tensor(5)},
        {"rules": [Rule("w", min_dims=np.int64(1), threshold=np.float64(2), clip={"rank": np.int64(2)})]},
        {"observe_only": np.bool_(True)},
    ],
    ids=str,
)
def test_scalars_of_numpy_and_tensors_without_axes_are_numbers(options):
    SpectralClipper([("w", nn.Parameter(torch.zeros(5, 4)))], **options)


def test_a_threshold_from_logspace_is_that_number():
    for tau in np.logspace(-2, 1, 4):
        p = with_gradient(100 * torch.eye(3))
        assert SpectralClipper([("w", p)], Constant(tau)).step().layers[0].tau == float(tau)
        assert clip_singular_values(100 * torch.eye(3), tau, seed=np.int64(3))[1].tau == float(tau)
    model = nn.Linear(3, 3)
    SpectralClipper(model).hook_each_parameter(np.int64(2))
    with pytest.raises(ValueError, match=r"accumulation_steps = 1\.5"):
        SpectralClipper(model).hook_each_parameter(1.5)


def test_other_things_are_no_numbers_and_the_option_is_named():
    with pytest.raises(TypeError, match="decay: an option is a number, a text, a bool or None, not list"):
        SpectralClipper(nn.Linear(2, 2), Ema([0.9]))
    with pytest.raises(TypeError, match="threshold must be a number, Constant, Ema or Quantile, not ndarray"):
        SpectralClipper(nn.Linear(2, 2), np.ones(3))
    with pytest.raises(TypeError, match=r"not the class Ema: write Ema\(\)"):
        SpectralClipper(nn.Linear(2, 2), Ema)


# --- what a clipper is built from -----------------------------------------------------------------------------------


def _optimizer():
    return torch.optim.SGD([nn.Parameter(torch.zeros(2, 2))], lr=0.1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "model must be a module, named_parameters.*, not None"),
        (3, "model must be a module.*, not int"),
        ("model", "model must be a module.*, not str"),
        (_optimizer, r"built from the model, SpectralClipper\(model\).*SpectralClipper\(optimizer.param_groups\)"),
        (lambda: nn.Linear(2, 2).state_dict(), r"not a OrderedDict; model.named_parameters\(\), perhaps\?"),
        (lambda: {"params": [nn.Parameter(torch.zeros(2, 2))]}, r"a group is given in a list, \[group\]"),
        (lambda: [nn.Parameter(torch.zeros(2, 2)), 3], r"its item 1 \(int\) is none of those"),
        (lambda: [nn.Linear(2, 2)], r"its item 0 \(Linear\) is none of those"),
        (lambda: [{"lr": 3}], 'parameter group 0 has no "params"'),
    ],
)  # fmt: skip
def test_what_a_clipper_cannot_be_built_from(model, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SpectralClipper(model() if callable(model) else model)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("*.weight", r"not the text '\*.weight': rules=\[Rule\('\*.weight'\)\] or skip\('\*.weight'\)"),
        (["*.weight"], r"rules\[0\] must be a Rule, not str"),
        ([spectralclip.skip("a")], r"rules\[0\] is a list; unpack it"),
        (7, "rules is a list of Rule, not int"),
    ],
)
def test_what_is_no_list_of_rules(rules, message):
    with pytest.raises(TypeError, match=message):
        SpectralClipper(nn.Linear(2, 2), rules=rules)


def test_a_single_rule_will_do():
    clipper = SpectralClipper(nn.Linear(2, 2), rules=Rule("bias", treatment="skip"))
    assert [layer.treatment for layer in clipper.report()] == ["spectral", "skip"]


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ({}, "not nothing"),
        ({3: 1.0}, "names or globs for keys, not 3"),
        ({"weight": 1.0}, r'has none for bias; add them, or "\*" for all the others'),
        ({"*": 1.0, "wieght": 2.0}, "'wieght', which fits no parameter; names are weight, bias"),
        ({"*": "1"}, "threshold must be a number"),
    ],
)
def test_dictionaries_of_thresholds_that_do_not_fit(threshold, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SpectralClipper(nn.Linear(2, 2), threshold)


def test_a_dictionary_of_thresholds():
    model = nn.Linear(2, 2)
    clipper = SpectralClipper(model, {"bias": 0.5, "*": Ema(0.9)})
    model(torch.ones(1, 2)).sum().backward()
    assert [layer.tau for layer in clipper.step()] == [float("inf"), 0.5]
    skipped = SpectralClipper(model, {"weight": 0.5}, rules=spectralclip.skip("bias"))  # what is skipped needs none
    assert skipped.report()[0].treatment == "spectral"
    own = SpectralClipper([{"params": [("weight", model.weight)], "threshold": 3.0}], {"*": 1.0})
    assert own.step().layers[0].tau == 3.0


# --- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [-1.0, float("nan")])
def test_an_impossible_tau_is_called_by_its_name(tau):
    with pytest.raises(ValueError, match=f"^tau = {tau:g}"):
        clip_singular_values(torch.eye(3), tau)
    with pytest.raises(ValueError, match=f"^max_sigma = {tau:g}"):
        clip_grad_spectral_([with_gradient(torch.eye(3))], tau)


@pytest.mark.parametrize("parameters", [nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)), 3, ["w"]], ids=str)
def test_clip_grad_spectral_takes_tensors(parameters):
    with pytest.raises(TypeError, match=r"parameters must be (a tensor|tensors)"):
        clip_grad_spectral_(parameters, 1.0)
    list(nn.Linear(2, 2).named_parameters())
    with pytest.raises(TypeError, match=r"not tuple: model\.parameters"):
        clip_grad_spectral_(nn.Linear(2, 2).named_parameters(), 1.0)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "this is no state of a SpectralClipper: it has no keys at all"),
        ({"model": 1, "optimizer": 2}, "it has keys model, optimizer"),
        ({"format": "spectralclip.clipper", "version": 1}, 'incomplete: it has no "state", only keys format, version'),
        ({"format": "spectralclip.clipper", "version": 1, "state": b""}, 'damaged: its "state" has no bytes'),
        ({"format": "spectralclip.clipper", "version": 1, "state": "x"}, "is str, not bytes"),
        (None, "a state is the dict of state_dict"),
    ],
)
def test_what_is_no_state(state, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SpectralClipper(nn.Linear(2, 2)).load_state_dict(state)


def test_a_preset_has_a_name():
    with pytest.raises(ValueError, match="preset = 'paper' is neither None nor \"published\""):
        SpectralClipper(nn.Linear(2, 2), preset="paper")


# --- options of the integrations, when they are given ---------------------------------------------------------------


def _callbacks():
    found = []
    for name in ("transformers", "lightning"):
        try:
            found.append(__import__(f"spectralclip.integrations.{name}", fromlist=["x"]).SpectralClipCallback)
        except ImportError:
            continue
    return found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"treshold": 1.0}, 'no option "treshold"; did you mean "threshold"?'),
        ({"threshold": Ema(1.5)}, "decay = 1.5"),
        ({"method": "grim"}, "grim"),
        ({"rules": "*.weight"}, "not the text"),
        ({"preset": "paper"}, "neither None"),
    ],
)
def test_options_of_callbacks_are_checked_when_they_are_given(options, message):
    callbacks = _callbacks() or pytest.skip("needs transformers or lightning")
    for callback in callbacks:
        with pytest.raises((TypeError, ValueError), match=message.replace("?", r"\?")):
            callback(**options)
    for callback in callbacks:
        callback(threshold={"*.special": 1.0, "*": 2.0}, rules=spectralclip.skip("nothing.here"))
