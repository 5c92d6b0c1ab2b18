# SPDX-License-Identifier: Apache-2.0
"""Checks for a test that goes on after one that failed."""
import sys

failed = 0


def check(right, text):
    global failed
    print(f"{'ok' if right else 'FAILED'}: {text}")
    failed += not right


def end():
    """Exit status 1 if any failed."""
    sys.exit(1 if failed else 0)
