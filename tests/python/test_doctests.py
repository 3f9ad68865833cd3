# SPDX-License-Identifier: Apache-2.0
"""The examples in the package's documentation do what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import spectralclip

MODULES = sorted(
    {"spectralclip"} | {m.name for m in pkgutil.walk_packages(spectralclip.__path__, "spectralclip.") if not m.ispkg}
)
# Public functions and classes; each shows an example somewhere in its module.
WITH_EXAMPLES = {"spectralclip.clipper", "spectralclip.functional", "spectralclip.rules", "spectralclip.thresholds",
                 "spectralclip._settings"}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if not name.startswith("spectralclip.integrations"):
            raise
        pytest.skip(f"{name} needs a package that is not installed: {error}")
    failed, attempted = doctest.testmod(module)
    assert failed == 0
    if name in WITH_EXAMPLES:
        assert attempted > 0


def test_what_is_exported_exists_and_is_documented():
    for name in spectralclip.__all__:
        assert getattr(spectralclip, name).__doc__, name
