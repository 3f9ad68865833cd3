#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the folder order of src/, torch/ and lab/: a folder includes only itself and what stands before it.

The orders are the lists SPECTRALCLIP_FOLDERS in src/CMakeLists.txt, SPECTRALCLIP_TORCH_FOLDERS in torch/CMakeLists.txt
and SPECTRALCLIP_LAB_FOLDERS in lab/CMakeLists.txt; all of src/ stands before the other two, and lab/ sees only the
public headers of torch/. Headers directly in src/ stand before all folders.
Also held: SIMD headers (Highway, intrinsics) only in src/kernels; quoted includes carry their folder; public headers
include no internal ones. Prints file:line for each offence and exits 1. `--self-test` proves that every rule bites.
"""

import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SIMD = re.compile(r"^(hwy/.*|[a-z0-9]*intrin\.h|arm_(neon|sve|acle)\.h|experimental/simd)$")
SOURCES = {".h", ".hpp", ".inc", ".c", ".cpp"}


def folder_order(root, tree="src", variable="SPECTRALCLIP_FOLDERS"):
    text = (root / tree / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(rf"set\({variable}\s+([^)]*)\)", text)
    if not found:
        sys.exit(f"check_layers: no set({variable} ...) in {tree}/CMakeLists.txt")
    return re.sub(r"#.*", "", found.group(1)).split()


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1) == '"', found.group(2)


def source_files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in SOURCES)


def offence_in_src(order, src, own, path, quoted, target):
    """Why this include of a file in folder `own` ("" for src/ itself) is wrong, or None."""
    if SIMD.match(target):
        return None if own == "kernels" else f'"{target}": SIMD headers belong in src/kernels only'
    if not quoted or target.startswith("spectralclip/"):
        return None
    first, _, rest = target.partition("/")
    if not rest:
        return None if (src / target).is_file() else f'"{target}": write the folder too'
    if first not in order:
        return f'"{target}": no folder of src/ ({", ".join(order)})'
    if own == "" and path.suffix == ".cpp":
        return None  # nobody can include it, so it cannot close a circle
    if own == "" or order.index(first) > order.index(own):
        return f'"{target}": {own or "src"} stands before {first}'
    return None


def offences_above_src(root, order, tree, variable):
    """Folders of torch/ and lab/ see all of src/ and what stands before them in their own list."""
    top = root / tree
    if not (top / "CMakeLists.txt").is_file():
        return []
    own_order, offences = folder_order(root, tree, variable), []
    for path in source_files(top):
        own = path.relative_to(top).parts[0]
        for number, quoted, target in includes(path):
            first = target.partition("/")[0]
            place = f"{path.relative_to(root)}:{number}"
            if own == "include":
                if SIMD.match(target) or (quoted and not target.startswith("spectralclip/")):
                    offences.append(f'{place}: "{target}": not for a public header')
            elif own not in own_order:
                offences.append(f"{place}: folder {own} is not in {variable}")
            elif SIMD.match(target):
                offences.append(f'{place}: "{target}": SIMD headers belong in src/kernels only')
            elif not quoted or first in ("spectralclip", "embedded", *order) or (root / "src" / target).is_file():
                continue  # embedded/: made by cmake/EmbedFiles.cmake; else of src/, in a folder of it or directly there
            elif first not in own_order:
                offences.append(f'{place}: "{target}": no folder of src/ or {tree}/')
            elif own_order.index(first) > own_order.index(own):
                offences.append(f'{place}: "{target}": {own} stands before {first}')
    return offences


def check(root):
    order, src, public = folder_order(root), root / "src", root / "include"
    offences = offences_above_src(root, order, "torch", "SPECTRALCLIP_TORCH_FOLDERS")
    offences += offences_above_src(root, order, "lab", "SPECTRALCLIP_LAB_FOLDERS")
    for path in source_files(src):
        parts = path.relative_to(src).parts
        own, where = (parts[0] if len(parts) > 1 else ""), path.relative_to(root)
        if own and own not in order:
            offences.append(f"{where}:1: folder {own} is not in SPECTRALCLIP_FOLDERS")
            continue
        for number, quoted, target in includes(path):
            reason = offence_in_src(order, src, own, path, quoted, target)
            if reason:
                offences.append(f"{where}:{number}: {reason}")
    for path in source_files(public) if public.is_dir() else []:
        for number, quoted, target in includes(path):
            if SIMD.match(target) or target.startswith("Eigen/") or (quoted and not target.startswith("spectralclip/")):
                offences.append(f'{path.relative_to(root)}:{number}: "{target}": not for a public header')
    return offences


def self_test():
    cases = [  # file, its second line, whether it must be refused
        ("src/clip/a.cpp", '#include "kernels/k.h"', False),
        ("src/clip/a.cpp", '#include "clip/a.h"', False),
        ("src/clip/a.cpp", '#include "require.h"', False),
        ("src/clip/a.cpp", '#include "spectralclip/clip.h"', False),
        ("src/clip/a.cpp", "#include <vector>", False),
        ("src/kernels/a.cpp", '#include "hwy/highway.h"', False),
        ("src/kernels/a.cpp", '#include "clip/a.h"', True),
        ("src/kernels/a.cpp", '#  include "clip/a.h"  // upward', True),
        ("src/kernels/a.cpp", '// #include "clip/a.h"', False),
        ("src/clip/a.cpp", '#include "a.h"', True),
        ("src/clip/a.cpp", '#include "../kernels/k.h"', True),
        ("src/clip/a.cpp", '#include "hwy/highway.h"', True),
        ("src/clip/a.cpp", "#include <hwy/highway.h>", True),
        ("src/clip/a.cpp", "#include <immintrin.h>", True),
        ("src/clip/a.cpp", "#include <arm_neon.h>", True),
        ("src/unlisted/a.cpp", "#include <vector>", True),
        ("src/bottom.h", '#include "kernels/k.h"', True),
        ("src/top.cpp", '#include "clip/a.h"', False),
        ("include/spectralclip/a.h", '#include "clip/a.h"', True),
        ("include/spectralclip/a.h", "#include <Eigen/Core>", True),
        ("include/spectralclip/a.h", '#include "spectralclip/b.h"', False),
        ("torch/ops/a.cpp", '#include "tensor/t.h"', False),
        ("torch/ops/a.cpp", '#include "clip/a.h"', False),
        ("torch/ops/a.cpp", '#include "require.h"', False),
        ("torch/ops/a.cpp", '#include "missing.h"', True),
        ("torch/tensor/a.cpp", '#include "ops/o.h"', True),
        ("torch/tensor/a.cpp", "#include <immintrin.h>", True),
        ("torch/else/a.cpp", "#include <vector>", True),
        ("torch/include/spectralclip/torch/a.h", '#include "tensor/t.h"', True),
        ("lab/engine/a.cpp", '#include "config/c.h"', False),
        ("lab/engine/a.cpp", '#include "clip/a.h"', False),
        ("lab/engine/a.cpp", '#include "embedded/presets.h"', False),
        ("lab/engine/a.cpp", '#include "tensor/t.h"', True),
        ("lab/config/a.cpp", '#include "engine/e.h"', True),
        ("lab/else/a.cpp", "#include <vector>", True),
    ]
    for name, line, refused in cases:
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            path = root / name
            path.parent.mkdir(parents=True)
            (root / "src").mkdir(exist_ok=True)
            (root / "src" / "CMakeLists.txt").write_text("set(SPECTRALCLIP_FOLDERS\n  kernels  # low\n  clip)\n")
            (root / "src" / "require.h").write_text("")
            (root / "torch").mkdir(exist_ok=True)
            (root / "torch" / "CMakeLists.txt").write_text("set(SPECTRALCLIP_TORCH_FOLDERS\n  tensor\n  ops)\n")
            (root / "lab").mkdir(exist_ok=True)
            (root / "lab" / "CMakeLists.txt").write_text("set(SPECTRALCLIP_LAB_FOLDERS\n  config\n  engine)\n")
            path.write_text(f"// first line\n{line}\n")
            offences = check(root)
        expected = f"{name}:" if refused else None
        if bool(offences) != refused or (refused and not offences[0].startswith(expected)):
            sys.exit(f"check_layers: self test failed on {name}: {line}: {offences or 'accepted'}")
    print(f"check_layers: self test passed ({len(cases)} cases)")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        sys.exit("usage: check_layers.py [--self-test]")
    offences = check(pathlib.Path(__file__).resolve().parent.parent)
    for offence in offences:
        print(offence)
    if offences:
        sys.exit(1)
    print("check_layers: every include points down")


if __name__ == "__main__":
    main()
