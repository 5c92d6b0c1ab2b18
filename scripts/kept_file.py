# SPDX-License-Identifier: Apache-2.0
"""What the scripts share that keep a file as a table, or the program, has it: --write and --check. To be imported."""
import argparse
import os


def asked_to_write(doc):
    """By the command line; help from the first sentence of doc. From then on paths are those of the tree (TREE, or this
    one)."""
    args = argparse.ArgumentParser(description=doc.splitlines()[0])
    what = args.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    args = args.parse_args()
    os.chdir(os.environ.get("TREE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    return args.write


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def differs(path, text, to_write):
    """Whether the file is not `text`, or is not there. to_write: it becomes so, and does not differ."""
    if to_write:
        write(path, text)
        return False
    return not os.path.exists(path) or read(path) != text


def report(wrong):
    """The lines, and the exit status."""
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)
