# SPDX-License-Identifier: Apache-2.0
"""The metrics of a hub by TLS, while it runs: a new certificate, key and user are taken without a restart though its
process is confined; what is wrong changes nothing and is said once. Needs openssl, curl and nats-server."""
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(1, sys.path[0] + "/../aid")
sys.path.insert(1, sys.path[0] + "/../watch")
import job
import monitoring
from test_watch_metrics_renew import renewals
from test_watch_metrics_tls import TLS, Server, certificate, wait_page, written


def main():
    job.need_root()
    for tool in ("openssl", "curl", "nats-server"):
        if not shutil.which(tool):
            job.skip(f"{tool} is missing")
    folder = tempfile.mkdtemp(prefix="ranktrace-hub-renew-")
    job.dirs.append(folder)
    certificate(folder, "cert.pem", "key.pem")
    config, port = written(folder, "web.yml", TLS), monitoring.free_port()
    nats = written(folder, "nats.conf", f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/js" }}\n')
    bus = subprocess.Popen(["nats-server", "-c", nats], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    job.jobs.append(bus)
    s = Server(folder, [job.RANKTRACE, "hub", "--nats", f"nats://127.0.0.1:{port}", "--metrics", "127.0.0.1:0",
                        "--metrics-config", config])
    wait_page(s.url, "--cacert", f"{folder}/cert.pem")
    renewals(s, folder, config, 0)
    s.kill()
    bus.kill()


if __name__ == "__main__":
    main()
