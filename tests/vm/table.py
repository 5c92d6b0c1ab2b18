# SPDX-License-Identifier: Apache-2.0
"""README's table of kernels from a result of the matrix: table.py [--check] RESULT README.md.

RESULT has lines of "kernel release machine case: text" (run.sh). The table stands between two comments of the README.
--check says whether it is what RESULT gives, and writes nothing. """
import sys

BEGIN = "<!-- kernels: written by tests/vm/table.py from tests/vm/result.txt -->\n"
END = "<!-- end of kernels -->\n"
CASES = [("programs", "programs load"), ("count", "calls counted exactly"), ("hang", "hang found"),
         ("dstate", "D state found")]
MEANS = {"count without uprobe-multi": "without uprobe.multi", "count without attach-cookie": "without attach cookies"}


def table(path):
    kernels = {}
    with open(path) as f:
        for line in f:
            kernel, release, machine, rest = line.rstrip("\n").split(" ", 3)
            case = rest.split(":")[0]
            kernels.setdefault((kernel, release, machine), []).append(case)
    rows = ["| kernel | " + " | ".join(title for _, title in CASES) + " | also counted |",
            "|---" * (len(CASES) + 2) + "|"]
    for (_, release, machine), passed in kernels.items():
        cells = ["yes" if case in passed else "not run" for case, _ in CASES]
        also = ", ".join(MEANS[c] for c in passed if c in MEANS)
        rows.append(f"| {release} {machine} | " + " | ".join(cells) + f" | {also} |")
    return "\n".join(rows) + "\n"


def main():
    check = "--check" in sys.argv
    result, readme = [a for a in sys.argv[1:] if a != "--check"]
    with open(readme) as f:
        text = f.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    new = text[:begin] + table(result) + text[end:]
    if check:
        if new != text:
            print(f"{readme}: the table of kernels is not that of {result}: run tests/vm/table.py {result} {readme}")
        return int(new != text)
    with open(readme, "w") as f:
        f.write(new)
    return 0


sys.exit(main())
