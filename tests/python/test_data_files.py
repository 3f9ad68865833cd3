# SPDX-License-Identifier: Apache-2.0
"""The readers of lab/data against the real safetensors, NumPy, pickle and torch: files of one are read by the other."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess

import numpy as np
import pytest
import torch
from lab_tool import PROGRAM, ROOT, call, needs_program

from spectralclip import gpt2_tokens

TOOL = pathlib.Path(os.environ.get("SPECTRALCLIP_DATA_TOOL", ROOT / "build" / "torch" / "tests" / "data_tool"))
needs_tool = pytest.mark.skipif(not TOOL.is_file(), reason=f"{TOOL} is not built (make build)")
safetensors = pytest.importorskip("safetensors.torch")
SafetensorError = pytest.importorskip("safetensors").SafetensorError


def tool(*words: object, fails: bool = False) -> str:
    done = subprocess.run([str(TOOL), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def model_tensors() -> dict[str, torch.Tensor]:
    """Every type and odd shape that such files have."""
    torch.manual_seed(3)
    return {
        "wte.weight": torch.randn(7, 5),
        "h.0.attn.bias": torch.tril(torch.ones(4, 4, dtype=torch.bool)).view(1, 1, 4, 4),
        "half": torch.randn(3, 1, 2).half(),
        "brain": torch.randn(11).bfloat16(),
        "double": torch.randn(2, 2, dtype=torch.float64),
        "long": torch.arange(5),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5),
        'ß\n"': torch.randn(1),
    }


@needs_tool
def test_safetensors_files_of_the_real_library_are_read_and_written_back(tmp_path):
    tensors = model_tensors()
    safetensors.save_file(tensors, tmp_path / "in.safetensors", metadata={"format": "pt", "who": "ß"})
    tool("safetensors", tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    back = safetensors.load_file(tmp_path / "out.safetensors")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and torch.equal(back[name], tensor), name
    with safetensors.safe_open(tmp_path / "out.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "who": "ß"}


@needs_tool
def test_every_sixteen_bit_float_widens_as_torch_widens_it(tmp_path):
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    safetensors.save_file(
        {"f": bits.view(torch.float16), "b": bits.clone().view(torch.bfloat16)}, tmp_path / "m.safetensors"
    )
    for name, dtype in (("f", torch.float16), ("b", torch.bfloat16)):
        tool("floats", tmp_path / "m.safetensors", name, tmp_path / "out")
        read = np.fromfile(tmp_path / "out", np.float32)
        truth = bits.view(dtype).float().numpy()
        assert np.array_equal(np.isnan(read), np.isnan(truth))
        assert np.array_equal(read[~np.isnan(read)].view(np.int32), truth[~np.isnan(truth)].view(np.int32))


@needs_tool
def test_what_the_real_library_refuses_is_refused(tmp_path):
    safetensors.save_file({"a": torch.randn(3), "b": torch.randn(2)}, tmp_path / "m.safetensors")
    whole = (tmp_path / "m.safetensors").read_bytes()
    header = int.from_bytes(whole[:8], "little")
    lies = {
        "cut": whole[:-1],
        "longer": whole + b"\0",
        "header": (header + 1000).to_bytes(8, "little") + whole[8:],
        "huge": (2**63).to_bytes(8, "little") + whole[8:],
        "shape": whole.replace(b"[3]", b"[4]"),
        "type": whole.replace(b"F32", b"F16", 1),
        "json": whole.replace(b"{", b"(", 1),
        "overlap": whole.replace(b"[12,20]", b"[10,18]").replace(b"[8,20]", b"[7,19]"),
    }
    for name, damaged in lies.items():
        assert damaged != whole, name
        (tmp_path / "bad.safetensors").write_bytes(damaged)
        with pytest.raises(SafetensorError, match="rror"):
            safetensors.load_file(tmp_path / "bad.safetensors")
        said = tool("safetensors", tmp_path / "bad.safetensors", tmp_path / "out", fails=True)
        assert "bad.safetensors" in said, name
        assert not (tmp_path / "out").exists()


@needs_tool
@pytest.mark.parametrize("version", [3, 5])
def test_models_of_llmc_as_its_script_writes_them(tmp_path, version):
    """Layout of write_model in llm.c's train_gpt2.py: 256 int32, then 16 stacked tensors."""
    positions, vocabulary, layers, heads, channels, padded = 6, 10, 2, 2, 4, 12
    header = np.zeros(256, np.int32)
    header[:8] = 20240326, version, positions, vocabulary, layers, heads, channels, padded
    per_layer = [1, 1, 3 * channels, 3, channels, 1, 1, 1, 4 * channels, 4, 4 * channels, 1]  # times channels
    count = (padded + positions + layers * sum(per_layer) + 2) * channels
    values = torch.randn(count, generator=torch.Generator().manual_seed(1))
    stored = values.numpy().tobytes() if version == 3 else values.bfloat16().view(torch.int16).numpy().tobytes()
    (tmp_path / "m.bin").write_bytes(header.tobytes() + stored)
    tool("llmc", tmp_path / "m.bin", tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "m.bin").read_bytes()
    (tmp_path / "cut.bin").write_bytes(header.tobytes() + stored[:-2])
    assert "cut.bin" in tool("llmc", tmp_path / "cut.bin", tmp_path / "none.bin", fails=True)


