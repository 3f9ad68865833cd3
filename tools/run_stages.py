#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of `make test` one after the other, all of them, whatever fails, and ends with one table.

    tools/run_stages.py STAGE=RESULTS.xml ...

A stage is a target of the Makefile. RESULTS.xml is the JUnit file it writes (ctest, pytest and run_fuzzers.sh do); a
stage without one (`layers=`) counts as a single test. A stage fails by its exit code, by a failed test in its file, or
by a file that is missing though the stage ended well. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

SLOWEST = 10


def plain_name(name: str | None) -> str:
    """Without the bytes of its parameter, which ctest takes from GoogleTest's list."""
    return (name or "").partition("  # GetParam()")[0]


def reason_of(case: ElementTree.Element) -> str:
    """Why a test was skipped: GoogleTest says it on the line after "Skipped", pytest in the message."""
    said = re.search(r": Skipped\n(.*)", case.findtext("system-out") or "")
    skipped = case.find("skipped")
    message = "" if skipped is None else skipped.get("message") or ""
    return said[1] if said else message or "no reason given"


@dataclasses.dataclass
class Stage:
    name: str
    results: pathlib.Path | None
    code: int = 0
    seconds: float = 0.0
    times: dict[str, float] = dataclasses.field(default_factory=dict)
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)  # test -> reason

    def run(self) -> None:
        print(f"\n=== {self.name}", flush=True)
        if self.results:
            self.results.unlink(missing_ok=True)
        begin = time.monotonic()
        self.code = subprocess.run([os.environ.get("MAKE", "make"), "--no-print-directory", self.name]).returncode
        self.seconds = time.monotonic() - begin
        self.read()

    def read(self) -> None:
        if self.results is None:
            self.times[self.name] = self.seconds
        elif self.results.is_file():
            for case in ElementTree.parse(self.results).getroot().iter("testcase"):
                self.take(case)
        elif self.code == 0:
            self.code = 1
            print(f"{self.name}: no results in {self.results}", file=sys.stderr)
        if self.code != 0 and not self.failed:
            self.failed.append(f"{self.name} (exit code {self.code}: see its output above)")

    def take(self, case: ElementTree.Element) -> None:
        group, name = (plain_name(case.get(key)) for key in ("classname", "name"))
        name = name if group in ("", name) else f"{group.rpartition('.')[2]}::{name}"
        self.times[name] = float(case.get("time") or 0)
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            self.failed.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            self.skipped[name] = reason_of(case)

    def slowest(self) -> list[tuple[str, float]]:
        return sorted(self.times.items(), key=lambda item: -item[1])[:SLOWEST]


def print_slowest(stages: list[Stage]) -> None:
    for stage in stages:
        if len(stage.times) > 1:
            print(f"\nslowest of {stage.name}")
            for name, seconds in stage.slowest():
                print(f"  {seconds:7.1f} s  {name}")


def print_table(stages: list[Stage]) -> None:
    print(f"\n{'stage':<14} {'tests':>6} {'failed':>7} {'skipped':>8} {'build + run':>12}")
    for stage in stages:
        minutes, seconds = divmod(round(stage.seconds), 60)
        counts = f"{len(stage.times):>6} {len(stage.failed):>7} {len(stage.skipped):>8}"
        print(f"{stage.name:<14} {counts} {minutes:>8}:{seconds:02} {'' if stage.code == 0 else '  FAILED'}")
    for stage in stages:
        for name in stage.failed:
            print(f"failed: {stage.name}: {name}")
        for reason, count in collections.Counter(stage.skipped.values()).items():
            print(f"skipped: {stage.name}: {count} ({reason})")


def main() -> int:
    stages = []
    for word in sys.argv[1:]:
        name, _, file = word.partition("=")
        stages.append(Stage(name, pathlib.Path(file) if file else None))
    if not stages:
        print(__doc__)
        return 2
    for stage in stages:
        stage.run()
    print_slowest(stages)
    print_table(stages)
    failed = sum(len(stage.failed) for stage in stages)
    skipped = sum(len(stage.skipped) for stage in stages)
    minutes, seconds = divmod(round(sum(stage.seconds for stage in stages)), 60)
    print(f"\nmake test: {minutes} min {seconds:02} s")
    print(f"{sum(len(stage.times) for stage in stages) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if any(stage.code != 0 or stage.failed for stage in stages) else 0


if __name__ == "__main__":
    sys.exit(main())
