"""A server that dies affects only the requests that it was processing, and gets requests again when it is back."""

import json
import threading
import time

import case
from backend import Backend
from ports import free_port, refusing_address
from process import Process
from stream import Closed, Stream, exchange


class Load:
    """Clients that send one request after another, each on its own connection, until `finish()`."""

    def __init__(self, test, address, clients):
        self._address = address
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.answers = []   # (id, status, reason, when it was sent)
        self._clients = [test.spawn(lambda name=name: self._ask(name)) for name in range(clients)]
        test.addCleanup(self._stop.set)  # before the clients are joined

    def _ask(self, name):
        number = 0
        stream = Stream.connect(self._address)
        while not self._stop.is_set():
            number += 1
            request_id = f"{name}-{number}"
            sent = time.monotonic()
            try:
                answer = stream.exchange("POST", "/v1/chat/completions",
                                         [("X-Request-Id", request_id)], b'{"stream": true}')
                outcome = (answer.status, answer.reason)
            except (Closed, ConnectionError):
                outcome = (0, "aborted")
                stream.close()
                stream = Stream.connect(self._address)
            with self._lock:
                self.answers.append((request_id, *outcome, sent))
        stream.close()

    def count(self):
        return len(self.answers)

    def finish(self):
        self._stop.set()
        for client in self._clients:
            client.join()
        return self.answers


def generation(request):
    """A short generation, streamed in pieces."""
    request.begin_chunks()
    for _ in range(4):
        time.sleep(0.005)  # time between two tokens
        request.chunk(b"data: x\n\n")
    request.end_chunks()


