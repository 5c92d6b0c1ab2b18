#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests/mutate would change in a file: each operator where it belongs, nothing in comments, texts and
assertions."""
import os
import sys
import tempfile

sys.path.insert(1, os.path.join(sys.path[0], "../mutate"))
import sites

CODE = r'''/* a < b && c: if (x) return 0; */
#include <a+b.h>
#define LIMIT 3 /* one of 3 < 4 */
#define LONG_NS 5000000000ull
#define SHARE 0.5
static int f(struct s *p, int n)
{
	int left = n;
	char *copy = malloc(n + 1);

	if (!copy)
		return -ENOMEM;
	assert(n < 7);
	puts("a < b"); // a < b
	for (int i = 0; i < n; i++) {
		if (p->x > 0 &&
		    f(p->next, 'a' - 1))
			continue;
		left -= p->x << 1;
	}
	free(copy);
	return -EINVAL;
}
'''
WANTED = {
    ("constant", "#define LIMIT 3 /* one of 3 < 4 */", f"#define LIMIT {n} /* one of 3 < 4 */") for n in (1, 2, 4, 6)
} | {
    ("constant", "#define LONG_NS 5000000000ull", "#define LONG_NS 10000000000ull"),
    ("constant", "#define LONG_NS 5000000000ull", "#define LONG_NS 2500000000ull"),
    ("constant", "#define SHARE 0.5", "#define SHARE 1.0"),
    ("constant", "#define SHARE 0.5", "#define SHARE 0.25"),
    ("negated", "if (!copy)", "if (!(!copy))"),
    ("removed", 'puts("a < b"); // a < b', "; // a < b"),
    ("relational", "for (int i = 0; i < n; i++) {", "for (int i = 0; i <= n; i++) {"),
    ("relational", "if (p->x > 0 &&", "if (p->x >= 0 &&"),
    ("logic", "if (p->x > 0 &&", "if (p->x > 0 ||"),
    ("negated", "if (p->x > 0 && f(p->next, 'a' - 1))", "if (!(p->x > 0 && f(p->next, 'a' - 1)))"),
    ("arithmetic", "f(p->next, 'a' - 1))", "f(p->next, 'a' + 1))"),
    ("flow", "continue;", "break;"),
    ("arithmetic", "left -= p->x << 1;", "left += p->x << 1;"),
    ("removed", "left -= p->x << 1;", ";"),
    ("returned", "return -EINVAL;", "return 0;"),
}

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.c")
    with open(path, "w", encoding="utf-8") as f:
        f.write(CODE)
    found = list(sites.mutations(path))
got = {(m.operator, m.before, m.after) for m in found}
assert got == WANTED, f"not found: {sorted(WANTED - got)}; too many: {sorted(got - WANTED)}"
assert len(found) == len(WANTED)
for m in found:
    changed = [i for i, (a, b) in enumerate(zip(CODE.split("\n"), m.text.split("\n")), 1) if a != b]
    assert changed and changed[0] in (m.line, m.line + 1), m
print(f"{len(found)} mutations, as they should be")
