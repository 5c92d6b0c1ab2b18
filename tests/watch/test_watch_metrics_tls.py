# SPDX-License-Identifier: Apache-2.0
"""--metrics-config: metrics over TLS and for users alone, by a file that Prometheus' own tools take. A client without
password, with a wrong one, or without TLS gets nothing, and wrong ones without end delay no scraper. A file that is
wrong ends the start. Needs openssl and curl."""
import base64
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(1, sys.path[0] + "/../aid")
import job

PASSWORD = "open sesame"
HASH = "$2y$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy"  # of it
TLS = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"
SLOW_HASH = "$2b$12$abcdefghijklmnopqrstuuq2uHH4t8IjTa8PV9VUUF1vssBH6WaR2"  # of cost 12
USERS = f"basic_auth_users:\n  prom: {HASH}\n  slow: {SLOW_HASH}\n"
CLIENTS = 1700  # more than may be open


def written(folder, name, text):
    with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
        f.write(text)
    return f"{folder}/{name}"


def certificate(folder, cert, key):
    done = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                           "-days", "2", "-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1",
                           "-keyout", f"{folder}/{key}", "-out", f"{folder}/{cert}"], capture_output=True, text=True)
    job.check(not done.returncode, done.stderr)


def words(address, config):
    return [job.RANKTRACE, "watch", "--flight=no", "--phases=no", "--metrics", address, "--metrics-config", config]


