# SPDX-License-Identifier: Apache-2.0
"""Spectral clipping inside other people's trainers.  Each module imports its trainer and nothing else:

``integrations.transformers`` (Hugging Face Trainer), ``integrations.lightning``, ``integrations.accelerate``.
``metrics`` turns the report of a step into a flat dict for any logger and needs no trainer at all.
"""

from .logging import metrics

__all__ = ["metrics"]
