# SPDX-License-Identifier: Apache-2.0
"""Memory of honest targets as inputs: seed_memory.py nccl_proxy|nccl_state|python_frames DIRECTORY. The fuzz target of
that name says where each number goes; a pointer is the place in the input that it leads to."""
import os
import re
import struct
import sys


class Memory:
    def __init__(self, size):
        self.bytes = bytearray(size)

    def put(self, at, form, *values):
        struct.pack_into("<" + form, self.bytes, at, *values)


# --- nccl_proxy: fuzz_nccl_proxy.c makes a pointer of a word that is 1 more than a multiple of 3 ---

PROXY_FIELDS = dict(proxy_state=4, active=2, thread=4, subs=12, nsubs=0, op_count=2, state=1, next=4, next_peer=6,
                    coll=8, algorithm=9, protocol=10, connection=0, channel=2, nsteps=3, peer=4, base=6, posted=8,
                    received=10, flushed=12, transmitted=14, done=16, is_send=0, transport=1)  # in words of 4
PROXY_ORDER = """known proxy_state active thread subs stride max_subs nsubs op_count state next next_peer coll algorithm
                 protocol connection channel nsteps peer base posted received flushed transmitted done is_send
                 transport""".split()


def proxy(second, send):
    """A communicator, its proxy's state, a list of one operation or two, each of four connections."""
    m = Memory(4096)

    def pointer(at, word):
        m.put(at, "Q", 3 * word + 1)

    m.put(8, "Q", 77 * 3)  # commHash
    pointer(16, 16)
    pointer(16 * 8 + 8, 32)
    pointer(16 * 8 + 16, 200)  # the thread's handle
    for at in (32, 96)[:1 + second]:
        m.put(at * 8, "IIQ", 4, 2, 9)
        m.put(at * 8 + 32, "BxxxBxxxBxxx", 2, 1, 2)
        for sub in range(4):
            here = at * 8 + 48 + 80 * sub
            pointer(here, 160)
            m.put(here + 8, "IIIIQQQQQQ", 3 * sub, 12, 3, 0, 0, 9, 6, 6, 6, 6)
    if second:
        pointer(32 * 8 + 16, 96)
    m.put(160 * 8, "II", send, 2)
    layout = bytes(PROXY_FIELDS.get(name, 0) for name in PROXY_ORDER)
    return layout + bytes([9, 64, 2]) + bytes(m.bytes)


# --- nccl_state ---

def state():
    """Communicators at every place, by two layouts that are the same."""
    m = Memory(8192)
    for at in range(0, 8192 - 128, 128):
        m.put(at, "16Q", 7, 123, 1, 4, 1, 9, 9, 9, 9, 9, 7, 0, 7 - 7, 0, 0, 0)
    layout = bytes([0, 1, 2, 3, 10, 4, 5, 11, 12, 13, 5])
    return layout * 2 + bytes(m.bytes)


# --- python_frames: a small multiple of 8 is a pointer ---

def layouts():
    """The rows of python_layout.def: {minor: [offsets]}, and where 3.13 and later have them."""
    text = open("user/inspect/stack/python_layout.def").read()
    names = re.findall(r"^PYTHON_FIELD\((\w+)\)", text, re.M)
    rows = {}
    for what, minor, numbers in re.findall(r"^PYTHON_(LAYOUT|DEBUG)\((\d+),([^)]*)\)", text, re.M):
        values = [-1 if n.strip() == "PYTHON_NONE" else int(n) for n in numbers.split(",")]
        rows[int(minor)] = what, dict(zip(names, values))
    return rows


def interpreter(m, o, minor):
    """Two threads with two frames each; `o`: the offsets."""
    def field(base, name, form, value):
        if o[name] >= 0:
            m.put(base + o[name], form, value)

    field(0, "interpreters_head", "Q", 0x800)
    field(0x800, "threads_head", "Q", 0xa00)
    for thread, after, frame in (0xa00, 0xc00, 0x1000), (0xc00, 0, 0x1000):
        field(thread, "thread_next", "Q", after)
        field(thread, "thread_frame", "Q", frame if o["cframe_frame"] < 0 else 0x1400)
        field(0x1400, "cframe_frame", "Q", frame)
        field(thread, "thread_pthread", "Q", 0x2000)
        field(thread, "thread_tid", "Q", 5)
    m.put(0x2000 + 720, "I", 6)
    for frame, before in (0x1000, 0x1100), (0x1100, 0):
        field(frame, "frame_code", "Q", 0x1800)
        field(frame, "frame_previous", "Q", before)
        field(frame, "frame_instr", "Q" if minor >= 11 else "I", 0x1800 + o["code_bytes"] + 8 if minor >= 11 else 3)
    for name, base in ("code_file", 0x1a00), ("code_name", 0x1b00), ("code_lines", 0x1c00):
        field(0x1800, name, "Q", base)
    field(0x1800, "object_type", "Q", 128)
    field(0x1800, "code_first_line", "I", 17)
    for base, text in (0x1a00, b"/srv/job/train.py"), (0x1b00, b"load_batch\0\0\0"):
        field(base, "object_type", "Q", 136)
        field(base, "str_length", "Q", len(text))
        field(base, "str_state", "I", (1 | 1 << 3 | 1 << 4) << 2)
        field(base, "str_ascii", f"{len(text)}s", text)
    table = getattr(interpreter.__code__, "co_linetable", b"\2\1" * 9)[:255]
    field(0x1c00, "object_type", "Q", 144)
    field(0x1c00, "bytes_size", "Q", len(table) | 1)
    field(0x1c00, "bytes_data", f"{len(table)}s", table)


def python(minor, kind, row):
    m = Memory(4096 * 8)
    if kind == "LAYOUT":
        interpreter(m, row, minor)
        return bytes([minor - 9]) + bytes(m.bytes)
    offsets = dict(layouts()[12][1], interpreters_head=1000, cframe_frame=-1, frame_entry=-1)
    m.put(0, "8sQ", b"xdebugpy", 3 << 24 | minor << 16)
    for name, where in row.items():
        if where:
            m.put(where, "Q", max(offsets[name], 0))
    interpreter(m, offsets, minor)
    return bytes([128]) + bytes(m.bytes)


def seeds(what):
    if what == "nccl_proxy":
        for second in range(2):
            for send in range(2):
                yield f"list{second}{send}", proxy(second, send)
    elif what == "nccl_state":
        yield "communicators", state()
    else:
        for minor, (kind, row) in layouts().items():
            yield f"python3.{minor}", python(minor, kind, row)


target, where = sys.argv[1:]
for name, data in seeds(target):
    with open(os.path.join(where, name), "wb") as out:
        out.write(data)
