"""Requests reach the backend and responses the client, byte for byte. Framing and hop-by-hop fields belong
to each connection; the fields that evenkeel adds are listed here, in full."""

import os
import random

import case
from stream import Stream, exchange

# Values that proxies lose when they parse a body and write it again.
AWKWARD_JSON = (b'{"model": "m",  "seed": 12345678901234567890123, "temperature":0.30000000000000004,\n'
                b'\t"x_unknown": {"b": 1, "a": [1.0, 1e2, -0.0, null]}, "x_unknown": "twice",\r\n'
                b'"text": "\\u00e9 \xc3\xa9 \\/ \xf0\x9f\x90\x9f", "logit_bias": {"50256": -100}}  \n')

OURS = {"host", "content-length", "transfer-encoding", "x-request-id", "x-forwarded-for",
        "x-forwarded-proto", "x-forwarded-host", "via"}


def without_ours(fields):
    return [(name, value) for name, value in fields if name.lower() not in OURS]


class Requests(case.Case):
    def test_a_body_with_unknown_keys_and_unwritable_numbers_is_not_rewritten(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        exchange(daemon.address, "POST", "/v1/chat/completions",
                 [("Content-Type", "application/json")], AWKWARD_JSON)

        self.assertEqual(backend.exchanges[0].body, AWKWARD_JSON)
        self.assertEqual(backend.exchanges[0].head.length(), len(AWKWARD_JSON))

    def test_fields_keep_their_names_case_order_and_values(self):
        fields = [("Authorization", "Bearer sk-proj-aZ09_-"), ("X-Custom-One", "a,b;c=\"d\""),
                  ("x-lower", "v"), ("X-UPPER", "V"), ("OpenAI-Organization", "org-1"),
                  ("Cookie", "a=1; b=2"), ("Accept", "*/*"), ("X-Custom-One", "again"),
                  ("X-Empty", ""), ("Accept-Encoding", "gzip, br;q=0.5"), ("User-Agent", "t/1 (x)"),
                  ("X-Latin", "caf\xe9"), ("traceparent", "00-" + "0" * 31 + "1-" + "0" * 15 + "1-01")]
        backend = self.backend()
        daemon = self.start_daemon(backend)

        exchange(daemon.address, fields=fields)

        self.assertEqual(without_ours(backend.exchanges[0].head.fields), fields)

    def test_evenkeel_adds_the_origin_of_the_request(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        answer = exchange(daemon.address, host="api.example.com:8443")

        head = backend.exchanges[0].head
        self.assertEqual(head.field("host"), "api.example.com:8443")
        self.assertEqual(head.field("x-forwarded-for"), "127.0.0.1")
        self.assertEqual(head.field("x-forwarded-proto"), "http")
        self.assertEqual(head.field("x-forwarded-host"), "api.example.com:8443")
        self.assertEqual(head.field("via"), "1.1 evenkeel")
        self.assertRegex(head.field("x-request-id"),
                         r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertEqual(answer.field("x-request-id"), head.field("x-request-id"))
        self.assertEqual({name.lower() for name, _ in head.fields}, OURS - {
            "content-length", "transfer-encoding"})

    def test_a_sane_request_id_is_taken_over_and_an_insane_one_replaced(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        kept = exchange(daemon.address, fields=[("X-Request-Id", "client-1.a_B")])
        replaced = exchange(daemon.address, fields=[("X-Request-Id", "a b\"{}")])

        self.assertEqual(backend.exchanges[0].head.all("x-request-id"), ["client-1.a_B"])
        self.assertEqual(kept.field("x-request-id"), "client-1.a_B")
        self.assertNotIn(" ", backend.exchanges[1].head.field("x-request-id"))
        self.assertEqual(replaced.all("x-request-id"), backend.exchanges[1].head.all("x-request-id"))

    def test_an_untrusted_client_cannot_forge_the_origin_of_a_request(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        exchange(daemon.address, fields=[("X-Forwarded-For", "10.9.9.9"), ("Forwarded", "for=1.2.3.4"),
                                         ("X-Forwarded-Proto", "https"),
                                         ("X-Evenkeel-Tenant", "root")])

        head = backend.exchanges[0].head
        self.assertEqual(head.all("x-forwarded-for"), ["127.0.0.1"])
        self.assertEqual(head.all("x-forwarded-proto"), ["http"])
        self.assertEqual(head.all("forwarded"), [])
        self.assertEqual(head.all("x-evenkeel-tenant"), [])

    def test_a_trusted_proxy_can_name_the_origin(self):
        backend = self.backend()
        daemon = self.start_daemon(backend, listeners=[
            {"name": "public", "trusted_proxies": ["127.0.0.0/8"]}])

        exchange(daemon.address, fields=[("X-Forwarded-For", "10.9.9.9"),
                                         ("X-Forwarded-Proto", "https"),
                                         ("X-Forwarded-Host", "outside.example")])

        head = backend.exchanges[0].head
        self.assertEqual(head.all("x-forwarded-for"), ["10.9.9.9, 127.0.0.1"])
        self.assertEqual(head.all("x-forwarded-proto"), ["https"])
        self.assertEqual(head.all("x-forwarded-host"), ["outside.example"])

    def test_hop_by_hop_fields_end_at_the_hop(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        exchange(daemon.address, fields=[("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"),
                                         ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "close"),
                                         ("X-Stays", "1")])

        self.assertEqual(without_ours(backend.exchanges[0].head.fields), [("X-Stays", "1")])

    def test_the_target_is_passed_as_it_came(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        targets = ["/a%20b/%2f%C3%A9?q=1&q=%00;x=[y]", "/a//b/./c/../d", "/?", "/v1/x?y=a?b", "/~x!$'()*"]

        for target in targets:
            exchange(daemon.address, target=target)

        self.assertEqual([each.target for each in backend.exchanges], targets)

    def test_methods_known_and_unknown_pass(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "M-SEARCH"]

        for method in methods:
            self.assertEqual(exchange(daemon.address, method).status, 200)

        self.assertEqual([each.method for each in backend.exchanges], methods)

    def test_the_framing_that_a_client_chose_is_kept(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /a HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"3;name=value\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
            stream.read_response()
            stream.exchange("POST", "/b", body=b"abcdefg")
            stream.exchange("POST", "/c", body=b"")

        chunked, sized, empty = (each.head for each in backend.exchanges)
        self.assertEqual((chunked.chunked(), chunked.length(), chunked.body), (True, None, b"abcdefg"))
        self.assertEqual((sized.chunked(), sized.length(), sized.body), (False, 7, b"abcdefg"))
        self.assertEqual((empty.chunked(), empty.length()), (False, 0))

    def test_a_target_with_its_host_is_passed_as_a_path(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        answer = exchange(daemon.address, target="http://api.example/v1/models?a=b", host="api.example")
        self.assertEqual(answer.status, 200)
        self.assertEqual(backend.exchanges[0].target, "/v1/models?a=b")
        self.assertEqual(backend.exchanges[0].head.field("host"), "api.example")

    def test_a_request_that_arrives_byte_by_byte_is_one_request(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        with Stream.connect(daemon.address) as stream:
            for byte in (b"POST /slow HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
                         b"a\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n"):
                stream.send(bytes([byte]))
            self.assertEqual(stream.read_response().status, 200)
        self.assertEqual(backend.exchanges[0].body, b"0123456789")
        self.assertEqual(backend.exchanges[0].head.trailers, [("X-Sum", "1")])

    def test_trailers_of_a_request_stay_trailers(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n"
                        b"Trailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 900150\r\n\r\n")
            stream.read_response()

        head = backend.exchanges[0].head
        self.assertEqual(head.trailers, [("X-Sum", "900150")])
        self.assertIsNone(head.field("x-sum"))

    def test_expect_100_continue_is_answered_so_that_the_client_goes_on(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)

        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n"
                        b"Content-Length: 5\r\n\r\n")
            self.assertEqual(stream.read_head().status, 100)
            stream.send(b"hello")
            self.assertEqual(stream.read_response().status, 200)

        self.assertEqual(backend.exchanges[0].body, b"hello")


class Responses(case.Case):
    def test_fields_keep_their_names_case_order_and_values(self):
        fields = [("Server", "uvicorn"), ("X-Ratelimit-Limit", "100"), ("x-lower", "a"),
                  ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("OpenAI-Processing-Ms", "12"),
                  ("ETag", '"x"'), ("X-Empty", ""), ("Date", "Thu, 01 Jan 1970 00:00:00 GMT")]
        daemon = self.start_daemon(self.backend(lambda ask: ask.answer(b"hello", fields=fields)))

        answer = exchange(daemon.address)

        self.assertEqual(without_ours(answer.fields), fields)
        self.assertEqual({name.lower() for name, _ in answer.fields} & OURS,
                         {"content-length", "x-request-id"})

    def test_status_and_phrase_are_the_backends(self):
        daemon = self.start_daemon(self.backend(
            lambda ask: ask.answer(b"?", status=int(ask.target[1:]), phrase="As It Says")))

        for status in (200, 201, 202, 400, 401, 403, 404, 422, 429, 500, 503, 599):
            answer = exchange(daemon.address, target=f"/{status}")
            self.assertEqual(answer.first_line, f"HTTP/1.1 {status} As It Says")
            self.assertIsNone(answer.reason, "it is the backend's word, not ours")

    def test_bodies_of_any_bytes_and_size_arrive_unchanged(self):
        bodies = [b"", b"\x00", b"\r\n0\r\n\r\n", os.urandom(4095), os.urandom(16384),
                  os.urandom(65536), os.urandom(1_000_003)]

        def script(ask):
            body = bodies[int(ask.target.split("/")[2])]
            if ask.target.startswith("/sized"):
                return ask.answer(body)
            chance = random.Random(7)
            ask.begin_chunks()
            while body:
                size = chance.choice([1, 2, 15, 16, 17, 4096, 70000])
                ask.chunk(body[:size])
                body = body[size:]
            ask.end_chunks()

        daemon = self.start_daemon(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            for number, body in enumerate(bodies):
                self.assertEqual(stream.exchange(target=f"/sized/{number}").body, body)
                self.assertEqual(stream.exchange(target=f"/chunks/{number}").body, body)

    def test_trailers_of_a_response_stay_trailers(self):
        def script(ask):
            ask.begin_chunks([("Trailer", "X-Sum")])
            ask.chunk(b"abc")
            ask.end_chunks([("X-Sum", "900150"), ("x-timing", "1;2")])

        daemon = self.start_daemon(self.backend(script))
        answer = exchange(daemon.address, fields=[("TE", "trailers"), ("Connection", "TE")])

        self.assertEqual(answer.trailers, [("X-Sum", "900150"), ("x-timing", "1;2")])
        self.assertIsNone(answer.field("x-sum"))

    def test_head_reports_the_content_length(self):
        daemon = self.start_daemon(self.backend(lambda ask: ask.answer(b"x" * 1234)))

        with Stream.connect(daemon.address) as stream:
            self.assertEqual(stream.exchange("HEAD").length(), 1234)
            self.assertEqual(stream.exchange("GET").body, b"x" * 1234)

    def test_answers_without_body_have_none(self):
        def script(ask):
            ask.send(b"HTTP/1.1 %s X\r\nETag: \"1\"\r\n\r\n" % ask.target[1:].encode())

        daemon = self.start_daemon(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            for status in (204, 304):
                answer = stream.exchange(target=f"/{status}")
                self.assertEqual((answer.status, answer.field("etag")), (status, '"1"'))
                self.assertIsNone(answer.field("transfer-encoding"))

    def test_a_body_that_ends_with_its_connection_arrives_whole(self):
        def script(ask):
            ask.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"until the end" * 1000)
            ask.stream.close()

        daemon = self.start_daemon(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            answer = stream.exchange()
            self.assertTrue(answer.chunked(), "the client's connection need not end for it")
            self.assertEqual(answer.body, b"until the end" * 1000)
            self.assertEqual(stream.exchange().body, b"until the end" * 1000)

    def test_a_client_of_http_1_0_gets_what_it_understands(self):
        def script(ask):
            ask.begin_chunks()
            ask.chunk(b"abc")
            ask.chunk(b"def")
            ask.end_chunks()

        backend = self.backend(script)
        daemon = self.start_daemon(backend)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"GET / HTTP/1.0\r\n\r\n")
            answer = stream.read_response()
            self.assertIsNone(answer.field("transfer-encoding"))
            self.assertEqual(answer.body, b"abcdef")
        self.assertEqual(backend.exchanges[0].head.first_line, "GET / HTTP/1.1")

    def test_evenkeels_own_fields_in_an_answer_of_a_backend_are_dropped(self):
        fields = [("X-Evenkeel-Reason", "backend_protocol"), ("x-other", "kept")]
        daemon = self.start_daemon(self.backend(lambda ask: ask.answer(b"ok", fields=fields)))
        answer = exchange(daemon.address)
        self.assertEqual((answer.status, answer.reason, answer.field("x-other")), (200, None, "kept"))

    def test_a_request_without_host_gets_the_backends_address_as_its_authority(self):
        for backend, pool in ((self.backend(), {}), (self.h2_backend(), {"protocol": "h2"})):
            with self.subTest(**pool):
                daemon = self.start_daemon(backend, pool=pool)
                with Stream.connect(daemon.address) as stream:
                    stream.send(b"GET / HTTP/1.0\r\n\r\n")
                    self.assertEqual(stream.read_response().status, 200)
                head = backend.exchanges[0].head
                sent = head.pseudo[":authority"] if pool else dict(head.fields)["host"]
                self.assertEqual(sent, backend.address)
                self.assertIsNone(daemon.wait_access(1)[0]["host"])

    def test_early_hints_come_early(self):
        def script(ask):
            ask.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
            ask.answer(b"late")

        daemon = self.start_daemon(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            stream.ask()
            hint = stream.read_head()
            self.assertEqual((hint.status, hint.field("link")), (103, "</a.css>; rel=preload"))
            self.assertEqual(stream.read_response().body, b"late")

    def test_backend_and_pool_headers_are_sent_only_on_request(self):
        backend = self.backend()
        open_minded = self.start_daemon(backend, pool={"debug_headers": True})
        discreet = self.start_daemon(backend)

        told = exchange(open_minded.address)
        self.assertEqual(told.field("x-evenkeel-backend"), backend.address)
        self.assertEqual(told.field("x-evenkeel-pool"), "pool")
        self.assertIsNone(exchange(discreet.address).field("x-evenkeel-backend"))


class Connections(case.Case):
    def test_hundreds_of_pipelined_requests_are_answered_in_their_order(self):
        backend = self.backend(lambda ask: ask.answer(ask.target.encode() + ask.body))
        daemon = self.start_daemon(backend)
        count = 600

        with Stream.connect(daemon.address) as stream:
            requests = b"".join(
                b"POST /%d HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc" % number
                for number in range(count))
            sending = self.spawn(lambda: stream.send(requests))
            answers = [stream.read_response().body for _ in range(count)]
            sending.join()

        self.assertEqual(answers, [b"/%dabc" % number for number in range(count)])
        self.assertEqual(backend.accepted, 1)

    def test_one_connection_to_a_backend_serves_many_clients_in_turn(self):
        backend = self.backend()
        daemon = self.start_daemon(backend, workers=1)

        for _ in range(20):
            self.assertEqual(exchange(daemon.address).status, 200)

        self.assertEqual(backend.accepted, 1)

    def test_a_backend_that_closes_after_each_answer_is_never_a_failure(self):
        def script(ask):
            ask.answer(b"bye")
            ask.stream.close()

        daemon = self.start_daemon(self.backend(script), workers=1)
        with Stream.connect(daemon.address) as stream:
            for _ in range(50):
                answer = stream.exchange("POST", body=b"{}")
                self.assertEqual((answer.status, answer.body), (200, b"bye"))

    def test_a_link_that_closed_while_idle_is_replaced(self):
        """The server's idle timeout ends the connection just as the next request is sent."""
        def script(ask):
            if ask.target == "/dies" and ask.connection == 1:
                return ask.stream.close()
            ask.answer(b"answer %d" % ask.connection)

        backend = self.backend(script)
        daemon = self.start_daemon(backend, workers=1)
        self.assertEqual(exchange(daemon.address, target="/lives").body, b"answer 1")
        answer = exchange(daemon.address, "POST", "/dies", body=b"once")

        self.assertEqual(answer.body, b"answer 2")
        self.assertEqual(backend.exchanges[-1].body, b"once")
        outcomes = [attempt["outcome"] for attempt in daemon.wait_access(2)[1]["attempts"]]
        self.assertEqual(outcomes, ["backend_closed", "answered"])
        self.assertEqual(daemon.metric("evenkeel_retries_total", reason="backend_closed"), 1)

    def test_a_small_body_in_chunks_is_replayed_on_the_replacement_too(self):
        def script(ask):
            if ask.target == "/dies" and ask.connection == 1:
                return ask.stream.close()
            ask.answer(b"answer %d" % ask.connection)

        backend = self.backend(script)
        daemon = self.start_daemon(backend, workers=1)
        exchange(daemon.address, target="/lives")
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /dies HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"4\r\nonce\r\n0\r\n\r\n")
            self.assertEqual(stream.read_response().body, b"answer 2")
        self.assertEqual(backend.exchanges[-1].body, b"once")

    def test_a_link_whose_request_was_not_read_to_its_end_is_not_used_again(self):
        """The rest of the old request would be taken for the next one."""
        def script(ask):
            if ask.head.length():
                ask.stream.read_exactly(10)
                ask.answer(b"enough")
                return ask.stream.wait_closed()
            ask.answer(b"whole %d" % ask.connection)

        backend = self.backend(script, reads_body=False)
        daemon = self.start_daemon(backend, workers=1)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n0123456789")
            self.assertEqual(stream.read_response().body, b"enough")
            stream.send(b"GET /smug")  # still belongs to the body
            stream.send(b"g")
            self.assertEqual(stream.exchange(target="/next").body, b"whole 2")

    def test_an_early_answer_ends_an_upload_without_harm(self):
        """A server that refuses a body before it has read it all."""
        def script(ask):
            if ask.head.length() is None:
                return ask.answer(b"small")
            ask.stream.read_exactly(1000)
            ask.answer(b"no", status=413, fields=[("Connection", "close")])
            ask.stream.close()

        daemon = self.start_daemon(self.backend(script, reads_body=False))
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 2000)
            answer = stream.read_response()
            self.assertEqual((answer.status, answer.body), (413, b"no"))
            self.assertIsNone(answer.reason)
            stream.wait_closed()
        self.assertEqual(exchange(daemon.address).body, b"small")


if __name__ == "__main__":
    case.main()
