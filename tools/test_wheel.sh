#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the package as a user does, into a folder of its own, and clips with it. The build reuses build/wheel, and with
# ccache the objects of build/torch. Without isolation, because an isolated build would fetch torch once more.
set -euo pipefail
cd "$(dirname "$0")/.."

site=build/wheel-site
rm -rf "$site"
echo "test-wheel: pip install . into $site"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --target "$site" .
cd "$site"
unset SPECTRALCLIP_LIBRARY
PYTHONPATH="$PWD" ../../.venv/bin/python - <<'PYTHON'
import pathlib

import spectralclip
import torch

here = pathlib.Path(spectralclip.__file__).resolve()
assert here.is_relative_to(pathlib.Path.cwd()), f"the installed package was not the one imported: {here}"
clipped, report = spectralclip.clip_singular_values(4 * torch.eye(20), 1.0, method="exact")
assert torch.allclose(clipped, torch.eye(20), atol=1e-6) and report.clipped == 20, report
assert (here.parent / "py.typed").is_file(), "type hints are not installed"
print(f"test-wheel: spectralclip {spectralclip.__version__} installed and clips")
PYTHON
