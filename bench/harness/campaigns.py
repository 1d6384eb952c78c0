"""The two campaigns: evenkeel beside HAProxy and nginx, and beside the inference routers."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import counting, measures, memory, rivals
from .contender import (
    Contender,
    Running,
    Unavailable,
    evenkeel,
    haproxy,
    nghttpx,
    nginx,
    relay,
    start,
)
from .ends import Ends, Origin
from .measures import Measure, Scenario
from .process import Children, Cores, available_cores, memory_of
from .report import OURS, Report
from .rounds import Campaign, say
from .ways import ALL_WAYS, HTTP1, TLS_TO_CLEAR, Protocol, Way

FILES_WANTED = 65536
BACKENDS = 2

PROXY_REMARKS = """\
evenkeel runs with its defaults on: JSON access log to a file, metrics, request ids, forwarding fields. HAProxy and \
nginx write no logs and keep no metrics, which favours them.
One worker each, pinned to a core of its own; load generator and origin share another. `direct` is load generator \
and origin without a proxy; `relay` passes bytes on unread, over as many connections: what the kernel alone takes.
HTTP/2 is cleartext with prior knowledge; TLS is 1.3 with TLS_AES_128_GCM_SHA256 and an ECDSA P-256 certificate, HTTP/1.1 \
keep-alive, without handshakes. nginx speaks HTTP/2 to backends for gRPC only; nghttpx is not measured with HTTP/1.1.
Medians over rounds; ratios are taken inside a round (below 1: evenkeel needs less).
CPU is user and system time of all the contender's threads, per request or event.""".splitlines()

RIVALS_REMARKS = """\
One thread or worker each; the inference routers with their cache-aware policy, LiteLLM with least-busy.
evenkeel runs with its defaults on (access log, metrics); HAProxy and nginx log nothing.
Medians over rounds; ratios are taken inside a round (below 1: evenkeel needs less).""".splitlines()

TENANTS_REMARKS = """\
evenkeel-tenants checks an API key, reserves and settles limits of requests, of tokens a minute and a month and of \
concurrency, and writes a usage record with its cost for each request. evenkeel-inspect reads requests and answers without \
that; evenkeel proxies only. evenkeel-cache answers from its cache.
One thread or worker each. Envoy has a local rate limit and no keys; LiteLLM has its master key and no limits: keys with \
budgets need a database there.
Medians over rounds; ratios are taken inside a round (below 1: evenkeel-tenants needs less).""".splitlines()


@dataclass(frozen=True)
class Settings:
    root: Path
    build: Path
    rounds: int
    seconds: float
    quick: bool
    only: list[str]  # empty: the campaign's usual contenders
    ways: tuple[Way, ...] = ALL_WAYS


@dataclass(frozen=True)
class Recipe:
    """A campaign without its settings."""

    name: str
    title: str
    scenarios: Sequence[Scenario]
    sse_rate: int
    usual: list[Contender]
    on_demand: list[Contender]
    crowd: memory.ConnectionGroup
    counted: list[counting.Count]
    remarks: list[str]
    ours: str = OURS

    def chosen(self, only: list[str]) -> list[Contender]:
        if not only:
            return self.usual
        known = {contender.name: contender for contender in [*self.usual, *self.on_demand]}
        unknown = [name for name in only if name not in known]
        if unknown:
            raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return [known[name] for name in only]

    def measures(self) -> list[Measure]:
        """Every measure; the table omits those without values."""
        rows = [measure for scenario in self.scenarios for measure in scenario.measures()]
        rows += [count.measure for count in self.counted]
        return [*rows, *measures.MEMORY_MEASURES]


def proxy_recipe(settings: Settings) -> Recipe:
    return Recipe(
        name="proxy",
        title="evenkeel beside HAProxy, nginx and nghttpx",
        scenarios=measures.PROXY_SCENARIOS,
        sse_rate=measures.PROXY_SSE_RATE,
        usual=[
            evenkeel(settings.build),
            *profile_guided(settings.root),
            haproxy(),
            nginx(),
            nghttpx(),
            relay(settings.build),
        ],
        on_demand=[
            evenkeel(settings.build, logging=False),
            haproxy(logging=True),
            nginx(logging=True),
        ],
        crowd=memory.ConnectionGroup(idle=10_000, slow=1_000, idle_tls=1_000),
        counted=counting.all_counts(settings.quick),
        remarks=PROXY_REMARKS,
    )


