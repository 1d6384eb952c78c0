"""The chart docker/helm/evenkeel and the plain manifests of docker/kubernetes: what the API server takes, what pods may do, and
that the file in their ConfigMap is right. That a real API server takes them is `./dev conformance kubernetes`.

    chart_test.py EVENKEEL
"""

import copy
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema
import yaml

import manifests
import schemas

EVENKEEL = sys.argv[1]
ENVIRONMENT = {**os.environ, "EVENKEEL_WORKERS": "2", "HOSTED": "127.0.0.1"}
KNOWN = schemas.schemas()
needs_helm = unittest.skipUnless(manifests.helm(), "no helm here")
PATIENCE = 20


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


class Objects:
    """The objects of one rendering."""

    def __init__(self, text):
        self.all = documents(text)

    def of(self, kind, name="evenkeel"):
        found, = [each for each in self.all if each["kind"] == kind and each["metadata"]["name"] == name]
        return found

    def pod(self):
        return self.of("Deployment")["spec"]["template"]

    def container(self):
        found, = self.pod()["spec"]["containers"]
        return found

    def file(self):
        return self.of("ConfigMap")["data"]["evenkeel.yaml"]

    def ports(self):
        """The numbers of the daemon's ports by their names."""
        return {each["name"]: each["containerPort"] for each in self.container()["ports"]}


def setUpModule():
    """The Secrets that everything-values.yaml mounts."""
    global files
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    files = pathlib.Path(folder.name)
    (files / "tls").mkdir()
    (files / "admin").mkdir()
    (files / "admin" / "token").write_text("a token of the tests")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=tests",
                    "-keyout", files / "tls" / "tls.key", "-out", files / "tls" / "tls.crt"], check=True, capture_output=True)


