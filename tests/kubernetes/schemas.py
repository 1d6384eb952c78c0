"""Strict schemas of Kubernetes' kinds: a key that the API server does not know, or a value of another type, is a mistake.

    schemas.py SWAGGER       # writes schemas.json from api/openapi-spec/swagger.json of k8s.io/kubernetes (Apache-2.0)

Custom resources have the schemas of custom_resources.yaml.
"""

import json
import pathlib
import sys

import jsonschema
import yaml

HERE = pathlib.Path(__file__).resolve().parent
SCHEMAS = HERE / "schemas.json"
CUSTOM_RESOURCES = HERE / "custom_resources.yaml"
KINDS = ["apps.v1.Deployment", "autoscaling.v2.HorizontalPodAutoscaler", "core.v1.ConfigMap", "core.v1.Namespace", "core.v1.Service",
         "core.v1.ServiceAccount", "networking.v1.NetworkPolicy", "policy.v1.PodDisruptionBudget", "rbac.v1.Role", "rbac.v1.RoleBinding"]
# Of definitions whose type is told in prose only.
SHAPES = {"io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
          "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]}}


def bare(definition):
    """A definition without its prose, closed against unknown keys, and with references within this file."""
    if isinstance(definition, list):
        return [bare(each) for each in definition]
    if not isinstance(definition, dict):
        return definition
    kept = {key: bare(value) for key, value in definition.items()
            if key in ("type", "items", "additionalProperties", "required", "enum")}
    if "$ref" in definition:
        kept["$ref"] = definition["$ref"]
    if "properties" in definition:
        kept["properties"] = {name: bare(each) for name, each in definition["properties"].items()}
        kept["additionalProperties"] = False
    return kept


def references(definition):
    if isinstance(definition, dict):
        if "$ref" in definition:
            yield definition["$ref"].rpartition("/")[2]
        for each in definition.values():
            yield from references(each)
    elif isinstance(definition, list):
        for each in definition:
            yield from references(each)


def write(swagger):
    """One definition per line."""
    whole = json.loads(pathlib.Path(swagger).read_text())
    wanted, found = [f"io.k8s.api.{each}" for each in KINDS], {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = SHAPES.get(name) or bare(whole["definitions"][name])
            wanted += references(found[name])
    lines = [f"{json.dumps(name)}: {json.dumps(found[name], sort_keys=True, separators=(',', ':'))}" for name in sorted(found)]
    SCHEMAS.write_text(f'{{"version": "{whole["info"]["version"]}", "definitions": {{\n' + ",\n".join(lines) + "\n}}\n")


def schemas():
    """The schema of each (apiVersion, kind)."""
    stored = json.loads(SCHEMAS.read_text())
    found = {}
    for each in KINDS:
        group, version, kind = each.split(".")
        group = {"core": "", "rbac": "rbac.authorization.k8s.io", "networking": "networking.k8s.io"}.get(group, group)
        found[(f"{group}/{version}".lstrip("/"), kind)] = {"$ref": f"#/definitions/io.k8s.api.{each}", "definitions": stored["definitions"]}
    for each in custom_resources():
        version = each["spec"]["versions"][0]
        schema = closed(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
        schema["definitions"] = stored["definitions"]
        found[(f"{each['spec']['group']}/{version['name']}", each["spec"]["names"]["kind"])] = schema
    return found


def custom_resources():
    return list(yaml.safe_load_all(CUSTOM_RESOURCES.read_text()))


def closed(schema):
    """A schema of a custom resource as the API server obeys it with strict validation."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        copy["additionalProperties"] = False
    return copy


def problems(document, known):
    """What is wrong with a document, one line each."""
    name = (document.get("apiVersion"), document.get("kind"))
    if name not in known:
        return [f"{name}: no such kind"]
    found = jsonschema.Draft7Validator(known[name]).iter_errors(document)
    return [f"{name[1]} {document['metadata'].get('name')}: {'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found]


if __name__ == "__main__":
    write(sys.argv[1])
