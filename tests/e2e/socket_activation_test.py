"""Listening sockets that the supervisor has opened and passes to the daemon (sd_listen_fds(3))."""

import socket
import subprocess
import sys

import case
import process
from reloading import ReloadCase, refuses, serve
from stream import Stream, exchange

# Moves the sockets to descriptors 3, 4, ... and then executes the daemon, so that LISTEN_PID is right.
LAUNCHER = """
import fcntl, os, sys
given = [int(each) for each in sys.argv[1].split(",")]
high = [fcntl.fcntl(each, fcntl.F_DUPFD, 50) for each in given]
for target, each in enumerate(high, 3):
    os.dup2(each, target, inheritable=True)
os.closerange(3 + len(high), 100)
os.environ["LISTEN_FDS"] = str(len(high))
if sys.argv[2]:
    os.environ["LISTEN_FDNAMES"] = sys.argv[2]
os.environ["LISTEN_PID"] = sys.argv[3] or str(os.getpid())
os.execv(sys.argv[4], sys.argv[4:])
"""


class SocketActivatedDaemon(process.Daemon):
    """A daemon that inherits these sockets; `names` is LISTEN_FDNAMES."""

    def __init__(self, folder, config, sockets, names=(), pid=""):
        self._launch = (sockets, names, pid)
        super().__init__(folder, config)

    def popen(self, command, **kwargs):
        sockets, names, pid = self._launch
        given = ",".join(str(each.fileno()) for each in sockets)
        return subprocess.Popen([sys.executable, "-c", LAUNCHER, given, ":".join(names), pid, *command],
                                pass_fds=[each.fileno() for each in sockets], **kwargs)


class SocketActivation(ReloadCase):
    def socket(self, host="127.0.0.1", kind=socket.AF_INET, port=0):
        sock = socket.socket(kind, socket.SOCK_STREAM)
        self.addCleanup(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(100)
        return sock, "%s:%d" % sock.getsockname()[:2]

    def launched(self, sockets, listeners, names=(), pid="", admin="127.0.0.1:0", **config):
        self.config = {"listeners": listeners, "admin": {"address": admin}, "workers": 2,
                       "pools": [{"name": "pool", "backends": [self.backend(serve).address]}], **config}
        self.served = SocketActivatedDaemon(self.folder(), self.config, sockets, names, pid)
        self.addCleanup(self.served.finish)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    def test_sockets_are_matched_by_name(self):
        public, place = self.socket("127.0.0.7")
        admin, admin_place = self.socket("127.0.0.8")
        waiting = Stream.connect(place)  # before the daemon listens
        self.addCleanup(waiting.close)
        waiting.ask()
        daemon = self.launched([admin, public], [{"name": "public", "address": "127.0.0.1:0"}],
                               names=["admin", "public"])
        self.assertEqual(daemon.listening, {"public": place, "admin": admin_place})
        self.assertEqual(waiting.read_response().status, 200)
        for _ in range(40):  # one socket serves all workers
            self.assertEqual(exchange(place).status, 200)
        self.reload()
        self.assertEqual(exchange(place).status, 200)

    def test_sockets_are_matched_by_address_one_per_worker(self):
        first = socket.socket()
        second = socket.socket()
        for sock in (first, second):
            self.addCleanup(sock.close)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(("127.0.0.1", first.getsockname()[1] if sock is second else 0))
            sock.listen(100)
        place = "127.0.0.1:%d" % first.getsockname()[1]
        daemon = self.launched([first, second], [{"name": "public", "address": place}])
        self.assertEqual(daemon.address, place)
        first.close()
        second.close()
        for _ in range(40):
            self.assertEqual(exchange(place).status, 200)
        with self.subTest("all of them are read"):
            self.assertFalse([line for line in daemon.lines if "inherited" in line])

    def test_unused_sockets_are_logged(self):
        unused, place = self.socket()
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(datagrams.close)
        daemon = self.launched([unused, datagrams], [{"name": "public", "address": "127.0.0.1:0"}],
                               names=["unused", "datagrams"])
        daemon.wait_line(f"closed inherited socket unused at {place}: no listener has that name or that address")
        self.assertEqual(exchange(daemon.address).status, 200)

    def test_sockets_for_another_process_are_ignored(self):
        other, place = self.socket()
        daemon = self.launched([other], [{"name": "public", "address": "127.0.0.1:0"}], names=["public"], pid="1")
        self.assertNotEqual(daemon.address, place)
        self.assertEqual(exchange(daemon.address).status, 200)

    def test_a_socket_without_a_listener_is_closed(self):
        sock, place = self.socket()
        daemon = self.launched([sock], [{"name": "public", "address": "127.0.0.1:0"},
                                        {"name": "late", "address": place}])
        sock.close()
        self.assertEqual(daemon.listening["late"], place)
        for _ in range(3):
            late = self.config["listeners"].pop()
            self.reload()
            self.eventually(lambda: refuses(place), "refused connections")
            self.config["listeners"].append(late)
            self.reload()
            self.assertEqual(exchange(place).status, 200)


if __name__ == "__main__":
    case.main()
