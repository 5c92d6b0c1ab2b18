# SPDX-License-Identifier: Apache-2.0
"""A process that has what CUDA gives one that was started for core dumps: the FIFO at which it listens, and, a byte
later, a dump as cudacoredump.h describes it; without skip_abort it ends instead.
usage: gpu_core_process.py KERNEL [slow|never]: how the dump is written; never: not to its end"""
import os
import socket
import struct
import sys
import time

SHDR, LOUSER, ENTRY, HANDLE = struct.Struct("<IIQQQQIIQQ"), 0x80000000, 0x7f0000001000, 0xabcd


def elf(kind, sections):
    """sections: (type, bytes, name, flags, address, link, info, row); the first one, None, is to hold their names."""
    names = b"\0" + b"".join(s[2].encode() + b"\0" for s in sections[1:])
    sections[0] = (3, names, "", 0, 0, 0, 0, 0)
    body, rows, at = b"", [bytes(SHDR.size)], 64
    for type_, data, name, flags, address, link, info, row in sections:
        name_at = names.index(b"\0" + name.encode() + b"\0") + 1 if name else 0
        rows.append(SHDR.pack(name_at, type_, flags, address, at + len(body), len(data), link, info, 1, row))
        body += data
    ident = b"\x7fELF" + bytes([2, 1, 1, 0x33, 7]) + bytes(7)
    head = struct.pack("<16sHHIQQQIHHHHHH", ident, kind, 0xbe, 1, 0, 0, at + len(body), 0, 64, 0, 0, SHDR.size,
                       len(rows), 1)
    return head + body + b"".join(rows)


def core(kernel):
    cubin = elf(2, [None, (1, bytes(64), ".text.other", 6, ENTRY - 256, 0, 0, 0),
                    (1, bytes(64), f".text.{kernel}", 6, ENTRY, 0, 0, 0)])
    device = struct.pack("<QQQI", 0, 0, 0, 0) + bytes(68)
    grid = struct.pack("<7Q12I", 1, 2, 3, ENTRY, HANDLE, 0, 0, 0, 0, 2, 0, 24, 1, 1, 544, 1, 1, 0, 0)
    return elf(4, [None, (LOUSER + 9, device, ".cudbg.devtbl", 0, 0, 0, 0, len(device)),
                   (LOUSER + 12, grid, ".cudbg.gridtbl.dev0", 0, 0, 2, 0, len(grid)),
                   (LOUSER + 16, struct.pack("<Q", HANDLE), ".cudbg.modtbl.dev0.ctx0", 0, 0, 0, 0, 8),
                   (LOUSER + 7, cubin, ".cudbg.relfimg.dev0.ctx0", 0, 0, 4, 0, 0)])


def named(variable):
    name = os.environ[variable]
    return name.replace("%h", socket.gethostname()).replace("%p", str(os.getpid())).replace("%t", str(int(time.time())))


def main():
    pipe = named("CUDA_COREDUMP_PIPE")
    os.mkfifo(pipe)
    listen = os.open(pipe, os.O_RDWR)
    print("ready", flush=True)
    os.read(listen, 1)
    if "skip_abort" not in os.environ.get("CUDA_COREDUMP_GENERATION_FLAGS", ""):
        os.abort()
    data = core(sys.argv[1])
    with open(named("CUDA_COREDUMP_FILE"), "wb", buffering=0) as f:
        for at in range(0, len(data), 100):
            f.write(data[at:at + 100])
            time.sleep(0.1 if "slow" in sys.argv else 0)
            if "never" in sys.argv and at:
                break
    time.sleep(600)


if __name__ == "__main__":
    main()