def evenkeel(config, *arguments):
    """Runs a command on the text of a file, with the pod's files and variables."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(config.replace("/files/", f"{files}/"))
        file.flush()
        return subprocess.run([EVENKEEL, *arguments, "-c", file.name], capture_output=True, text=True, check=False, timeout=60, env=ENVIRONMENT)


def parsed(config):
    """The effective configuration."""
    printed = evenkeel(config, "config", "print", "--defaults")
    if printed.returncode != 0:
        raise AssertionError(printed.stderr)
    return yaml.safe_load(printed.stdout)


def seconds(duration):
    number = duration.rstrip("smhd")
    return float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[duration[len(number):]]


class Judged(unittest.TestCase):
    def judge(self, objects):
        """What holds of every rendering."""
        self.assertEqual([each for document in objects.all for each in schemas.problems(document, KNOWN)], [])
        self.configuration_is_right(objects)
        self.objects_select_the_pods(objects)
        self.pods_have_no_rights(objects)
        self.roles_allow_what_is_read(objects)

    def configuration_is_right(self, objects):
        checked = evenkeel(objects.file(), "check", "--offline", "--strict")
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        file = parsed(objects.file())
        ports = {each["name"]: int(each["address"].rpartition(":")[2]) for each in file["listeners"]}
        admin, _, port = file["admin"]["address"].rpartition(":")
        self.assertEqual(objects.ports(), {**ports, "admin": int(port)})
        self.assertEqual(admin, "0.0.0.0")
        grpc = {each["name"] for each in file["listeners"] if each.get("endpoint_picker") or each.get("scaler")}
        published = {each["metadata"]["name"]: {port["name"] for port in each["spec"]["ports"]} for each in objects.all if each["kind"] == "Service"}
        self.assertEqual(published.pop("evenkeel-admin"), {"admin"})
        self.assertEqual(published.pop("evenkeel-internal", set()), grpc)
        self.assertEqual(published.pop("evenkeel", set()), set(ports) - grpc)
        stops = seconds(file["shutdown"]["delay"]) + seconds(file["shutdown"]["drain"])
        self.assertGreater(objects.pod()["spec"]["terminationGracePeriodSeconds"], stops)

    def objects_select_the_pods(self, objects):
        labels = objects.pod()["metadata"]["labels"]
        selectors = [objects.of("Deployment")["spec"]["selector"]["matchLabels"],
                     objects.of("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
                     objects.of("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]]
        selectors += [each["spec"]["selector"] for each in objects.all if each["kind"] == "Service"]
        for each in selectors:
            self.assertTrue(each)
            self.assertLessEqual(each.items(), labels.items())

    def pods_have_no_rights(self, objects):
        spec = objects.pod()["spec"]
        self.assertTrue(spec["securityContext"]["runAsNonRoot"])
        self.assertEqual(spec["securityContext"]["runAsUser"], 65532, "the user of docker/Dockerfile")
        for each in spec["containers"] + spec["initContainers"]:
            self.assertEqual(each["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                       "capabilities": {"drop": ["ALL"]}})
            self.assertTrue(all(mount["readOnly"] for mount in each["volumeMounts"]))
        open_ports = [port["port"] for rule in objects.of("NetworkPolicy")["spec"]["ingress"] if "from" not in rule for port in rule["ports"]]
        self.assertNotIn("admin", open_ports)

    def roles_allow_what_is_read(self, objects):
        wanted, pools = {}, set()
        for pool in parsed(objects.file())["pools"]:
            kubernetes = (pool.get("discover") or {}).get("kubernetes") or {}
            for key, resources in (("service", {"endpointslices"}), ("inference_pool", {"inferencepools", "pods"})):
                if kubernetes.get(key):
                    wanted.setdefault(kubernetes[key].partition("/")[0], set()).update(resources)
            pools.add(kubernetes.get("inference_pool"))
        roles = {each["metadata"]["namespace"]: each for each in objects.all if each["kind"] == "Role"}
        bindings = {each["metadata"]["namespace"]: each for each in objects.all if each["kind"] == "RoleBinding"}
        self.assertEqual({name: {resource for rule in role["rules"] for resource in rule["resources"]} for name, role in roles.items()}, wanted)
        named = {f"{namespace}/{name}" for namespace, role in roles.items() for rule in role["rules"] for name in rule.get("resourceNames", ())}
        self.assertEqual(named, pools - {None, ""})
        for namespace, role in roles.items():
            self.assertTrue(all(rule["verbs"] == ["list", "watch"] for rule in role["rules"]))
            self.assertEqual(bindings[namespace]["roleRef"]["name"], role["metadata"]["name"])
            subject, = bindings[namespace]["subjects"]
            self.assertEqual((subject["name"], subject["namespace"]), (objects.pod()["spec"]["serviceAccountName"], objects.of("Deployment")["metadata"]["namespace"]))
        self.assertEqual(objects.pod()["spec"]["automountServiceAccountToken"], bool(wanted))


class Manifests(Judged):
    def test_proxy_and_picker_are_right(self):
        for path in manifests.PLAIN.values():
            with self.subTest(path.name):
                self.judge(Objects(path.read_text()))

    def test_simulators_are_the_servers_that_they_find(self):
        servers = Objects((manifests.ROOT / "docker" / "kubernetes" / "simulators.yaml").read_text())
        self.assertEqual([each for document in servers.all for each in schemas.problems(document, KNOWN)], [])
        pool, = parsed(Objects(manifests.PLAIN["proxy"].read_text()).file())["pools"]
        service = servers.of("Service", "llama")
        self.assertEqual(pool["discover"]["kubernetes"]["service"], "default/llama")
        pods = servers.of("Deployment", "llama")["spec"]["template"]
        self.assertEqual((service["spec"]["selector"], service["metadata"]["namespace"]), (pods["metadata"]["labels"], "default"))
        arguments = ["127.0.0.1:0" if each == "0.0.0.0:8000" else each for each in pods["spec"]["containers"][0]["args"]]
        with subprocess.Popen([EVENKEEL, *arguments], stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True) as server:
            self.assertRegex(server.stdout.readline(), r"^listening name=\S+ address=127")
            server.kill()

    def test_a_picker_listens_for_gateways_over_tls(self):
        objects = Objects(manifests.PLAIN["picker"].read_text())
        listener, = parsed(objects.file())["listeners"]
        self.assertEqual((listener["endpoint_picker"]["pool"], listener["tls"]["self_signed"]), ("llama", True))
        port, = objects.of("Service", "evenkeel-internal")["spec"]["ports"]
        self.assertEqual((port["port"], port["appProtocol"]), (9002, "http2"))

    def test_what_the_api_server_refuses_is_found(self):
        objects = Objects(manifests.PLAIN["proxy"].read_text())
        wrong = copy.deepcopy(objects.of("Deployment"))
        wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        wrong["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = "320"
        found = schemas.problems(wrong, KNOWN)
        self.assertEqual(len(found), 2, found)
        self.assertIn("readynessProbe", "".join(found))


class Reload(unittest.TestCase):
    """The script of the container `reload`, with a stand-in for the command that it calls."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "bin").mkdir()
        self.stand_in("evenkeel", 'echo "$@" >>calls; exit $(cat status)')
        self.stand_in("sleep", "echo >>turns; exec /bin/sleep 0.02")
        self.answer(0)
        (self.root / "calls").touch()
        (self.root / "turns").touch()
        self.publish("first")
        container, = Objects(manifests.PLAIN["proxy"].read_text()).pod()["spec"]["initContainers"]
        self.assertEqual(container["restartPolicy"], "Always")
        shell, option, script, *arguments = container["command"]
        script = script.replace("/etc/evenkeel", str(self.root / "mounted"))
        self.process = subprocess.Popen([shell, option, script, *arguments], cwd=self.root, start_new_session=True,
                                        env={"PATH": f"{self.root}/bin:/usr/bin:/bin"})
        self.addCleanup(self.end)
        self.until("turns", 1)

    def stand_in(self, name, text):
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def answer(self, status):
        (self.root / "status").write_text(str(status))

    def publish(self, version):
        """Replaces the link ..data, as the kubelet does."""
        mounted = self.root / "mounted"
        (mounted / version).mkdir(parents=True)
        (mounted / "..new").symlink_to(version)
        (mounted / "..new").rename(mounted / "..data")

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def lines(self, name):
        return (self.root / name).read_text().splitlines()

    def until(self, name, count):
        end = time.monotonic() + PATIENCE
        while len(self.lines(name)) < count:
            self.assertLess(time.monotonic(), end, f"no {name}")
            time.sleep(0.01)

    def test_a_change_is_applied_once(self):
        for number, version in enumerate(("second", "third"), 1):
            self.publish(version)
            self.until("calls", number)
            self.until("turns", len(self.lines("turns")) + 3)
            self.assertEqual(self.lines("calls"), ["ctl reload --wait --admin=http://127.0.0.1:9901"] * number)

    def test_a_change_waits_for_a_daemon_that_starts(self):
        self.answer(5)
        self.publish("second")
        self.until("calls", 3)

    def test_a_file_with_a_mistake_is_reported_once(self):
        self.answer(1)
        self.publish("second")
        self.until("calls", 1)
        self.until("turns", len(self.lines("turns")) + 3)
        self.assertEqual(len(self.lines("calls")), 1)

    def test_it_ends_when_it_is_told_to(self):
        self.process.terminate()
        self.assertEqual(self.process.wait(PATIENCE), 0)


