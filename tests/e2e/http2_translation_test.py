"""Translation between HTTP/1.1 and HTTP/2: messages keep their meaning, and fields that exist in only one version do not
leak into the other."""

import case
from http2 import INITIAL_WINDOW_SIZE, Peer, Wire, request_fields, window_update
from stream import Stream, exchange


class ToHttp1(case.Case):
    """An HTTP/2 client and an HTTP/1.1 backend."""

    def ask(self, *args, script=None, **kwargs):
        self.backend_ = self.backend(script)
        daemon = self.start_daemon(self.backend_)
        with Peer.connect(daemon.address) as peer:
            call = peer.request(*args, **kwargs)
            answer = call.read_response()
            self.assertEqual(peer.violations, [])
        self.head = self.backend_.exchanges[0].head
        return answer

    def test_the_authority_becomes_the_host(self):
        self.ask(path="/a?b=c", authority="Example.com:8080")
        self.assertEqual(self.head.first_line, "GET /a?b=c HTTP/1.1")
        self.assertEqual(self.head.all("host"), ["Example.com:8080"])
        self.assertEqual([name for name, _ in self.head.fields if name.startswith(":")], [])

    def test_a_host_field_without_an_authority_is_sufficient(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        with Peer.connect(daemon.address) as peer:
            fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "example.com")]
            self.assertEqual(peer.open_stream(fields).read_response().status, 200)
        self.assertEqual(backend.exchanges[0].head.all("host"), ["example.com"])

    def test_split_cookies_become_one_field(self):
        self.ask(fields=[("cookie", "a=1"), ("x-between", "1"), ("cookie", "b=2"), ("cookie", "c=3; d=4")])
        self.assertEqual(self.head.all("cookie"), ["a=1; b=2; c=3; d=4"])

    def test_repeated_fields_stay_separate_and_in_order(self):
        self.ask(fields=[("x-twice", "1"), ("accept", "*/*"), ("x-twice", "2")])
        self.assertEqual(self.head.all("x-twice"), ["1", "2"])

    def test_bytes_of_values_are_kept(self):
        self.ask(fields=[("x-bytes", "caf\xc3\xa9 \xff \"quoted\"\tand on")])
        self.assertEqual(self.head.field("x-bytes"), "caf\xc3\xa9 \xff \"quoted\"\tand on")

    def test_a_request_without_a_body_has_no_framing(self):
        self.ask("GET")
        self.assertEqual((self.head.length(), self.head.chunked()), (None, False))

    def test_a_post_without_a_body_has_length_zero(self):
        self.ask("POST")
        self.assertEqual((self.head.length(), self.head.chunked()), (0, False))

    def test_a_body_with_a_length_keeps_it(self):
        self.ask("POST", fields=[("content-length", "3")], body=b"abc")
        self.assertEqual((self.head.length(), self.head.chunked(), self.head.body), (3, False, b"abc"))

    def test_a_body_without_a_length_is_complete(self):
        self.ask("POST", body=b"abc" * 20_000)
        self.assertEqual(self.head.body, b"abc" * 20_000)

    def test_te_trailers_is_translated_to_http1(self):
        self.ask(fields=[("te", "trailers")])
        self.assertEqual(self.head.field("te"), "trailers")
        self.assertIn("te", (self.head.field("connection") or "").lower())

    def test_connection_fields_of_the_backend_are_removed(self):
        def script(request):
            request.send(b"HTTP/1.1 200 Fine\r\nConnection: X-Secret, keep-alive\r\nKeep-Alive: timeout=5\r\n"
                     b"X-Secret: 1\r\nProxy-Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n"
                     b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Mixed: Kept\r\n\r\n3\r\nabc\r\n0\r\n\r\n")

        answer = self.ask(script=script)
        self.assertEqual((answer.status, answer.body), (200, b"abc"))
        names = [name for name, _ in answer.fields]
        for name in ("connection", "keep-alive", "x-secret", "proxy-connection", "transfer-encoding"):
            self.assertNotIn(name, names)
        self.assertEqual(answer.all("set-cookie"), ["a=1", "b=2"])
        self.assertEqual(answer.field("x-mixed"), "Kept")

    def test_a_response_that_ends_with_its_connection_is_complete(self):
        def script(request):
            request.send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
            request.stream.close()

        self.assertEqual(self.ask(script=script).body, b"until the end")

    def test_a_response_to_head_keeps_its_length(self):
        answer = self.ask("HEAD", script=lambda request: request.answer(b"not sent"))
        self.assertEqual((answer.field("content-length"), answer.body), ("8", b""))

    def test_interim_responses_pass(self):
        def script(request):
            request.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            request.answer(b"done")

        self.backend_ = self.backend(script)
        with Peer.connect(self.start_daemon(self.backend_).address) as peer:
            call = peer.request()
            self.assertEqual(call.read_response().body, b"done")
            self.assertEqual([(each.status, each.field("link")) for each in call.interim], [(103, "</a>")])

    def test_an_expectation_is_met(self):
        answer = self.ask("POST", fields=[("expect", "100-continue"), ("content-length", "3")], body=b"abc")
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.head.body, b"abc")


