# SPDX-License-Identifier: Apache-2.0
"""A run that was saved and continued elsewhere is the run that was not: bit for bit, from a new process, through
torch's own files.  What does not belong is refused with a reason and changes nothing."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from reference import EPS, bits
from torch import nn

from spectralclip import Constant, Ema, Quantile, Rule, SpectralClipper

STEPS, SAVED_AT = 11, 7
THRESHOLDS = {"constant": Constant(1.5), "ema": Ema(0.9), "quantile": Quantile(0.6, window=4)}
CASES = [
    ("tracked", "ema", "core", "float32"),
    ("tracked", "quantile", "core", "float64"),
    ("tracked", "ema", "core", "bfloat16"),
    ("sketched", "quantile", "core", "float32"),
    ("exact", "ema", "core", "float32"),
    ("auto", "constant", "core", "float32"),
    ("tracked", "ema", "aten", "float32"),
    ("tracked", "quantile", "aten", "float64"),
    ("tracked", "quantile", "aten", "bfloat16"),
    ("sketched", "ema", "aten", "float32"),
    ("gram", "quantile", "aten", "float32"),
]


SHAPES = [
    ("conv", (8, 3, 3, 3)),
    ("fc.weight", (20, 12)),
    ("fc2.weight", (20, 12)),
    ("experts", (2, 20, 12)),
    ("bias", (11,)),
]


def make_parameters(dtype: str) -> list[tuple[str, nn.Parameter]]:
    shapes = dict(SHAPES)
    return [(name, nn.Parameter(torch.zeros(shape, dtype=getattr(torch, dtype)))) for name, shape in shapes.items()]


def make_clipper(parameters, method: str, threshold: str, backend: str) -> SpectralClipper:
    rules = [Rule("experts", batch_axes=1)]
    return SpectralClipper(parameters, THRESHOLDS[threshold], method=method, backend=backend, rules=rules, seed=7)


def run(clipper: SpectralClipper, parameters, first: int, last: int) -> list:
    """Steps [first, last): thresholds, and gradients as bits.  The stream of gradients depends on the step alone."""
    record = []
    for step in range(first, last):
        generator = torch.Generator().manual_seed(1000 + step)
        for name, p in parameters:
            G = torch.randn(p.shape, generator=generator) * (1 + 6 * (step % 4 == 3))
            p.grad = None if name == "fc2.weight" and step % 5 == 3 else G.to(p.dtype)  # comes and goes
        report = clipper.step()
        record.append({
            "tau": [float(layer.tau).hex() for layer in report.layers],
            "clipped": [layer.clip.clipped if layer.clip else None for layer in report.layers],
            "steps": [(layer.steps, layer.steps_clipped) for layer in report.layers],
            "norm": float(report.total_norm).hex(),
            "bits": [bits(p.grad).hex() if p.grad is not None else None for _, p in parameters],
        })  # fmt: skip
    return json.loads(json.dumps(record))


# What the other process does: nothing of this one but the file.
CONTINUE = """
import json, sys, torch
sys.path.insert(0, {here!r})
import test_checkpoint as t
result = []
for number, case in enumerate(t.CASES):
    method, threshold, backend, dtype = case
    parameters = t.make_parameters(dtype)
    clipper = t.make_clipper(parameters, method, threshold, backend)
    clipper.load_state_dict(torch.load(sys.argv[1], weights_only=True)[number])
    result.append([clipper.steps, t.run(clipper, parameters, t.SAVED_AT, t.STEPS)])
json.dump(result, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory) -> tuple[list, list]:
    """For each case, steps SAVED_AT to the end: of the run that went on, and of the one continued in a new process."""
    folder = tmp_path_factory.mktemp("checkpoint")
    went_on, states = [], []
    for method, threshold, backend, dtype in CASES:
        parameters = make_parameters(dtype)
        clipper = make_clipper(parameters, method, threshold, backend)
        run(clipper, parameters, 0, SAVED_AT)
        states.append(clipper.state_dict())
        went_on.append([clipper.steps, run(clipper, parameters, SAVED_AT, STEPS)])
    torch.save(states, folder / "states.pt")
    script = CONTINUE.format(here=str(pathlib.Path(__file__).parent))
    command = [sys.executable, "-c", script, str(folder / "states.pt"), str(folder / "result.json")]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)
    return went_on, json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_new_process_continues_bit_for_bit(case, two_processes):
    went_on, continued = (result[CASES.index(case)] for result in two_processes)
    assert continued[0] == went_on[0] == SAVED_AT
    for step, (expected, found) in enumerate(zip(went_on[1], continued[1]), SAVED_AT):
        for what in expected:
            assert found[what] == expected[what], f"{what} of step {step}"
    assert any(count for step in went_on[1] for count in step["clipped"] if count)  # it did clip


