# SPDX-License-Identifier: Apache-2.0
"""--metrics-config while it is served: clients that have to show a certificate, each client_auth_type; one that is
refused gets an alert of TLS that says why; a new certificate, key, client_ca_file and user are taken without a restart,
a wrong one changes nothing and is said once; the page compressed. Needs openssl and curl."""
import gzip
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, sys.path[0] + "/../aid")
import job
from test_watch_metrics_tls import HASH, PASSWORD, TLS, Watch, certificate, curl, wait_page, written

KNOWN = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"


def openssl(*args, text=None):
    out = subprocess.run(["openssl", *args], input=text, capture_output=True, text=True)
    job.check(not out.returncode, f"openssl {args}: {out.stderr}")
    return out.stdout


def authority(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign", "-keyout", f"{folder}/{name}.key", "-out",
            f"{folder}/{name}.pem")


def signed(folder, ca, name, usage="clientAuth", days="2"):
    """curl's words for a client with such a certificate."""
    request = openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                      f"/CN={name}", "-keyout", f"{folder}/{name}.key")
    written(folder, "ext", f"extendedKeyUsage={usage}\n")
    openssl("x509", "-req", "-CA", f"{folder}/{ca}.pem", "-CAkey", f"{folder}/{ca}.key", "-CAcreateserial", "-days",
            days, "-extfile", f"{folder}/ext", "-out", f"{folder}/{name}.pem", text=request)
    return ["--cert", f"{folder}/{name}.pem", "--key", f"{folder}/{name}.key"]


def is_served(url, *args):
    code, status, text = curl(url, *args)
    job.check((code, status) == (0, 200) and re.search(r"^ranktrace_(tier|hub)_info\{", text, re.M) or
              (code and not text),
              f"{args}: {code} {status} {text[:200]}")
    return not code


def wait_said(s, text, times=1, timeout=60):
    end = time.monotonic() + timeout
    while s.stderr().count(text) < times:
        job.check(time.monotonic() < end and s.process.poll() is None, f"not {times} times '{text}': {s.stderr()}")
        time.sleep(0.1)


def replaced(folder, name, text):
    """At once, as who renews certificates does."""
    written(folder, f"{name}.new", text)
    os.rename(f"{folder}/{name}.new", f"{folder}/{name}")


def content(folder, name):
    with open(f"{folder}/{name}", encoding="utf-8") as f:
        return f.read()


def kinds(s, folder, config, ca, clients):
    """Which client is served, by client_auth_type: the first since the start, the others while it runs."""
    asked = -1
    for words, served in ((KNOWN, {"ours"}), (KNOWN.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"),
                                              {"ours", "none"}),
                          ("  client_auth_type: RequireAnyClientCert\n", {"ours", "stranger", "server", "expired"}),
                          ("  client_auth_type: RequestClientCert\n", set(clients))):
        asked += 1
        if asked:
            replaced(folder, "web.yml", TLS + words)
        wait_said(s, f"{config}: certificates and users are as it says now", asked)
        got = {name for name, args in clients.items() if is_served(s.url, *ca, *args)}
        job.check(got == served, f"{words}: served are {got}, not {served}: {s.stderr()}")
    print(f"  {asked + 1} kinds of client_auth_type, each by {len(clients)} clients")
    return asked


def told(url, folder, version, args):
    """What a client with such a certificate gets to know: the alert, by OpenSSL's name for it."""
    host, _, port = url.split("/")[2].rpartition(":")
    context = ssl.create_default_context(cafile=f"{folder}/cert.pem")
    context.minimum_version = context.maximum_version = version
    if args:
        context.load_cert_chain(args[1], args[3])
    try:
        with socket.create_connection((host, int(port)), timeout=20) as plain, \
                context.wrap_socket(plain, server_hostname=host) as tls:
            return f"nothing, but {tls.recv(1)}"  # by TLS 1.3 a client may have sent its own before it is refused
    except ssl.SSLError as e:
        return e.reason


ALERTS = {"none": ("HANDSHAKE_FAILURE", "CERTIFICATE_REQUIRED"),  # by TLS 1.2, which has none for it, and by 1.3
          "stranger": ("UNKNOWN_CA",) * 2, "expired": ("CERTIFICATE_EXPIRED",) * 2,
          "server": ("UNSUPPORTED_CERTIFICATE",) * 2}


