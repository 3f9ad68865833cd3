# SPDX-License-Identifier: Apache-2.0
"""Is what was found enough to clip by?  The core's src/subspace/decide.cpp, question by question and with its
constants."""

from __future__ import annotations

import triton
import triton.language as tl

from .findings import over

KNOWN = tl.constexpr(5e-4)  # relative noise of a square: the value is known to a quarter of 1e-3
ALIGNED = tl.constexpr(0.1)  # pivots of columns that are nearly orthogonal after the product with G


@triton.jit
def anywhere(mask):
    return tl.sum(mask.to(tl.int32), 0) > 0


@triton.jit
def known_floor(values, noise, known):
    """Values up to here drown in the rounding of the largest."""
    return tl.max(tl.where(known & (noise > KNOWN * values), tl.sqrt(values + noise), 0.0), 0)


@triton.jit
def may_be_more(sigma, sine, known, above, h, goal, tau, margin):
    """Below: a value not lowered may, with what is unseen, be above the goal.  Left over: the couplings of the
    lowered ones to what is unseen may."""
    room = goal * goal - h * h
    coupled = h * sine
    below = anywhere(known & (above == 0) & (sigma * sigma * (1.0 + coupled * coupled / room) > goal * goal))
    leftover = tl.where(above, over(tau, sigma) * coupled, 0.0)
    return below, tl.sum(leftover * leftover, 0) > margin / 2 * room


@triton.jit
def error_of_removed(sigma, sine, known, above, g, tau):
    """Relative error of the removed part: vectors turned towards the unseen, of size g, values seen short, and
    vectors above and below tau mixed.  And the norm of that part."""
    values = sigma * sigma
    excess = tl.where(above, sigma - tau, 0.0)
    gap = tl.maximum(values - g * g, tl.maximum(values / 64, 1e-300))
    turned = excess * g * g * sine / gap
    shortened = tl.where(above, 0.5 * sigma * g * g * sine * sine / gap, 0.0)
    gaps = tl.maximum(values[:, None] - values[None, :], tl.maximum(values[:, None] / 64, 1e-300))
    mixed = tl.minimum((excess * sigma)[:, None] / gaps, over(sigma, 2 * tau)[:, None])
    mixed = mixed * g * g * sine[:, None] * sine[None, :] * over(1.0, sigma)[:, None]
    mixed = tl.where(above[:, None] & known[None, :] & (above[None, :] == 0), mixed, 0.0)
    wrong = 2 * tl.sum(turned * turned, 0) + tl.sum(shortened * shortened, 0)
    wrong += 2 * tl.sum(tl.sum(mixed * mixed, 1), 0)
    removed = tl.sum(excess * excess, 0)
    return tl.sqrt(over(wrong, removed)), tl.sqrt(removed)


@triton.jit
def drowned(noise, above, removed, tau, allowed, weakest):
    """The error is mostly rounding that better columns would not have: an error E of G^T G moves the result by at most
    ||E||_F / (2 tau)."""
    rounding = over(tl.sqrt(tl.sum(tl.where(above, noise * noise, 0.0), 0)), removed) / (2 * tau)
    return (rounding > allowed) & (weakest < ALIGNED)
