# SPDX-License-Identifier: Apache-2.0
"""A Python program whose threads block in all sorts of places, and which then says where by itself: one JSON line,
native thread id -> frames [function, file, line], innermost first. Runs on every CPython from 3.9 on."""
import asyncio
import ctypes
import json
import os
import sys
import threading
import time

libc = ctypes.CDLL(None)
lock = threading.Lock()
lock.acquire()
word = ctypes.c_int(0)
FUTEX = {"x86_64": 202, "aarch64": 98}[os.uname().machine]


def in_sleep():
    time.sleep(1000)


def in_lock():
    with lock:
        pass


def in_ctypes_futex():
    libc.syscall(FUTEX, ctypes.byref(word), 0, 0, None, None, 0)


def in_pipe():
    r, _ = os.pipe()
    os.read(r, 1)


def recursive(n):
    if n:
        return recursive(n - 1)
    time.sleep(1000)


def generator():
    yield 1
    time.sleep(1000)


def in_generator():
    for _ in generator():
        pass


async def inner_task():
    time.sleep(1000)


def in_coroutine():
    async def outer():
        await asyncio.gather(inner_task())

    asyncio.new_event_loop().run_until_complete(outer())


def in_sort():
    def key(x):
        time.sleep(1000)
        return x

    sorted([3,
            2, 1],
           key=key)


def in_expression():
    return [time.sleep(0) or
            (lambda x:
             time.sleep(
                 1000))(i)
            for i in range(3)]


def größer_名前():
    time.sleep(1000)


def in_exec():
    exec(compile("\n\ndef made():\n    sleep(1000)\nmade()\n", "<made up>", "exec"), {"sleep": time.sleep})


def in_long_path():
    path = "/" + "/".join(["a-rather-long-folder-name"] * 8) + "/end.py"
    exec(compile("def far_away():\n    sleep(1000)\nfar_away()\n", path, "exec"), {"sleep": time.sleep})


class Model:
    def forward(self):
        def hook():
            time.sleep(1000)
        hook()

    def __call__(self):
        self.forward()


def in_far_line():
    exec(compile("x = 1\n" * 3000 + "def f():\n" + "    y = 1\n" * 400 + "    sleep(1000)\nf()\n", "<far>", "exec"),
         {"sleep": time.sleep})


def name_of(code):
    return code.co_qualname if hasattr(code, "co_qualname") else code.co_name


def truth():
    frames = sys._current_frames()
    out = {}
    for t in threading.enumerate():
        if t is threading.current_thread():
            continue
        rows, f = [], frames[t.ident]
        while f:
            rows.append([name_of(f.f_code), f.f_code.co_filename, f.f_lineno])
            f = f.f_back
        out[t.native_id] = rows
    return out


def tell(name):
    """A line as soon as all threads sleep (they have been started long before, and do nothing but go to sleep)."""
    time.sleep(1.5)
    print(json.dumps({"name": name, "pid": os.getpid(), "self": threading.get_native_id(), "threads": truth()}),
          flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    targets = [in_sleep, in_lock, in_ctypes_futex, in_pipe, in_generator, in_coroutine, in_sort, in_expression,
               größer_名前, in_exec, in_long_path, Model(), in_far_line, lambda: time.sleep(1000)]
    targets += [lambda: recursive(20), lambda: recursive(400)]
    sys.setrecursionlimit(2000)
    if sys.argv[1] == "fork" and os.fork() == 0:
        # What a data loader's worker is: a fork of a program with an interpreter. It dies with its parent.
        libc.prctl(1, 9, 0, 0, 0)
        for target in targets[:3]:
            threading.Thread(target=target, daemon=True).start()
        tell("child")
    for target in targets:
        threading.Thread(target=target, daemon=True).start()
    tell("parent")
