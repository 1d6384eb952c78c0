"""Invalid files change nothing and are reported; files that change listeners and certificates."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading

from certificates import Authority
from http2 import Peer
from ports import free_port
from reloading import ReloadCase, Traffic, refuses, serve
from stream import PATIENCE, Stream, exchange


class BadFiles(ReloadCase):
    def setUp(self):
        self.server = self.backend(serve)
        self.daemon_ = self.running(self.server)
        self.good = json.loads(json.dumps(self.config))

    def assert_nothing_changed(self, why):
        daemon = self.daemon_
        self.eventually(lambda: why in "\n".join(daemon.lines[self.said:]), "the reason in the log")
        status = daemon.api("status")["config"]
        self.assertFalse(status["last_reload_ok"])
        self.assertTrue(any(why in each["message"] or why in each["help"] for each in status["errors"]), status)
        self.assertEqual(daemon.metric("evenkeel_config_last_reload_successful"), 0)
        self.assertEqual(status["hash"], self.status["hash"])
        self.assertEqual(status["loaded_at"], self.status["loaded_at"])
        self.assertEqual([each["name"] for each in daemon.api("pools")], ["pool"])
        self.assertEqual(exchange(daemon.address).status, 200)

    def assert_refused(self, why, text=None):
        self.status = self.daemon_.api("status")["config"]
        self.said = len(self.daemon_.lines)
        self.assertIn(why, self.refused(text))
        self.assert_nothing_changed(why)
        self.config = json.loads(json.dumps(self.good))
        self.reload()
        status = self.daemon_.api("status")["config"]
        self.assertEqual((status["last_reload_ok"], status["errors"]), (True, []))
        self.assertEqual(self.daemon_.metric("evenkeel_config_last_reload_successful"), 1)

    def test_mistakes_are_reported(self):
        whole = json.dumps(self.config, indent=1)
        self.assert_refused("", text=whole[:len(whole) * 2 // 3])
        self.assert_refused("", text="pools: [")
        self.assert_refused("", text="")
        self.assert_refused("", text="\0\xff binary")
        self.pool["pickerr"] = "gpu"
        self.assert_refused("did you mean 'picker'?")
        self.pool["name"] = "other"
        self.config["routes"] = [{"pool": "gone"}]
        self.assert_refused("gone")

    def test_a_rejected_sighup_is_logged(self):
        self.status = self.daemon_.api("status")["config"]
        self.said = len(self.daemon_.lines)
        self.pool["pickerr"] = "gpu"
        self.write()
        self.daemon_.signal(1)
        self.daemon_.wait_line(r"evenkeel\.yaml:\d+:\d+: error: pools\[0\]\.pickerr: unknown key")
        self.eventually(lambda: not self.daemon_.api("status")["config"]["last_reload_ok"])
        self.assert_nothing_changed("unknown key")

    def test_a_missing_or_non_regular_file(self):
        path = self.daemon_.config_path
        hidden = path.with_suffix(".hidden")
        write = self.write
        path.rename(hidden)
        self.write = lambda text=None: None
        self.status, self.said = self.daemon_.api("status")["config"], len(self.daemon_.lines)
        self.refused()
        self.assert_nothing_changed("No such file")
        path.mkdir()
        self.refused()
        path.rmdir()
        self.write = write
        self.reload()

    def test_the_access_log_moves(self):
        before = pathlib.Path(self.config["access_log"]["path"])
        exchange(self.daemon_.address, target="/before")
        self.daemon_.wait_access(1)
        after = before.with_name("moved.log")
        self.config["access_log"] = {"path": str(after)}
        self.reload()
        exchange(self.daemon_.address, target="/after")
        self.eventually(lambda: after.exists() and '"/after"' in after.read_text(), "a line in the new file")
        self.assertNotIn('"/before"', after.read_text())
        self.assertNotIn('"/after"', before.read_text())

        self.config["access_log"] = {"path": str(before.with_name("missing") / "access.log")}
        self.assertIn("access_log.path", self.refused())
        exchange(self.daemon_.address, target="/again")
        self.eventually(lambda: '"/again"' in after.read_text(), "a line in the file that stays")

    def test_an_address_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            free = "127.0.0.1:%d" % free_port()
            self.config["listeners"] += [{"name": "free", "address": free}, {"name": "taken", "address": address}]
            self.pool["debug_headers"] = True
            self.assert_refused(f"listener taken: cannot listen on {address}: Address already in use")
            self.assertTrue(refuses(free))
            self.assertIsNone(exchange(self.daemon_.address).field("x-evenkeel-pool"))

    def test_a_listener_on_the_admin_address(self):
        self.config["listeners"].append({"name": "greedy", "address": self.daemon_.admin})
        self.assert_refused("Address already in use")

    def test_a_pipe_in_place_of_the_file_does_not_block(self):
        """A key that is a pipe does not block either; opening one waits for a writer."""
        pipe = pathlib.Path(self.folder()) / "pipe"
        os.mkfifo(pipe)
        self.pool["backends"] = [{"address": self.server.address, "api_key_file": str(pipe)}]
        self.assert_refused("not a regular file")
        self.daemon_.config_path.unlink()
        os.mkfifo(self.daemon_.config_path)
        answer = self.daemon_.ask_admin("/api/v1/reload", method="POST")
        self.assertEqual(answer.status, 422)
        self.assertIn(b"is not a file", answer.body)

    def test_keys_and_certificates_that_cannot_be_read(self):
        folder = pathlib.Path(self.folder())
        self.pool["backends"] = [{"address": self.server.address, "api_key_file": str(folder / "none")}]
        self.assert_refused("cannot be read")
        (folder / "empty").write_text("\n")
        self.pool["backends"] = [{"address": self.server.address, "api_key_file": str(folder / "empty")}]
        self.assert_refused("holds no key")
        self.pool["backends"] = [{"address": self.server.address, "api_key_file": str(folder)}]
        self.assert_refused("cannot be read")
        authority = Authority(str(folder))
        pair, other = authority.issue("localhost"), authority.issue("localhost")
        self.config["listeners"][0]["tls"] = {"certificates": [{"cert": pair.cert, "key": other.key}]}
        self.assert_refused("does not belong to the certificate")
        self.pool["tls"] = {"ca": str(folder / "none")}
        self.assert_refused("none")


class Listeners(ReloadCase):
    def setUp(self):
        self.go = threading.Event()
        self.addCleanup(self.go.set)

        def script(request):
            if request.target != "/long":
                return request.answer(b"hello")
            request.begin_chunks()
            request.chunk(b"begun")
            self.go.wait(30)
            request.chunk(b"ended")
            return request.end_chunks()

        self.server = self.backend(script)

    def place(self, host="127.0.0.1"):
        return f"{host}:{free_port()}"

    def test_a_listener_is_added_and_removed(self):
        place = self.place()
        daemon = self.running(self.server)
        traffic = Traffic(self, daemon.address, sse=0)
        for _ in range(5):
            self.go.clear()
            self.config["listeners"].append({"name": "second", "address": place})
            self.reload()
            idle, busy, fresh = (Stream.connect(place) for _ in range(3))
            modern = Peer.connect(place)
            self.assertEqual(idle.exchange().status, 200)
            self.assertEqual(modern.exchange().status, 200)
            busy.ask(target="/long")
            head = busy.read_head()
            self.assertEqual(busy.read_chunk(head), b"begun")
            held = modern.request(path="/long")
            held.read_head()
            self.config["listeners"].pop()
            self.reload()
            self.eventually(lambda: refuses(place), "the end of the listener")
            idle.wait_closed()
            self.assertEqual(idle.ended, "end")
            fresh.wait_closed()
            self.eventually(lambda: daemon.metric("evenkeel_connections", listener="second") == 2, "the two busy ones")
            self.go.set()
            self.assertEqual(busy.read_chunk(head), b"ended")
            self.assertEqual(busy.read_chunk(head), b"")
            busy.wait_closed()
            self.assertEqual(held.read_body(), b"begunended")
            self.assertEqual(modern.goaway[1], 0)
            self.eventually(lambda: daemon.metric("evenkeel_connections", listener="second") == 0)
            for each in (idle, busy, fresh, modern):
                each.close()
        traffic.end()

    def test_renaming_a_listener_is_invisible_to_clients(self):
        place = self.place()
        daemon = self.running(self.server, listeners=[{"name": "one", "address": place}])
        traffic = Traffic(self, place, sse=0)
        short_clients = self.short_lived_clients([place])
        with Stream.connect(place) as before:
            self.assertEqual(before.exchange().status, 200)
            for number in range(20):
                self.config["listeners"][0]["name"] = f"name{number % 3}"
                self.reload()
                self.assertEqual(before.exchange().status, 200)
        self.assertGreater(short_clients(), 0)
        traffic.end()
        self.assertEqual(traffic.connections[0].goaways, [])
        daemon.wait_at_rest()
        self.assertEqual({line["listener"] for line in daemon.access_lines()}, {"one", "name0", "name1", "name2"})

    def test_two_listeners_swap_their_names(self):
        places = [self.place(), self.place()]
        limits = {"left": {"uri": "1KiB"}, "right": {"uri": "4KiB"}}
        self.running(self.server, listeners=[{"name": name, "address": place, "limits": limits[name]}
                                             for name, place in zip(("left", "right"), places)])
        short_clients = self.short_lived_clients(places)
        long_target = "/" + "x" * 2000
        for _ in range(20):
            names = [each["name"] for each in self.config["listeners"]][::-1]
            for listener, name in zip(self.config["listeners"], names):
                listener.update(name=name, limits=limits[name])
            self.reload()
            for place, name in zip(places, names):
                self.assertEqual(exchange(place, target=long_target).status, 414 if name == "left" else 200)
        self.assertGreater(short_clients(), 0)

    def short_lived_clients(self, places):
        """Clients that connect, several at a time, send one request and close. Returns a function that ends them and returns their number."""
        done = threading.Event()

        def connect_and_close(place):
            count = 0
            while not done.is_set():
                streams = [Stream.connect(place) for _ in range(12)]
                for stream in streams:
                    stream.ask()
                for stream in streams:
                    answer = stream.read_response()
                    assert answer.status == 200, answer.raw
                    stream.close()
                count += 1
            return count

        clients = [self.spawn(lambda place=place: connect_and_close(place)) for place in places]

        def end():
            done.set()
            return sum(client.join() for client in clients)

        return end

    def test_new_connections_see_no_gap_while_listeners_change(self):
        places = [self.place()]
        self.running(self.server, listeners=[{"name": "one", "address": places[0]}])
        short_clients = self.short_lived_clients(places)
        for number in range(20):
            others = [{"name": f"other{each}", "address": "127.0.0.1:0"} for each in range(number % 3)]
            # Changed settings do not close the socket.
            self.config["listeners"] = [*others, {"name": "one", "address": places[0],
                                                  "limits": {"uri": f"{4 + number % 2}KiB"}}]
            self.reload()
        self.assertGreater(short_clients(), 0)

    def test_changed_limits_apply_to_new_connections(self):
        # One worker, because a worker evicts only its own connections.
        daemon = self.running(self.server, workers=1,
                              listeners=[{"name": "public", "address": self.place()}])
        with Stream.connect(daemon.address) as before:
            self.assertEqual(before.exchange(body=b"x" * 5000, method="POST").status, 200)
            self.config["listeners"][0]["limits"] = {"body": "1KiB", "max_connections": 2}
            self.reload()
            self.assertEqual(before.exchange(body=b"x" * 5000, method="POST").status, 200)
            with Stream.connect(daemon.address) as after:
                self.assertEqual(after.exchange(body=b"x" * 5000, method="POST").status, 413)
            self.eventually(lambda: daemon.metric("evenkeel_connections") == 1)
            busy = [Stream.connect(daemon.address) for _ in range(2)]
            for stream in busy:
                self.addCleanup(stream.close)
                stream.ask(target="/long")
                self.assertEqual(stream.read_head().status, 200)
            # The oldest idle connection was closed for the second. None is idle for a third, which waits.
            before.wait_closed()
            third = self.spawn(lambda: exchange(daemon.address).status)
            self.eventually(lambda: daemon.metric("evenkeel_connections") == 2, "the end of the oldest")
            self.go.set()
            self.assertEqual(third.join(), 200)

    def test_a_listener_moves_from_the_wildcard_to_one_address_and_back(self):
        port = free_port()
        everywhere, here = f"0.0.0.0:{port}", f"127.0.0.1:{port}"
        self.running(self.server, listeners=[{"name": "public", "address": everywhere}])
        self.assertEqual(exchange(f"127.0.0.2:{port}").status, 200)
        with Stream.connect(here) as idle:
            for place, elsewhere in ((here, False), (everywhere, True)) * 3:
                self.config["listeners"][0]["address"] = place
                self.reload()
                self.assertEqual(exchange(here).status, 200)
                self.eventually(lambda: refuses(f"127.0.0.2:{port}") != elsewhere)
            idle.wait_closed()

    def test_a_kernel_chosen_port_stays_while_the_name_stays(self):
        daemon = self.running(self.server)
        for _ in range(3):
            self.config["listeners"].append({"name": "more%d" % len(self.config["listeners"]),
                                             "address": "127.0.0.1:0"})
            self.reload()
            self.assertEqual(exchange(daemon.address).status, 200)
        self.config["listeners"][0]["address"] = "127.0.0.1:%d" % free_port()
        self.reload()
        self.eventually(lambda: refuses(daemon.address))
        self.assertEqual(exchange(self.config["listeners"][0]["address"]).status, 200)


class Certificates(ReloadCase):
    def setUp(self):
        self.authority = Authority(self.folder())
        self.live = pathlib.Path(self.folder())
        self.install(self.authority.issue("localhost", "127.0.0.1", "first.test"))
        self.trust = self.authority.trust()

    def install(self, certificate):
        shutil.copy(certificate.cert, self.live / "cert.pem")
        shutil.copy(certificate.key, self.live / "key.pem")

    def serving_tls(self, **tls):
        pair = {"cert": str(self.live / "cert.pem"), "key": str(self.live / "key.pem")}
        return self.running(self.backend(serve), listeners=[
            {"name": "public", "address": "127.0.0.1:0", "tls": {"certificates": [pair], **tls}}])

    def shown(self):
        """The names in the certificate that a new connection gets."""
        with Stream.connect(self.served.address, tls=self.trust, name="localhost") as stream:
            assert stream.exchange().status == 200
            certificate = stream.socket._socket.getpeercert()
        return {name for kind, name in certificate["subjectAltName"]}

    def test_new_certificates_apply_to_new_handshakes_and_bad_ones_are_rejected(self):
        daemon = self.serving_tls()
        traffic = Traffic(self, daemon.address, tls=self.trust, h1=2, h2=0, sse=1)
        with Peer.connect(daemon.address, tls=self.authority.trust(alpn=["h2"])) as modern, \
                Stream.connect(daemon.address, tls=self.trust, name="localhost") as old:
            self.assertEqual(old.exchange().status, 200)
            self.assertIn("first.test", self.shown())
            self.install(self.authority.issue("localhost", "127.0.0.1", "second.test"))
            self.assertIn("first.test", self.shown(), "nothing has been reloaded")
            self.reload()
            self.assertIn("second.test", self.shown())
            shutil.copy(self.authority.issue("localhost").key, self.live / "key.pem")
            self.assertIn("does not belong", self.refused())
            self.assertIn("second.test", self.shown())
            (self.live / "cert.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB")
            self.refused()
            self.assertIn("second.test", self.shown())
            # Other changes do not read the certificate files again.
            with Stream.connect(daemon.admin) as admin:
                target = f"/api/v1/backends/{self.pool['backends'][0]}/weight"
                answer = admin.exchange("POST", target, body=b'{"weight": 3}', host=daemon.admin)
                self.assertEqual(answer.status, 200, answer.body)
            self.assertIn("second.test", self.shown())
            self.install(self.authority.issue("localhost", "127.0.0.1", "third.test"))
            self.reload()
            self.assertIn("third.test", self.shown())
            self.assertEqual(old.exchange().status, 200)
            self.assertEqual(modern.exchange().status, 200)
            self.assertIsNone(modern.goaway)
        traffic.end()

    def test_earlier_tickets_remain_valid(self):
        daemon = self.serving_tls()
        session = os.path.join(self.folder(), "session")
        for version in ("-tls1_2", "-tls1_3"):
            self.s_client(version, "-sess_out", session)
            for _ in range(3):
                self.install(self.authority.issue("localhost", "127.0.0.1"))
                self.reload()
            self.assertIn("Reused, TLS", self.s_client(version, "-sess_in", session))
            # They are not valid under another policy.
            self.config["listeners"][0]["tls"].update(client_ca=self.authority.cert, client_auth="request")
            self.reload()
            self.assertIn("New, TLS", self.s_client(version, "-sess_in", session))
            del self.config["listeners"][0]["tls"]["client_ca"], self.config["listeners"][0]["tls"]["client_auth"]
            self.reload()
        self.assertEqual(daemon.metric("evenkeel_tls_handshakes_total", result="resumed"), 2)

    def s_client(self, *arguments):
        done = subprocess.run(
            ["openssl", "s_client", "-connect", self.served.address, "-CAfile", self.authority.cert,
             "-servername", "localhost", "-ign_eof", *arguments],
            input=b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", capture_output=True,
            timeout=PATIENCE, check=False)
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    def test_tls_is_switched_on_and_off(self):
        daemon = self.running(self.backend(serve))
        with Stream.connect(daemon.address) as clear:
            self.assertEqual(clear.exchange().status, 200)
            pair = {"cert": str(self.live / "cert.pem"), "key": str(self.live / "key.pem")}
            self.config["listeners"][0]["tls"] = {"certificates": [pair]}
            self.reload()
            self.assertIn("first.test", self.shown())
            self.assertEqual(exchange(daemon.address).status, 400)
            self.assertEqual(clear.exchange().status, 200, "what has begun goes on")
            del self.config["listeners"][0]["tls"]
            self.reload()
            self.assertEqual(exchange(daemon.address).status, 200)

    def test_client_certificates_stay_required_while_the_listener_drains(self):
        daemon = self.serving_tls(client_ca=self.authority.cert)
        self.config["listeners"].append({"name": "other", "address": "127.0.0.1:0"})
        for _ in range(5):
            self.reload()
            listener = self.config["listeners"].pop(0)
            self.write()
            # Queued in the kernel when the listener closes, or too late, but never accepted without a certificate.
            without_certificate = [self.connect_in_clear(daemon.address) for _ in range(20)]
            self.reload()
            for client in without_certificate:
                with client:
                    try:
                        received = client.recv(100)
                    except ConnectionError:
                        received = b""
                    self.assertNotIn(b" 200 ", received)
            self.config["listeners"].insert(0, {**listener, "address": daemon.address})
            self.reload()

    def connect_in_clear(self, address):
        sock = socket.create_connection(address.rsplit(":", 1), PATIENCE)
        sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        return sock


if __name__ == "__main__":
    import case
    case.main()
