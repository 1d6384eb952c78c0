"""The plain manifests of docker/kubernetes, as helm renders them from the chart.

    manifests.py [--write]       # exit code 1 if they differ
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "docker" / "helm" / "evenkeel"
PLAIN = {name: ROOT / "docker" / "kubernetes" / f"{name}.yaml" for name in ("proxy", "picker")}
NAMESPACES = {"proxy": "evenkeel", "picker": "default"}  # a picker is in that of its InferencePool

HEAD = """# {about}
# Rendered from docker/helm/evenkeel by tests/kubernetes/manifests.py: docs/kubernetes.md says what to change here.
"""
NAMESPACE = """apiVersion: v1
kind: Namespace
metadata:
  name: {name}
"""
ABOUT = {"proxy": "evenkeel in front of the model servers of the Service `llama` in the namespace `default`.",
         "picker": "evenkeel as the endpoint picker of the InferencePool `llama` in the namespace `default`."}


def helm():
    """The program; None: it is not installed."""
    built = ROOT / "build" / "kubernetes" / "bin" / "helm"
    return str(built) if os.access(built, os.X_OK) else shutil.which("helm")


def values(name):
    return CHART / "ci" / f"{name}-values.yaml"


def run(*arguments):
    """What helm prints. Raises CalledProcessError."""
    return subprocess.run([helm(), *map(str, arguments)], capture_output=True, text=True, check=True, timeout=120).stdout


def rendered(*arguments, namespace="evenkeel"):
    return run("template", "evenkeel", CHART, "--namespace", namespace, *arguments)


def plain(name):
    """The chart's objects without what is Helm's."""
    namespace = NAMESPACES[name]
    text = rendered("--values", values(name), namespace=namespace)
    text = re.sub(r"^(?:# Source: .*| +app\.kubernetes\.io/managed-by: .*| +helm\.sh/chart: .*)\n", "", text, flags=re.M)
    return HEAD.format(about=ABOUT[name]) + ("" if namespace == "default" else NAMESPACE.format(name=namespace)) + text


def main(arguments):
    differ = [name for name, path in PLAIN.items() if not path.exists() or path.read_text() != plain(name)]
    for name in differ:
        if arguments == ["--write"]:
            PLAIN[name].write_text(plain(name))
        else:
            print(f"{PLAIN[name].relative_to(ROOT)} is not what the chart renders: run {sys.argv[0]} --write", file=sys.stderr)
    return 1 if differ and arguments != ["--write"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
