# SPDX-License-Identifier: Apache-2.0
"""Trainers on two processes, the real packages: Accelerate and Lightning under FSDP2, Hugging Face Trainer under DDP."""

from __future__ import annotations

import pytest
import ranks
import sharded_scenarios as scenarios
import torch
from torch import distributed

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)


def test_accelerate_under_fsdp2_trains_as_one_process_does(tmp_path):
    pytest.importorskip("accelerate", reason="needs accelerate")
    expected = scenarios.plain_loop()
    for rank in ranks.run(scenarios.accelerate_fsdp2, 2, tmp_path):
        assert rank["kinds"] == {"DTensor"}
        assert rank["norms"] == pytest.approx(expected["norms"], rel=1e-4)
        assert sum(rank["clipped"]) > 0
        torch.testing.assert_close(rank["weights"], expected["weights"], rtol=1e-3, atol=1e-5)


def test_lightning_under_fsdp2(tmp_path):
    pytest.importorskip("lightning", reason="needs lightning")
    one, other = ranks.run(scenarios.lightning_fsdp2, 2, tmp_path, str(tmp_path / "root"))
    assert one == other and one["steps"] == 6 and one["kinds"] == {"DTensor"} and one["so_far"] > 0


def test_hugging_face_trainer_under_ddp(tmp_path):
    pytest.importorskip("transformers", reason="needs transformers")
    one, other = ranks.run(scenarios.trainer_ddp, 2, tmp_path, str(tmp_path / "out"))
    assert one == other and one["steps"] == 5