def nanogpt_folder(folder: pathlib.Path, text: str) -> tuple[np.ndarray, np.ndarray]:
    """What nanoGPT's data/shakespeare_char/prepare.py leaves behind."""
    symbols = sorted(set(text))
    stoi = {symbol: token for token, symbol in enumerate(symbols)}
    tokens = np.array([stoi[symbol] for symbol in text], np.uint16)
    cut = int(len(text) * 0.9)
    tokens[:cut].tofile(folder / "train.bin")
    tokens[cut:].tofile(folder / "val.bin")
    return tokens[:cut], tokens[cut:]


@needs_tool
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_texts_and_nanogpts_folders_give_the_same_tokens(tmp_path, protocol):
    text = "".join(chr(c) for c in np.random.default_rng(5).choice([10, 32, 97, 98, 228, 8364, 119070], 1237))
    (tmp_path / "t.txt").write_text(text, newline="")
    train, validation = nanogpt_folder(tmp_path, text)
    symbols = sorted(set(text))
    meta = {"vocab_size": len(symbols), "itos": dict(enumerate(symbols)), "stoi": {s: i for i, s in enumerate(symbols)}}
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps(meta, protocol=protocol))
    for path in (tmp_path / "t.txt", tmp_path):
        sizes = tool("tokens", path, 0, tmp_path / "out").split()
        assert sizes == [str(len(train)), str(len(validation)), str(len(symbols))]
        assert np.array_equal(np.fromfile(tmp_path / "out", np.int64), np.concatenate([train, validation]))


@needs_tool
def test_shards_that_numpy_wrote(tmp_path):
    tokens = np.random.default_rng(1).integers(0, 50257, 3001).astype(np.uint16)
    header = np.zeros(256, np.int32)
    for index, part in enumerate(np.array_split(tokens, 3)):
        header[:3] = 20240520, 1, len(part)
        (tmp_path / f"s_{index:06d}.bin").write_bytes(header.tobytes() + part.tobytes())
    assert tool("tokens", tmp_path / "s_*.bin", 0, tmp_path / "out").split() == ["2700", "301", "50257"]
    assert np.array_equal(np.fromfile(tmp_path / "out", np.int64), tokens)


