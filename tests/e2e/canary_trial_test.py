"""Canaries that go back: a target of a split gets no more requests once its answers leave the bounds."""

import contextlib
import json
import pathlib
import threading
import time
import urllib.parse

import case
from ports import refusing_address
from process import command
from reloading import ReloadCase
from stream import PATIENCE, Closed, Stream, exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}, "outlier": {"consecutive": 0}, "debug_headers": True,
         "retry": {"attempts": 1}}
CANARY = {"target": "new", "error_rate": "20%", "window": "60s", "min_requests": 10}


def answers(text, status=200):
    return lambda request: request.answer(text.encode(), status=status)


class CanaryTrial(ReloadCase):
    def start(self, new, canary=None, stable=None, pool=None, **config):
        """A daemon that gives the canary half of the requests; `new`: its backend, or an address."""
        self.stable = stable or self.backend(answers("stable"))
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}],
                       "admin": {"address": "127.0.0.1:0"}, "workers": 2,
                       "pools": [{"name": "stable", "backends": [self.stable.address], **QUIET},
                                 {"name": "new", "backends": [new if isinstance(new, str) else new.address], **QUIET, **(pool or {})}],
                       "routes": [{"name": "chat /v1", "split": {"stable": 50, "new": 50}, "canary": {**CANARY, **(canary or {})}}],
                       **config}
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    def ask(self, count, conversation=None):
        """Returns the pools that requests of as many conversations went to."""
        seen = []
        with Stream.connect(self.served.address) as stream:
            for number in range(count):
                session = conversation or f"s{number}"
                got = stream.exchange("GET", "/x", [("x-session-id", session)])
                seen.append(got.field("x-evenkeel-pool"))
        return seen

    def state(self):
        [canary] = self.served.api("canaries")
        return canary

    def is_withdrawn(self):
        return self.served.metric("evenkeel_canary_withdrawn", route="chat /v1", target="new") == 1

    def withdrawn(self):
        """Asks until the canary is withdrawn."""
        self.ask(60)
        self.eventually(self.is_withdrawn, "the end of the trial")

    def test_one_that_is_fine_keeps_its_share(self):
        self.start(self.backend(answers("new")), {"ttft": "30s"})
        seen = self.ask(200)
        self.assertGreater(seen.count("new"), 50)
        self.eventually(lambda: self.state()["requests"] == seen.count("new"), "the count")
        self.assertEqual({**self.state(), "requests": 0},
                         {"route": "chat /v1", "target": "new", "state": "on_trial", "reason": None, "window_seconds": 60,
                          "requests": 0, "failures": 0, "slow": 0})
        self.assertFalse(self.is_withdrawn())

    def test_one_that_fails_loses_its_requests_and_conversations(self):
        failing = self.backend(answers("no", status=500))
        self.start(failing)
        self.withdrawn()
        before = len(failing.exchanges)
        self.assertLess(before, 25)
        self.assertEqual(set(self.ask(100)), {"stable"})
        self.assertEqual(len(failing.exchanges), before)
        state = self.state()
        self.assertEqual((state["state"], state["reason"]), ("withdrawn", "too_many_errors"))
        self.assertGreaterEqual(state["failures"], 10)
        self.eventually(lambda: any("route chat /v1: the canary new gets no more requests" in line for line in self.served.lines))
        [target] = [each for each in self.served.api("explain?path=/x")["pools"] if each["pool"] == "new"]
        self.assertTrue(target["withdrawn"])

    def test_one_that_refuses_connections_has_failed(self):
        self.start(refusing_address())
        self.withdrawn()

    def test_what_its_fallback_takes_has_failed(self):
        self.start(refusing_address(), pool={"fallback": "stable"})
        self.withdrawn()
        self.assertEqual(set(self.ask(50)), {"stable"})

    def test_one_that_breaks_streams_has_failed(self):
        def breaks(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            request.chunk(b"data: 1\n\n")
            request.abort()

        self.start(self.backend(breaks))
        for _ in range(60):
            with contextlib.suppress(Closed):
                exchange(self.served.address)
        self.eventually(self.is_withdrawn, "the end of the trial")

    def test_clients_at_fault_are_no_failures(self):
        self.start(self.backend(answers("no", status=404)))
        seen = self.ask(100)
        self.eventually(lambda: self.state()["requests"] == seen.count("new"), "the count")
        self.assertEqual((self.state()["failures"], self.is_withdrawn()), (0, False))

    def test_one_that_is_late_goes_back(self):
        def late(request):
            time.sleep(0.05)
            request.answer(b"late")

        self.start(self.backend(late), {"ttft": "20ms", "error_rate": "100%"})
        self.withdrawn()
        self.assertEqual(self.state()["reason"], "too_slow")

    def test_one_that_hangs_goes_back_as_clients_leave(self):
        go = threading.Event()
        self.addCleanup(go.set)
        hanging = self.backend(lambda request: go.wait(10 * PATIENCE) and request.answer(b"late"))
        self.start(hanging, {"ttft": "50ms"})
        for number in range(60):
            with Stream.connect(self.served.address) as stream:
                stream.send(f"GET /x HTTP/1.1\r\nhost: test\r\nx-session-id: s{number}\r\n\r\n".encode())
                time.sleep(0.06)  # longer than first tokens may take
            if self.is_withdrawn():
                break
        self.eventually(self.is_withdrawn, "the end of the trial")
        self.assertEqual(self.state()["reason"], "too_slow")

    def test_it_stays_withdrawn_until_its_route_changes(self):
        self.start(self.backend(answers("no", status=503)))
        self.withdrawn()
        self.config["routes"].insert(0, {"name": "other", "match": {"path": "/other"}, "respond": {"status": 204}})
        self.reload()
        self.assertEqual(set(self.ask(50)), {"stable"})
        self.config["routes"][1]["split"] = {"stable": 60, "new": 40}
        self.reload()
        self.assertEqual(self.state()["state"], "on_trial")
        self.assertIn("new", self.ask(30))

    def test_an_operator_begins_it_again(self):
        failing = [True]
        self.start(self.backend(lambda request: request.answer(b"x", status=500 if failing[0] else 200)))
        self.withdrawn()
        failing[0] = False
        shown = command("ctl", "--admin", self.served.admin, "canaries")
        self.assertIn("withdrawn", shown.stdout)
        wrong = command("ctl", "--admin", self.served.admin, "canaries", "--restart", "chat")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("there is no route 'chat' with a canary; did you mean 'chat /v1'?", wrong.stderr)
        done = command("ctl", "--admin", self.served.admin, "canaries", "--restart", "chat /v1")
        self.assertEqual((done.returncode, done.stdout), (0, "new of route chat /v1 is on trial again\n"))
        self.assertIn("new", self.ask(30))
        path = "/api/v1/canaries/restart?route=" + urllib.parse.quote("chat /v1", safe="")
        self.assertEqual(json.loads(self.served.ask_admin(path, method="POST").body)["state"], "on_trial")

    def test_it_is_withdrawn_after_a_restart_with_a_state_file(self):
        state = pathlib.Path(self.folder()) / "state"
        failing = self.backend(answers("no", status=500))
        self.start(failing, state_file=str(state))
        self.withdrawn()
        self.assertEqual(self.served.stop(), 0)
        self.served = self.daemon(self.config)
        self.assertEqual(set(self.ask(50)), {"stable"})
        self.assertEqual(self.state()["reason"], "too_many_errors")


class CanaryVersion(ReloadCase):
    """A version in one pool: its sessions leave it too."""

    def version(self, backend, **pool):
        """A daemon with the usual retries and ejection whose canary is this backend, or an address."""
        stable = self.backend(answers("v7"))
        address = backend if isinstance(backend, str) else backend.address
        return self.daemon({
            "listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"}, "workers": 1,
            "pools": [{"name": "llama", "health": {"check": "off"}, "metrics": {"scrape": "off"}, **pool,
                       "backends": [{"address": stable.address, "labels": {"version": "v7"}},
                                    {"address": address, "labels": {"version": "v8"}}]}],
            "routes": [{"name": "chat", "pool": "llama", "split": {"version=v7": 50, "version=v8": 50},
                        "canary": {"target": "version=v8", "error_rate": "20%", "min_requests": 10}}]})

    def ask(self, daemon, count=80):
        return {exchange(daemon.address, "GET", "/", [("x-session-id", f"s{number}")]).status for number in range(count)}

    def test_one_for_which_others_stand_in_has_failed(self):
        for canary in (refusing_address(), self.backend(answers("no", status=503))):
            daemon = self.version(canary, retry={"on": ["overload"]})
            self.ask(daemon)
            self.eventually(lambda: daemon.metric("evenkeel_canary_withdrawn") == 1, "the end of the trial")

    def test_what_never_reaches_it_says_nothing_of_it(self):
        daemon = self.version(self.backend(answers("v8")))
        config = json.loads(daemon.config_path.read_text())
        config["auth"] = {}
        config["tenants"] = [{"name": "acme", "keys_sha256": ["0" * 64]}]
        daemon.config_path.write_text(json.dumps(config))
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        self.assertEqual(self.ask(daemon), {401})
        [canary] = daemon.api("canaries")
        self.assertEqual(canary["requests"], 0)

    def test_sessions_leave_with_the_trial(self):
        failing = [False]
        backends = [self.backend(answers("v7")),
                    self.backend(lambda request: request.answer(b"v8", status=500 if failing[0] else 200))]
        pool = {"name": "llama", **QUIET, "affinity": {"by": ["header:x-session-id"], "mode": "hard"},
                "backends": [{"address": backends[0].address, "labels": {"version": "v7"}},
                             {"address": backends[1].address, "labels": {"version": "v8"}}]}
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"},
                       "workers": 1, "pools": [pool],
                       "routes": [{"name": "chat", "pool": "llama", "split": {"version=v7": 50, "version=v8": 50},
                                   "canary": {"target": "version=v8", "error_rate": "20%", "min_requests": 10}}]}
        daemon = self.daemon(self.config)
        with Stream.connect(daemon.address) as stream:
            def ask(session):
                return stream.exchange("GET", "/", [("x-session-id", session)]).field("x-evenkeel-backend")

            of_v8 = [name for name in (f"s{number}" for number in range(40)) if ask(name) == backends[1].address]
            self.assertGreater(len(of_v8), 5)
            failing[0] = True
            for number in range(60):
                ask(f"other{number}")
            self.eventually(lambda: daemon.metric("evenkeel_canary_withdrawn") == 1, "the end of the trial")
            self.assertEqual({ask(name) for name in of_v8}, {backends[0].address})


if __name__ == "__main__":
    case.main()
