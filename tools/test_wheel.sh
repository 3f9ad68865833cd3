#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the newest wheel of dist/ into a new virtual environment and clips with it. torch comes from .venv by a .pth
# file, because fetching it once more would take longer than everything else here. Neither step finds a compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

shopt -s nullglob
wheels=(dist/spectralclip-*.whl)
[[ ${#wheels[@]} -gt 0 ]] || { echo "test-wheel: no wheel in dist/; make wheel" >&2; exit 1; }
# shellcheck disable=SC2012  # names of wheels hold no odd characters
wheel="$(ls -t "${wheels[@]}" | head -n 1)"

venv=build/wheel-venv
rm -rf "$venv"
python3 -m venv "$venv"
site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
echo "import site; site.addsitedir('$(site .venv)')" >"$(site "$venv")/torch-of-the-checkout.pth"
echo "test-wheel: $wheel into $venv"
# Whoever installs a wheel need have nothing to compile with: from here on there are only the programs of the environment.
PATH="$PWD/$venv/bin"
for tool in cc c++ gcc g++ clang clang++ cmake ninja make ld; do
  if command -v "$tool"; then echo "test-wheel: $tool is still there" >&2; exit 1; fi
done
python -m pip install --quiet --disable-pip-version-check --no-deps "$wheel"
cd "$venv"
unset SPECTRALCLIP_LIBRARY PYTHONPATH
bin/python - <<'PYTHON'
import pathlib
import sys

import spectralclip
import torch

here = pathlib.Path(spectralclip.__file__).resolve()
assert here.is_relative_to(pathlib.Path(sys.prefix).resolve()), f"the wheel was not what was imported: {here}"
clipped, report = spectralclip.clip_singular_values(4 * torch.eye(20), 1.0, method="exact")
assert torch.allclose(clipped, torch.eye(20), atol=1e-6) and report.clipped == 20, report
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
clipper = spectralclip.SpectralClipper(model, threshold=0.01)
model(torch.randn(16, 32)).square().mean().backward()
step = clipper.step()
assert float(step.total_norm) > 0 and any(layer.clipped for layer in clipper.report()), clipper.report()
assert (here.parent / "py.typed").is_file(), "type hints are not installed"
print(f"test-wheel: spectralclip {spectralclip.__version__} installed and clips")
PYTHON
# A user's program against the installed types; mypy itself is the checkout's.
../../.venv/bin/python -m mypy --strict --python-executable bin/python --cache-dir mypy-cache ../../tests/python/typed_program.py
