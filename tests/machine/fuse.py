# SPDX-License-Identifier: Apache-2.0
"""A file system that a program serves, as object stores' are (FUSE): files in memory, below one folder. Stopped, it
answers nobody. Needs /dev/fuse and no package: it speaks the kernel's protocol (include/uapi/linux/fuse.h) itself."""
import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 10, 12, 14, 15, 16, \
    17, 18
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, CREATE, BATCH_FORGET, TMPFILE = 20, 25, 26, 27, 28, 29, 35, 42, 51
SET_SIZE, DIRECT_IO = 1 << 3, 1 << 0
ROOT, MAX_WRITE = 1, 1 << 17
PR_SET_PDEATHSIG = 1


class Served:
    """The server's side: one request after the other. A file's number is its place in `files`, from 2 on."""

    def __init__(self, device):
        self.device, self.names, self.files = device, {}, []

    def content(self, node):
        return self.files[node - 2]

    def attributes(self, node):
        mode, size = (stat.S_IFDIR | 0o777, 0) if node == ROOT else (stat.S_IFREG | 0o666, len(self.content(node)))
        return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def entry(self, node):
        return struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + self.attributes(node)

    def made(self, name=None):
        self.files.append(bytearray())
        node = len(self.files) + 1
        if name:
            self.names[name] = node
        return self.entry(node) + struct.pack("<QII", 0, 0, 0)

    def named(self, name):
        return self.entry(self.names[name]) if name in self.names else -errno.ENOENT

    def resized(self, node, body):
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & SET_SIZE and node != ROOT:
            data = self.content(node)
            del data[size:]
            data.extend(bytes(size - len(data)))
        return struct.pack("<QII", 0, 0, 0) + self.attributes(node)

    def written(self, node, body):
        _, at, size = struct.unpack_from("<QQI", body)
        data = self.content(node)
        data.extend(bytes(max(0, at + size - len(data))))
        data[at:at + size] = body[40:40 + size]
        return struct.pack("<II", size, 0)

    def read(self, node, body):
        _, at, size = struct.unpack_from("<QQI", body)
        return bytes(self.content(node)[at:at + size])

    def answer(self, opcode, node, body):
        """Bytes, or minus an error number; None where the kernel expects no answer."""
        if opcode in (FORGET, BATCH_FORGET):
            return None
        if opcode == INIT:
            minor = struct.unpack_from("<4I", body)[1]
            return struct.pack("<4I2H2I2H", 7, min(minor, 31), 0, 0, 16, 12, MAX_WRITE, 1, 32, 0) + bytes(32)
        if opcode == LOOKUP:
            return self.named(body[:-1])
        if opcode == CREATE:
            return self.made(body[16:-1])
        if opcode == TMPFILE:
            return self.made()
        if opcode in (GETATTR, SETATTR):
            return self.resized(node, body if opcode == SETATTR else bytes(24))
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if opcode == WRITE:
            return self.written(node, body)
        if opcode == READ:
            return self.read(node, body)
        if opcode == UNLINK:
            return b"" if self.names.pop(body[:-1], None) else -errno.ENOENT
        if opcode in (READDIR, FLUSH, FSYNC, RELEASE, RELEASEDIR):
            return b""
        return -errno.ENOSYS

    def serve(self):
        while True:
            try:
                request = os.read(self.device, MAX_WRITE + 4096)
            except OSError as e:
                if e.errno == errno.ENODEV:  # unmounted
                    return
                continue
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            answer = self.answer(opcode, node, request[40:])
            if answer is None:
                continue
            error, body = (answer, b"") if isinstance(answer, int) else (0, answer)
            try:
                os.write(self.device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
            except OSError:
                pass  # who asked is gone


class Mount:
    """Such a file system at a folder, until unmount(); None of it is left where the test ends before."""

    def __init__(self, folder, source="object-store"):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        device = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(source.encode(), folder.encode(), b"fuse.store", 0, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        self.process = subprocess.Popen([sys.executable, __file__, str(device)], pass_fds=[device])
        os.close(device)  # so that its end is the server's

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)
        while True:
            with open(f"/proc/{self.process.pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "T":
                    return
            time.sleep(0.01)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def unmount(self):
        self.process.kill()  # whoever waits for it gets an error
        self.process.wait()
        subprocess.run(["umount", "-l", self.folder], stderr=subprocess.DEVNULL)


def is_here():
    return os.path.exists("/dev/fuse") and os.geteuid() == 0


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    Served(int(sys.argv[1])).serve()
