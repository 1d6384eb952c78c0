"""PyPI's `websockets`: a tunnel in which both sides send at any time."""

import os
import ssl
import unittest

import case
from certificates import Authority
from stream import exchange
from websocket_echo import EchoServer, websockets

if websockets is not None:
    from websockets.sync.client import connect


@unittest.skipIf(websockets is None, "PyPI's websockets is not installed (./dev setup)")
class WebSockets(case.Case):
    def tunnel(self, path="/", **kwargs):
        self.server = EchoServer()
        self.addCleanup(self.server.close)
        self.daemon_ = self.start_daemon(self.server.address)
        return connect(f"ws://{self.daemon_.address}{path}", max_size=None, open_timeout=20,
                       close_timeout=20, **kwargs)

    def test_messages_come_back(self):
        with self.tunnel() as socket:
            for message in ("hello", "", "\u00e9 \U0001f41f", b"\x00\xff", "x" * 100_000):
                socket.send(message)
                self.assertEqual(socket.recv(timeout=20), message)

    def test_a_server_that_prefers_http2_gets_the_upgrade_over_http1(self):
        authority = Authority(self.folder())
        certificate = authority.issue("127.0.0.1")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate.cert, certificate.key)
        tls.set_alpn_protocols(["h2", "http/1.1"])
        server = EchoServer(tls)
        self.addCleanup(server.close)
        daemon = self.start_daemon("https://" + server.address, pool={
            "tls": {"ca": authority.cert}, "health": {"check": "off"}})
        with connect(f"ws://{daemon.address}/", open_timeout=20, close_timeout=20) as tunnel:
            tunnel.send("hello")
            self.assertEqual(tunnel.recv(timeout=20), "hello")

    def test_an_upgrade_with_an_empty_body_is_an_upgrade(self):
        with self.tunnel(additional_headers={"Content-Length": "0"}) as tunnel:
            tunnel.send("hello")
            self.assertEqual(tunnel.recv(timeout=20), "hello")

    def test_the_server_may_send_first(self):
        with self.tunnel("/speaks-first") as socket:
            self.assertEqual(socket.recv(timeout=20), "I begin")

    def test_both_ways_at_once_in_megabytes(self):
        messages = [os.urandom(1_000_000) for _ in range(8)]
        with self.tunnel(compression=None) as socket:
            sending = self.spawn(lambda: [socket.send(message) for message in messages])
            for message in messages:
                self.assertEqual(socket.recv(timeout=20), message)
            sending.join()

    def test_the_end_of_the_client_reaches_the_server(self):
        with self.tunnel() as socket:
            socket.send("hello")
            socket.recv(timeout=20)
            socket.close(4001, "done")
        self.eventually(lambda: self.server.closed == [4001], "the code of the close")
        line = self.daemon_.wait_access(1)[0]
        self.assertEqual((line["status"], line["reason"]), (101, None))

    def test_the_end_of_the_server_reaches_the_client(self):
        with self.tunnel("/leaves") as socket:
            with self.assertRaises(websockets.exceptions.ConnectionClosed) as raised:
                socket.recv(timeout=20)
        self.assertEqual((raised.exception.rcvd.code, raised.exception.rcvd.reason), (4000, "enough"))

    def test_a_client_that_is_cut_off_ends_the_servers_side(self):
        with self.tunnel() as socket:
            socket.send("hello")
            socket.recv(timeout=20)
            socket.socket.shutdown(2)
            self.eventually(lambda: self.server.closed == [1006], "an abnormal end")
            self.daemon_.wait_at_rest()

    def test_a_server_may_refuse_the_tunnel(self):
        daemon = self.start_daemon(self.backend(lambda ask: ask.answer(b"no", status=403)))
        with self.assertRaises(websockets.exceptions.InvalidStatus) as raised:
            with connect(f"ws://{daemon.address}/", open_timeout=20):
                self.fail("there is no tunnel")
        self.assertEqual(raised.exception.response.status_code, 403)
        self.assertEqual(exchange(daemon.address).status, 403)


if __name__ == "__main__":
    case.main()
