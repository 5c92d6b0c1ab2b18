# SPDX-License-Identifier: Apache-2.0
"""Man pages and completions have every option that --help has, are clean for man and mandoc, are put in place, and bash
completes in a real shell."""
import glob
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job

ROOM = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKTRACE = os.path.abspath(job.RANKTRACE)
OUT = os.path.abspath(os.environ.get("O", "build"))


def printed(*argv):
    environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    out = subprocess.run(argv, capture_output=True, text=True, env=environment)
    return out.returncode, out.stdout, out.stderr


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def commands():
    return re.findall(r"^  (\w+) ", printed(RANKTRACE, "--help")[1].split("Exit codes")[0], re.M)


def installed(room):
    code, _, err = printed("make", "-s", "-C", ROOM, "install-man", f"DESTDIR={room}", "PREFIX=/usr", f"O={OUT}")
    job.check(code == 0, f"make install-man: {err}")
    share = f"{room}/usr/share"
    return (f"{share}/man/man1", f"{share}/bash-completion/completions/ranktrace",
            f"{share}/zsh/site-functions/_ranktrace", f"{share}/fish/vendor_completions.d/ranktrace.fish")


def check_options(man, bash, zsh, fish):
    n = 0
    whole = {"bash": read(bash), "zsh": read(zsh), "fish": read(fish)}
    job.check(len(commands()) >= 10, commands())
    for command in commands():
        page = read(f"{man}/ranktrace-{command}.1").replace("\\-", "-").replace("\\fR", "").replace("\\fB", "")
        of = {"bash": re.search(rf'^\t\t{command}\) words="([^"]*)"', whole["bash"], re.M)[1].split(),
              "zsh": whole["zsh"].split(f"\n{command})\n")[1].split("\n\t;;")[0],
              "fish": "\n".join(line for line in whole["fish"].splitlines() if f"subcommand_from {command}'" in line)}
        names = re.findall(r"^(?:  -\w, |      )--([\w-]+)", printed(RANKTRACE, command, "--help")[1], re.M)
        job.check("help" in names and "version" in names, f"{command}: {names}")
        for name in names:
            n += 1
            job.check(re.search(rf"(?<![\w-])--{name}(?![\w-])", page), f"{command}: --{name} is not in its page")
            job.check(f"--{name}" in of["bash"], f"{command}: bash lacks --{name}")
            job.check(re.search(rf"'\*--{name}[=\[]", of["zsh"]), f"{command}: zsh lacks --{name}")
            job.check(re.search(rf" -l {name} ", of["fish"]), f"{command}: fish lacks --{name}")
        job.check(f"ranktrace\\-{command} " in read(f"{man}/ranktrace.1"), f"{command} is not in ranktrace(1)")
    job.check(n > 100, f"{n} options: this compares nothing")
    print(f"  {n} options of {len(commands())} commands")


def check_pages(man):
    pages = sorted(glob.glob(f"{man}/*.1"))
    for page in pages:
        code, out, err = printed("man", "--warnings", "-l", page)
        job.check(code == 0 and not err and "SYNOPSIS" in out and "EXIT STATUS" in out, f"{page}: {err}")
    if shutil.which("mandoc"):
        code, out, err = printed("mandoc", "-Tlint", *pages)
        job.check(code == 0 and not out + err, f"mandoc: {out}{err}")
    for shell, path in (("zsh", "zsh/site-functions/_ranktrace"), ("fish", "fish/vendor_completions.d/ranktrace.fish")):
        if shutil.which(shell):
            code, out, err = printed(shell, "-n", f"{man}/../../{path}")
            job.check(code == 0, f"{shell}: {out}{err}")


class Shell:
    """Bash on a terminal of its own, as somebody types in it."""

    def __init__(self, script, folder):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.environ.update(PS1="> ", TERM="dumb", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.type(f"bind 'set bell-style none'; . {script}\n")

    def type(self, text):
        """What is shown until nothing more comes."""
        os.write(self.fd, text.encode())
        out, end = b"", time.monotonic() + 10
        while time.monotonic() < end and (not out or select.select([self.fd], [], [], 0.5)[0]):
            out += os.read(self.fd, 65536)
        return out.decode(errors="replace")

    def completes(self, typed, to):
        shown = self.type(f"{typed}\t")
        self.type("\x15")  # the line goes
        job.check(to in shown.replace("\r", ""), f"{typed}<tab>: {shown!r}, not {to!r}")

    def end(self):
        os.write(self.fd, b"exit\n")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def check_bash(script, room):
    open(f"{room}/run-of-monday.rtr", "w").close()
    shell = Shell(script, room)
    shell.completes("ranktrace docto", "ranktrace doctor ")
    shell.completes("ranktrace doctor --js", "--json ")
    shell.completes("ranktrace record --bud", "--budget")
    shell.completes("ranktrace report run-", "run-of-monday.rtr ")
    shell.completes("ranktrace replay -o run-", "run-of-monday.rtr ")
    shell.end()
    print("  bash completes commands, options and files")


def main():
    with tempfile.TemporaryDirectory(prefix="ranktrace-manuals-") as room:
        man, bash, zsh, fish = installed(room)
        check_options(man, bash, zsh, fish)
        check_pages(man)
        check_bash(bash, room)


if __name__ == "__main__":
    main()
