# SPDX-License-Identifier: Apache-2.0
"""Real architectures, from their own configurations: experts one by one, heads and embeddings left alone, whatever
their names.  And the table that shows it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spectralclip import SpectralClipper

transformers = pytest.importorskip("transformers", reason="needs transformers")

BASE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64}
MOE = {**BASE, "num_key_value_heads": 2, "num_local_experts": 4}
BERT = {**BASE, "num_attention_heads": 2, "num_hidden_layers": 1}

# architecture: (configuration, what is made of some of its parameters). "E x (m, n)": E matrices.
MODELS = {
    "MixtralForCausalLM": (MOE, {
        "model.layers.1.mlp.experts.gate_up_proj": "4 x (96, 32)",
        "model.layers.0.mlp.experts.down_proj": "4 x (32, 48)",
        "model.layers.0.mlp.gate.weight": "1 x (4, 32)", "lm_head.weight": "skip", "model.embed_tokens.weight": "skip",
    }),
    "GptOssForCausalLM": ({**MOE, "head_dim": 8}, {
        "model.layers.0.mlp.experts.gate_up_proj": "4 x (32, 96)",
        "model.layers.0.mlp.experts.gate_up_proj_bias": "norm 4 x (1, 96)",
        "model.layers.0.self_attn.q_proj.weight": "1 x (32, 32)", "lm_head.weight": "skip",
    }),
    "JetMoeForCausalLM": ({**MOE, "kv_channels": 8, "num_hidden_layers": 1}, {
        "model.layers.0.mlp.input_linear.weight": "4 x (96, 32)",
        "model.layers.0.mlp.router.layer.weight": "1 x (4, 32)",
        "model.layers.0.self_attention.experts.output_linear.weight": "4 x (32, 16)",
    }),
    "GraniteMoeForCausalLM": (MOE, {"model.layers.0.block_sparse_moe.experts.down_proj": "4 x (32, 48)"}),
    "BertForSequenceClassification": (BERT, {
        "classifier.weight": "skip", "classifier.bias": "skip", "bert.pooler.dense.weight": "1 x (32, 32)",
        "bert.encoder.layer.0.attention.output.dense.weight": "1 x (32, 32)",
        "bert.encoder.layer.0.output.dense.weight": "1 x (32, 48)",
        "bert.embeddings.LayerNorm.weight": "norm 1 x (1, 32)",
        "bert.embeddings.position_embeddings.weight": "skip",
    }),
    "RobertaForSequenceClassification": (BERT, {
        "classifier.dense.weight": "1 x (32, 32)", "classifier.out_proj.weight": "skip",
    }),
    "BertForMaskedLM": (BERT, {
        "cls.predictions.transform.dense.weight": "1 x (32, 32)", "cls.predictions.bias": "skip",
        "bert.embeddings.word_embeddings.weight": "skip",
    }),
    "BertForQuestionAnswering": (BERT, {"qa_outputs.weight": "skip"}),
    "ViTForImageClassification": ({**BERT, "image_size": 32, "patch_size": 8}, {
        "classifier.weight": "skip", "vit.embeddings.patch_embeddings.projection.weight": "1 x (32, 192)",
    }),
    "GPTNeoXForCausalLM": ({**BASE}, {
        "gpt_neox.embed_in.weight": "skip", "gpt_neox.layers.0.attention.dense.weight": "1 x (32, 32)",
    }),
    "GPT2LMHeadModel": ({"n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 64, "n_positions": 16}, {
        "transformer.wte.weight": "skip", "transformer.h.0.attn.c_attn.weight": "1 x (32, 96)",
    }),
    "T5ForConditionalGeneration": ({"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4,
                                    "vocab_size": 64}, {
        "shared.weight": "skip", "decoder.block.0.layer.1.EncDecAttention.q.weight": "1 x (32, 32)",
    }),
}  # fmt: skip


def made(architecture: str, options: dict) -> nn.Module:
    kind = getattr(transformers, architecture, None)
    if kind is None:
        pytest.skip(f"this transformers has no {architecture}")
    with torch.device("meta"):
        return kind(kind.config_class(**options))


def plan_texts(clipper: SpectralClipper) -> dict[str, str]:
    prefix = {"spectral": "", "norm": "norm "}
    return {
        p.name: "skip" if p.treatment == "skip" else f"{prefix[p.treatment]}{p.matrices} x {p.matrix}"
        for p in clipper.describe()
    }


@pytest.mark.parametrize("architecture", MODELS)
def test_what_is_made_of_a_transformer(architecture):
    options, expected = MODELS[architecture]
    model = made(architecture, options)
    found = plan_texts(SpectralClipper(model, 1.0))
    assert {name: found[name] for name in expected} == expected
    heads = model.get_output_embeddings()
    if heads is not None:
        ids = {id(p) for p in heads.parameters()}
        assert all(found[name] == "skip" for name, p in model.named_parameters() if id(p) in ids)
    # Nothing with more than two axes was flattened but convolutions.
    for plan in SpectralClipper(model, 1.0).describe():
        assert len(plan.shape) != 3 or plan.matrices == plan.shape[0] or plan.shape[0] == 1, plan


def test_heads_and_experts_inside_a_larger_module():
    """A LightningModule or DDP holds the model; adapters and the rest of it are clipped."""
    options, _ = MODELS["MixtralForCausalLM"]
    outer = nn.ModuleDict({"net": made("MixtralForCausalLM", options), "extra": nn.Linear(4, 4, device="meta")})
    found = plan_texts(SpectralClipper(outer, 1.0))
    assert found["net.lm_head.weight"] == "skip" and found["extra.weight"] == "1 x (4, 4)"
    assert found["net.model.layers.0.mlp.experts.gate_up_proj"] == "4 x (96, 32)"


def test_experts_are_clipped_one_by_one():
    options, _ = MODELS["MixtralForCausalLM"]
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**options))
    stack = model.model.layers[0].mlp.experts.gate_up_proj
    stack.grad = torch.randn(stack.shape) * torch.tensor([1.0, 2.0, 0.01, 8.0]).view(-1, 1, 1)
    before = stack.grad.clone()
    SpectralClipper(model, 5.0, method="exact").step()
    assert torch.allclose(torch.linalg.matrix_norm(stack.grad, 2), torch.linalg.matrix_norm(before, 2).clamp(max=5.0))
    assert torch.equal(stack.grad[2], before[2])


# --- by name alone, where there is no module to ask -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("head.weight", (9, 4), "skip"),
        ("classifier.weight", (9, 4), "skip"),
        ("output.weight", (9, 4), "skip"),
        ("module.output.weight", (9, 4), "skip"),
        ("lm_head.weight", (9, 4), "skip"),
        ("layers.0.attention.output.weight", (9, 4), "1 x (9, 4)"),
        ("layers.0.head.weight", (9, 4), "1 x (9, 4)"),
        ("heads.0.weight", (9, 4), "1 x (9, 4)"),
        ("layers.0.mlp.experts.w1", (3, 9, 4), "3 x (9, 4)"),
        ("layers.0.mlp.experts.b1_bias", (3, 9), "norm 3 x (1, 9)"),
        ("layers.0.mlp.experts.0.w1.weight", (9, 4), "1 x (9, 4)"),
        ("conv.weight", (3, 9, 4), "1 x (3, 36)"),
    ],
)
def test_names_that_say_what_they_are(name, shape, expected):
    clipper = SpectralClipper([(name, nn.Parameter(torch.zeros(shape)))])
    assert list(plan_texts(clipper).values()) == [expected]


# --- the table ------------------------------------------------------------------------------------------------------


def test_the_table_joins_what_differs_by_number_only():
    model = made("GPT2LMHeadModel", {**MODELS["GPT2LMHeadModel"][0], "n_layer": 12})
    model.transformer.h[3].requires_grad_(False)
    description = SpectralClipper(model, {"*": 2.0}).describe()
    text = str(description)
    assert "transformer.h.{0,1,2,4,5,6,7,8,9,10,11}.attn.c_attn.weight" in text
    assert any("transformer.h.3.attn.c_attn.weight" in line and "(frozen)" in line for line in text.splitlines())
    assert "32 x 96" in text and "embedding by type: skipped" in text and "constant(2)" in text
    assert text.splitlines()[-1] == "-> 48 by singular values, 98 by norm, 2 skipped; 155,072 entries"
    assert len(description) == len(list(model.parameters())) and description[0].name == "transformer.wte.weight"
    assert "<table>" in description._repr_html_()
    assert all(len(line) < 160 for line in text.splitlines())
