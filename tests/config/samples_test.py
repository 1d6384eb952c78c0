"""Every sample is valid by the schema, and the schema refuses what the reader refuses."""

import json
import pathlib
import sys

import jsonschema
import yaml

ROOT = pathlib.Path(sys.argv[1])
SCHEMA = json.loads((ROOT / "config" / "evenkeel.schema.json").read_text())

WRONG = {
    "no pools": "workers: 1",
    "an unknown key": "pools: [{name: a, backends: [h:1]}]\nworker: 1",
    "a duration without unit": "pools: [{name: a, backends: [h:1], timeouts: {idle: 5}}]",
    "a size without unit": "pools: [{name: a, backends: [h:1]}]\nlisteners: [{limits: {body: 5}}]",
    "an unknown picker": "pools: [{name: a, picker: x, backends: [h:1]}]",
    "a setting of another picker": "pools: [{name: a, picker: {name: gpu, load_factor: 2}, backends: [h:1]}]",
    "a setting beside the picker": "pools: [{name: a, picker: gpu, memory_guard: 0.9, backends: [h:1]}]",
    "no backends": "pools: [{name: a, backends: []}]",
    "a number out of range": "pools: [{name: a, backends: [{address: 'h:1', weight: 0}]}]",
    "a route to nowhere": "pools: [{name: a, backends: [h:1]}]\nroutes: [{match: {path: /a}}]",
    "pool and split": "pools: [{name: a, backends: [h:1]}]\nroutes: [{pool: a, split: {a: 1}}]",
}


def main():
    validator_class = jsonschema.validators.validator_for(SCHEMA)
    assert validator_class is jsonschema.Draft202012Validator, validator_class
    validator_class.check_schema(SCHEMA)
    validator = validator_class(SCHEMA)

    failures = []
    samples = [*sorted((ROOT / "config").glob("*.yaml")), ROOT / "docker" / "evenkeel.yaml"]
    assert len(samples) > 1, "no samples"
    for sample in samples:
        for error in validator.iter_errors(yaml.safe_load(sample.read_text())):
            failures.append(f"{sample.name}: {error.json_path}: {error.message}")
    for what, text in WRONG.items():
        if validator.is_valid(yaml.safe_load(text)):
            failures.append(f"the schema takes {what}")
    for failure in failures:
        print(failure)
    print(f"{len(samples)} samples, {len(WRONG)} wrong files, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
