# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled operators (``torch.ops.spectralclip``) and says clearly why when they cannot be."""

from __future__ import annotations

import os
import pathlib

import torch

_FILE = "libspectralclip_ops.so"


def _built_for() -> str | None:
    """The torch version the library was compiled for, written beside it by the build."""
    note = pathlib.Path(__file__).with_name("_torch_version.txt")
    return note.read_text(encoding="utf-8").strip() if note.is_file() else None


def _path() -> pathlib.Path:
    chosen = os.environ.get("SPECTRALCLIP_LIBRARY")
    if chosen:
        return pathlib.Path(chosen)
    here = pathlib.Path(__file__)
    installed, built = here.with_name(_FILE), here.parents[2] / "build" / "torch" / "torch" / _FILE
    return built if built.is_file() and not installed.is_file() else installed  # in a checkout: what `make build` made


def load() -> None:
    path = _path()
    if not path.is_file():
        raise ImportError(
            f"spectralclip: the compiled operators are missing ({path}). Install the package with "
            "`pip install .`, run `make build` in a checkout, or point SPECTRALCLIP_LIBRARY at a built "
            "libspectralclip_ops.so."
        )
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        here, there = torch.__version__.split("+")[0], _built_for()
        hint = f" It was built for torch {there}; this is torch {here}." if there and there != here else ""
        raise ImportError(
            f"spectralclip: {path.name} cannot be loaded.{hint} Rebuild it against this torch with "
            f"`pip install --no-build-isolation --no-deps .` ({error})"
        ) from error


load()
ops = torch.ops.spectralclip
if "SPECTRALCLIP_SIMD_TARGET" in os.environ:  # one instruction set for the kernels, to compare machines
    ops.set_simd_target(os.environ["SPECTRALCLIP_SIMD_TARGET"])