class ToHttp2(case.Case):
    """An HTTP/1.1 client and an HTTP/2 backend that records every violation."""

    def ask(self, *args, script=None, **kwargs):
        self.backend_ = self.h2_backend(script)
        daemon = self.start_daemon(self.backend_, pool={"protocol": "h2"})
        answer = exchange(daemon.address, *args, **kwargs)
        self.head = self.backend_.exchanges[0].head
        return answer

    def test_the_host_becomes_the_authority(self):
        self.ask("GET", "/a?b=c", host="Example.com:8080")
        self.assertEqual(self.head.pseudo, {":method": "GET", ":scheme": "http", ":path": "/a?b=c",
                                            ":authority": "Example.com:8080"})
        self.assertEqual(self.head.all("host"), [])

    def test_connection_fields_are_removed_and_names_are_lower_case(self):
        self.ask(fields=[("Connection", "X-Secret, close"), ("X-Secret", "1"), ("Keep-Alive", "timeout=5"),
                         ("TE", "gzip"), ("Proxy-Connection", "close"), ("X-Mixed", "Kept")])
        for name in ("connection", "x-secret", "keep-alive", "te", "proxy-connection", "upgrade"):
            self.assertIsNone(self.head.field(name), name)
        self.assertIn(("x-mixed", "Kept"), self.head.fields)

    def test_a_chunked_body_is_sent_without_chunks(self):
        backend = self.h2_backend()
        daemon = self.start_daemon(backend, pool={"protocol": "h2"})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n")
            self.assertEqual(stream.read_response().status, 200)
        head = backend.exchanges[0].head
        self.assertEqual((head.body, head.length(), head.field("transfer-encoding")), (b"abcdefg", None, None))

    def test_an_upgrade_is_not_forwarded(self):
        """WebSockets over HTTP/2 work differently (RFC 8441), so this becomes an ordinary request."""
        answer = self.ask(fields=[("Connection", "upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x")])
        self.assertNotEqual(answer.status, 101)

    def test_a_response_without_a_length_is_chunked_for_http1(self):
        def script(request):
            request.begin_chunks([("set-cookie", "a=1"), ("set-cookie", "b=2")])
            request.chunk(b"abc")
            request.end_chunks()

        answer = self.ask(script=script)
        self.assertTrue(answer.chunked())
        self.assertEqual((answer.body, answer.all("set-cookie")), (b"abc", ["a=1", "b=2"]))

    def test_a_response_with_a_length_keeps_it(self):
        answer = self.ask(script=lambda request: request.answer(b"abc"))
        self.assertEqual((answer.length(), answer.chunked()), (3, False))

    def test_a_response_to_head_keeps_its_length(self):
        answer = self.ask("HEAD", script=lambda request: request.answer(b"not sent"))
        self.assertEqual((answer.length(), answer.body), (8, b""))

    def test_a_response_with_only_headers_has_length_zero(self):
        answer = self.ask(script=lambda request: request.send_head(end=True))
        self.assertEqual((answer.status, answer.length()), (200, 0))

    def test_an_http10_client_gets_neither_chunks_nor_trailers(self):
        def script(request):
            request.begin_chunks()
            request.chunk(b"abc")
            request.end_chunks([("x-sum", "1")])

        backend = self.h2_backend(script)
        daemon = self.start_daemon(backend, pool={"protocol": "h2"})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
            answer = stream.read_response()
            self.assertEqual((answer.chunked(), answer.body), (False, b"abc"))


