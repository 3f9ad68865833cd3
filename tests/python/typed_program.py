# SPDX-License-Identifier: Apache-2.0
"""A user's program, for mypy --strict."""

import torch

import spectralclip
from spectralclip.integrations import metrics

model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9), rules=spectralclip.skip("1.*"))
model(torch.ones(2, 4)).sum().backward()
report = clipper.step()
norm: float = float(report.total_norm)
for layer in report:
    line: str = f"{layer.name} {layer.tau:.3g} {layer.sigma_max / max(layer.tau, 1e-9):.3g} {layer.status}"
    clipped_values: int = layer.clipped + layer.passes
clipped, clipped_report = spectralclip.clip_singular_values(torch.randn(3, 4), tau=1.0, method="gram")
largest: float = clipped_report.sigma_max
shares: list[float] = [one.removed_energy for one in spectralclip.clip_singular_values_(torch.randn(2, 3, 4), 0.5)]
spectralclip.clip_grad_spectral_(model.parameters(), max_sigma=1.0)
logged: dict[str, float] = metrics(report, fields=["tau"], layers="0.*")
observer = spectralclip.SpectralClipper(model.named_parameters(), {"*": 1.0}, observe_only=True)
observer.step()
thresholds: dict[str, float] = observer.propose(share=0.05).thresholds
names: list[str] = [plan.name for plan in clipper.describe() if plan.treatment == "spectral"]
clipper.load_state_dict(clipper.state_dict())
