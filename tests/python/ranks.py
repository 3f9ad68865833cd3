# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine that play ranks: they meet at a file, so no port is taken, and leave what they found in a
folder.  ``run(function, ranks, folder, *args)`` returns what ``function(rank, *args)`` returned in each process."""

from __future__ import annotations

import datetime
import os
import pathlib
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, multiprocessing

LIMIT = datetime.timedelta(seconds=60)


def _work(
    rank: int, function: Callable[..., Any], ranks: int, folder: str, limit: datetime.timedelta, args: tuple
) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))
    store = distributed.FileStore(f"{folder}/meeting", ranks)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
    result: dict[str, Any] = {}
    try:
        result["found"] = function(rank, *args)
    except BaseException:  # told by the parent, with the others'
        result["error"] = traceback.format_exc()
    torch.save(result, f"{folder}/rank{rank}.pt")
    if "error" not in result:
        distributed.barrier()
        distributed.destroy_process_group()
    os._exit(0 if "error" not in result else 1)  # a broken group may hang in its threads


def run(
    function: Callable[..., Any], ranks: int, folder: pathlib.Path, *args: Any, limit: datetime.timedelta = LIMIT
) -> list[Any]:
    """Raises AssertionError with the traceback of the first process that failed."""
    results = outcome(function, ranks, folder, *args, limit=limit)
    for rank, result in enumerate(results):
        assert "error" not in result, f"rank {rank}: {result['error']}"
    return [result["found"] for result in results]


def outcome(
    function: Callable[..., Any], ranks: int, folder: pathlib.Path, *args: Any, limit: datetime.timedelta = LIMIT
) -> list[dict[str, Any]]:
    """``found`` or ``error`` of each process; "died" where it left nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_work, args=(rank, function, ranks, str(folder), limit, args)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(limit.total_seconds() + 120)
        if process.is_alive():
            process.kill()
    found = []
    for rank in range(ranks):
        path = folder / f"rank{rank}.pt"
        found.append(torch.load(path, weights_only=False) if path.exists() else {"error": "died"})
    return found