class Server:
    """A command that serves metrics."""

    def __init__(self, folder, argv):
        self.errors = open(f"{folder}/stderr", "w+")
        self.process = subprocess.Popen(argv, stderr=self.errors, stdout=subprocess.DEVNULL)
        job.jobs.append(self)
        self.url = self.wait(r"metrics at (https?://\S+)")[1].replace("0.0.0.0", "127.0.0.1")

    def wait(self, pattern, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(pattern, self.stderr())
            if found:
                return found
            time.sleep(0.05)
        job.fail(f"no '{pattern}' within {timeout} s: {self.stderr()}")

    def stderr(self):
        with open(self.errors.name) as f:
            return f.read()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Watch(Server):
    def __init__(self, folder, address, config):
        super().__init__(folder, words(address, config))


def curl(url, *args):
    """curl's exit status, the answer's status, its text."""
    out = subprocess.run(["curl", "-sS", "-m", "20", "-w", "\n%{http_code}", *args, url], capture_output=True,
                         text=True)
    text, _, status = out.stdout.rpartition("\n")
    return out.returncode, int(status), text


def wait_page(url, *args, timeout=60):
    """The session has begun; nothing else is answered with 503."""
    end = time.monotonic() + timeout
    while True:
        code, status, text = curl(url, *args)
        job.check(not code and status in (200, 503) and time.monotonic() < end, f"{url}: {code} {status} {text[:200]}")
        if status == 200:
            return text
        time.sleep(0.3)


def who_gets_what(url, ca):
    user = ["-u", f"prom:{PASSWORD}"]
    job.check("ranktrace_tier_info{" in wait_page(url, *ca, *user), "no metrics")
    for args in ([], ["-u", "prom:open sesam"], ["-u", "prom:"], ["-u", f"ops:{PASSWORD}"],
                 ["-H", "Authorization: Basic ?"], ["-H", f"Authorization: Bearer {PASSWORD}"]):
        for at in (url, url.removesuffix("metrics")):
            code, status, text = curl(at, *ca, *args)
            job.check((code, status) == (0, 401) and "ranktrace_" not in text, f"{args}: {code} {status} {text[:200]}")
    out = subprocess.run(["curl", "-sSi", *ca, url], capture_output=True, text=True).stdout
    job.check(re.search(r'^www-authenticate: Basic realm="ranktrace"', out, re.M | re.I), out)
    job.check(curl(url, *user)[0] == 60, "a stranger's certificate is believed")
    job.check(curl(url, *ca, *user, "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0")[0] == 35, "TLS 1.1")
    plain = curl(url.replace("https", "http"), *user)
    job.check(plain[0] in (52, 56) and not plain[2], f"without TLS: {plain}")
    wait_page(url, *ca, *user)


def scrapes(url, folder):
    """As Prometheus, but with a connection for each: what a handshake costs is in it."""
    trust = ssl.create_default_context(cafile=f"{folder}/cert.pem")
    user = {"Authorization": "Basic " + base64.b64encode(f"prom:{PASSWORD}".encode()).decode()}
    took = []
    for _ in range(20):
        begin = time.monotonic()
        with urllib.request.urlopen(urllib.request.Request(url, headers=user), context=trust, timeout=20) as r:
            job.check(r.status == 200 and b"ranktrace_tier_info{" in r.read(), "no metrics")
        took.append(time.monotonic() - begin)
    print(f"  a scrape over TLS {statistics.median(took) * 1e3:.1f} ms (longest {max(took) * 1e3:.1f} ms)")


def guesses(url, ca):
    """They are refused after a second of hashes, and the scraper is served meanwhile."""
    seen, begin = [], time.monotonic()

    def goes_on():
        s = time.monotonic() - begin
        return s < 4 or (429 not in seen and s < 40)

    def guess():
        while goes_on():
            seen.append(curl(url, *ca, "-u", f"slow:{len(seen)}")[1])
    threads = [threading.Thread(target=guess) for _ in range(4)]
    for t in threads:
        t.start()
    while goes_on():
        wait_page(url, *ca, "-u", f"prom:{PASSWORD}")
        time.sleep(0.2)
    for t in threads:
        t.join(30)
    print(f"  {len(seen)} guesses: {seen.count(401)} computed, {seen.count(429)} refused")
    job.check(set(seen) == {401, 429}, f"{set(seen)}")


def server_mb(s):
    """Data of the server's process: its limit is 128 MB."""
    with open(f"/proc/{s.process.pid}/task/{s.process.pid}/children") as f:
        server = next(int(p) for p in f.read().split() if open(f"/proc/{p}/comm").read() == "ranktrace-http\n")
    with open(f"/proc/{server}/status") as f:
        return int(re.search(r"VmData:\s+(\d+) kB", f.read())[1]) / 1000


def many(s, ca):
    """Clients that do not even begin TLS; the oldest go."""
    url, before = s.url, server_mb(s)
    host, _, port = url.split("/")[2].rpartition(":")
    held = [socket.create_connection((host, int(port)), timeout=15) for _ in range(CLIENTS)]
    wait_page(url, *ca, "-u", f"prom:{PASSWORD}")
    after = server_mb(s)
    print(f"  {CLIENTS} clients: {before:.0f} MB of data become {after:.0f} MB")
    job.check(after < 64, f"{after} MB, of 128 that it may have")
    for client in held:
        client.close()


def prometheus_takes_it(config):
    if not shutil.which("promtool"):
        return
    out = subprocess.run(["promtool", "check", "web-config", config], capture_output=True, text=True)
    if "unknown" in out.stderr:
        return  # before 2.33
    job.check(out.returncode == 0, f"promtool: {out.stdout}{out.stderr}")


def secured(folder):
    config = written(folder, "web.yml", TLS + USERS)
    prometheus_takes_it(config)
    ca = ["--cacert", f"{folder}/cert.pem"]
    s = Watch(folder, "0.0.0.0:0", config)
    job.check(s.url.startswith("https://"), s.url)
    who_gets_what(s.url, ca)
    scrapes(s.url, folder)
    guesses(s.url, ca)
    many(s, ca)
    job.check("this address" not in s.stderr() and s.process.poll() is None, s.stderr())
    s.kill()


def half_open(folder):
    """What is missing at an address that others reach is said, once; the rest works."""
    for text, args, said in ((USERS, ["-u", f"prom:{PASSWORD}"], "the passwords cross the network readable"),
                             (TLS, ["--cacert", f"{folder}/cert.pem"], "may read the metrics;")):
        s = Watch(folder, "0.0.0.0:0", written(folder, "half.yml", text))
        wait_page(s.url, *args)
        job.check(s.stderr().count(said) == 1, f"not {said}: {s.stderr()}")
        s.kill()


def wrong_files(folder):
    certificate(folder, "other.pem", "other.key")
    written(folder, "not.pem", "nothing\n")
    for text, said in ((TLS.replace("key.pem", "other.key"), "cert_file and key_file are no pair"),
                       (TLS.replace("cert.pem", "not.pem"), "wrong.yml:2: cert_file: "),
                       (TLS.replace("key.pem", "none.pem"), "wrong.yml:3: key_file: "),
                       (USERS.replace(HASH, PASSWORD), "wrong.yml:2: prom: not a bcrypt hash"),
                       (TLS + "http_server_config:\n  http2: true\n", "wrong.yml:4: 'http_server_config' is not")):
        config = written(folder, "wrong.yml", text)
        out = subprocess.run([*words("0", config), "-d", "1"], capture_output=True, text=True, timeout=60)
        job.check(out.returncode == 2 and said in out.stderr, f"not {said}: {out.returncode} {out.stderr}")
    out = subprocess.run([*words("no", config), "-d", "1"], capture_output=True, text=True, timeout=60)
    job.check(out.returncode == 0 and "--metrics-config without --metrics" in out.stderr, out.stderr)


def main():
    job.need_root()
    for tool in ("openssl", "curl"):
        if not shutil.which(tool):
            job.skip(f"{tool} is missing")
    folder = tempfile.mkdtemp(prefix="ranktrace-tls-")
    job.dirs.append(folder)
    certificate(folder, "cert.pem", "key.pem")
    secured(folder)
    half_open(folder)
    wrong_files(folder)


if __name__ == "__main__":
    main()
