# SPDX-License-Identifier: Apache-2.0
"""Kernels for GPUs, in Triton.  Nothing of it is imported before it is asked for."""