class Failover(case.Case):
    def test_when_one_of_four_dies_only_its_requests_in_flight_fail(self):
        backends = [self.backend(generation) for _ in range(4)]
        victim = backends[1]
        daemon = self.start_daemon(*backends)
        load = Load(self, daemon.address, clients=12)
        self.eventually(lambda: load.count() > 100, "a running load")

        victim.close()
        died = time.monotonic()
        at_death = load.count()
        self.eventually(lambda: load.count() > at_death + 200, "a load that goes on")
        state = daemon.backend(victim.address)
        self.assertEqual((state["state"], state["reason"]), ("down", "connect_failed"))
        self.assertEqual(daemon.metric("evenkeel_backend_up", backend=victim.address), 0)
        self.assertEqual(daemon.api("pools")[0]["backends"], {"up": 3, "total": 4})
        picks = state["picks_total"]
        before = load.count()
        self.eventually(lambda: load.count() > before + 100, "a load that goes on")
        # In back-off: occasionally one request tries it, and is then served by another backend.
        self.assertLessEqual(daemon.backend(victim.address)["picks_total"], picks + 3)

        revived = Backend(generation, port=victim.port)
        self.addCleanup(revived.close)
        self.eventually(lambda: len(revived.exchanges) > 20, "requests at the one that is back")
        self.assertEqual(daemon.backend(victim.address)["state"], "up")

        answers = load.finish()
        begun = {each.head.field("x-request-id") for each in victim.exchanges}
        failed = [each for each in answers if each[1] != 200]
        self.assertLessEqual(len(failed), 12, "each client can have lost one")
        for request_id, _, _, sent in failed:
            self.assertIn(request_id, begun)
            self.assertLess(sent, died, "it was sent when the server was dead already")
        self.assertEqual(len(daemon.wait_access(len(answers))), len(answers))

    def test_killing_a_simulator_under_streaming_load_fails_only_its_requests(self):
        self.kill_one_of_four("least-connections")

    def test_the_same_with_a_picker_that_uses_signals(self):
        """The dead server's known speed and short queue must not attract requests."""
        for picker in ("least-latency", "queue-depth", "gpu", "expected-time"):
            with self.subTest(picker):
                self.kill_one_of_four(picker)

    def kill_one_of_four(self, picker):
        simulators = [self.simulators("--model", "m", speed=10) for _ in range(4)]
        daemon = self.start_daemon(*(each.addresses[0] for each in simulators),
                                  pool={"engine": "vllm", "picker": picker})
        load = Process(["load", f"http://{daemon.address}", "--concurrency", "24", "--requests", "1500",
                        "--stream", "--prompt-tokens", "20..200", "--output-tokens", "10..40",
                        "--model", "m", "--json"])
        self.addCleanup(load.kill)
        victim = simulators[2].addresses[0]
        self.eventually(lambda: daemon.backend(victim)["picks_total"] > 30, "a running load")

        simulators[2].kill()
        self.eventually(lambda: daemon.backend(victim)["state"] == "down", "its absence to be noticed")
        load.wait_exit(60)

        report = json.loads("\n".join(load.stdout))
        requests = report["requests"]
        self.assertEqual(requests["succeeded"] + requests["failed"], 1500)
        self.assertLessEqual(requests["failed"], 24, report["errors"])
        lines = daemon.wait_access(1500)
        failed = [line for line in lines if line["reason"] is not None]
        self.assertEqual(len(failed), requests["failed"])
        for line in failed:
            self.assertEqual((line["reason"], line["backend"]), ("backend_closed", victim))
        self.assertEqual({line["backend"] for line in lines[-100:]} & {victim}, set())
        self.assertLess(report["e2e_seconds"]["max"], 10, "no request hangs")

    def test_a_request_that_kills_servers_reaches_at_most_two(self):
        """Each server has served before and closes within a second, so each close could be an idle-close race."""
        def serve(request):
            if request.body == b"poison":
                request.backend.close()  # the listener first, so that it cannot be connected again
            else:
                request.answer(b"hello")

        backends = [self.backend(serve) for _ in range(4)]
        daemon = self.start_daemon(*backends, pool={"picker": "round-robin"}, workers=1)
        client = Stream.connect(daemon.address)
        self.addCleanup(client.close)
        for _ in range(8):
            self.assertEqual(client.exchange("POST", body=b"{}").status, 200)
        self.assertEqual([len(each.exchanges) > 0 for each in backends], [True] * 4, "a warm link to each")

        answer = client.exchange("POST", body=b"poison")

        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (502, "backend_closed"))
        killed = [each for each in backends if each.exchanges[-1].body == b"poison"]
        self.assertLessEqual(len(killed), 2, "it was sent once more, and then no further")
        self.assertEqual(client.exchange("POST", body=b"{}").status, 200)

    def test_the_last_available_backend_serves_everything(self):
        survivor = self.backend(generation)
        dead = [refusing_address() for _ in range(3)]
        daemon = self.start_daemon(dead[0], dead[1], survivor, dead[2], pool={"picker": "round-robin"})

        for _ in range(20):
            self.assertEqual(exchange(daemon.address, "POST", body=b"{}").status, 200)

        self.assertEqual(len(survivor.exchanges), 20)
        failed = sum(daemon.backend(address)["errors_total"] for address in dead)
        self.assertGreater(failed, 0)
        self.assertEqual(daemon.metric("evenkeel_retries_total", reason="connect_failed"), failed)
        for address in dead:
            self.assertLessEqual(daemon.backend(address)["picks_total"], 3)

    def test_a_pool_with_all_backends_in_back_off_is_tried(self):
        """Without health checks, a request discovers that the server is back, and is served."""
        port = free_port()
        daemon = self.start_daemon(f"127.0.0.1:{port}")
        self.assertEqual(exchange(daemon.address).status, 502)
        self.assertEqual(daemon.metric("evenkeel_retries_total"), 0, "there was no other backend to try")

        back = Backend(port=port)
        self.addCleanup(back.close)

        self.assertEqual(exchange(daemon.address).status, 200)
        self.assertEqual(daemon.backend(back.address)["state"], "up")

    def test_a_late_close_of_a_reused_connection_is_not_retried(self):
        """The request may have crashed its server, and would crash the next one."""
        def script(request):
            if request.target == "/crashes":
                time.sleep(1.5)  # processing
                return request.stream.close()
            request.answer(b"fine")

        backend = self.backend(script)
        daemon = self.start_daemon(backend, workers=1)
        self.assertEqual(exchange(daemon.address).status, 200)

        answer = exchange(daemon.address, "POST", "/crashes", body=b"{}")

        self.assertEqual((answer.status, answer.reason), (502, "backend_closed"))
        self.assertEqual([each.connection for each in backend.exchanges], [1, 1])


if __name__ == "__main__":
    case.main()
