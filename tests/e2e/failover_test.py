"""A server that dies takes with it what it had begun, and nothing else; and it is missed no longer
than it is gone."""

import json
import threading
import time

import case
from backend import Backend, free_port
from process import Process
from stream import Closed, Stream, exchange


class Load:
    """Clients that ask one request after the other, each on a connection of its own, until told."""

    def __init__(self, test, address, clients):
        self._address = address
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.answers = []   # (id, status, reason, when it was sent)
        self._clients = [test.spawn(lambda name=name: self._ask(name)) for name in range(clients)]

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


def generation(ask):
    """A short one, in pieces."""
    ask.begin_chunks()
    for _ in range(4):
        time.sleep(0.005)  # the pace of the model
        ask.chunk(b"data: x\n\n")
    ask.end_chunks()


class Failover(case.Case):
    def test_one_of_four_dies_under_load_and_only_what_it_had_begun_is_lost(self):
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
        # Left alone: now and then one request tries, and is then served elsewhere.
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

    def test_a_simulator_that_is_killed_under_a_streaming_load_costs_what_it_had_begun(self):
        self.kill_one_of_four("least-connections")

    def test_so_it_does_where_servers_are_picked_by_what_is_known_of_them(self):
        """What was known of the dead one, its speed and its short queue, draws nobody to it."""
        for picker in ("least-latency", "queue-depth", "gpu"):
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
        self.assertLess(report["e2e_seconds"]["max"], 10, "nobody hangs")

    def test_a_request_that_kills_its_server_is_not_handed_through_the_pool(self):
        """Each has served before, and ends within the second: any of them may just have been idle."""
        def serve(ask):
            if ask.body == b"poison":
                ask.backend.close()  # the listener first: nobody can ask it again
            else:
                ask.answer(b"hello")

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

    def test_the_last_one_standing_takes_it_all(self):
        survivor = self.backend(generation)
        dead = [f"127.0.0.1:{free_port()}" for _ in range(3)]
        daemon = self.start_daemon(dead[0], dead[1], survivor, dead[2], pool={"picker": "round-robin"})

        for _ in range(20):
            self.assertEqual(exchange(daemon.address, "POST", body=b"{}").status, 200)

        self.assertEqual(len(survivor.exchanges), 20)
        failed = sum(daemon.backend(address)["errors_total"] for address in dead)
        self.assertGreater(failed, 0)
        self.assertEqual(daemon.metric("evenkeel_retries_total", reason="connect_failed"), failed)
        for address in dead:
            self.assertLessEqual(daemon.backend(address)["picks_total"], 3)

    def test_a_whole_pool_that_is_down_is_tried_nevertheless(self):
        """Nobody has told that it is back; one request has to find out, and it is served."""
        port = free_port()
        daemon = self.start_daemon(f"127.0.0.1:{port}")
        self.assertEqual(exchange(daemon.address).status, 502)
        self.assertEqual(daemon.metric("evenkeel_retries_total"), 0, "there was nobody else to ask")

        back = Backend(port=port)
        self.addCleanup(back.close)

        self.assertEqual(exchange(daemon.address).status, 200)
        self.assertEqual(daemon.backend(back.address)["state"], "up")

    def test_work_that_had_begun_is_not_repeated_on_a_connection_that_was_used_before(self):
        """A generation that crashed its server would crash the next one."""
        def script(ask):
            if ask.target == "/crashes":
                time.sleep(1.5)  # at work
                return ask.stream.close()
            ask.answer(b"fine")

        backend = self.backend(script)
        daemon = self.start_daemon(backend, workers=1)
        self.assertEqual(exchange(daemon.address).status, 200)

        answer = exchange(daemon.address, "POST", "/crashes", body=b"{}")

        self.assertEqual((answer.status, answer.reason), (502, "backend_closed"))
        self.assertEqual([each.connection for each in backend.exchanges], [1, 1])


if __name__ == "__main__":
    case.main()
