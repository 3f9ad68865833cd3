# SPDX-License-Identifier: Apache-2.0
"""What a step on a device costs, as far as that can be known without one: kernels compiled for devices that are not
here, and a model of the time."""
