# SPDX-License-Identifier: Apache-2.0
"""The unit programs with one library, linked once: one executable has the main() of each and goes by the name that it
is called by. A program that stands in for a part of the library, or looks at its own executable, is linked alone."""
import os
import re
import subprocess

ALONE = re.compile(r"/proc/self/exe|argv\[0\]")
CHOOSE = """#include <libgen.h>
#include <string.h>
%s
static const struct { const char *name; int (*main)(int, char **); } all[] = {
%s
};
int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(basename(argv[0]), all[i].name))
			return all[i].main(argc, argv);
	return 127;
}
"""


def defined(binary):
    out = subprocess.run(["nm", "--defined-only", "-g", binary], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if len(line.split()) == 3}


class Programs:
    """`tests`: {name: source}; `objects`: of the library, {source: object}; `link`: a compiler's words."""

    def __init__(self, o, folder, tests, objects, link):
        self.o, self.dir, self.link, self.objects = o, folder, link, objects
        library = defined(f"{o}/libranktrace.a")
        self.object_of = {t: f"{o}/obj/{source[:-2]}.o" for t, source in tests.items()}
        self.together = []
        for test, source in tests.items():
            with open(source, encoding="utf-8") as f:
                if not ALONE.search(f.read()) and not defined(self.object_of[test]) & library:
                    self.together.append(test)
        self.mains = [f"{folder}/{t}.o" for t in self.together] + [self.choice()]
        for test in self.together:
            name = f"main_of_{test}"
            subprocess.run(["objcopy", "--strip-debug", f"--redefine-sym=main={name}", f"--keep-global-symbol={name}",
                            self.object_of[test], f"{folder}/{test}.o"], check=True)

    def choice(self):
        """The object that calls the main() of a program."""
        says = "\n".join(f"int main_of_{t}(int, char **);" for t in self.together)
        rows = "\n".join(f'{{ "{t}", main_of_{t} }},' for t in self.together)
        with open(f"{self.dir}/choice.c", "w", encoding="utf-8") as f:
            f.write(CHOOSE % (says, rows))
        subprocess.run(["gcc", "-c", f"{self.dir}/choice.c", "-o", f"{self.dir}/choice.o"], check=True)
        return f"{self.dir}/choice.o"

    def linked(self, objects, archive, out):
        libs = self.link["libs"]
        subprocess.run([*self.link["cc"], *objects, f"{self.o}/libtests.a", archive, *libs, "-o", out], check=True)
        return out

    def of(self, file=None, instead=None):
        """The programs with `instead` as the object of a source file; without one, as they are."""
        return Linked(self, {**self.objects, **({file: instead} if file else {})}, "mutated" if file else "original")


class Linked:
    def __init__(self, programs, members, name):
        self.programs, self.dir, self.alone = programs, f"{programs.dir}/{name}", {}
        os.makedirs(self.dir, exist_ok=True)
        for left in os.listdir(self.dir):
            os.unlink(f"{self.dir}/{left}")
        self.archive = f"{self.dir}/lib.a"
        subprocess.run(["ar", "rcsT", self.archive, *members.values()], check=True)
        programs.linked(programs.mains, self.archive, f"{self.dir}/all")

    def program(self, test):
        """What to run for that test."""
        path = f"{self.dir}/{test}"
        if not os.path.lexists(path):
            if test in self.programs.together:
                os.symlink("all", path)
            else:
                self.programs.linked([self.programs.object_of[test]], self.archive, path)
        return path
