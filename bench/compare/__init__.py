# SPDX-License-Identifier: Apache-2.0
"""The parts of bench/compare.py, in the order in which a run meets them.

machine, timing, memory: what is underneath.  gradients, reference: what is clipped and what must come out.  rivals,
contenders, trainees: who clips.  verify, set_run, dense_run, training: the runs.  findings, report: tables and JSON.
cli: the command line.
"""