def profile_guided(root: Path, picker: str = "round-robin") -> list[Contender]:
    """What `./dev build release --pgo` built, if it has."""
    build = root / "build" / "release-pgo"
    if not (build / "evenkeel").exists():
        return []
    name = "evenkeel-pgo" if picker == "round-robin" else f"evenkeel-{picker}-pgo"
    return [evenkeel(build, picker=picker, name=name)]


def rivals_recipe(settings: Settings) -> Recipe:
    return Recipe(
        name="rivals",
        title="evenkeel beside Envoy and the inference routers",
        scenarios=measures.RIVALS_SCENARIOS,
        sse_rate=measures.RIVALS_SSE_RATE,
        usual=[
            evenkeel(settings.build),
            evenkeel(settings.build, inspects=True),
            evenkeel(settings.build, picker="expected-time"),
            *profile_guided(settings.root, "expected-time"),
            haproxy(),
            nginx(),
            *rivals.all_rivals(settings.root / "build" / "rivals"),
        ],
        on_demand=[],
        crowd=memory.ConnectionGroup(idle=1_000, slow=0),
        counted=[],
        remarks=RIVALS_REMARKS,
    )


def tenants_recipe(settings: Settings) -> Recipe:
    home = settings.root / "build" / "rivals"
    return Recipe(
        name="tenants",
        title="What API keys, limits and usage records cost",
        scenarios=measures.TENANTS_SCENARIOS,
        sse_rate=measures.RIVALS_SSE_RATE,
        usual=[
            evenkeel(settings.build, tenants=True),
            evenkeel(settings.build, inspects=True),
            evenkeel(settings.build),
            evenkeel(settings.build, caches=True),
            rivals.envoy(home, limits=True),
            rivals.litellm(home),
        ],
        on_demand=[],
        crowd=memory.ConnectionGroup(idle=1_000, slow=0),
        counted=counting.instruction_counts(settings.quick, measures.TENANTS_TARGET),
        remarks=TENANTS_REMARKS,
        ours="evenkeel-tenants",
    )


RECIPES: dict[str, Callable[[Settings], Recipe]] = {
    "proxy": proxy_recipe,
    "rivals": rivals_recipe,
    "tenants": tenants_recipe,
}


def run(recipe: Recipe, settings: Settings) -> Report:
    raise_file_limit()
    chosen = recipe.chosen(settings.only)
    with (
        tempfile.TemporaryDirectory(prefix="evenkeel-bench-", ignore_cleanup_errors=True) as home,
        Children() as children,
    ):
        ends = Ends(settings.build, Cores.choose(available_cores()), children)
        origins = {
            Protocol.HTTP1: ends.start_origin(BACKENDS, ["--sse-rate", str(recipe.sse_rate)])
        }
        if any(way.back is Protocol.HTTP2 for way in settings.ways):
            origins[Protocol.HTTP2] = ends.start_h2_origin(BACKENDS, Path(home) / "htdocs")
        return _Session(recipe, settings, chosen, ends, origins, Path(home)).run()


