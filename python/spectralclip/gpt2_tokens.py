# SPDX-License-Identifier: Apache-2.0
"""Texts as GPT-2 tokens, in the shards that llm.c, modded-nanoGPT and ``spectralclip run`` read.

    python -m spectralclip.gpt2_tokens wiki.train.raw wikitext2/train.bin

The whole text is one row of tokens, without end-of-text marks. Needs ``transformers``, which fetches GPT-2's vocabulary
the first time; ``--tokenizer FOLDER`` takes one that is at hand.
"""

from __future__ import annotations

import argparse
import array
import os
import pathlib
import sys
from collections.abc import Sequence

MAGIC, VERSION, HEADER = 20240520, 1, 256  # int32s


def tokenize(text: str, tokenizer: str = "gpt2") -> list[int]:
    """The tokens of a text, all at once."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        sys.exit("spectralclip.gpt2_tokens needs transformers: pip install transformers")
    encode = AutoTokenizer.from_pretrained(tokenizer)
    tokens: list[int] = encode(text, add_special_tokens=False, verbose=False)["input_ids"]
    return tokens


def write_shard(path: str | os.PathLike[str], tokens: Sequence[int]) -> None:
    """Writes one shard; an old file stays if that fails. Raises ValueError on tokens that no shard can hold."""
    if not 1 <= len(tokens) < 2**31:
        raise ValueError(f"{len(tokens)} tokens; a shard holds 1 to 2^31 - 1")
    if not (min(tokens) >= 0 and max(tokens) < 2**16):
        raise ValueError(f"tokens from {min(tokens)} to {max(tokens)}; 0 to 65535 fit 16 bits")
    header = array.array("i", [MAGIC, VERSION, len(tokens)] + [0] * (HEADER - 3))
    body = array.array("H", tokens)
    if sys.byteorder == "big":
        header.byteswap()
        body.byteswap()
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    try:
        temporary.write_bytes(header.tobytes() + body.tobytes())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m spectralclip.gpt2_tokens", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("text", type=pathlib.Path, help="a UTF-8 text")
    parser.add_argument("shard", type=pathlib.Path, help="the shard to write, FILE.bin")
    parser.add_argument("--tokenizer", default="gpt2", help="a name or folder of transformers' tokenizers (gpt2)")
    options = parser.parse_args(arguments)
    try:
        tokens = tokenize(options.text.read_text(encoding="utf-8"), options.tokenizer)
        write_shard(options.shard, tokens)
    except (OSError, ValueError) as error:
        sys.exit(f"spectralclip.gpt2_tokens: {error}")
    print(f"{options.shard}: {len(tokens)} tokens")


if __name__ == "__main__":
    main()
