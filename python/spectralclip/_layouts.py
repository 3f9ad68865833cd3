# SPDX-License-Identifier: Apache-2.0
"""What a module shows beyond its names: embeddings, heads and stacked experts, as rules.

Heads and experts are found by what models of Hugging Face transformers tell about themselves
(``get_output_embeddings()``, ``base_model_prefix``, modules whose class is called ``...Experts``), without
importing it.
"""

from __future__ import annotations

from torch import nn

from .rules import Rule, _literal, skip_embeddings

_EXPERT_LABEL = "experts by type: one matrix each"
_HEAD_LABEL = "head by type: skipped"


def rules_of(model: nn.Module) -> list[Rule]:
    """The rules that stand between the user's and the default ones."""
    return [*skip_embeddings(model), *_skip_heads(model), *_split_experts(model)]


def _skip_heads(model: nn.Module) -> list[Rule]:
    heads: set[int] = set()
    for name, inner in model.named_modules():
        if hasattr(inner, "get_output_embeddings") and hasattr(inner, "base_model_prefix"):
            heads.update(_heads_of(inner, is_whole=name == ""))
    return [
        Rule(_literal(name), treatment="skip", label=_HEAD_LABEL)
        for name, parameter in model.named_parameters()
        if id(parameter) in heads
    ]


def _heads_of(model: nn.Module, is_whole: bool) -> set[int]:
    """Ids of the weights and biases of the output layers of one transformers model."""
    layers: list[nn.Module] = []
    try:
        output = model.get_output_embeddings()  # type: ignore[operator]
    except (NotImplementedError, AttributeError):
        output = None
    if isinstance(output, nn.Module):
        layers.append(output)
    base = getattr(model, str(model.base_model_prefix), None)
    if is_whole and isinstance(base, nn.Module):
        # Outside the backbone stand pooling, a dense layer or two, and last the layer that makes the classes.
        for child in model.children():
            linear = [m for m in child.modules() if isinstance(m, nn.Linear)]
            if child is not base and linear:
                layers.append(linear[-1])
    return {id(p) for layer in layers for p in layer._parameters.values() if p is not None}


def _split_experts(model: nn.Module) -> list[Rule]:
    """Parameters with an axis for experts in front, whatever their name: (e, m, n) is e matrices, a bias (e, n) e
    vectors."""
    rules = []
    for prefix, module in model.named_modules():
        if "Expert" not in type(module).__name__:
            continue
        for key, parameter in module._parameters.items():
            name = _literal(f"{prefix}.{key}" if prefix else key)
            if parameter is not None and parameter.dim() == 3:
                rules.append(Rule(name, batch_axes=1, label=_EXPERT_LABEL))
            elif parameter is not None and parameter.dim() == 2 and "bias" in key:
                label = "biases of experts by type: one vector each, norm"
                rules.append(Rule(name, treatment="norm", batch_axes=1, label=label))
    return rules
