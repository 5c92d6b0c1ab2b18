# SPDX-License-Identifier: Apache-2.0
"""The bus with TLS on both sides and passwords: an agent with the right certificate, authority and password is heard;
without one of the three it is not, says so, and watches all the same; a forged and a malformed report are refused,
counted and harm no hub. Needs openssl and nats-server."""
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent import futures

sys.path.insert(1, sys.path[0] + "/../aid")
import job

WRONG = ({"password": "guess"}, {"ca": "stranger"}, {"cert": None}, {"cert": "stranger"})


def certificate(folder, name, authority=None):
    """name.pem and name.key; signed by the authority, or by itself."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/{name}.key",
             "-out", f"{folder}/{name}.pem"]
    if authority:
        words += ["-CA", f"{folder}/{authority}.pem", "-CAkey", f"{folder}/{authority}.key"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode and authority:
        job.skip(f"this openssl signs no certificates: {done.stderr[-200:]}")
    job.check(not done.returncode, done.stderr)


class Bus:
    def __init__(self, folder):
        self.dir = folder
        for name, authority in (("ca", None), ("server", "ca"), ("client", "ca"), ("stranger", None)):
            certificate(folder, name, authority)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(f"{folder}/nats.conf", "w") as f:
            f.write(f"listen: 127.0.0.1:{self.port}\njetstream {{ store_dir: \"{folder}/js\" }}\n"
                    f"authorization {{ user: rt, password: secret }}\ntls {{ cert_file: \"{folder}/server.pem\", "
                    f"key_file: \"{folder}/server.key\", ca_file: \"{folder}/ca.pem\", verify: true }}\n")
        self.server = subprocess.Popen(["nats-server", "-c", f"{folder}/nats.conf", "-l", f"{folder}/nats.log"])

    def options(self, password="secret", ca="ca", cert="client"):
        words = ["--nats", f"tls://rt:{password}@127.0.0.1:{self.port}", "--nats-ca", f"{self.dir}/{ca}.pem"]
        if cert:
            words += ["--nats-cert", f"{self.dir}/{cert}.pem", "--nats-key", f"{self.dir}/{cert}.key"]
        return words

    def publish(self, token, data):
        """By who has all rights and is no agent."""
        context = ssl.create_default_context(cafile=f"{self.dir}/ca.pem")
        context.load_cert_chain(f"{self.dir}/client.pem", f"{self.dir}/client.key")
        with socket.create_connection(("127.0.0.1", self.port)) as plain:
            plain.recv(65536)
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as s:
                s.sendall(b'CONNECT {"user":"rt","pass":"secret","verbose":false,"tls_required":true}\r\n'
                          b"PUB ranktrace.report.%s %d\r\n%s\r\nPING\r\n" % (token.encode(), len(data), data))
                while b"PONG" not in (got := s.recv(65536)):
                    job.check(got and b"-ERR" not in got, got)


def watch(bus, **options):
    """What an agent says in four seconds."""
    done = subprocess.run([job.RANKTRACE, "watch", *bus.options(**options), "--duration", "4", "--flight=no",
                           "--phases=no", "--pid", str(os.getpid())], capture_output=True, text=True, timeout=60)
    job.check(done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr}")
    return done.stderr


def wait_said(log, text):
    end = time.monotonic() + 30
    while text not in open(log).read():
        job.check(time.monotonic() < end, f"'{text}' is not said: {open(log).read()}")
        time.sleep(0.1)


def main():
    job.need_root()
    if not shutil.which("nats-server") or not shutil.which("openssl"):
        job.skip("nats-server or openssl is missing")
    with tempfile.TemporaryDirectory(prefix="ranktrace-tls-") as folder:
        bus = Bus(folder)
        hub = None
        try:
            hub = subprocess.Popen([job.RANKTRACE, "hub", *bus.options()], stderr=open(f"{folder}/hub.log", "w"))
            wait_said(f"{folder}/hub.log", "follows the reports")
            said = watch(bus)
            job.check("does not take" not in said, f"the right one is not heard: {said}")
            with futures.ThreadPoolExecutor() as pool:
                for wrong, said in zip(WRONG, pool.map(lambda w: watch(bus, **w), WRONG)):
                    job.check("does not take reports (no connection)" in said, f"{wrong}: {said}")
            bus.publish("node-x", b"\xff\xff\xff")
            bus.publish("node-y", b"\x08\x02" + b"\x12\x01a")
            hub.terminate()
            job.check(hub.wait(20) == 0, open(f"{folder}/hub.log").read())
            said = open(f"{folder}/hub.log").read()
            job.check("1 reports were refused: malformed" in said, said)
            job.check("1 reports were refused: of a newer version" in said, said)
            job.check(" reports of 1 hosts" in said, said)
        finally:
            for p in filter(None, (hub, bus.server)):
                p.terminate()
                p.wait(20)


main()
