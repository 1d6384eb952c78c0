"""Real vLLM servers on CPU, by the code of tests/e2e/engines, and what they say of their prefix caches."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "vllm-prefix"
WIDTH, LAYERS = 256, 4  # of the model: a prompt of 1500 tokens takes some tenths of a second on one core


def e2e_modules() -> Any:
    """The classes of tests/e2e/engines, which start vLLM, and of tests/e2e, which start the daemon."""
    for folder in (ROOT / "tests" / "e2e", ROOT / "tests" / "e2e" / "engines"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    import installing
    import ports
    import process
    import servers

    return installing, ports, process, servers


def _model(installing: Any, folder: Path) -> Path:
    """The random model, smaller than that of the conformance tests."""
    model = folder / f"random-{WIDTH}-{LAYERS}"
    if not (model / "tokenizer.json").exists():
        maker = [installing.Home("vllm").program("python3"), "-B", str(installing.MODELS / "random_llama.py")]
        sizes = [str(WIDTH), str(LAYERS)]
        subprocess.run([*maker, str(model), *sizes], check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    return model


@contextlib.contextmanager
def two_servers(options: list[str], folder: Path) -> Iterator[list[str]]:
    """Starts them, and yields their addresses when both are ready."""
    installing, ports, _, servers = e2e_modules()
    if why_not := servers.Vllm.why_not():
        raise SystemExit(f"{why_not}: ./dev conformance engines vllm installs it")

    class Vllm(servers.Vllm):
        model = str(_model(installing, HOME))
        more = ("--max-model-len", "4096", "--max-num-seqs", "8", "--block-size", "32", "--enable-prefix-caching",
                "--enable-prompt-tokens-details", *options)  # fmt: skip
        patience = 900  # of a busy machine
        # Compiling vLLM's sources at each start would take longer than the start itself.
        variables = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(HOME / "pycache")}

        def command(self) -> tuple[list[str], dict[str, str]]:
            command, environment = super().command()
            return ["nice", "-n", "5", *command], environment

    started: list[Any] = []
    try:
        for port in ports.free_ports(2):
            started.append(Vllm(folder / f"vllm-{port}", "127.0.0.1", {"http": port}))
            started[-1].start()
        for each in started:
            each.serving.wait_ready(f"http://{each.address}/health", each.patience)
        yield [each.address for each in started]
    finally:
        for each in started:
            each.kill()


class Engine:
    """What a server says of its cache."""

    def __init__(self, address: str) -> None:
        self.address = address

    def page(self) -> str:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    def totals(self) -> dict[str, int]:
        page = self.page()
        return {
            name: int(sum(float(value) for value in re.findall(rf"^vllm:{family}{{.*}} (\S+)$", page, re.M)))
            for name, family in (
                ("queries", "prefix_cache_queries_total"),
                ("hits", "prefix_cache_hits_total"),
                ("prompt", "prompt_tokens_total"),
            )
        }

    def facts(self) -> dict[str, str]:
        """The labels of cache_config_info that matter here."""
        found = re.search(r"^vllm:cache_config_info{(.*)}", self.page(), re.M)
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found[1])) if found else {}
        wanted = ("block_size", "num_gpu_blocks", "kv_cache_size_tokens", "enable_prefix_caching")
        return {name: labels[name] for name in wanted if name in labels}
