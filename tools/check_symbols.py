#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the library's files show to a linker.

    tools/check_symbols.py --archive libspectralclip.a --shared libspectralclip.so [--module libspectralclip_ops.so]

An archive: every weak symbol (the linker merges those of equal name, whoever compiled them) belongs to the C++ library
or to this project, and no name mentions a third-party namespace. A shared library: sclip_* and the public C++
interface. A module: nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

OWN = re.compile(r"^(spectralclip|spectralclip_eigen|spectralclip_hwy)::")
# Of the implementation: the C++ library's names, the compiler's own, functions whose names begin with a return type.
RUNTIME = re.compile(r"^(std|__gnu_cxx)::|^DW\.ref\.|^__clang_call_terminate$|^\.L")
PREFIXES = re.compile(
    r"^(vtable for |typeinfo name for |typeinfo for |guard variable for |construction vtable for |VTT for )"
)
# A mangled name spells a namespace as its length and itself.
FOREIGN = re.compile(r"N[KVRO]*(5Eigen|3hwy|8nlohmann|3fmt|4toml|4dlib|3CLI)(?=\d|[A-Z])")
PUBLIC = re.compile(r"^spectralclip::(torch::)?[A-Za-z_]\w*(::[~\w= ]+)*(\[abi:cxx11\])?(\(|$|<)")
HIDDEN = re.compile(r"^spectralclip::(torch::)?(kernels|factor|detail|c_api|testing)::|\{lambda")


def symbols(path: str, *options: str) -> list[tuple[str, str]]:
    """(kind, mangled name) of each defined symbol."""
    listing = subprocess.run(
        ["nm", "--defined-only", *options, path], check=True, capture_output=True, text=True
    ).stdout
    found = re.findall(r"^[0-9a-f]+ (\S) (\S+)$", listing, re.MULTILINE)
    return sorted(set(found))


def demangled(names: list[str]) -> list[str]:
    out = subprocess.run(["c++filt", "-p"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return out.splitlines()


def foreign_in_archive(found: list[tuple[str, str]]) -> list[str]:
    weak = [name for kind, name in found if kind in "WVu"]
    bad = [name for kind, name in found if (kind.isupper() or kind == "u") and FOREIGN.search(name)]
    for name, plain in zip(weak, demangled(weak)):
        plain = PREFIXES.sub("", plain)
        if not (OWN.match(plain) or RUNTIME.match(plain) or name.startswith("_ZZN12spectralclip")):
            bad.append(name)
    return sorted(set(bad))


def unwanted_in_shared(found: list[tuple[str, str]]) -> list[str]:
    names = [name for kind, name in found if not (kind == "A" or name.startswith("sclip_"))]
    bad = []
    for name, plain in zip(names, demangled(names)):
        plain = PREFIXES.sub("", plain)
        if HIDDEN.search(plain) or not PUBLIC.match(plain):
            bad.append(name)
    return bad


def self_test() -> None:
    eigen = "_ZN5Eigen15PlainObjectBaseINS_6MatrixIdLin1ELin1ELi0ELin1ELin1EEEE6resizeEll"
    ours = eigen.replace("5Eigen", "18spectralclip_eigen")
    assert foreign_in_archive([("W", eigen)]) == [eigen]
    assert foreign_in_archive([("T", "_ZSt4swapIN5Eigen6MatrixIdEEEvv")]), "as a template argument"
    assert foreign_in_archive([("W", ours), ("W", "_ZNSt6vectorIdSaIdEED1Ev"), ("T", "sclip_version")]) == []
    assert foreign_in_archive([("W", "_Z5clampdd")]) == ["_Z5clampdd"], "no namespace at all"
    assert unwanted_in_shared([("T", "sclip_version"), ("T", "_ZN12spectralclip7versionEv")]) == []
    assert unwanted_in_shared([("V", "_ZTIN12spectralclip5ErrorE")]) == []
    for name in (ours, "_ZN12spectralclip7kernels11target_nameEv", "_ZNSt6vectorIdSaIdEED1Ev"):
        assert unwanted_in_shared([("W", name)]) == [name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archive")
    parser.add_argument("--shared")
    parser.add_argument("--module")
    arguments = parser.parse_args()
    self_test()
    bad: list[tuple[str, list[str]]] = []
    if arguments.archive:
        found = symbols(arguments.archive)
        if not any(kind in "WVu" for kind, _ in found):
            bad.append((arguments.archive, ["no weak symbol at all: is this the archive?"]))
        bad.append((arguments.archive, foreign_in_archive(found)))
    if arguments.shared:
        found = symbols(arguments.shared, "-D")
        if ("T", "sclip_version") not in found or ("T", "_ZN12spectralclip7versionEv") not in found:
            bad.append((arguments.shared, ["the public interface is missing"]))
        bad.append((arguments.shared, unwanted_in_shared(found)))
    if arguments.module:
        bad.append((arguments.module, [name for _, name in symbols(arguments.module, "-D")]))
    for path, names in bad:
        for name, plain in zip(names, demangled(names)):
            print(f"{path}: {plain}  [{name}]")
    return 1 if any(names for _, names in bad) else 0


if __name__ == "__main__":
    sys.exit(main())
