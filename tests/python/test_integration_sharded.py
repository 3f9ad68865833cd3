# SPDX-License-Identifier: Apache-2.0
"""Trainers on two processes under FSDP2 and DDP, the real packages."""

from __future__ import annotations

import pytest
import ranks
import sharded_scenarios as scenarios
import torch
from torch import distributed

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)


both = pytest.mark.parametrize("kind", ["fsdp2", "ddp"])


@both
def test_accelerate_trains_as_one_process_does(tmp_path, kind):
    pytest.importorskip("accelerate", reason="needs accelerate")
    expected = scenarios.plain_loop()
    for rank in ranks.run(scenarios.accelerate_loop, 2, tmp_path, kind):
        assert ("DTensor" in rank["kinds"]) == (kind == "fsdp2")
        assert rank["norms"] == pytest.approx(expected["norms"], rel=1e-4)
        assert sum(rank["clipped"]) > 0
        torch.testing.assert_close(rank["weights"], expected["weights"], rtol=1e-3, atol=1e-5)


@both
def test_lightning(tmp_path, kind):
    pytest.importorskip("lightning", reason="needs lightning")
    one, other = ranks.run(scenarios.lightning_fit, 2, tmp_path, kind, str(tmp_path / "root"))
    assert one == other and one["steps"] == 6 and one["so_far"] > 0
    assert ("DTensor" in one["kinds"]) == (kind == "fsdp2")


@both
def test_hugging_face_trainer(tmp_path, kind):
    pytest.importorskip("transformers", reason="needs transformers")
    one, other = ranks.run(scenarios.trainer_train, 2, tmp_path, kind, str(tmp_path / "out"))
    assert one == other and one["steps"] == 5
    assert ("DTensor" in one["kinds"]) == (kind == "fsdp2")
