# SPDX-License-Identifier: Apache-2.0
"""Made RDMA devices for end-to-end tests: a tree in the place of /sys whose ports count traffic, and files by whose
names the ranks seem to have one of the devices open."""
import os
import tempfile
import threading

import job

FILES = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "Ethernet",
         "gid_attrs/ndevs/0": "eth{n}",
         "counters/port_xmit_data": "0", "counters/port_rcv_data": "0", "counters/port_xmit_packets": "0",
         "counters/symbol_error": "12",
         "counters/link_downed": "1", "hw_counters/out_of_sequence": "7", "hw_counters/np_cnp_sent": "100"}
WIDTH = 24  # of every file: it is written in place, in one piece, as what is open there is read all the time


class Ports:
    """Devices mlx5_0 ..., of which the ranks of jobs started from now on have `opened` open."""

    def __init__(self, n, opened):
        self.dir = tempfile.mkdtemp(prefix="ranktrace-ports-")
        job.dirs.append(self.dir)
        self.n, self.words, self.more = n, 0, {}
        for i in range(n):
            for name, text in FILES.items():
                self.put(i, name, text.format(n=i))
            self.write(f"sys/class/infiniband_verbs/uverbs{i}/ibdev", f"mlx5_{i}")
            self.write(f"sys/class/net/eth{i}/carrier", "1")
        for i in opened:
            self.write(f"infiniband/uverbs{i}", "")
            job.inherited.append(os.open(f"{self.dir}/infiniband/uverbs{i}", os.O_RDONLY))
        os.environ["RANKTRACE_SYSFS"] = f"{self.dir}/sys"
        threading.Thread(target=self.flow, daemon=True).start()

    def write(self, name, text):
        path = f"{self.dir}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(fd, (text + "\n").ljust(WIDTH, "\n").encode(), 0)
        os.close(fd)

    def put(self, device, name, text):
        self.write(f"sys/class/infiniband/mlx5_{device}/ports/1/{name}", text)

    def flow(self):
        """Ten times a second: a gigabyte a second each way on each port, and what was asked for on top."""
        pause = threading.Event()
        while not pause.wait(0.1):
            self.words += 25_000_000
            for i in range(self.n):
                self.put(i, "counters/port_xmit_data", str(self.words))
                self.put(i, "counters/port_rcv_data", str(self.words))
                self.put(i, "counters/port_xmit_packets", str(self.words // 1024))
            for (device, name), step in list(self.more.items()):
                path = f"{self.dir}/sys/class/infiniband/mlx5_{device}/ports/1/{name}"
                with open(path) as f:
                    now = int(f.read())
                self.put(device, name, str(now + step))
