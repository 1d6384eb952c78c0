"""Finds retired words in the code, the tests and the documentation, and prints where they are and what to write instead:

    old_words.py ROOT [MODULE...]     # MODULE: a folder of src/, include/evenkeel/ or tests/ to skip

Things are "it", and a name is the term that Envoy, HAProxy, nginx, gRPC or Prometheus use. The changelog and recorded data are
exempt.
"""

import pathlib
import re
import sys

FOLDERS = ("src", "include", "tests", "docs", "config", "bench", "docker", "tools")
FILES = ("README.md", "CMakeLists.txt", "dev")
SUFFIXES = {"", ".cc", ".h", ".py", ".md", ".txt", ".yaml", ".json", ".sh", ".cmake", ".service", ".socket"}
EXEMPT = {"docs/CHANGELOG.md", "tests/layering/old_words.py", "tests/layering/checks_test.py"}
ALLOWED = {("src/sim/simulated_model.cc", "Please")}  # in an error message of vLLM
EXEMPT_FOLDERS = ("tests/inference/expositions", "tests/fuzz/corpus", "tests/e2e/engines/models", "bench/results")

# Texts that engines write and we repeat to the letter.
QUOTED = ("Please reduce the length of the input prompt", "please refer to API document")

# Words of prose, in any case; also as a part of an identifier, between underscores or capitals.
WORDS = {
    "whom": "it, which",
    "whomever": "whatever",
    "whoever": "the one that",
    "nobody": "nothing, no client, no backend",
    "somebody": "something, another client",
    "anybody": "anything, any client",
    "everybody": "all of them",
    "please": "(nothing)",
    "newcomer": "new connection, new backend",
    "newcomers": "new connections, new backends",
    "stranger": "unknown",
    "strangers": "unknown ones",
    "hindered": "blocked_locally",
    "bury": "retire",
    "buried": "retired",
    "lookout": "BackendMonitor",
    "doorkeeper": "ListenerSet",
    "inquirer": "BackendClient",
    "inquiry": "request",
    "newness": "warmup_penalty",
}

# Identifiers, as whole words.
IDENTIFIERS = {
    r"word_of(?:_\w+)?": "to_string",
    r"most_(?!common\b)\w+": "max_...",
    r"longest_\w+": "max_...",
    r"faith_after": "freshness",
    r"has_hope": "may_become_available",
    r"left_alone": "deprioritized",
    r"all_answer": "all_responsive",
    r"replayable": "not_processed",
    r"knock\w*": "loop_liveness",
    r"Sheets?|SheetCells": "WorkerMetrics",
    r"Overview": "RuntimeStatus",
    r"Circumstances": "BuildInputs",
    r"Seat": "BackendEndpoints",
    r"Upkeep": "PoolMaintenance",
    r"Slowdown": "LatencyRise",
    r"StandbyRule": "SpareController",
    r"SpeedRule": "WeightLearner",
    r"Burden": "LoadSample",
    r"Presumed": "MeanFallback",
    r"PeakAverage": "PeakEwma",
    r"Headroom": "GpuCost",
    r"ProvenanceFilter": "ForwardingHeadersFilter",
    r"Ledger": "RequestRecorder",
    r"WaitingLine|RequestQueue|QueueSection": "Admission",
}

PATTERN = re.compile(
    r"(?<![A-Za-z])(?P<word>" + "|".join(WORDS) + r")(?![a-z])|\b(?:"
    + "|".join(f"(?P<id{number}>{each})" for number, each in enumerate(IDENTIFIERS)) + r")\b", re.I)


def replacement_for(match):
    """What to write instead, or None if the match is not a retired word."""
    if match["word"]:
        return WORDS[match["word"].lower()]
    number = next(each for each in range(len(IDENTIFIERS)) if match[f"id{each}"])
    pattern = list(IDENTIFIERS)[number]
    return IDENTIFIERS[pattern] if re.fullmatch(pattern, match[0]) else None  # identifiers are case-sensitive


def files(root):
    for name in FILES:
        if (root / name).is_file():
            yield root / name
    for folder in FOLDERS:
        yield from (path for path in sorted((root / folder).rglob("*")) if path.is_file() and path.suffix in SUFFIXES)


def exempt(relative):
    name = relative.as_posix()
    return name in EXEMPT or name.startswith(EXEMPT_FOLDERS) or "__pycache__" in name


def violations(root):
    for path in files(root):
        relative = path.relative_to(root)
        if exempt(relative):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(quoted in line for quoted in QUOTED):
                continue
            for match in PATTERN.finditer(line):
                instead = replacement_for(match)
                if instead and (relative.as_posix(), match[0]) not in ALLOWED:
                    yield f"{relative}:{number}: '{match[0]}' is retired; write {instead}"


def main(root, *skipped):
    modules = re.compile(rf"(?:src|include/evenkeel|tests)/(?:{'|'.join(skipped)})/" if skipped else "$^")
    found = [line for line in violations(pathlib.Path(root)) if not modules.match(line)]
    for line in found:
        print(line)
    print(f"old_words: {len(found)} violation(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
