"""Standby backends (standby: true): they join when they are needed and leave when they are not."""

import threading

import case
from stream import exchange

STANDBY = {"enter": 0.8, "leave": 0.5, "dwell": "500ms"}


class Gate:
    """A script that holds every request until it is opened."""

    def __init__(self):
        self.open = threading.Event()

    def __call__(self, request):
        self.open.wait(20)
        request.answer(b"done")


class Standby(case.Case):
    def pool(self, active, others, **keys):
        daemon = self.start_daemon(*active, *({"address": each.address, "standby": True} for each in others),
                                  pool={"standby": STANDBY, **keys})
        return daemon

    def state(self, daemon, backend):
        return daemon.backend(backend.address)["state"]

    def test_a_standby_server_gets_nothing_while_the_others_carry_the_load(self):
        active, other = self.backend(), self.backend()
        daemon = self.pool([active], [other])

        for _ in range(20):
            self.assertEqual(exchange(daemon.address).status, 200)

        self.assertEqual((len(active.exchanges), len(other.exchanges)), (20, 0))
        self.assertEqual(self.state(daemon, other), "standby")

    def test_a_standby_server_replaces_a_dead_backend(self):
        actives, other = [self.backend(), self.backend()], self.backend()
        daemon = self.pool(actives, [other])
        self.assertEqual(exchange(daemon.address).status, 200)

        actives[0].close()
        for _ in range(50):
            self.assertEqual(exchange(daemon.address).status, 200, "its connect fails, another is asked")
        self.eventually(lambda: self.state(daemon, other) == "up", "the standby server to come")
        before = len(other.exchanges)
        self.eventually(lambda: exchange(daemon.address).status == 200 and len(other.exchanges) > before,
                        "requests at it")

    def test_queued_requests_activate_a_standby_server_at_once(self):
        gate = Gate()
        active, other = self.backend(gate), self.backend(gate)
        daemon = self.pool([active], [other], limits={"max_in_flight": 2})

        waiting = [self.spawn(lambda: exchange(daemon.address).status) for _ in range(4)]
        self.eventually(lambda: len(other.exchanges) == 2, "the two that stood in line", within=5)
        self.assertEqual(self.state(daemon, other), "up")
        gate.open.set()
        self.assertEqual([each.join() for each in waiting], [200] * 4)
        self.eventually(lambda: self.state(daemon, other) == "standby", "the standby server to go")

    def test_a_standby_server_serves_when_all_other_backends_are_down(self):
        active, other = self.backend(), self.backend()
        daemon = self.pool([active], [other])
        self.assertEqual(exchange(daemon.address).status, 200)

        active.close()
        self.eventually(lambda: exchange(daemon.address).status == 200, "an answer", within=5)

        self.assertGreater(len(other.exchanges), 0)


if __name__ == "__main__":
    case.main()