class Http2OnBothSides(case.Case):
    """HTTP/2 on both sides."""

    def test_a_request_and_its_response_are_unchanged(self):
        def script(request):
            request.begin_chunks([("x-answer", "1"), ("x-answer", "2")], status=207)
            request.chunk(request.body)
            request.end_chunks([("x-sum", "1"), ("x-more", "2")])

        backend = self.h2_backend(script)
        daemon = self.start_daemon(backend, pool={"protocol": "h2"})
        with Peer.connect(daemon.address) as peer:
            fields = request_fields("PROPFIND", "/%41?x=%20;y", [("te", "trailers"), ("cookie", "a=1"), ("cookie", "b=2"),
                                                                ("x-asked", "\xff")], authority="test:1")
            call = peer.open_stream(fields, end=False)
            call.send(b"question")
            call.end([("x-asked-sum", "9")])
            answer = call.read_response()
            self.assertEqual(peer.violations, [])
        self.assertEqual((answer.status, answer.all("x-answer"), answer.body), (207, ["1", "2"], b"question"))
        self.assertEqual(answer.trailers, [("x-sum", "1"), ("x-more", "2")])
        head = backend.exchanges[0].head
        self.assertEqual(head.pseudo, {":method": "PROPFIND", ":scheme": "http", ":authority": "test:1",
                                       ":path": "/%41?x=%20;y"})
        self.assertEqual((head.field("te"), head.field("x-asked"), head.trailers), ("trailers", "\xff", [("x-asked-sum", "9")]))
        self.assertEqual("; ".join(head.all("cookie")), "a=1; b=2")

    def test_fields_that_must_never_be_indexed_stay_so(self):
        """RFC 7541 6.2.3: they may be secrets."""
        def script(request):
            request.stream.send_head([(":status", "200"), ("x-answer", "1"), ("x-token", "t", True)], end=False)
            request.stream.end([("x-sum", "s", True), ("x-more", "m")])

        backend = self.h2_backend(script)
        daemon = self.start_daemon(backend, pool={"protocol": "h2"})
        with Peer.connect(daemon.address) as peer:
            for _ in range(3):
                call = peer.open_stream([(":method", "GET"), (":scheme", "http"), (":authority", "test"), (":path", "/?key=k", True),
                                         ("x-api-key", "k", True), ("cookie", "a=" + "1" * 30), ("cookie", "b=2", True),
                                         ("x-asked", "1")], end=True)
                answer = call.read_response()
                self.assertEqual(answer.never_indexed, ["x-token"])
                self.assertEqual([type(field).__name__ for field in answer.trailers],
                                 ["NeverIndexedHeaderTuple", "HeaderTuple"])
        for exchange in backend.exchanges:
            self.assertEqual(sorted(exchange.head.never_indexed), [":path", "cookie", "x-api-key"])

    def test_a_trailers_only_response(self):
        """A gRPC response that consists only of its status."""
        backend = self.h2_backend(lambda request: request.send_head([("grpc-status", "12")], end=True))
        daemon = self.start_daemon(backend, pool={"protocol": "h2"})
        with Peer.connect(daemon.address) as peer:
            call = peer.request("POST", "/x", body=b"x")
            answer = call.read_response()
            self.assertEqual((answer.field("grpc-status"), answer.trailers, answer.body), ("12", [], b""))
            self.assertEqual(sum(each.kind == 0 for each in peer.trace), 0, "no DATA: the head is all there is")


class Priorities(case.Case):
    """RFC 9218."""

    def order(self, first, second):
        """The order in which two responses end that wait for the connection's window, asked for with these fields."""
        size = 30_000
        daemon = self.start_daemon(self.backend(lambda asked: asked.answer(b"x" * size)))
        with Wire.connect(daemon.address) as wire:
            wire.open({INITIAL_WINDOW_SIZE: 1 << 20})
            for stream in (1, 3):  # which leave little of the window
                wire.ask(stream)
                wire.answer_to(stream)
            wire.ask(5, fields=first)
            wire.until(lambda transcript: 5 in transcript.heads)
            wire.ask(7, fields=second)
            wire.until(lambda transcript: 7 in transcript.heads)
            ended = []
            while len(ended) < 2:
                before = sum(map(len, wire.transcript.bodies.values()))
                wire.send(window_update(0, 5_000))
                wire.until(lambda transcript, before=before: sum(map(len, transcript.bodies.values())) >= min(
                    before + 5_000, 4 * size))
                ended += [each for each in (5, 7) if each in wire.transcript.ended and each not in ended]
        return ended

    def test_the_more_urgent_response_ends_first(self):
        self.assertEqual(self.order([("priority", "u=6")], [("priority", "u=1")]), [7, 5])
        self.assertEqual(self.order([("priority", "u=1")], [("priority", "u=6")]), [5, 7])
        self.assertEqual(self.order([], [("priority", "i, u=1")]), [7, 5])

    def test_a_priority_that_cannot_be_read_is_none(self):
        self.assertEqual(self.order([], [("priority", "u=9")]), [5, 7])


if __name__ == "__main__":
    case.main()
