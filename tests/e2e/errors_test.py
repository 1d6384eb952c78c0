"""Every response that evenkeel makes itself: its status, its reason, its format, and the same word in
the log and the metrics."""

import json

import case
from http2 import Peer
from ports import refusing_address
from stream import Stream, exchange


class Errors(case.Case):
    def check_told(self, daemon, answer, status, reason, pool="pool"):
        """The response, the log and the metrics have the same reason."""
        self.assertEqual((answer.status, answer.reason), (status, reason))
        line = daemon.wait_access(1)[-1]
        self.assertEqual((line["status"], line["reason"]), (status, reason))
        self.assertEqual(daemon.metric("evenkeel_errors_total", reason=reason), 1)
        self.assertEqual(daemon.metric("evenkeel_errors_total", reason=reason, pool=pool), 1)
        self.assertEqual(daemon.metric("evenkeel_requests_total", code=str(status)), 1)

    # ---- errors of clients ----

    def refused(self, raw, status, reason, **listener):
        daemon = self.start_daemon(self.backend(), listeners=[{"name": "public", **listener}])
        with Stream.connect(daemon.address) as stream:
            stream.send(raw)
            answer = stream.read_response()
            self.assertEqual(answer.field("connection"), "close")
            stream.wait_closed()
        self.check_told(daemon, answer, status, reason, pool="")
        line = daemon.wait_access(1)[-1]
        self.assertEqual(line["request_id"], answer.field("x-request-id"))
        self.assertTrue(line["request_id"])
        self.assertEqual(line["bytes_out"], len(answer.body))
        return answer

    def test_a_request_without_host_is_a_bad_request(self):
        self.refused(b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request")

    def test_a_request_with_two_lengths_is_a_bad_request(self):
        self.refused(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                     400, "bad_request")

    def test_a_smuggler_is_a_bad_request(self):
        self.refused(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n",
                     400, "bad_request")

    def test_what_is_no_http_is_a_bad_request(self):
        self.refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad_request")

    def test_a_head_that_is_too_long(self):
        answer = self.refused(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 40000 + b"\r\n\r\n",
                              431, "header_too_large")
        self.assertEqual(answer.body, b"the request head exceeds 32 KiB (limits.header)\n")

    def test_a_head_with_too_many_fields(self):
        answer = self.refused(b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n" + b"X: y\r\n" * 20 + b"\r\n",
                              431, "header_too_large", limits={"header_fields": 10})
        self.assertIn(b"more than 10 header fields (limits.header_fields)", answer.body)
        self.assertEqual(answer.field("x-request-id"), "mine")

    def test_a_target_that_is_too_long(self):
        self.refused(b"GET /" + b"x" * 200 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
                     414, "uri_too_long", limits={"uri": "100B"})

    def test_a_length_that_is_too_large_is_refused_before_the_body_is_sent(self):
        answer = self.refused(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n",
                              413, "body_too_large", limits={"body": "1KiB"})
        self.assertEqual(answer.body, b"the request body exceeds 1 KiB (limits.body)\n")

    def test_http2_requests_that_are_refused_early_carry_an_id_and_name_the_limit(self):
        daemon = self.start_daemon(self.backend(), listeners=[
            {"name": "public", "limits": {"body": "1KiB", "header": "2KiB", "uri": "100B"}}])
        cases = [
            ({"fields": [("x-large", "x" * 2500), ("x-request-id", "lost")]}, 431, "header_too_large", b"2 KiB (limits.header)"),
            ({"path": "/" + "x" * 200}, 414, "uri_too_long", b"100 bytes (limits.uri)"),
            ({"method": "POST", "fields": [("content-length", "2000"), ("x-request-id", "mine")], "end": False},
             413, "body_too_large", b"1 KiB (limits.body)"),
        ]
        with Peer.connect(daemon.address) as peer:
            for number, (request, status, reason, limit) in enumerate(cases, 1):
                stream = peer.request(**request)
                answer = stream.read_response()
                self.assertEqual((answer.status, answer.reason), (status, reason))
                self.assertIn(limit, answer.body)
                line = daemon.wait_access(number)[-1]
                self.assertEqual((line["status"], line["reason"]), (status, reason))
                self.assertEqual(line["request_id"], answer.field("x-request-id"))
                self.assertTrue(line["request_id"])
                self.assertEqual(line["bytes_out"], len(answer.body))
        self.assertEqual(daemon.wait_access(3)[-1]["request_id"], "mine")

    def test_a_method_that_no_proxy_may_serve(self):
        self.refused(b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed")

    def test_an_unknown_transfer_coding(self):
        self.refused(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: br\r\n\r\n",
                     501, "not_implemented")

    def test_an_unknown_expectation(self):
        self.refused(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nContent-Length: 1\r\n\r\n",
                     417, "expectation_failed")

    def test_an_unknown_version(self):
        self.refused(b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "version_not_supported")

    def test_a_head_that_does_not_end(self):
        self.refused(b"GET / HTTP/1.1\r\nHost:", 408, "header_timeout", timeouts={"header": "100ms"})

    def test_a_chunked_body_that_turns_out_too_large(self):
        daemon = self.start_daemon(self.backend(reads_body=False, script=lambda ask: ask.read_body()),
                                  listeners=[{"name": "public", "limits": {"body": "1KiB"}}])
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"800\r\n" + b"x" * 0x800 + b"\r\n0\r\n\r\n")
            answer = stream.read_response()
        self.check_told(daemon, answer, 413, "body_too_large")

    def test_a_body_that_stalls(self):
        daemon = self.start_daemon(self.backend(), listeners=[
            {"name": "public", "timeouts": {"body": "100ms"}}])
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
            answer = stream.read_response()
        self.check_told(daemon, answer, 408, "body_timeout")

    def test_a_path_that_climbs_out_is_a_bad_request(self):
        daemon = self.start_daemon(self.backend())
        answer = exchange(daemon.address, target="/v1/../../etc/passwd")
        self.check_told(daemon, answer, 400, "bad_request", pool="")

    def test_a_request_that_no_route_matches(self):
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/v1/**"}, "pool": "pool"}])
        answer = exchange(daemon.address, target="/elsewhere")
        self.check_told(daemon, answer, 404, "no_route", pool="")

    # ---- errors of backends ----

    def test_a_backend_that_refuses_connections(self):
        daemon = self.start_daemon(refusing_address())
        answer = exchange(daemon.address)
        self.assertEqual(answer.body, b"cannot connect to the backend: Connection refused\n")
        self.check_told(daemon, answer, 502, "connect_failed")

    def test_a_backend_that_answers_no_connection(self):
        daemon = self.start_daemon(self.unresponsive_server(), pool={"timeouts": {"connect": "200ms"}})
        answer = exchange(daemon.address)
        self.check_told(daemon, answer, 504, "connect_timeout")

    def test_a_backend_that_does_not_answer_in_time(self):
        daemon = self.start_daemon(self.backend(lambda ask: ask.stream.wait_closed()),
                                  pool={"timeouts": {"first_byte": "100ms"}})
        answer = exchange(daemon.address, "POST", body=b"{}")
        self.check_told(daemon, answer, 504, "first_byte_timeout")

    def test_a_backend_that_closes_without_an_answer(self):
        daemon = self.start_daemon(self.backend(lambda ask: ask.stream.close()))
        answer = exchange(daemon.address, "POST", body=b"{}")
        self.check_told(daemon, answer, 502, "backend_closed")

    def test_a_backend_that_speaks_something_else(self):
        def script(ask):
            ask.send(b"220 smtp.example.com ESMTP\r\n\r\n")
            ask.stream.wait_closed()

        daemon = self.start_daemon(self.backend(script))
        answer = exchange(daemon.address, "POST", body=b"{}")
        self.check_told(daemon, answer, 502, "backend_protocol")

    def test_a_backend_that_sends_two_lengths_is_refused(self):
        def script(ask):
            ask.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
            ask.stream.wait_closed()

        daemon = self.start_daemon(self.backend(script))
        answer = exchange(daemon.address)
        self.check_told(daemon, answer, 502, "backend_protocol")

    def test_a_body_that_is_broken_from_its_first_byte(self):
        def script(ask):
            ask.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n")
            ask.stream.wait_closed()

        for over_http2 in (False, True):
            daemon = self.start_daemon(self.backend(script))
            if over_http2:
                with Peer.connect(daemon.address) as peer:
                    answer = peer.exchange()
            else:
                answer = exchange(daemon.address)
            self.check_told(daemon, answer, 502, "backend_protocol")
            self.assertEqual(daemon.wait_access(1)[-1]["bytes_out"], len(answer.body))

    def test_a_head_without_end_is_not_kept(self):
        def script(ask):
            ask.send(b"HTTP/1.1 200 OK\r\n" + b"X-Field: value\r\n" * 20_000 + b"\r\n")
            ask.stream.wait_closed()

        daemon = self.start_daemon(self.backend(script))
        answer = exchange(daemon.address)
        self.check_told(daemon, answer, 502, "backend_protocol")

    def test_an_unrequested_upgrade(self):
        def script(ask):
            ask.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
            ask.stream.wait_closed()

        daemon = self.start_daemon(self.backend(script))
        answer = exchange(daemon.address)
        self.check_told(daemon, answer, 502, "backend_protocol")

    def test_when_all_backends_failed_the_last_failure_is_reported(self):
        daemon = self.start_daemon(*(refusing_address() for _ in range(3)))
        answer = exchange(daemon.address)
        self.assertEqual((answer.status, answer.reason), (502, "connect_failed"))
        for backend in daemon.api("backends"):
            self.assertEqual((backend["picks_total"], backend["errors_total"]), (1, 1))

    # ---- the response ----

    def test_each_api_gets_errors_in_its_own_format(self):
        dead = refusing_address()
        daemon = self.start_daemon(dead)

        openai = exchange(daemon.address, "POST", "/v1/chat/completions", body=b"{}")
        self.assertEqual(openai.field("content-type"), "application/json")
        error = json.loads(openai.body)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual((error["type"], error["code"]), ("upstream_error", "connect_failed"))
        self.assertTrue(error["message"])

        messages = exchange(daemon.address, "POST", "/v1/messages?beta=true", body=b"{}")
        self.assertEqual(messages.field("content-type"), "application/json")
        error = json.loads(messages.body)
        self.assertEqual((error["type"], error["error"]["type"]), ("error", "api_error"))
        self.assertTrue(error["error"]["message"])

        kserve = exchange(daemon.address, "POST", "/v2/models/m/infer", body=b"{}")
        self.assertEqual(kserve.field("content-type"), "application/json")
        self.assertEqual(set(json.loads(kserve.body)), {"error"})

        other = exchange(daemon.address, target="/generate")
        self.assertTrue(other.field("content-type").startswith("text/plain"))
        self.assertTrue(other.body.endswith(b"\n"))

        self.assertEqual([each.status for each in (openai, messages, kserve, other)], [502] * 4)

    def test_an_error_leaves_the_clients_connection_usable(self):
        backend = self.backend()
        daemon = self.start_daemon(backend, routes=[{"match": {"path": "/good"}, "pool": "pool"}])
        with Stream.connect(daemon.address) as stream:
            self.assertEqual(stream.exchange("POST", "/bad", body=b"x" * 1000).status, 404)
            self.assertEqual(stream.exchange("POST", "/good", body=b"y" * 1000).status, 200)
            self.assertEqual(stream.exchange("HEAD", "/bad").status, 404)
            self.assertEqual(stream.exchange("GET", "/good").status, 200)
        self.assertEqual(backend.exchanges[0].body, b"y" * 1000)

    def test_an_error_response_carries_the_request_id(self):
        daemon = self.start_daemon(refusing_address())
        answer = exchange(daemon.address, fields=[("X-Request-Id", "find-me")])
        self.assertEqual(answer.field("x-request-id"), "find-me")
        self.assertEqual(daemon.wait_access(1)[0]["request_id"], "find-me")

    def test_what_comes_after_a_refused_request_is_not_read_as_another(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"GET / HTTP/1.1\r\nBad Name: 1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(stream.read_response().status, 400)
            stream.wait_closed()
        self.assertEqual(backend.exchanges, [])


if __name__ == "__main__":
    case.main()