class _Session:
    """One campaign while its processes live."""

    def __init__(
        self,
        recipe: Recipe,
        settings: Settings,
        chosen: list[Contender],
        ends: Ends,
        origins: dict[Protocol, Origin],
        home: Path,
    ) -> None:
        self._recipe = recipe
        self._settings = settings
        self._chosen = chosen
        self._ends = ends
        self._origins = origins
        self._home = home
        self._absent: dict[str, str] = {}
        self._scenarios = [each for each in recipe.scenarios if each.way in settings.ways]
        self._campaign = Campaign(ends, origins, [], settings.seconds)

    def run(self) -> Report:
        self._campaign.contenders = self._start_all()
        self._campaign.run(self._scenarios, self._settings.rounds)
        for running in self._campaign.contenders:
            if running.site.way == HTTP1:
                after = memory_of(running.pids()).rss_bytes / memory.MEGABYTE
                self._campaign.figures.add(running.contender.name, measures.AFTER_RSS.key, 0, after)
            self._ends.children.stop(running.process)
        for contender in self._chosen:
            if contender.name not in self._absent:
                self._measure_alone(contender)
        return self._report()

    def _start_all(self) -> list[Running]:
        """Each contender, once per way that it supports and a scenario uses."""
        used = {scenario.way for scenario in self._scenarios}
        started: list[Running] = []
        for contender in self._chosen:
            say(f"starting {contender.name}")
            reasons = {}
            for way in (each for each in contender.ways if each in used):
                try:
                    started.append(self._start(contender, way))
                except Unavailable as reason:
                    say(f"{contender.name} is left out of {way.name}: {reason}")
                    reasons[way.name] = str(reason)
            if any(running.contender is contender for running in started):
                for way_name, reason_text in reasons.items():
                    self._campaign.errors.setdefault(contender.name, {})[
                        f"{way_name} did not start ({reason_text})"
                    ] = 1
            else:
                self._absent[contender.name] = next(
                    iter(reasons.values()), "supports none of these ways"
                )
        if not started:
            raise SystemExit("no contender could be started")
        return started

    def _start(self, contender: Contender, way: Way) -> Running:
        return start(
            contender,
            way,
            self._origins[way.back].addresses,
            self._home / f"{contender.name}-{way.name}",
            self._ends.children,
            self._ends.cores.proxy,
        )

    def _measure_alone(self, contender: Contender) -> None:
        """Measures that need a fresh instance. A failure leaves a gap in the table and is reported below it."""
        for what, measure in self._alone_steps(contender):
            say(f"{contender.name}: {what}")
            try:
                measure()
            except (Unavailable, RuntimeError, TimeoutError, OSError) as reason:
                say(f"{contender.name}: {what} failed: {reason}")
                self._campaign.errors.setdefault(contender.name, {})[f"{what} ({reason})"] = 1

    def _alone_steps(self, contender: Contender) -> Iterator[tuple[str, Callable[[], None]]]:
        folder = self._home / f"{contender.name}-alone"
        ways = [way for way in contender.ways if way in self._settings.ways]
        crowd = self._recipe.crowd
        subject = (contender, self._ends, self._origins[Protocol.HTTP1], folder, crowd)
        figures = self._campaign.figures
        if HTTP1 in ways and contender.takes_crowds:
            yield "memory", partial(memory.measure_memory, *subject, figures)
        if TLS_TO_CLEAR in ways and crowd.idle_tls:
            yield "memory with TLS", partial(memory.measure_tls_memory, *subject, figures)
        for count in self._recipe.counted:
            if count.way not in ways:
                continue
            if self._settings.quick and not (count.in_quick or contender.name.startswith(OURS)):
                continue
            yield count.measure.title, partial(self._count, count, contender, folder)

    def _count(self, count: counting.Count, contender: Contender, folder: Path) -> None:
        origin = self._origins[count.way.back]
        value = counting.per_request(count, contender, self._ends, origin, folder)
        self._campaign.figures.add(contender.name, count.measure.key, 0, value)

    def _report(self) -> Report:
        settings = self._settings
        present = [c for c in self._chosen if c.name not in self._absent]
        return Report(
            name=self._recipe.name,
            title=self._recipe.title,
            settings={
                "rounds": settings.rounds,
                "seconds": settings.seconds,
                "quick": settings.quick,
                "ways": [way.name for way in settings.ways],
                "cores": vars(self._ends.cores),
            },
            contenders=[contender.name for contender in self._chosen],
            versions={contender.name: contender.version() for contender in present},
            absent=self._absent,
            measures=self._recipe.measures(),
            figures=self._campaign.figures,
            busy=self._campaign.busy,
            errors=self._campaign.errors,
            remarks=self._recipe.remarks,
            ours=self._recipe.ours,
        )


def raise_file_limit() -> None:
    """Ten thousand clients need as many descriptors at both ends; child processes inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_WANTED, max(hard, FILES_WANTED)))
    except (ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
