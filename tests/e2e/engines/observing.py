"""Observations of a real engine in a pool of two behind evenkeel, the same for all engines. Each results in a Sighting: facts,
and claims that did not hold."""

import contextlib
import json
import pathlib
import statistics
import subprocess
import threading
import time
import traceback

import findings
import inspection
import servers
import shapes
from clients import Clients, Probe, Rpcs, Stream, Watch, tally, tritonclient
from ports import free_ports
from process import BINARY, Daemon, wait_until
from slowness import slowness

HOSTS = (servers.FIRST_HOST, "127.0.0.2")
SILENCE = 4  # idle and first_byte timeout of these pools, seconds
CHECKS = 0.2  # interval of health checks, seconds
BUSY = 12  # concurrent requests: more than two servers can process at once
AT_ONCE = 1  # seconds within which a silent exit must be noticed
COLUMNS = ("detected", "loading", "trapped", "polled", "balanced", "streamed", "odd", "kept", "left", "inspected", "killed", "stopped",
           "broken")


class Sighting:
    def __init__(self):
        self.facts = []
        self.broken = []

    def fact(self, text):
        self.facts.append(text)

    def claim(self, holds, text):
        if not holds:
            self.broken.append(text)

    @property
    def passed(self):
        return not self.broken

    def __str__(self):
        return "; ".join([*self.facts, *(f"NOT SO: {each}" for each in self.broken)])