def alerts(url, folder, clients):
    for name, wanted in ALERTS.items():
        for version, alert in zip((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), wanted):
            got = told(url, folder, version, clients[name])
            job.check((got or "").endswith(f"_ALERT_{alert}"), f"{name}, {version.name}: {got}, not {alert}")
    print("  who is refused gets an alert that says why, by TLS 1.2 and 1.3")


def renewals(s, folder, config, asked):
    """A certificate whose key is not there yet; then it is, and a user."""
    old = ["--cacert", f"{folder}/old.pem"]
    shutil.copy(f"{folder}/cert.pem", f"{folder}/old.pem")
    certificate(folder, "next.pem", "next.key")
    new = ["--cacert", f"{folder}/next.pem"]
    replaced(folder, "cert.pem", content(folder, "next.pem"))
    wait_said(s, "cert_file and key_file are no pair that GnuTLS takes")
    job.check(is_served(s.url, *old) and not is_served(s.url, *new), f"half a renewal is in force: {s.stderr()}")
    replaced(folder, "key.pem", content(folder, "next.key"))
    replaced(folder, "web.yml", TLS + f"basic_auth_users:\n  prom: {HASH}\n")
    wait_said(s, f"{config}: certificates and users are as it says now", asked + 1)
    user = ["-u", f"prom:{PASSWORD}"]
    job.check(not is_served(s.url, *old, *user) and is_served(s.url, *new, *user), "the old certificate is served on")
    job.check(curl(s.url, *new)[:2] == (0, 401), "without the password")
    for text, said in ((TLS + "basic_auth_users:\n  prom: x\n", "web.yml:5: prom: not a bcrypt hash"),
                       (f"basic_auth_users:\n  prom: {HASH}\n", "tls_server_config is gone; that takes a restart")):
        replaced(folder, "web.yml", text)
        wait_said(s, said)
        job.check(is_served(s.url, *new, "-u", f"prom:{PASSWORD}"), f"after '{said}' it is not served")
    time.sleep(3)  # two looks
    job.check(s.stderr().count("stays as it was") == 3, f"not three refusals: {s.stderr()}")
    print("  a new certificate and a user without a restart; three wrong ones changed nothing")
    return new + ["-u", f"prom:{PASSWORD}"]


def compressed(url, args):
    def got(*more):
        return subprocess.run(["curl", "-sS", "-m", "20", *args, *more, url], capture_output=True).stdout
    packed, plain = got("-H", "Accept-Encoding: gzip"), got()
    text = gzip.decompress(packed).decode()
    names = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    job.check(names == [line.split("{")[0].split(" ")[0] for line in plain.decode().splitlines()
                        if not line.startswith("#")], f"another page: {text[:300]}")
    job.check(plain == got("-H", "Accept-Encoding: gzip;q=0") or b"ranktrace_tier_info{" in plain, "not plain")
    head = got("-i", "-H", "Accept-Encoding: gzip")[:600].lower()
    job.check(b"content-encoding: gzip" in head and b"vary: accept-encoding" in head, head)
    job.check(b"content-encoding" not in got("-i")[:600].lower(), "compressed unasked")
    print(f"  a page of {len(text)} bytes is {len(packed)} compressed")


def main():
    job.need_root()
    for tool in ("openssl", "curl"):
        if not shutil.which(tool):
            job.skip(f"{tool} is missing")
    folder = tempfile.mkdtemp(prefix="ranktrace-renew-")
    job.dirs.append(folder)
    certificate(folder, "cert.pem", "key.pem")
    authority(folder, "ca")
    authority(folder, "other")
    clients = {"none": [], "ours": signed(folder, "ca", "ours"), "stranger": signed(folder, "other", "stranger"),
               "server": signed(folder, "ca", "server", "serverAuth"),
               "expired": signed(folder, "ca", "expired", days="-1")}
    ca = ["--cacert", f"{folder}/cert.pem"]
    config = written(folder, "web.yml", TLS + KNOWN)
    s = Watch(folder, "127.0.0.1:0", config)
    wait_page(s.url, *ca, *clients["ours"])
    alerts(s.url, folder, clients)
    args = renewals(s, folder, config, kinds(s, folder, config, ca, clients))
    compressed(s.url, args)
    s.kill()


if __name__ == "__main__":
    main()