@pytest.mark.parametrize("method", ["tracked", "sketched"])
@pytest.mark.parametrize("backend", ["core", "aten"])
def test_continues_bit_for_bit_after_a_step_that_was_left(method, backend):
    """leave_all: the step counts for nobody, nor for the random columns of the layers that were finite."""
    parameters = [("a", nn.Parameter(torch.zeros(20, 12))), ("b", nn.Parameter(torch.zeros(20, 12)))]

    def clip(clipper, step):
        generator = torch.Generator().manual_seed(step)
        for name, p in parameters:
            p.grad = torch.randn(20, 12, generator=generator) * (1 + 3 * (step % 2))
            if name == "b" and step == 2:
                p.grad[3, 3] = float("nan")
        report = clipper.step()
        return [float(layer.tau).hex() for layer in report.layers], [bits(p.grad) for _, p in parameters]

    def make():
        return SpectralClipper(parameters, Ema(0.9), method=method, on_nonfinite="leave_all", backend=backend, rank=3)

    first, second = make(), make()
    for step in range(5):
        clip(first, step)
    second.load_state_dict(first.state_dict())
    for step in range(5, 9):
        assert clip(first, step) == clip(second, step), step


def test_saving_does_not_disturb_the_run():
    for method, threshold, backend, dtype in CASES:
        runs = []
        for saves in (False, True):
            parameters = make_parameters(dtype)
            clipper = make_clipper(parameters, method, threshold, backend)
            record = []
            for step in range(6):
                record += run(clipper, parameters, step, step + 1)
                if saves:
                    clipper.state_dict()
            runs.append(record)
        assert runs[0] == runs[1], (method, threshold, backend, dtype)


@pytest.mark.parametrize(("source", "target"), [("core", "aten"), ("aten", "core")])
def test_one_state_serves_both_backends(source, target):
    """Thresholds go over: those of the next step agree but for the last bits of a power (core) and expm1 (aten)."""
    parameters = make_parameters("float32")
    first = make_clipper(parameters, "tracked", "ema", source)
    run(first, parameters, 0, SAVED_AT)
    second = make_clipper(parameters, "tracked", "ema", target)
    second.load_state_dict(first.state_dict())
    expected, found = (run(c, parameters, SAVED_AT, SAVED_AT + 1)[0] for c in (first, second))
    assert found["steps"] == expected["steps"]
    for a, b in zip(found["tau"], expected["tau"]):
        assert float.fromhex(a) == pytest.approx(float.fromhex(b), rel=4 * EPS[torch.float64])
    clipped = [count for count in expected["clipped"] if count]
    assert clipped and found["clipped"] == expected["clipped"]


def test_state_is_plain_and_torch_load_reads_it_safely(tmp_path):
    parameters = make_parameters("float32")
    clipper = make_clipper(parameters, "tracked", "ema", "core")
    run(clipper, parameters, 0, 3)
    state = clipper.state_dict()
    assert {type(value) for value in state.values()} <= {str, int, bytes} and state["steps"] == 3
    torch.save({"clipper": state, "model": {}}, tmp_path / "all.pt")
    assert torch.load(tmp_path / "all.pt", weights_only=True)["clipper"] == state


def test_distributed_checkpoint_saves_and_loads_it(tmp_path):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    parameters = make_parameters("float32")
    clipper = make_clipper(parameters, "tracked", "quantile", "core")
    run(clipper, parameters, 0, SAVED_AT)
    dcp.save({"clipper": clipper, "step": SAVED_AT}, checkpoint_id=str(tmp_path / "dcp"))
    expected = run(clipper, parameters, SAVED_AT, STEPS)
    other = make_clipper(parameters, "tracked", "quantile", "core")
    dcp.load({"clipper": other, "step": 0}, checkpoint_id=str(tmp_path / "dcp"))
    assert other.steps == SAVED_AT
    assert run(other, parameters, SAVED_AT, STEPS) == expected


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.fixture
def trained():
    parameters = make_parameters("float32")
    clipper = make_clipper(parameters, "tracked", "ema", "core")
    run(clipper, parameters, 0, 4)
    return clipper


def refused(clipper: SpectralClipper, state: dict, kind: type[Exception] = (ValueError, RuntimeError)) -> str:
    before = clipper.state_dict()
    with pytest.raises(kind) as caught:
        clipper.load_state_dict(state)
    assert clipper.state_dict() == before and before["steps"] == 4
    return str(caught.value)


