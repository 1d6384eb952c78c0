"""`./dev conformance kubernetes`: what the chart and the plain manifests say, said to a real API server."""

import json
import os
import subprocess
import tempfile
import unittest

import yaml

import manifests
import schemas
from api_server import ApiServer, Refused, program


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


class RealApiServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [name for name in ("etcd", "kube-apiserver", "helm") if not program(name)]
        if missing:
            raise AssertionError(f"not installed: {', '.join(missing)}")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = cls.enterClassContext(ApiServer(folder.name))
        for each in schemas.custom_resources():
            cls.server.apply(each)
            cls.server.until_known({"apiVersion": f"{each['spec']['group']}/{each['spec']['versions'][0]['name']}",
                                    "kind": each["spec"]["names"]["kind"], "metadata": {}})
        for name in ("evenkeel", "models", "default"):
            cls.server.ensure_namespace(name, {"pod-security.kubernetes.io/warn": "restricted"})

    def take(self, document):
        """Applies it without and with effect; the API server neither refuses it nor warns of it."""
        name = f"{document['kind']} {document['metadata']['name']}"
        for dry_run in (True, False):
            try:
                self.server.apply(document, dry_run)
            except Refused as why:
                self.fail(f"{name}: {why}")
            self.assertEqual(self.server.warnings, [], name)

    def allowed(self, verb, group, resource, namespace, account="evenkeel:evenkeel", name=""):
        review = self.server.create({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {"user": f"system:serviceaccount:{account}",
                     "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}}})
        return review["status"]["allowed"]

    def helm(self, *arguments):
        ended = subprocess.run([program("helm"), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120,
                               env={**os.environ, "KUBECONFIG": str(self.server.folder / "kubeconfig")})
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def test_the_plain_manifests_are_taken(self):
        for path in sorted((manifests.ROOT / "docker" / "kubernetes").glob("*.yaml")):
            with self.subTest(path.name):
                for each in documents(path.read_text()):
                    self.take(each)

    def test_every_object_of_the_chart_is_taken(self):
        for by in ("keda", "prometheus", "hpa"):
            for each in documents(manifests.rendered("--values", manifests.values("everything"), "--set", f"scaling.by={by}")):
                self.take(each)

    def test_a_pod_with_rights_is_warned_of(self):
        deployment, = [each for each in documents(manifests.PLAIN["proxy"].read_text()) if each["kind"] == "Deployment"]
        del deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"]
        self.server.apply(deployment, dry_run=True)
        self.assertIn("restricted", "".join(self.server.warnings))

    def test_a_mistake_is_refused(self):
        deployment, = [each for each in documents(manifests.PLAIN["proxy"].read_text()) if each["kind"] == "Deployment"]
        deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        with self.assertRaisesRegex(Refused, "readynessProbe"):
            self.server.apply(deployment, dry_run=True)

    def test_pods_may_read_what_the_file_finds_servers_in_and_nothing_else(self):
        for each in documents(manifests.PLAIN["picker"].read_text()) + documents(manifests.rendered("--values", manifests.values("everything"))):
            self.server.apply(each)
        picker, group = "default:evenkeel", "inference.networking.k8s.io"
        for verb in ("list", "watch"):
            self.assertTrue(self.allowed(verb, "", "pods", "default", picker))
            self.assertTrue(self.allowed(verb, group, "inferencepools", "default", picker, "llama"))
            self.assertFalse(self.allowed(verb, group, "inferencepools", "default", picker, "another"))
            self.assertTrue(self.allowed(verb, "discovery.k8s.io", "endpointslices", "models"))
            self.assertFalse(self.allowed(verb, "", "secrets", "default"))
            self.assertFalse(self.allowed(verb, "", "pods", "default"))
        self.assertFalse(self.allowed("patch", "", "pods", "default", picker))

    def test_helm_installs_upgrades_and_removes_it(self):
        common = ("--namespace", "tried", "--values", manifests.values("proxy"))
        self.helm("install", "evenkeel", manifests.CHART, "--create-namespace", *common)
        self.helm("upgrade", "evenkeel", manifests.CHART, *common, "--set", "config.shutdown.drain=10m", "--set", "replicas=3")
        deployment = self.server.request("GET", "/apis/apps/v1/namespaces/tried/deployments/evenkeel")
        self.assertEqual((deployment["spec"]["replicas"], deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]), (3, 620))
        self.assertEqual(json.loads(self.helm("list", "--namespace", "tried", "--output", "json"))[0]["status"], "deployed")
        self.helm("uninstall", "evenkeel", "--namespace", "tried")
        self.assertEqual(self.server.request("GET", "/apis/apps/v1/namespaces/tried/deployments")["items"], [])


if __name__ == "__main__":
    unittest.main()