class Values(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads((manifests.CHART / "values.schema.json").read_text())
        self.defaults = yaml.safe_load((manifests.CHART / "values.yaml").read_text())

    def test_the_schema_knows_every_value_and_no_other(self):
        jsonschema.Draft7Validator.check_schema(self.schema)
        jsonschema.validate(self.defaults, self.schema)
        self.assertEqual(set(self.schema["properties"]) - {"global"}, set(self.defaults))
        for name, part in self.schema["properties"].items():
            if "properties" in part:
                self.assertEqual(set(part["properties"]), set(self.defaults[name]), name)
        for path in (manifests.CHART / "ci").iterdir():
            jsonschema.validate({**self.defaults, **yaml.safe_load(path.read_text())}, self.schema)

    def test_a_misspelt_value_is_refused(self):
        for wrong in ({"replica": 3}, {"scaling": {"by": "magic"}}, {"files": [{"path": "/files/tls"}]}, {"picker": {"inferencePool": "default/llama"}}):
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate({**self.defaults, **wrong}, self.schema)


@needs_helm
class Chart(Judged):
    def render(self, *arguments):
        return Objects(manifests.rendered(*arguments))

    def refused(self, *arguments):
        with self.assertRaises(subprocess.CalledProcessError) as caught:
            manifests.rendered(*arguments)
        return caught.exception.stderr

    def test_the_manifests_are_what_it_renders(self):
        for name, path in manifests.PLAIN.items():
            self.assertEqual(path.read_text(), manifests.plain(name), f"run {manifests.__file__} --write")

    def test_everything_at_once_is_right(self):
        objects = self.render("--values", manifests.values("everything"))
        self.judge(objects)
        def ports(service):
            return {each["name"]: (each["port"], each["appProtocol"]) for each in objects.of("Service", service)["spec"]["ports"]}
        self.assertEqual(ports("evenkeel"), {"public": (443, "https"), "plain": (8080, "http")})
        self.assertEqual(ports("evenkeel-internal"), {"picker": (9002, "http2"), "scaler": (9004, "kubernetes.io/h2c")})
        self.assertEqual((objects.of("Service")["spec"]["type"], objects.of("Service", "evenkeel-internal")["spec"].get("type")), ("LoadBalancer", None))
        self.assertEqual(objects.pod()["spec"]["terminationGracePeriodSeconds"], 5420)
        self.assertEqual(len(parsed(objects.file())["pools"]), 3, "the pool of the file is the picker's")

    def test_servers_are_scaled_within_the_limits_of_their_pool(self):
        everything = "--values", manifests.values("everything")
        scaled = self.render(*everything).of("ScaledObject", "evenkeel-llama")
        self.assertEqual((scaled["metadata"]["namespace"], scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]), ("models", 0, 8))
        trigger, = scaled["spec"]["triggers"]
        self.assertEqual((trigger["type"], trigger["metadata"]),
                         ("external-push", {"scalerAddress": "evenkeel-internal.evenkeel.svc:9004", "pool": "llama"}))
        trigger, = self.render(*everything, "--set", "scaling.by=prometheus").of("ScaledObject", "evenkeel-llama")["spec"]["triggers"]
        self.assertEqual(trigger["metadata"]["query"], 'sum(evenkeel_pool_demand_replicas{pool="llama"})')
        scaled = self.render(*everything, "--set", "scaling.by=hpa").of("HorizontalPodAutoscaler", "evenkeel-qwen")["spec"]
        self.assertEqual((scaled["minReplicas"], scaled["maxReplicas"], scaled["scaleTargetRef"]["kind"]), (1, 4, "StatefulSet"))
        self.assertEqual(scaled["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 180, "the start_time of a pool")
        self.assertIn("has no `scaling`", self.refused(*everything, "--set", "scaling.targets[0].pool=hosted"))

    def test_the_file_may_be_a_text(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("# With a comment.\npools: [{name: llama, backends: [http://10.0.0.1:8000]}]\nlisteners: [{limits: {max_connections: 1000000}}]\n")
            file.flush()
            objects = self.render("--set-file", f"config={file.name}")
        self.judge(objects)
        self.assertEqual(parsed(objects.file())["listeners"][0]["limits"]["max_connections"], 1_000_000)
        self.assertEqual([each for each in objects.all if each["kind"] == "Role"], [])

    def test_pods_are_replaced_where_a_reload_cannot_apply_a_change(self):
        def annotation(*arguments):
            return self.render("--values", manifests.values("proxy"), *arguments).pod()["metadata"]["annotations"]["evenkeel/needs-process"]
        self.assertEqual(annotation(), annotation("--set", "config.pools[0].engine=vllm", "--set", "config.pools[0].name=llama"))
        self.assertNotEqual(annotation(), annotation("--set", "config.access_log.path=off"))
        self.assertNotEqual(annotation("--set", "reload.enabled=false"),
                            annotation("--set", "reload.enabled=false", "--set", "config.shutdown.drain=2m"))

    def test_an_admin_listener_with_tls_is_asked_over_it(self):
        objects = self.render("--values", manifests.values("everything"), "--set", "config.admin.tls.self_signed=true",
                              "--set", "reload.arguments={--ca-file,/files/admin/ca.crt}")
        container = objects.container()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(container[probe]["httpGet"]["scheme"], "HTTPS")
        reload, = objects.pod()["spec"]["initContainers"]
        self.assertEqual(reload["command"][4:], ["--admin=https://127.0.0.1:9901", "--token-file=/files/admin/token", "--ca-file", "/files/admin/ca.crt"])
        endpoint, = objects.of("ServiceMonitor")["spec"]["endpoints"]
        self.assertEqual(endpoint["scheme"], "https")

    def test_the_commands_of_the_page_are_right(self):
        page = (manifests.ROOT / "docs" / "kubernetes.md").read_text()
        page = page[page.index("\n## Install\n"):]
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.M | re.S)
        yamls = [text for language, text in blocks if language == "yaml"]
        commands = re.findall(r"^helm (?:install|upgrade) (.*)$", "".join(text for language, text in blocks if language == "sh").replace("\\\n", ""), re.M)
        self.assertGreater(len(commands), 3)
        self.assertIn("\nconfig:\n", "\n" + yamls[-1], "the values of the last part")
        with tempfile.TemporaryDirectory() as folder:
            file, scaled = pathlib.Path(folder, "evenkeel.yaml"), pathlib.Path(folder, "values.yaml")
            file.write_text(yamls[0])
            scaled.write_text(yamls[-1])
            for command in commands:
                words = command.replace("config=evenkeel.yaml", f"config={file}").split()
                name, chart, *options = [word for word in words if word not in ("--create-namespace", "--reset-then-reuse-values")]
                self.assertEqual((name, chart), ("evenkeel", "docker/helm/evenkeel"))
                if not any(option.startswith(("config=", "picker.")) for option in options):
                    options += ["--set-file", f"config={file}"]
                self.judge(Objects(manifests.run("template", name, manifests.CHART, *options)))
            self.judge(self.render("--values", scaled))
        for document in documents("---\n".join(text for text in yamls if text.startswith("apiVersion: "))):
            self.assertEqual(schemas.problems(document, KNOWN), [])

    def test_mistakes_are_told(self):
        self.assertIn("give it pools", self.refused())
        self.assertIn("config: no YAML", self.refused("--set", "config=pools: ["))
        self.assertIn("name of a port", self.refused("--values", manifests.values("proxy"), "--set", "config.listeners[0].name=a_listener"))
        self.assertIn("no listener 'pubic'", self.refused("--values", manifests.values("proxy"), "--set", "service.ports.pubic=80"))
        self.assertIn("replica", self.refused("--values", manifests.values("proxy"), "--set", "replica=3"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