@needs_tool
def test_texts_become_shards_by_a_byte_level_tokenizer(tmp_path):
    """A small byte-level BPE, trained here: GPT-2's kind, without its vocabulary, which would have to be fetched."""
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    text = "To be, or not to be: that is the question.\n" * 20
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator([text], vocab_size=300)
    transformers.PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer).save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "t.txt").write_text(text)
    gpt2_tokens.main(
        [str(tmp_path / "t.txt"), str(tmp_path / "a" / "t.bin"), "--tokenizer", str(tmp_path / "tokenizer")]
    )
    expected = bpe.encode(text).ids
    tool("tokens", tmp_path / "a" / "t.bin", 0, tmp_path / "out")
    assert np.fromfile(tmp_path / "out", np.int64).tolist() == expected
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["t.bin"]
    with pytest.raises(ValueError, match="65536"):
        gpt2_tokens.write_shard(tmp_path / "b.bin", [1, 65536])
    with pytest.raises(SystemExit, match="absent"):
        gpt2_tokens.main([str(tmp_path / "absent"), str(tmp_path / "b.bin")])
    assert not (tmp_path / "b.bin").exists()


@needs_tool
def test_cifar_batches_that_numpy_wrote(tmp_path):
    random = np.random.default_rng(2)
    labels, images = random.integers(0, 10, 9).astype(np.uint8), random.integers(0, 256, (9, 3072)).astype(np.uint8)
    records = np.concatenate([labels[:, None], images], axis=1)
    for name, part in (("data_batch_1", records[:4]), ("data_batch_2", records[4:6]), ("test_batch", records[6:])):
        part.tofile(tmp_path / f"{name}.bin")
    assert "6 + 3 images" in tool("cifar", tmp_path, tmp_path / "out")
    read = (tmp_path / "out").read_bytes()
    assert np.array_equal(np.frombuffer(read[:72], np.int64), labels)
    assert read[72:] == images.tobytes()


@needs_program
def test_the_program_finds_checks_and_names_data(tmp_path):
    assert PROGRAM.is_file()
    environment = {**os.environ, "SPECTRALCLIP_DATA": str(tmp_path / "here"), "HOME": str(tmp_path)}
    options = {"env": environment, "cwd": tmp_path}
    shards = tmp_path / "here" / "wikitext2"
    shards.mkdir(parents=True)
    header = np.zeros(256, np.int32)
    header[:3] = 20240520, 1, 4
    (shards / "valid.bin").write_bytes(header.tobytes() + np.array([1, 2, 3, 50256], np.uint16).tobytes())
    assert call("data", "where", "wikitext2", **options).stdout == f"{shards / 'valid.bin'}\n"
    assert str(shards / "valid.bin") in call("data", **options).stdout
    assert call("data", **options).stdout == call("data", "list", **options).stdout
    checked = call("data", "check", **options)
    assert checked.returncode == 0 and "4 GPT-2 tokens" in checked.stdout, checked.stdout + checked.stderr
    (shards / "test.bin").write_bytes(header.tobytes())
    checked = call("data", "check", "wikitext2", **options)
    assert checked.returncode == 1 and "WRONG" in checked.stdout and "truncated" in checked.stdout
    missing = call("data", "where", "gpt2", **options)
    assert missing.returncode == 1 and "curl" in missing.stderr and str(tmp_path / "here") in missing.stderr
    assert missing.stdout == ""
    assert call("data", "check", "gpt2", **options).returncode == 1
    wrong = call("data", "where", "gtp2", **options)
    assert wrong.returncode == 2 and "gpt2" in wrong.stderr
    assert "fineweb" in call("data", "--help").stdout


@needs_program
def test_data_at_hand_are_what_the_list_says(tmp_path):
    folder = pathlib.Path(os.environ.get("SPECTRALCLIP_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "shakespeare" / "input.txt").is_file():
        pytest.skip("no shakespeare/input.txt in SPECTRALCLIP_DATA or ../shared/data")
    checked = call("data", "check", "shakespeare", env={**os.environ, "SPECTRALCLIP_DATA": str(folder)}, cwd=tmp_path)
    assert checked.returncode == 0 and checked.stdout.startswith("known"), checked.stdout