class Trial:
    """Two servers of one engine, the daemon in front, and the observations in order."""

    def __init__(self, kind, folder, seconds=4, folded=False):
        """`seconds`: duration of each load. `folded`: the short form for CI."""
        self.folder = folder = pathlib.Path(folder)
        self.kind = kind
        self.seconds = seconds
        self.folded = folded
        ports = dict(zip(kind.ports, free_ports(len(kind.ports), HOSTS)))
        stops = [None, *([] if folded else kind.other_stops)]
        # Triton names its shared memory after the folder, machine-wide; Ray needs short paths for its sockets.
        self.servers = [kind(folder / f"{folder.name[-8:]}-{place}", host, ports,
                             loading_seconds=1.0 if folded else 2.0, stopping=stops[place % len(stops)])
                        for place, host in enumerate(HOSTS)]
        (folder / "evenkeel").mkdir()
        self.daemon = Daemon(folder / "evenkeel", self.config(ports))
        self.version = None

    def config(self, ports):
        kind = self.kind
        pool = {"name": "http", "engine": "auto", "backends": [self.backend(each) for each in self.servers],
                "health": {"interval": f"{CHECKS}s", "timeout": "2s"}, "metrics": {"interval": "250ms"},
                "timeouts": {"idle": f"{SILENCE}s", "first_byte": "30s"}, "debug_headers": True}
        if kind.models:
            pool["models"] = list(kind.models)
            pool["health"]["model"] = "required"
        if kind.checked_port:
            pool["health"]["port"] = ports[kind.checked_port]
        if kind.scraped_by == "port":
            pool["metrics"]["port"] = ports["metrics"]
        pools = [pool]
        routes = [{"match": {"path": "/**"}, "pool": "http"}]
        if "grpc" in ports and issubclass(kind, servers.Kserve):
            pools.append({**pool, "name": "grpc", "engine": kind.engine, "protocol": "h2",
                          "backends": [f"http://{each.host}:{ports['grpc']}" for each in self.servers]})
            routes.insert(0, {"match": {"grpc": "inference.GRPCInferenceService"}, "pool": "grpc"})
        return {"pools": pools, "routes": routes}

    def backend(self, server):
        made = {"address": f"http://{server.address}"}
        if self.kind.scraped_by == "url":
            made["metrics"] = server.exposition_url()
        return made

    def close(self):
        """Stops everything; fails if the daemon still holds a request."""
        for each in self.servers:
            each.kill()
        self.daemon.finish()

    def observe(self):
        """Yields (name, Sighting) for each observation."""
        for column in COLUMNS:
            if not self.observes(column):
                continue
            sighting = Sighting()
            try:
                further = {**findings.OBSERVATIONS, **inspection.OBSERVATIONS}.get(column)
                further(self, sighting) if further else getattr(self, column)(sighting)
            except AssertionError as failure:
                sighting.claim(False, str(failure))
            except Exception as failure:  # pylint: disable=broad-exception-caught
                traceback.print_exc()
                sighting.claim(False, f"it could be observed: {failure!r}")
            yield column, sighting
            if not all(each.running() for each in self.servers) and column == "detected":
                return  # nothing more to observe

    def observes(self, column):
        return {"trapped": self.kind.trap, "broken": self.kind.core and not self.folded,
                "inspected": self.kind.name in shapes.SHAPES}.get(column, True)

    # ---- the admin API ----

    def documents(self, server):
        """The admin API's documents of this server's backends, HTTP first."""
        return [each for each in self.daemon.api("backends") if each["address"].startswith(server.host + ":")]

    def is_up(self, server):
        return all(each["state"] == "up" for each in self.documents(server))

    def wait_up(self, server, within=None):
        wait_until(lambda: self.is_up(server) or not server.running(), within or self.kind.patience,
                   f"{server.address} up")
        if not server.running() and server.start_fault and server.start_fault in server.said():
            server.kill()
            server.start()
            wait_until(lambda: self.is_up(server) or not server.running(), within or self.kind.patience,
                       f"{server.address} up")
        assert server.running(), f"the server has exited: {server.said()}"

    def is_rpc(self):
        return tritonclient is not None and any(each["name"] == "grpc" for each in self.daemon.api("pools"))

    # ---- the observations ----

    def detected(self, sighting):
        """The detected engine and models; also records the start-up for `loading`."""
        first = self.servers[0]
        self.loaded = Watch(self.daemon), Probe(first), Clients(self.daemon.address, self.kind.quick, 1)
        with contextlib.ExitStack() as stack:
            for each in self.loaded:
                stack.enter_context(each)
            wait_until(lambda: self.loaded[0].states["http", first.address], what="a first look")
            self.started = time.monotonic()
            for each in self.servers:
                each.start()
            for each in self.servers:
                self.wait_up(each)
            self.up = time.monotonic()
            wait_until(lambda: any(each.good and each.began > self.up for each in self.loaded[2].outcomes),
                       self.kind.patience, "an answer")
        self.version = first.version()
        document = self.documents(first)[0]
        sighting.fact(document["engine"])
        if document["models"]:
            sighting.fact("models " + ", ".join(document["models"]))
        for each in self.servers:
            engine = self.documents(each)[0]["engine"]
            sighting.claim(engine == self.kind.engine, f"{each.address} was taken for {engine}")

    def loading(self, sighting):
        """The server's readiness, the state that evenkeel gives it, and what clients get during start-up."""
        watch, probe, clients = self.loaded
        first = self.servers[0]
        states = watch.states["http", first.address]
        ready = probe.words.first("200")
        up = states.first("up")
        sighting.fact("readiness answers: " + ", ".join(f"{word} ({when - self.started:.1f} s)" if when > self.started else word
                                             for when, word in probe.words))
        sighting.fact("state: " + ", ".join(states.words()))
        sighting.claim(up is not None and up >= self.started, "up before it was started")
        sighting.claim(ready is not None, "never ready")
        if sighting.broken:
            return
        sighting.claim(up > ready - 0.1, f"up {ready - up:.2f} s before it was ready")
        sighting.fact(f"up {max(up - ready, 0):.1f} s after the first 200")
        sighting.claim(up - ready < 10 * CHECKS + 2, f"up only {up - ready:.1f} s after it was ready")
        early = [each for each in clients.failed() if each.ended < self.first_up()]
        late = [each for each in clients.failed() if each.began > self.first_up()]
        slow = max((each.ended - each.began for each in clients.outcomes if each.good), default=0)
        sighting.claim(all(each.status == 503 for each in early),
                       f"before, answers other than 503: {tally(each.failure for each in early)}")
        sighting.claim(not late, f"failures after it was up: {tally(each.failure for each in late)}")
        sighting.fact(f"requests before that: {tally(each.failure for each in early) or 'none refused'}; after it none failed"
                      if not late else f"{len(late)} failed after")
        if slow > 1:
            sighting.fact(f"the slowest answer took {slow:.1f} s")

    def first_up(self):
        watch, _, _ = self.loaded
        return min(when for each in self.servers if (when := watch.states["http", each.address].first("up")))

    def trapped(self, sighting):
        """The case in which the server's readiness endpoint is wrong."""
        first = self.servers[0]
        with Watch(self.daemon) as watch, Probe(first) as probe, \
                Clients(self.daemon.address, self.kind.quick, 3) as clients:
            states = watch.states["http", first.address]
            wait_until(lambda: states and probe.words and clients.served_by(first) > 1, what="a first look")
            first.provoke()
            if self.kind.trap_takes_out:
                wait_until(lambda: not self.is_up(first), what="a state that is not up")
                first.calm()
                self.wait_up(first)
        sighting.fact(f"{self.kind.trap}: readiness answers {', '.join(probe.words.words())}; state {', '.join(states.words())}")
        failed = clients.failed()
        if self.kind.trap_takes_out:
            sighting.fact(f"{len(failed)} of {len(clients.outcomes)} requests failed until then")
        else:
            sighting.claim(set(states.words()) == {"up"}, "it was taken out")
            sighting.claim(len(probe.words) > 1, "its readiness did not change: there was no trap")
            sighting.claim(not failed, f"failed: {tally(each.failure for each in failed)}")

    def polled(self, sighting):
        """Polled values under load and afterwards."""
        length = max(self.seconds, self.kind.exposition_seconds)
        with Watch(self.daemon) as watch:
            with Clients(self.daemon.address, self.kind.busy, BUSY) as clients:
                time.sleep(length)  # duration of the load
            busiest = {name: max((seen[name] for each in self.servers for seen in watch.polled[each.address]
                                  if seen and seen[name] is not None), default=None)
                       for name in ("running", "waiting", "kv_cache_ratio")}
            ages = [seen["age_seconds"] for each in self.servers for seen in watch.polled[each.address]
                    if seen and seen["age_seconds"] is not None]
            self.wait_idle(sighting)
        for name, most in busiest.items():
            if name in self.kind.signals:
                sighting.claim(most, f"{name} was {most}")
                sighting.fact(f"{name} up to {most:.3g}" if most is not None else f"{name} unknown")
            else:
                sighting.claim(most is None, f"{name} was {most}, though it tells of none")
        if not self.kind.signals:
            sighting.fact("the engine reports no running or waiting requests, and evenkeel shows none")
        else:
            sighting.claim(ages, "no values at all")
        if ages:
            sighting.fact(f"values at most {max(ages):.2f} s old")
            sighting.claim(max(ages) < (2 + self.kind.exposition_seconds) * slowness(), f"values {max(ages):.1f} s old")
        sighting.claim(not clients.failed(), f"failed: {tally(each.failure for each in clients.failed())}")

    def wait_idle(self, sighting):
        def idle():
            return all(not value for each in self.servers for name, value in self.documents(each)[0]["polled"].items()
                       if name in ("running", "waiting") and value is not None)
        try:
            wait_until(idle, 15 + 2 * self.kind.exposition_seconds, "0 after the load")
        except AssertionError as failure:
            sighting.claim(False, str(failure))

    def balanced(self, sighting):
        if self.kind.openai:
            self.balanced_by_load(sighting)
        else:
            self.balanced_by(sighting, "HTTP", "http", Clients(self.daemon.address, self.kind.quick, 6))
        if self.is_rpc():
            self.balanced_by(sighting, "tritonclient over gRPC", "grpc", Rpcs(self.daemon.address, None, 6))

    def balanced_by(self, sighting, who, pool, clients):
        before = self.picks(pool)
        with clients:
            time.sleep(self.seconds)  # duration of the load
        self.share(sighting, who, pool, before, len(clients.outcomes), [each.failure for each in clients.failed()])

    def balanced_by_load(self, sighting):
        before = self.picks("http")
        run = subprocess.run([BINARY, "load", f"http://{self.daemon.address}", "--concurrency", "6", "--duration",
                              f"{2 * self.seconds}s", "--stream", "--prompt-tokens", "8..32", "--output-tokens",
                              "4..16", "--model", "random", "--json"], capture_output=True, text=True, check=False,
                             timeout=120)
        report = json.loads(run.stdout)
        failed = [why for why, count in report["errors"].items() for _ in range(count)]
        sighting.claim(run.returncode == 0, f"evenkeel load ended with {run.returncode}")
        self.share(sighting, "evenkeel load", "http", before, report["requests"]["succeeded"], failed)

    def picks(self, pool):
        return [next(each["picks_total"] for each in self.documents(server) if each["pool"] == pool)
                for server in self.servers]

    def share(self, sighting, who, pool, before, count, failed):
        new = [now - then for now, then in zip(self.picks(pool), before)]
        shares = [100 * each / max(sum(new), 1) for each in new]
        sighting.fact(f"{who}: {count} requests, split {shares[0]:.0f} : {shares[1]:.0f}")
        sighting.claim(count > 0 and min(shares) >= 10, f"one had only {min(shares):.0f} % of {sum(new)}")
        sighting.claim(not failed, f"failed: {tally(failed)}")

    def streamed(self, sighting):
        """When a server that has more streams than it can process sends their heads, and when their first tokens."""
        heads, tokens = [], []

        def one():
            began = time.monotonic()
            stream = Stream(self.servers[0].address, self.kind.long)
            heads.append(stream.head - began)
            wait_until(lambda: stream.pieces, 60, "a first token")
            tokens.append(stream.first_piece - began)
            stream.close()

        threads = [threading.Thread(target=one, daemon=True) for _ in range(BUSY)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(90)
        sighting.claim(len(tokens) == BUSY, f"only {len(tokens)} of {BUSY} streams had a first token")
        if tokens:
            head, token = statistics.median(heads), statistics.median(tokens)
            early = token > 2 * head + 0.01
            sighting.fact(f"of {BUSY} at once, the head after {1000 * head:.0f} ms and the first token after "
                          f"{1000 * token:.0f} ms (medians): the head comes " + ("early" if early else "with the first token"))

    def killed(self, sighting):
        """One server is killed under load and started again."""
        first = self.servers[0]
        with contextlib.ExitStack() as stack:
            watch = stack.enter_context(Watch(self.daemon))
            loads = [stack.enter_context(Clients(self.daemon.address, self.kind.quick, 4, later=0.02))]
            if self.is_rpc():
                loads.append(stack.enter_context(Rpcs(self.daemon.address, None, 2, later=0.02)))
            wait_until(lambda: loads[0].served_by(first) > 5, 20, "its share of requests")
            first.kill()
            killed = first.killed_at
            wait_until(lambda: watch.states["http", first.address].first("down", killed), 20, "state down")
            time.sleep(self.seconds / 4)  # observe that it is avoided
            sighting.fact(f"down after {watch.states['http', first.address].first('down', killed) - killed:.1f} s")
            first.start()
            self.wait_up(first)
            up = time.monotonic()
            sighting.fact(f"up again {up - killed:.0f} s after the kill")
            wait_until(lambda: loads[0].served_by(first, up) > 3, 20, "new requests to it")
        failed = [each for load in loads for each in load.failed()]
        crossed = [each for each in failed if each.began <= killed + 0.05]
        new = [each for each in failed if each.began > killed + 0.05]
        whole = sum(len(each.outcomes) for each in loads)
        sighting.fact(f"{len(crossed)} of {whole} requests failed" + (", all in flight when it died" if crossed else "")
                      + (f" ({tally(each.failure for each in crossed)})" if crossed else ""))
        sighting.claim(not new, f"new ones failed: {tally(each.failure for each in new)}")
        sighting.claim(len(crossed) <= 6, "more failed than it can have had")

    def stopped(self, sighting):
        """SIGTERM while it serves a stream and other clients send requests."""
        for server in self.servers if not self.folded else self.servers[:1]:
            if server.stopping or server is self.servers[0]:
                self.stop_one(sighting, server)
                if not self.folded and server is not self.servers[-1]:
                    server.kill()
                    server.start()
                    self.wait_up(server)

    def stop_one(self, sighting, server):
        how = f"{server.stopping}: " if server.stopping else ""
        with Watch(self.daemon) as watch, Clients(self.daemon.address, self.kind.quick, 3, later=0.02) as clients:
            wait_until(lambda: clients.served_by(server) > 1, 20, "its share of requests")
            stream = self.stream_on(server)
            wait_until(lambda: stream.pieces >= 3, 20, "a few pieces")
            told = time.monotonic()
            server.terminate()
            stream.wait(60)
            wait_until(lambda: watch.states["http", server.address].words()[-1] != "up", 20 + server.patience,
                       "a state that is not up")
            time.sleep(self.seconds / 4)  # observe that it is avoided
        out = next(when for when, word in watch.states["http", server.address] if when > told and word != "up")
        sighting.claim(stream.ended is not None, f"{how}the stream has no end")
        if stream.ended:
            sighting.fact(f"{how}stream {stream.end} after {stream.ended - told:.1f} s"
                          + (f", {stream.silence:.1f} s of it silent" if stream.silence > 1 else ""))
        sighting.fact(f"out of rotation after {out - told:.1f} s")
        failed = [each for each in clients.failed() if each.began > told]
        crossed = [each for each in clients.failed() if each.began <= told]
        sighting.fact(f"of {len(clients.outcomes)} other requests, {len(crossed)} in flight and {len(failed)} new ones "
                      "failed" + (f" ({tally(each.failure for each in crossed + failed)})" if crossed + failed else ""))
        late = [each for each in failed if each.began > told + AT_ONCE]
        if not server.stopping:  # the server's own answers are passed on, whatever they are
            sighting.claim(not late, f"new requests failed: {tally(each.failure for each in late)}")
        stream.close()

    def stream_on(self, server):
        """Starts streams until this server serves one, and returns it."""
        tried = []
        try:
            for _ in range(6):
                stream = Stream(self.daemon.address, self.kind.long)
                if stream.backend == server.address:
                    return stream
                tried.append(stream)
        finally:
            for each in tried:
                each.close()
        raise AssertionError(f"no stream came to {server.address}")
