# SPDX-License-Identifier: Apache-2.0
"""Networks of the laboratory: the models that everyone uses, resumed runs, what a run says about its clipper."""

from __future__ import annotations

import math
import signal
import struct
import time

import numpy as np
import pytest
from lab_tool import call, checkpoint_sections, lines, metrics_without_time, needs_program, settings, start, summary

pytestmark = needs_program

TINY = settings(
    nanogpt__layers=2,
    nanogpt__heads=2,
    nanogpt__width=32,
    nanogpt__context=32,
    nanogpt__eval_samples=8,
    nanogpt__final_samples=16,
    train__batch=4,
    train__steps=60,
    record__checkpoint_every=20,
    record__eval_every=20,
    record__layers_every=10,
    record__certify_every=5,
    threads=1,
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Words in random order: 65 symbols, and something to learn."""
    generator = np.random.default_rng(7)
    symbols = [chr(33 + i) for i in range(64)]
    words = ["".join(generator.choice(symbols, 5)) for _ in range(40)]
    path = tmp_path_factory.mktemp("text") / "input.txt"
    path.write_text("".join(symbols) + " " + " ".join(generator.choice(words, 4000)))
    return path


def run(preset, out, *words):
    done = call("run", preset, *words, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def assert_same_run(one, other):
    assert summary(one)["results"] == summary(other)["results"]
    assert metrics_without_time(one) == metrics_without_time(other)
    assert (one / "layers.jsonl").read_bytes() == (other / "layers.jsonl").read_bytes()
    first, second = checkpoint_sections(one), checkpoint_sections(other)
    # torch writes an optimizer's state in the order of its tensors' addresses: equal weights in the end speak for it.
    for name in first.keys() - {"timing"}:
        assert name.startswith("optimizer") or first[name] == second[name], name


def kill_and_resume(preset, whole, out, *words):
    """Killed without warning some times on the way; then to the end."""
    seconds = summary(whole)["seconds"]
    for moment in (0.3, 0.5, 0.7):
        process = start("run", preset, *words, "--out", out, "--resume", "--quiet")
        time.sleep(0.5 + moment * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    run(preset, out, *words, "--resume")
    assert_same_run(whole, out)


def test_nanogpt_is_as_large_as_nanogpt_says(text, tmp_path):
    """10.65 M, as nanoGPT prints it: no biases, the table of positions left out."""
    words = settings(data__path=text, nanogpt__bias="false", nanogpt__qkv="fused", train__steps=1, train__batch=1)
    words += settings(nanogpt__eval_samples=1, nanogpt__final_samples=1, threads=1, record__layers_every=0)
    facts = summary(run("nanogpt-shakespeare", tmp_path / "run", *words))
    counted = facts["results"]["parameters"] - 256 * 384
    assert counted == 6 * 12 * 384**2 + 65 * 384 + 13 * 384 and f"{counted / 1e6:.2f}" == "10.65"


@pytest.mark.parametrize("preset", ["nanogpt-shakespeare", "nanogpt-shakespeare-sgdm-spectral-ema"])
def test_a_language_model_learns_and_resumes_to_the_same_bits(text, tmp_path, preset):
    """Dropout, batches and the clipper's subspaces included."""
    words = [*TINY, *settings(data__path=text, optimizer__lr=0.05, nanogpt__dropout=0.2)]
    whole = run(preset, tmp_path / "whole", *words)
    logged = lines(whole / "metrics.jsonl")
    assert abs(logged[0]["loss"] - math.log(65)) < 0.1, "the first loss is that of knowing nothing"
    results = summary(whole)["results"]
    assert results["val_loss"] < logged[0]["loss"] - 0.3
    assert results["best_val_loss"] <= results["val_loss"]
    kill_and_resume(preset, whole, tmp_path / "resumed", *words)


def test_what_the_clipper_promised_is_checked(text, tmp_path):
    words = [*TINY, *settings(data__path=text, clip__tau=0.01)]
    facts = summary(run("nanogpt-shakespeare-sgdm-spectral-constant", tmp_path / "run", *words))
    certificate = facts["certificate"]
    matrices = 2 * 6  # q, k, v, out, up, down of two blocks
    assert certificate["layer_steps"] == 60 * matrices and certificate["checked"] > 0
    assert certificate["missed"] == 0 and certificate["largest_excess"] <= 1.1e-3
    layers = lines(tmp_path / "run" / "layers.jsonl")[0]["layers"]
    clipped = [layer["name"] for layer in layers if layer["sigma1"] > 0.011 and layer["n_clipped"] > 0]
    assert len(clipped) >= 4, "next to nothing was clipped: the check checked nothing"
    timing = facts["timing"]
    assert timing["train_seconds"] > 0
    assert sum(value for key, value in timing.items() if key.endswith("share")) == pytest.approx(1)


def test_a_run_without_spectral_clipping_observes(text, tmp_path):
    """sigma_max from a clipper that writes nothing is that of the gradients: the spectra say so."""
    words = [*TINY, *settings(data__path=text, record__spectra_every=10, clip__kind="global_norm", train__steps=20)]
    out = run("nanogpt-shakespeare", tmp_path / "run", *words)
    spectra = {layer["name"]: layer["before"] for layer in lines(out / "spectra.jsonl")[-1]["layers"]}
    layers = lines(out / "layers.jsonl")[-1]["layers"]
    assert len(layers) == 12
    for layer in layers:  # a pass that only decides is off by a few per cent at worst (docs/numerics.md)
        assert layer["sigma1"] == pytest.approx(max(spectra[layer["name"]]), rel=0.05) and layer["tau"] is None


def test_accumulated_passes_are_the_mean(text, tmp_path):
    """Two passes of two rows step like gradients averaged: the norm of a mean is at most the mean of norms."""
    words = [*TINY, *settings(data__path=text, train__steps=3, optimizer__lr=0.0, optimizer__weight_decay=0)]
    words += settings(optimizer__vector_lr=0.0)
    small = settings(train__batch=2)
    once = lines(run("nanogpt-shakespeare", tmp_path / "once", *words, *small) / "metrics.jsonl")
    twice = lines(
        run("nanogpt-shakespeare", tmp_path / "twice", *words, *small, *settings(train__accumulation=2))
        / "metrics.jsonl"
    )
    assert 0 < twice[0]["grad_norm_pre"] < 1.01 * once[0]["grad_norm_pre"]
    assert twice[0]["loss"] != once[0]["loss"]


def test_a_budget_of_time_ends_the_run(text, tmp_path):
    out = tmp_path / "run"
    done = call("run", "nanogpt-shakespeare", *TINY, *settings(data__path=text), "--time-budget", "2s", "--out", out)
    assert done.returncode == 0, done.stderr
    facts = summary(out)
    assert facts["status"] == "finished" and facts["step"] == facts["steps"] > 0
    assert facts["timing"]["train_seconds"] >= 2 and "val_loss" in facts["results"]


def test_samples_come_from_the_checkpoint(text, tmp_path):
    out = run("nanogpt-shakespeare", tmp_path / "run", *TINY, *settings(data__path=text, train__steps=20))
    one = call("sample", out, "--tokens", 30, "--seed", 1, "--prompt", "A")
    again, other = (
        call("sample", out, "--tokens", 30, "--seed", 1, "--prompt", "A"),
        call("sample", out, "--tokens", 30, "--seed", 2),
    )
    assert one.returncode == 0, one.stderr
    assert one.stdout == again.stdout and one.stdout != other.stdout
    assert one.stdout.startswith("A") and len(one.stdout.strip("\n")) >= 25
    assert set(one.stdout) <= set(text.read_text()) | {"\n"}
    refused = call("sample", out, "--prompt", "é")
    assert refused.returncode != 0 and "é" in refused.stderr


def test_dirty_tokens_make_learning_harder(text, tmp_path):
    clean = summary(
        run("nanogpt-shakespeare", tmp_path / "clean", *TINY, *settings(data__path=text, optimizer__lr=0.05))
    )
    words = settings(data__path=text, optimizer__lr=0.05, data__corrupt=0.5, data__corrupt_burst=32)
    dirty = summary(run("nanogpt-shakespeare", tmp_path / "dirty", *TINY, *words))
    assert dirty["results"]["val_loss"] > clean["results"]["val_loss"] + 0.05


# ---- GPT-2, against the model of `transformers`

SHAPE = {"layers": 2, "heads": 2, "width": 32, "context": 16, "vocabulary": 96}


def write_shard(path, tokens):
    header = np.zeros(256, dtype="<i4")
    header[:3] = 20240520, 1, len(tokens)
    path.write_bytes(header.tobytes() + np.asarray(tokens, dtype="<u2").tobytes())


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A GPT-2 of `transformers` with random weights of visible size, its file, and tokens."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("gpt2")
    config = transformers.GPT2Config(
        n_layer=SHAPE["layers"],
        n_head=SHAPE["heads"],
        n_embd=SHAPE["width"],
        n_positions=SHAPE["context"],
        vocab_size=SHAPE["vocabulary"],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and scales too: zeros and ones would hide a mix-up
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder, safe_serialization=True)
    write_shard(folder / "train.bin", np.random.default_rng(1).integers(0, SHAPE["vocabulary"], 2000))
    return folder, model


def gpt2_settings(folder, **more):
    words = settings(**{f"gpt2__{name}": value for name, value in SHAPE.items()})
    words += settings(data__path=folder / "train.bin", gpt2__eval_samples=2, gpt2__final_samples=4, train__batch=3)
    return words + settings(threads=1, **more)


def one_plain_step(folder, out, init):
    """SGD with rate 1 and nothing else: the weights before, less those after, are the gradients."""
    words = gpt2_settings(folder, gpt2__init=init, train__steps=1, optimizer__kind="sgd", optimizer__lr=1.0)
    words += settings(
        optimizer__vectors="same", optimizer__weight_decay=0, clip__kind="none", train__schedule="constant"
    )
    words += settings(train__warmup_steps=0, train__accumulation=1)
    return run("gpt2-fineweb", out, *words)


def test_gpt2_is_the_one_of_transformers(gpt2, tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    folder, model = gpt2
    out = one_plain_step(folder, tmp_path / "run", folder / "model.safetensors")
    tokens = np.frombuffer((folder / "train.bin").read_bytes()[1024:], dtype="<u2").astype(np.int64)
    rows = torch.tensor(np.stack([tokens[i * 16 : i * 16 + 17] for i in range(3)]))
    model.zero_grad()
    logits = model(rows[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    ours = lines(out / "metrics.jsonl")[0]
    assert ours["loss"] == pytest.approx(loss.item(), rel=1e-6)
    norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in model.parameters()])).item()
    assert ours["grad_norm_pre"] == pytest.approx(norm, rel=1e-5)
    assert call("export-model", out, tmp_path / "after.safetensors").returncode == 0
    after, before = load_file(tmp_path / "after.safetensors"), load_file(folder / "model.safetensors")
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert set(after) == set(gradients)
    for name, gradient in gradients.items():
        # The subtraction keeps the rounding of the weights: half an ulp of each; the rest is rounding of the products.
        bound = 2.0**-23 * before[name].abs().max() + 1e-5 * gradient.abs().max()
        assert ((before[name] - after[name]) - gradient).abs().max() <= bound, name


def test_the_way_back_and_llmc_files(gpt2, tmp_path):
    """Ours -> safetensors -> transformers gives the same logits; ours -> llm.c -> ours the same run."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file

    folder, _ = gpt2
    words = gpt2_settings(folder, train__steps=3, train__accumulation=1)
    out = run("gpt2-fineweb", tmp_path / "run", *words)
    home = tmp_path / "model"
    home.mkdir()
    (home / "config.json").write_bytes((folder / "config.json").read_bytes())
    assert call("export-model", out, home / "model.safetensors").returncode == 0
    again = transformers.GPT2LMHeadModel.from_pretrained(home).eval()
    tokens = np.frombuffer((folder / "train.bin").read_bytes()[1024:], dtype="<u2").astype(np.int64)
    with torch.no_grad():
        rows = torch.tensor(np.stack([tokens[i * 16 : i * 16 + 17] for i in range(3)]))
        loss = torch.nn.functional.cross_entropy(again(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()).item()
    ours = one_plain_step(folder, tmp_path / "one", home / "model.safetensors")
    assert lines(ours / "metrics.jsonl")[0]["loss"] == pytest.approx(loss, rel=1e-6)
    assert call("export-model", out, tmp_path / "model.bin").returncode == 0
    header = struct.unpack("<8i", (tmp_path / "model.bin").read_bytes()[:32])
    assert header == (20240326, 3, 16, 96, 2, 2, 32, 128)
    theirs = one_plain_step(folder, tmp_path / "two", tmp_path / "model.bin")
    assert lines(ours / "metrics.jsonl")[0]["loss"] == lines(theirs / "metrics.jsonl")[0]["loss"]
    for run_directory, name in ((ours, "a.safetensors"), (theirs, "b.safetensors")):
        assert call("export-model", run_directory, tmp_path / name).returncode == 0
    first, second = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_gpt2_resumes_to_the_same_bits(gpt2, tmp_path):
    words = gpt2_settings(
        gpt2[0], train__steps=60, train__accumulation=2, record__checkpoint_every=20, gpt2__dropout=0.1
    )
    words += settings(gpt2__order="shuffled", optimizer__kind="muon")
    whole = run("gpt2-fineweb", tmp_path / "whole", *words)
    kill_and_resume("gpt2-fineweb", whole, tmp_path / "resumed", *words)


def test_wrong_model_files_are_refused(gpt2, tmp_path):
    from safetensors.torch import load_file, save_file

    folder, _ = gpt2
    tensors = load_file(folder / "model.safetensors")
    missing = {name: value for name, value in tensors.items() if "h.1.mlp.c_fc.weight" not in name}
    turned = {
        name: (value.t().contiguous() if "h.0.mlp.c_fc.weight" in name else value) for name, value in tensors.items()
    }
    for name, wrong, word in (("missing", missing, "h.1.mlp.c_fc.weight"), ("turned", turned, "[128, 32]")):
        save_file(wrong, tmp_path / f"{name}.safetensors")
        words = gpt2_settings(folder, gpt2__init=tmp_path / f"{name}.safetensors", train__steps=1)
        refused = call("run", "gpt2-fineweb", *words, "--out", tmp_path / name)
        assert refused.returncode != 0 and word in refused.stderr, refused.stderr
    write_shard(tmp_path / "bad.bin", [1, 2, 96] * 100)
    refused = call(
        "run",
        "gpt2-fineweb",
        *gpt2_settings(folder),
        *settings(data__path=tmp_path / "bad.bin"),
        "--out",
        tmp_path / "bad",
    )
    assert refused.returncode != 0 and "96" in refused.stderr
