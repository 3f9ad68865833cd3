# SPDX-License-Identifier: Apache-2.0
"""A GPT of nanoGPT's proportions, and a made-up text with something in it to learn."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class GptShape:
    layers: int = 6
    heads: int = 6
    width: int = 384
    context: int = 256
    vocabulary: int = 65


class Block(nn.Module):
    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.ln_1 = nn.LayerNorm(shape.width)
        self.c_attn = nn.Linear(shape.width, 3 * shape.width)
        self.attn_proj = nn.Linear(shape.width, shape.width)
        self.ln_2 = nn.LayerNorm(shape.width)
        self.c_fc = nn.Linear(shape.width, 4 * shape.width)
        self.mlp_proj = nn.Linear(4 * shape.width, shape.width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(C, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn_proj(mixed.transpose(1, 2).reshape(B, T, C))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.wte = nn.Embedding(shape.vocabulary, shape.width)  # also the head
        self.wpe = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = (2 * shape.layers) ** -0.5 if name.endswith("proj.weight") else 1.0
                nn.init.normal_(parameter, std=0.02 * residual)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        hidden = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.ln_f(hidden) @ self.wte.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten())

    def matrices(self) -> list[tuple[str, nn.Parameter]]:
        """What spectral clipping clamps: the weights of the blocks."""
        return [(name, p) for name, p in self.named_parameters() if p.dim() == 2 and name.startswith("blocks.")]


def batches(shape: GptShape, batch: int, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Texts of a random Markov chain in which each symbol is followed by one of five: (x, y), y one symbol ahead."""
    generator = torch.Generator().manual_seed(1)
    followers = torch.randint(shape.vocabulary, (shape.vocabulary, 5), generator=generator)
    tokens = torch.empty(count * batch, shape.context + 1, dtype=torch.long)
    tokens[:, 0] = torch.randint(shape.vocabulary, (count * batch,), generator=generator)
    for t in range(shape.context):
        choice = torch.randint(5, (count * batch,), generator=generator)
        tokens[:, t + 1] = followers[tokens[:, t], choice]
    return [(part[:, :-1].contiguous(), part[:, 1:].contiguous()) for part in tokens.split(batch)]
