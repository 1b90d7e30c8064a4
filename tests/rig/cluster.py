"""A real API server of Kubernetes with its etcd and nothing else: objects are checked and kept.

There is no controller and no node, so nothing comes of them.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

import httpx2
import yaml

from tests.rig import tools
from tests.rig.ports import free_port
from tests.rig.process import Process, until

_TOKEN = "admin-token"  # noqa: S105 - of an API server that lives for one test


class Cluster:
    """One control plane on free ports of 127.0.0.1.

    Raises:
        Missing: A program is not here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._apiserver = tools.apiserver()
        self._etcd = shutil.which("etcd")
        if self._etcd is None:
            raise tools.Missing("no etcd here: install etcd-server")
        self._url = f"https://127.0.0.1:{free_port()}"
        self._environ = {"PATH": os.defpath, "HOME": str(folder)}
        self._processes: list[Process] = []
        self.kubeconfig = folder / "kubeconfig"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write()
        try:
            self._start_etcd()
            self._start_apiserver()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End both."""
        for process in reversed(self._processes):
            process.kill()

    def _write(self) -> None:
        place = self._folder
        (place / "tokens.csv").write_text(f"{_TOKEN},admin,admin,system:masters\n")
        subprocess.run(
            [str(shutil.which("openssl")),
             "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
             "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", "tls.key", "-out", "tls.crt"],
            cwd=place, env=self._environ, check=True, capture_output=True,
        )  # fmt: skip
        cluster = {"server": self._url, "certificate-authority": str(place / "tls.crt")}
        found: dict[str, Any] = {
            "apiVersion": "v1", "kind": "Config", "current-context": "rig",
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "admin"}}],
        }  # fmt: skip
        self.kubeconfig.write_text(yaml.safe_dump(found))

    def _run(self, name: str, *command: str) -> None:
        log = self._folder / f"{name}.log"
        self._processes.append(Process(command, log=log, environ=self._environ))

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._store = client
        self._run(
            "etcd", str(self._etcd), "--data-dir", str(self._folder / "etcd"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}", "--unsafe-no-fsync", "--log-level", "error",
        )  # fmt: skip

    def _start_apiserver(self) -> None:
        key = str(self._folder / "tls.key")
        self._run(
            "apiserver", str(self._apiserver), f"--etcd-servers={self._store}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self._url.rsplit(':', 1)[1]}", "--insecure-port=0",
            f"--tls-cert-file={self._folder / 'tls.crt'}", f"--tls-private-key-file={key}",
            f"--token-auth-file={self._folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            f"--service-account-issuer={self._url}", "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
        )  # fmt: skip
        until(self._is_ready, what="the API server", limit=60)

    def _is_ready(self) -> bool:
        server = self._processes[-1]
        if not server.is_running():
            raise AssertionError(f"the API server ended:\n{server.last_words()}")
        headers = {"Authorization": f"Bearer {_TOKEN}"}
        try:
            answer = httpx2.get(
                f"{self._url}/readyz", headers=headers, verify=False, trust_env=False
            )
        except httpx2.TransportError:
            return False
        return answer.status_code == 200
