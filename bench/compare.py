# SPDX-License-Identifier: Apache-2.0
"""The side-by-side benchmark: python bench/compare.py --help.  The work is done by the package beside this file."""

import sys

from compare.cli import main

if __name__ == "__main__":
    sys.exit(main())
