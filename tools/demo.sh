#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rows of the paper's Table 1 with a third of their steps and two seeds each, their table and their report. Takes a
# minute or two on two cores. runs/demo is made anew.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly program=build/torch/cli/spectralclip out=runs/demo
readonly rows=(sgdm-norm sgdm-spectral-constant sgdm-spectral-ema sgdm-spectral-quantile adam adam-norm)

rm -rf "$out"
echo "demo: a perceptron learns x1 x2 x3 while heavy-tailed noise hits its gradients (training loss, smaller is better)"
"$program" run "${rows[@]/#/mlp-heavy-tail-}" --seeds 1..2 --out "$out" \
  --set train.steps=10000 --set record.spectra_every=2500
"$program" report "$out" --title "Norm and spectral clipping under heavy-tailed noise" --no-table