def other_state(named, threshold=Ema(0.9)) -> dict:
    parameters = [(name, nn.Parameter(torch.zeros(shape))) for name, shape in named]
    return SpectralClipper(parameters, threshold, rules=[Rule("experts", batch_axes=1)]).state_dict()


def test_another_models_state_names_what_differs(trained):
    renamed = [("fc.weights" if name == "fc.weight" else name, shape) for name, shape in SHAPES]
    assert "fc.weight" in refused(trained, other_state(renamed))
    reshaped = [(name, (20, 13) if name == "fc.weight" else shape) for name, shape in SHAPES]
    message = refused(trained, other_state(reshaped))
    assert "fc.weight" in message and "20" in message and "12" in message and "13" in message
    assert "bias" in refused(trained, other_state(SHAPES[:-1]))
    assert "extra" in refused(trained, other_state([*SHAPES, ("extra", (2, 2))]))
    fewer_experts = [(name, (1, 20, 12) if name == "experts" else shape) for name, shape in SHAPES]
    assert "experts" in refused(trained, other_state(fewer_experts))


def test_a_state_of_another_policy_keeps_the_steps_and_what_it_can_of_the_past():
    """Options may change between runs: the past under the options of today."""
    parameters = make_parameters("float32")
    ema = make_clipper(parameters, "tracked", "ema", "core")
    run(ema, parameters, 0, 4)
    quantile = make_clipper(parameters, "tracked", "quantile", "core")
    quantile.load_state_dict(ema.state_dict())
    assert quantile.steps == 4 and quantile.report()[0].steps == 4
    first, second = run(quantile, parameters, 4, 6)
    assert "inf" not in first["tau"] and "inf" not in second["tau"]  # the window starts with the average


def test_damaged_bytes_are_refused(trained):
    state = trained.state_dict()
    good = state["state"]
    for place in {0, 5, 9, 17, len(good) // 3, len(good) // 2, len(good) - 5, len(good) - 1}:
        for flip in (0x01, 0x80):
            bad = bytearray(good)
            bad[place] ^= flip
            assert refused(trained, {**state, "state": bytes(bad)})
    for bad in (good[:-1], good[: len(good) // 2], good[:3], b"", good + b"\0", good + good, b"\x80\x04N." * 40):
        assert refused(trained, {**state, "state": bad})
    trained.load_state_dict(state)  # and the undamaged one is taken


def test_other_files_are_refused(trained):
    state = trained.state_dict()
    assert "no state of a SpectralClipper" in refused(trained, {}, ValueError)
    assert "no state of a SpectralClipper" in refused(trained, {"param_groups": [], "state": {}}, ValueError)
    assert "2" in refused(trained, {**state, "version": 2}, ValueError)
    refused(trained, {key: value for key, value in state.items() if key != "state"}, (KeyError, ValueError))


# --- another threshold ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saved", "loaded", "said"),
    [
        (Ema(0.9), Ema(0.95), r"threshold ema\(0.9\) -> ema\(0.95\): its average is kept"),
        (Ema(0.9), Quantile(0.5, window=4), "the window starts with the average as its only value"),
        (Quantile(0.5, window=8), Ema(0.9), "the average starts from the window's values"),
        (Quantile(0.5, window=8), Quantile(0.9, window=4), None),
        (Ema(0.9), Ema(0.9, slack=2.0), None),
        (Constant(1.0), Ema(0.9), "a constant threshold has no past to give"),
    ],
    ids=str,
)
def test_a_state_of_another_threshold_keeps_what_can_be_kept(saved, loaded, said, recwarn):
    p = nn.Parameter(torch.zeros(3, 3))
    before, after = (
        SpectralClipper([("w", p)], saved, method="exact"),
        SpectralClipper([("w", p)], loaded, method="exact"),
    )
    for scale in (2.0, 3.0, 4.0, 5.0):
        p.grad = scale * torch.eye(3)
        before.step()
    after.load_state_dict(before.state_dict())
    told = [str(w.message) for w in recwarn if "load_state_dict" in str(w.message)]
    assert len(told) == (said is not None)
    if said is not None:
        assert re.search(said, told[0]) and "layers w" in told[0]
    p.grad = 100 * torch.eye(3)
    tau = after.step().layers[0].tau
    if isinstance(saved, Constant):
        assert tau == float("inf")
    else:
        assert 2.0 <= tau <= 2 * 5.0  # an average or a quantile of what was seen, not infinity
