"""A real API server for tests: etcd and kube-apiserver on free ports of this machine, without kubelets and controllers.

    api_server.py FOLDER     # writes FOLDER/kubeconfig, token and ca.crt, and serves until it is interrupted
"""

import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from ports import free_ports  # noqa: E402

TOKEN = "operator-of-the-tests"
PATIENCE = 60


def program(name):
    """Where it is; None: it is not installed."""
    for folder in ("go", "kubernetes"):
        built = ROOT / "build" / folder / "bin" / name
        if os.access(built, os.X_OK):
            return str(built)
    return shutil.which(name)


class Refused(Exception):
    """An answer of the API server with a status of 400 or above."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class ApiServer:
    """Runs while it is entered. Everyone may do what RBAC allows; `TOKEN` everything."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []
        self._resources = {}

    def __enter__(self):
        client, peer, self.port = free_ports(3)
        self.url = f"https://127.0.0.1:{self.port}"
        (self.folder / "token").write_text(TOKEN)
        (self.folder / "tokens.csv").write_text(f'{TOKEN},operator,operator,"system:masters"\n')
        subprocess.run(["openssl", "genrsa", "-out", self.folder / "accounts.key", "2048"], check=True, capture_output=True)
        etcd = f"http://127.0.0.1:{client}"
        try:
            self.start("etcd", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
                       f"--listen-peer-urls=http://127.0.0.1:{peer}")
            self.start("kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
                       f"--cert-dir={self.folder}/certificates", f"--service-account-key-file={self.folder}/accounts.key",
                       f"--service-account-signing-key-file={self.folder}/accounts.key", f"--service-account-issuer={self.url}",
                       f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC",
                       "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
                       "--disable-admission-plugins=ServiceAccount")
            self.until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, name, *arguments):
        log = (self.folder / f"{name}.log").open("w")
        self.processes.append(subprocess.Popen([program(name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def stop(self):
        for each in reversed(self.processes):
            each.send_signal(signal.SIGTERM)
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()

    def until_ready(self):
        certificate = self.folder / "certificates" / "apiserver.crt"
        end = time.monotonic() + PATIENCE
        while True:
            for each in self.processes:
                if each.poll() is not None or time.monotonic() > end:
                    log = self.folder / f"{pathlib.Path(each.args[0]).name}.log"
                    raise AssertionError("not ready:\n" + "\n".join(log.read_text().splitlines()[-10:]))
            try:
                if certificate.exists():
                    self.context = ssl.create_default_context(cafile=certificate)
                    self.context.check_hostname = False
                    self.request("GET", "/readyz")
                    break
            except (OSError, Refused, ssl.SSLError):
                pass
            time.sleep(0.1)
        shutil.copy(certificate, self.folder / "ca.crt")
        (self.folder / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "operator", "user": {"token": TOKEN}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "operator"}}]}))

    def request(self, method, path, body=None, content_type="application/json", **query):
        """The parsed answer, or its text; and the warnings are collected. Raises Refused."""
        url = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(url, data, {"authorization": f"Bearer {TOKEN}", "content-type": content_type}, method=method)
        try:
            with urllib.request.urlopen(asked, context=self.context, timeout=30) as answer:
                self.warnings = answer.headers.get_all("warning") or []
                text = answer.read().decode()
        except urllib.error.HTTPError as refused:
            text = refused.read().decode(errors="replace")
            try:
                text = json.loads(text)["message"]
            except (ValueError, KeyError):
                pass
            raise Refused(refused.code, text) from refused
        return json.loads(text) if text.startswith("{") else text

    def path_of(self, document):
        """The path of an object's kind in its namespace."""
        version, kind = document["apiVersion"], document["kind"]
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if version not in self._resources or kind not in self._resources[version]:
            listed = self.request("GET", root)["resources"]
            self._resources[version] = {each["kind"]: each for each in listed if "/" not in each["name"]}
        resource = self._resources[version][kind]
        namespace = f"/namespaces/{document['metadata'].get('namespace', 'default')}" if resource["namespaced"] else ""
        return f"{root}{namespace}/{resource['name']}"

    def apply(self, document, dry_run=False, manager="tests"):
        """Applies a document with strict validation, as `kubectl apply --server-side` does. Raises Refused."""
        path = f"{self.path_of(document)}/{document['metadata']['name']}"
        return self.request("PATCH", path, document, "application/apply-patch+yaml", fieldManager=manager, force="true",
                            fieldValidation="Strict", **({"dryRun": "All"} if dry_run else {}))

    def create(self, document):
        return self.request("POST", self.path_of(document), document)

    def ensure_namespace(self, name, labels):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}, manager="setup")

    def until_known(self, document):
        """Waits until the kind of a new CustomResourceDefinition is served."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._resources.clear()
            try:
                self.request("GET", self.path_of(document))
                return
            except (Refused, KeyError):
                time.sleep(0.1)
        raise AssertionError(f"not served: {document}")


def main(folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    with ApiServer(folder) as server:
        print(f"serving {server.url}; KUBECONFIG={server.folder}/kubeconfig", flush=True)
        try:
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
