# SPDX-License-Identifier: Apache-2.0
"""The form of ``state_dict()``: plain values, and a reason for everything that is refused."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import torch

_FORMAT = "spectralclip.clipper"
_VERSION = 1


def pack(state: torch.Tensor, steps: int) -> dict[str, Any]:
    return {"format": _FORMAT, "version": _VERSION, "steps": steps, "state": bytes(state.numpy().tobytes())}


def unpack(state_dict: Mapping[str, Any]) -> torch.Tensor:
    """The bytes for the core.  Raises ValueError for what is no state of a clipper."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"a state is the dict of state_dict(), not {type(state_dict).__name__}")
    if state_dict.get("format") != _FORMAT:
        seen = f"its format is {state_dict['format']!r}" if "format" in state_dict else f"it has {_some(state_dict)}"
        raise ValueError(f"this is no state of a SpectralClipper: {seen}")
    if state_dict.get("version") != _VERSION:
        raise ValueError(f"state version {state_dict.get('version')!r} is not {_VERSION}, which this release reads")
    if "state" not in state_dict:
        raise ValueError(f'the state is incomplete: it has no "state", only {_some(state_dict)}')
    held = state_dict["state"]
    if not isinstance(held, (bytes, bytearray)):
        raise ValueError(f'the state is damaged: its "state" is {type(held).__name__}, not bytes')
    if not held:
        raise ValueError('the state is damaged: its "state" has no bytes')
    return torch.frombuffer(bytearray(held), dtype=torch.uint8)


def _some(state_dict: Mapping[str, Any]) -> str:
    keys = [str(key) for key in state_dict]
    return f"keys {', '.join(keys[:5])}{', …' if len(keys) > 5 else ''}" if keys else "no keys at all"


def read_file(path: pathlib.Path) -> dict[str, Any]:
    """A state that was written by ``torch.save``.  What cannot be read is named, with what to do about it."""
    try:
        found: dict[str, Any] = torch.load(path, weights_only=True)
        unpack(found)
    except FileNotFoundError:
        raise
    except Exception as error:  # torch.load raises OSError, EOFError, RuntimeError and more of its own
        reason = str(error).split("\n")[0] or type(error).__name__
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) cannot be read: it was cut off while it was written, or is no state "
            f"of spectral clipping ({reason}). Resume from an earlier checkpoint, or delete this file: thresholds then "
            "start anew"
        ) from error
    return found
