# SPDX-License-Identifier: Apache-2.0
"""spectralclip beside clip_grad_norm_, the published Algorithm 2, full SVDs and clips by products: one interleaved run.

Verifies, then times, then says what missed its bar.  Exits with 1 when a result was wrong, not when one was slow.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import math
import pathlib
from collections.abc import Sequence

import torch

from . import gradients, machine, report, set_run, timing, training
from .findings import Finding, set_findings, training_findings
from .gpt import GptShape

SECTIONS = ("nanogpt", "gpt2", "blocks1b", "dense", "training")
EPILOG = """sections:
  nanogpt    the 24 weight matrices of a 6 x 384 NanoGPT, 11 M entries
  gpt2       the 48 weight matrices of GPT-2 124M, 85 M entries
  blocks1b   four blocks of a 1 B model, 16 matrices, 201 M entries (needs 6 GiB)
  dense      in each of the others chosen: gram, full SVD, products-only clips (most of the time of blocks1b)
  training   what clipping adds to a step of a 6 x 384 GPT on 16 x 256 tokens, forward to AdamW (needs 4 GiB)

Figures of a busy machine are not figures: the load is printed, and a warning if something else is running.

examples:
  python bench/compare.py                                    everything: allow half an hour on two idle cores
  python bench/compare.py --only gpt2 --rounds 31            one set, without the dense contenders
  python bench/compare.py --quick --json -                   does it run? tiny sets, JSON to stdout
"""
# Per set: share of the rounds; rounds of the dense contenders; layers per shape and steps per layer that get a float64
# reference.  Chosen so that the sets should take less than ten minutes on two cores.
_EFFORT = {"nanogpt": (1.0, 3, 6, 3), "gpt2": (1.0, 3, 3, 3), "blocks1b": (0.5, 1, 1, 2)}


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{value} is not in 1 to 1024")
    return value


def _sections(text: str) -> list[str]:
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in SECTIONS]
    if chosen == ["dense"]:
        raise argparse.ArgumentTypeError("dense belongs to another section: nanogpt,dense for instance")
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return chosen


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="compare.py", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = torch.get_num_threads()
    parser.add_argument("--threads", type=_count, default=default, help=f"of torch and spectralclip ({default})")
    parser.add_argument("--rounds", type=_count, default=15, help="interleaved rounds (15); blocks1b, training: half")
    parser.add_argument("--only", type=_sections, default=list(SECTIONS), metavar="SECTION,...", help="see below")
    parser.add_argument("--device", default="cpu", help="where gradients lie (cpu); cuda: the sets alone")
    parser.add_argument("--quick", action="store_true", help="tiny sets, three rounds: does it run, not how fast")
    parser.add_argument("--json", metavar="FILE", help="everything measured, raw times included; - for stdout alone")
    parser.add_argument("--markdown", metavar="FILE", help="what is printed, into a file as well")
    options = parser.parse_args(arguments)
    if options.device != "cpu":
        if torch.device(options.device).type != "cuda" or not torch.cuda.is_available():
            parser.error(f"--device {options.device}: no such CUDA device here")
        options.only = [name for name in options.only if name not in ("dense", "training")]
    return options


def _set_options(key: str, options: argparse.Namespace) -> set_run.SetOptions:
    share, dense_rounds, layers, variants = (1.0, 1, 1, 2) if options.quick else _EFFORT[key]
    rounds = 3 if options.quick else max(3, round(share * options.rounds))
    return set_run.SetOptions(rounds, dense_rounds if "dense" in options.only else 0, layers, variants)


def _training_options(options: argparse.Namespace) -> training.TrainingOptions:
    if options.quick:
        tiny = GptShape(layers=2, heads=2, width=64, context=32)
        return training.TrainingOptions(tiny, batch=4, rounds=3, dense_rounds=int("dense" in options.only))
    dense_rounds = 2 if "dense" in options.only else 0
    return training.TrainingOptions(rounds=max(3, options.rounds // 2), dense_rounds=dense_rounds)


def _run(options: argparse.Namespace) -> tuple[list[set_run.SetResult], training.TrainingResult | None]:
    plans = gradients.QUICK_PLANS if options.quick else gradients.PLANS
    plans = tuple(dataclasses.replace(plan, device=options.device) for plan in plans)
    set_run.prime(plans[0])
    sets = [set_run.run_set(plan, _set_options(plan.key, options)) for plan in plans if plan.key in options.only]
    trained = training.run_training(_training_options(options)) if "training" in options.only else None
    timing.show_progress("")
    return sets, trained


def _finite(value: object) -> object:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_json(
    facts: dict, options: argparse.Namespace, sets: list[set_run.SetResult], trained: training.TrainingResult | None,
    findings: list[Finding], failures: list[str],
) -> str:  # fmt: skip
    everything = {
        "machine": facts,
        "options": vars(options),
        "sets": [report.set_facts(result) for result in sets],
        "training": report.training_facts(trained) if trained else None,
        "findings": [finding.facts() for finding in findings],
        "failures": failures,
    }
    return json.dumps(_finite(everything), indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    facts = machine.describe()
    machine.warn_if_busy(facts)
    gc.freeze()  # what importing torch left behind need not be searched again before every measurement
    sets, trained = _run(options)
    gc.unfreeze()
    findings = [finding for result in sets for finding in set_findings(result)]
    findings += training_findings(trained) if trained else []
    if options.quick:
        findings = [finding.without_timing_bar() for finding in findings]
    failures = [f"{result.plan.key}: {what}" for result in sets for what in result.failures]
    failures += trained.failures if trained else []
    text = report.markdown(facts, sets, trained, findings, failures)
    measured = _as_json(facts, options, sets, trained, findings, failures)
    print(measured if options.json == "-" else text, end="")
    if options.json and options.json != "-":
        pathlib.Path(options.json).write_text(measured, encoding="utf-8")
    if options.markdown:
        pathlib.Path(options.markdown).write_text(text, encoding="utf-8")
    return 1 if failures else 0
