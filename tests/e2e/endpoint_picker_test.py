"""The endpoint picker: ext_proc as data planes speak it, with a client that checks what Envoy relies on."""

import hashlib
import json
import signal
import ssl
import unittest

import case
from data_plane import (BUFFERED, DUPLEX, NONE, STREAMED, Exchange, Refused, Stream, grpc, headers_of, message, refused,
                        why_not)
from grpc_servers import ANY_SIZE
from stream import exchange

A, B, C = "127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"
CHAT = "/v1/chat/completions"


def chat(text="hello", **more):
    return json.dumps({"model": "llama", "messages": [{"role": "user", "content": text}], **more}).encode()


def usage(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


ANSWER = json.dumps({"id": "1", "object": "chat.completion", "model": "llama", "usage": usage(9, 5), "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]}).encode()


@unittest.skipIf(why_not, why_not)
class PickerCase(case.Case):
    def picker(self, *backends, pool=None, listener=None, picker=None, **config):
        """A daemon with a picker in front of backends that it must not connect to."""
        pool = {"name": "llama", "backends": list(backends or (A, B, C)), "health": {"check": "off"}, **(pool or {})}
        picker = {"pool": "llama", **(picker or {})} if "routes" not in config else picker or {}
        return self.daemon({"pools": [pool], "listeners": [
            {"name": "picker", "endpoint_picker": picker, **(listener or {})}], **config})

    def channel(self, daemon):
        channel = grpc.insecure_channel(daemon.address, options=ANY_SIZE)
        self.addCleanup(channel.close)
        return channel


class Picks(PickerCase):
    def test_the_header_and_the_metadata_name_a_backend_and_the_body_comes_back(self):
        channel = self.channel(self.picker())
        sent = Exchange(channel, body=chat())

        self.assertIn(sent.pick(), (A, B, C))
        self.assertEqual(sent.body, chat())
        self.assertEqual(sent.respond(ANSWER), ANSWER)

    def test_requests_are_spread_over_the_backends(self):
        channel = self.channel(self.picker(pool={"picker": "round-robin"}))
        picked = [Exchange(channel, body=chat()).pick() for _ in range(6)]
        self.assertEqual(sorted(picked), sorted([A, B, C] * 2))

    def test_a_backend_that_has_a_name_is_told_by_its_address(self):
        channel = self.channel(self.picker("localhost:7009"))
        sent = Exchange(channel, body=chat(), subset=["127.0.0.1:7009"])
        self.assertEqual(sent.pick(), "127.0.0.1:7009")
        sent.respond(ANSWER)

    def test_a_request_without_a_body_is_picked_for_at_once(self):
        channel = self.channel(self.picker())
        sent = Exchange(channel, "GET", "/v1/models")
        self.assertIn(sent.pick(), (A, B, C))
        sent.begin_response(ended=True)
        self.assertEqual(sent.stream.wait_end(), grpc.StatusCode.OK)

    def test_a_prompt_of_20_megabytes_comes_back_in_small_pieces(self):
        channel = self.channel(self.picker(A, listener={"limits": {"body": "64MiB"}}, pool={"picker": "expected-time"}))
        body = chat("x" * 20_000_000)
        sent = Exchange(channel, body=body)
        self.assertEqual(sent.pick(), A)
        self.assertEqual(sent.body, body)
        sent.respond(ANSWER)

    def test_a_client_that_sends_no_modes_is_taken_for_full_duplex(self):
        channel = self.channel(self.picker(A))
        sent = Exchange(channel, body=chat(), modes=None)
        self.assertEqual(sent.pick(), A)
        self.assertEqual(sent.body, chat())
        sent.stream.cancel()

    def test_a_buffered_body_is_picked_for_when_it_has_come(self):
        channel = self.channel(self.picker(pool={"models": ["llama"], "model": "meta/llama"}))
        sent = Exchange(channel, body=chat(), modes=(BUFFERED, NONE))
        self.assertIn(sent.pick(), (A, B, C))
        self.assertEqual(json.loads(sent.body)["model"], "meta/llama")
        self.assertEqual(sent.changes["content-length"], str(len(sent.body)))
        sent.stream.cancel()

    def test_where_the_body_is_not_sent_the_head_decides(self):
        channel = self.channel(self.picker(A))
        for mode in (NONE, STREAMED):
            with self.subTest(mode):
                sent = Exchange(channel, body=chat(), modes=(mode, NONE))
                self.assertEqual(sent.pick(), A)
                sent.stream.cancel()

    def test_what_filters_make_of_head_and_body_reaches_the_backend(self):
        channel = self.channel(self.picker(A, pool={"models": ["llama"], "model": "meta/llama"}, routes=[
            {"match": {"path": "/v1/**"}, "pool": "llama", "rewrite": {"prefix": "/openai/v1"},
             "request_headers": {"set": {"x-team": "blue"}, "remove": ["x-secret"]}}]))
        sent = Exchange(channel, body=chat(), fields=[("x-secret", "1"), ("x-kept", "2")])

        self.assertEqual(sent.pick(), A)

        self.assertEqual(json.loads(sent.body)["model"], "meta/llama")
        self.assertEqual(sent.changes[":path"], "/openai/v1/chat/completions")
        self.assertEqual(sent.changes["x-team"], "blue")
        self.assertEqual(sent.changes["content-length"], str(len(sent.body)))
        self.assertEqual(sent.removed, ["x-secret"])
        self.assertNotIn("x-kept", sent.changes)
        self.assertNotIn("via", sent.changes)
        answer = sent.respond(ANSWER.replace(b"llama", b"meta/llama"))
        self.assertEqual(json.loads(answer)["model"], "llama", "the client's name of the model")


class Subsets(PickerCase):
    def test_a_subset_holds_as_a_list_and_as_text(self):
        channel = self.channel(self.picker())
        for subset in ([B], f"{B}, 10.9.9.9:80", [B, "10.9.9.9:80"]):
            for _ in range(4):
                self.assertEqual(Exchange(channel, body=chat(), subset=subset).pick(), B)

    def test_a_scheduler_keeps_to_it_too(self):
        channel = self.channel(self.picker(pool={"picker": "expected-time"}))
        for _ in range(4):
            self.assertEqual(Exchange(channel, body=chat(), subset=[C]).pick(), C)

    def test_more_than_a_few_backends_may_be_outside(self):
        backends = [f"127.0.0.1:{7100 + number}" for number in range(30)]
        channel = self.channel(self.picker(*backends))
        picked = {Exchange(channel, body=chat(), subset=backends[20:22]).pick() for _ in range(20)}
        self.assertEqual(picked, set(backends[20:22]))

    def test_none_in_the_pool_is_503(self):
        channel = self.channel(self.picker())
        for subset in (["10.9.9.9:80"], [], ""):
            with self.subTest(subset), refused() as refusals:
                Exchange(channel, body=chat(), subset=subset).pick()
            self.assertEqual(refusals[0].status, 503)
            self.assertEqual(refusals[0].headers["x-llm-d-request-dropped-reason"], "no_backend")
            self.assertEqual(refusals[0].headers["x-evenkeel-reason"], "no_backend")

    def test_a_client_cannot_name_the_subset(self):
        channel = self.channel(self.picker(A))
        sent = Exchange(channel, body=chat(), fields=[("x-gateway-destination-endpoint-subset", C)])
        self.assertEqual(sent.pick(), A)


class Answers(PickerCase):
    def test_a_request_counts_until_the_last_byte_of_its_answer(self):
        daemon = self.picker(A)
        sent = Exchange(self.channel(daemon), body=chat())
        sent.pick()
        sent.begin_response(fields=[("content-type", "application/json")])
        sent.send_response(ANSWER[:9])
        self.assertEqual(sent.read_response(), (ANSWER[:9], False))
        self.assertEqual(daemon.backend(A)["in_flight"], 1)

        sent.send_response(ANSWER[9:], True)

        self.assertEqual(sent.read_response(), (ANSWER[9:], True))
        self.assertEqual(sent.stream.wait_end(), grpc.StatusCode.OK)
        self.eventually(lambda: daemon.backend(A)["in_flight"] == 0)
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["status"], line["backend"], line["pool"]), (200, A, "llama"))

    def test_each_piece_of_a_stream_comes_back_at_once_and_usage_is_read(self):
        daemon = self.picker(A, pool={"picker": "expected-time"})
        sent = Exchange(self.channel(daemon), body=chat(stream=True))
        sent.pick()
        sent.begin_response(fields=[("content-type", "text/event-stream")])
        for text in ("one", "two"):
            event = ("data: " + json.dumps({"model": "llama", "choices": [{"delta": {"content": text}}]}) + "\n\n").encode()
            sent.send_response(event)
            self.assertEqual(sent.read_response(), (event, False))
        last = ("data: " + json.dumps({"model": "llama", "choices": [], "usage": usage(9, 2)})
                + "\n\ndata: [DONE]\n\n").encode()
        sent.send_response(last, True)
        got = b""
        ended = False
        while not ended:
            piece, ended = sent.read_response()
            got += piece
        self.assertIn(b"[DONE]", got)
        sent.stream.wait_end()
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["prompt_tokens"], line["completion_tokens"]), (9, 2))
        self.assertGreater(daemon.metric("evenkeel_tokens_total"), 0)

    def test_where_nothing_learns_from_answers_the_stream_ends_with_the_pick(self):
        daemon = self.picker(A, pool={"picker": "round-robin"})
        sent = Exchange(self.channel(daemon), body=chat())
        self.assertEqual(sent.pick(), A)
        self.assertEqual(sent.body, chat())
        self.assertEqual(sent.stream.wait_end(), grpc.StatusCode.OK)
        self.eventually(lambda: daemon.backend(A)["in_flight"] == 0)

    def test_the_file_decides_whether_answers_are_observed(self):
        skips = Exchange(self.channel(self.picker(A, picker={"responses": "skip"})), body=chat())
        skips.pick()
        self.assertEqual(skips.stream.wait_end(), grpc.StatusCode.OK)
        observes = Exchange(self.channel(self.picker(A, picker={"responses": "observe"}, pool={"picker": "weighted"})), body=chat())
        observes.pick()
        self.assertEqual(observes.respond(ANSWER), ANSWER)

    def test_a_streamed_answer_is_observed_but_not_changed(self):
        daemon = self.picker(A, pool={"picker": "expected-time"})
        sent = Exchange(self.channel(daemon), body=chat(), modes=(DUPLEX, STREAMED))
        sent.pick()
        sent.begin_response(fields=[("content-type", "application/json"), ("content-length", str(len(ANSWER)))])
        for piece, last in ((ANSWER[:20], False), (ANSWER[20:], True)):
            sent.send_response(piece, last)
            answer = sent.stream.receive("response_body").response_body.response
            self.assertFalse(answer.HasField("body_mutation"))
        sent.stream.wait_end()
        self.assertEqual(daemon.wait_access(1)[0]["prompt_tokens"], 9)

    def test_a_request_that_another_backend_has_served_counts_there(self):
        daemon = self.picker(A, B, pool={"picker": "least-connections"})
        sent = Exchange(self.channel(daemon), body=chat(), subset=[A])
        self.assertEqual(sent.pick(), A)
        sent.begin_response(fields=[("content-type", "application/json")], served=B)
        self.assertEqual((daemon.backend(A)["in_flight"], daemon.backend(B)["in_flight"]), (0, 1))
        self.assertEqual(daemon.metric("evenkeel_picker_moved_total", pool="llama"), 1)
        sent.send_response(ANSWER, True)
        sent.read_response()
        sent.stream.wait_end()
        self.assertEqual(daemon.wait_access(1)[0]["backend"], B)

    def test_a_data_plane_that_cancels_gives_the_slot_back_once(self):
        daemon = self.picker(A)
        sent = Exchange(self.channel(daemon), body=chat())
        sent.pick()
        self.assertEqual(daemon.backend(A)["in_flight"], 1)
        sent.stream.cancel()
        self.eventually(lambda: daemon.backend(A)["in_flight"] == 0)
        self.assertEqual(daemon.wait_access(1)[0]["status"], 499)

    def test_trailers_come_after_the_body(self):
        channel = self.channel(self.picker(A))
        sent = Exchange(channel, body=chat(), piece=10_000)
        sent.pick()
        sent.begin_response()
        sent.send_response(b"hello")
        sent.stream.send("response_trailers", lambda part: part.trailers.headers.add(key="x-sum", raw_value=b"1"))
        self.assertEqual(sent.read_response(), (b"hello", False))
        sent.stream.receive("response_trailers")
        self.assertEqual(sent.stream.wait_end(), grpc.StatusCode.OK)


class Refusals(PickerCase):
    def test_what_the_proxy_refuses_is_refused_with_its_reason(self):
        daemon = self.picker(A, listener={"limits": {"body": "1MiB"}}, pool={"models": ["llama"], "picker": "expected-time"},
                             routes=[{"match": {"path": "/v1/**", "model": "llama"}, "pool": "llama"}])
        channel = self.channel(daemon)
        cases = ((404, "no_route", {"path": "/other"}), (404, "model_not_found", {"body": chat(model="gpt")}),
                 (400, "bad_request", {"body": b'{"model": '}), (413, "body_too_large", {"body": chat("x" * 1_100_000)}))
        for status, reason, request in cases:
            with self.subTest(reason), refused() as refusals:
                Exchange(channel, **{"body": chat(), **request}).pick()
            self.assertEqual((refusals[0].status, refusals[0].headers["x-evenkeel-reason"]), (status, reason))
            self.assertEqual(refusals[0].details, f"evenkeel_{reason}")

    def test_what_evenkeel_answers_itself_is_answered_by_the_data_plane(self):
        daemon = self.picker(A, routes=[{"match": {"path": "/hello"}, "respond": {"status": 200, "body": "hello"}},
                                        {"match": {"path": "/v1/**"}, "pool": "llama"}])
        with refused() as answers:
            Exchange(self.channel(daemon), "GET", "/hello").pick()
        self.assertEqual((answers[0].status, answers[0].body), (200, b"hello"))
        self.assertEqual(daemon.wait_access(1)[0]["status"], 200)

    def test_a_body_that_outgrows_the_limit_after_the_pick_is_refused(self):
        channel = self.channel(self.picker(A, listener={"limits": {"body": "1MiB"}}, pool={"picker": "round-robin"}))
        with refused() as refusals:
            Exchange(channel, body=chat("x" * 1_100_000)).pick()
        self.assertEqual(refusals[0].status, 413)

    def test_a_request_waits_for_a_slot_and_is_picked_for_when_there_is_one(self):
        daemon = self.picker(A, pool={"limits": {"max_in_flight": 1}})
        channel = self.channel(daemon)
        first = Exchange(channel, body=chat())
        first.pick()
        second = Exchange(channel, body=chat())
        picked = self.spawn(second.pick)
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 1)
        first.respond(ANSWER)
        self.assertEqual(picked.join(), A)
        second.respond(ANSWER)

    def test_a_data_plane_that_leaves_gives_up_its_place_in_the_queue(self):
        daemon = self.picker(A, pool={"limits": {"max_in_flight": 1}})
        channel = self.channel(daemon)
        first = Exchange(channel, body=chat())
        first.pick()
        second = Exchange(channel, body=chat())
        second._send_pieces()
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 1)
        second.stream.cancel()
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 0)
        first.respond(ANSWER)

    def test_a_full_queue_is_429(self):
        daemon = self.picker(A, pool={"limits": {"max_in_flight": 1, "queue": {"size": 0}}})
        channel = self.channel(daemon)
        first = Exchange(channel, body=chat())
        first.pick()
        with refused() as refusals:
            Exchange(channel, body=chat()).pick()
        self.assertEqual(refusals[0].status, 429)
        self.assertIn("retry-after", refusals[0].headers)
        first.respond(ANSWER)

    def test_a_request_without_its_key_is_401(self):
        daemon = self.picker(A, auth={}, tenants=[{"name": "blue", "keys_sha256": ["0" * 64]}])
        with refused() as refusals:
            Exchange(self.channel(daemon), body=chat()).pick()
        self.assertEqual(refusals[0].status, 401)

    def test_what_only_gateways_may_say_is_removed(self):
        fields = [("x-prefiller-host-port", "10.0.0.1:80"), ("x-llm-d-slo-ttft-ms", "500"), ("x-plain", "1")]
        sent = Exchange(self.channel(self.picker(A)), body=chat(), fields=fields)
        sent.pick()
        self.assertEqual(sorted(sent.removed), ["x-llm-d-slo-ttft-ms", "x-prefiller-host-port"])
        trusted = Exchange(self.channel(self.picker(A, listener={"trusted_proxies": ["127.0.0.0/8"]})), body=chat(), fields=fields)
        trusted.pick()
        self.assertEqual(trusted.removed, ["x-prefiller-host-port"])

    def test_streams_that_are_none_end_with_an_error(self):
        channel = self.channel(self.picker(A))
        late = Stream(channel)
        late.send("request_body", lambda part: setattr(part, "body", b"x"))
        with self.assertRaises(grpc.RpcError) as raised:
            late.receive()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        empty = Stream(channel)
        empty.end()
        self.assertEqual(empty.wait_end(), grpc.StatusCode.OK)
        large = Exchange(channel, body=chat(), fields=[(f"x-{number}", "1") for number in range(2000)])
        with refused() as refusals:
            large.pick()
        self.assertEqual(refusals[0].status, 431)
        twice = Exchange(channel, body=chat())
        twice.pick()
        twice.begin_response()
        twice.stream.send("response_headers", headers_of([(":status", "200")]))
        with self.assertRaises(grpc.RpcError) as raised:
            twice.stream.receive()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        bad = Stream(channel)
        bad.send("request_headers", headers_of([("x-no", "method")]))
        with self.assertRaises(Refused):
            bad.receive()


class AsForProxiedRequests(PickerCase):
    """What decides about requests that are proxied decides here too."""

    def test_a_session_stays_with_its_backend(self):
        daemon = self.picker(pool={"affinity": {"by": ["header:x-session-id"]}, "picker": "least-connections"})
        channel = self.channel(daemon)
        for session in ("one", "two"):
            picked = set()
            for _ in range(4):
                sent = Exchange(channel, body=chat(), fields=[("x-session-id", session)])
                picked.add(sent.pick())
                sent.respond(ANSWER)
            self.assertEqual(len(picked), 1, session)

    def test_a_key_names_the_tenant_and_its_limit_holds(self):
        key = "sk-blue"
        daemon = self.picker(A, auth={}, tenants=[{"name": "blue", "limits": {"concurrent": 1},
                                                  "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]}])
        channel = self.channel(daemon)
        fields = [("authorization", f"Bearer {key}")]
        first = Exchange(channel, body=chat(), fields=fields)
        self.assertEqual(first.pick(), A)
        with refused() as refusals:
            Exchange(channel, body=chat(), fields=fields).pick()
        self.assertEqual((refusals[0].status, refusals[0].headers["x-evenkeel-reason"]), (429, "rate_limited"))
        first.respond(ANSWER)
        self.assertEqual({line["tenant"] for line in daemon.wait_access(2)}, {"blue"})

    def test_a_data_plane_that_is_trusted_gets_an_explanation(self):
        daemon = self.picker(A, pool={"picker": "expected-time"}, listener={"trusted_proxies": ["127.0.0.0/8"]})
        sent = Exchange(self.channel(daemon), body=chat(), fields=[
            ("x-evenkeel-explain", "1"), ("x-forwarded-for", "192.0.2.9")])
        sent.pick()
        self.assertIn("x-evenkeel-explain", sent.removed)
        sent.begin_response(ended=True)
        self.assertIn(A, sent.response_changes["x-evenkeel-decision"])
        self.assertEqual(daemon.wait_access(1)[0]["client"], "192.0.2.9")

    def test_a_request_that_waits_is_picked_for_by_a_new_version_of_the_file(self):
        daemon = self.picker(A, pool={"limits": {"max_in_flight": 1}})
        channel = self.channel(daemon)
        first = Exchange(channel, body=chat())
        first.pick()
        second = Exchange(channel, body=chat())
        picked = self.spawn(second.pick)
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 1)
        config = json.loads(daemon.config_path.read_text())
        config["pools"][0]["backends"] = [B]
        daemon.config_path.write_text(json.dumps(config))
        daemon.signal(signal.SIGHUP)
        self.assertEqual(picked.join(), B)
        for sent in (first, second):
            sent.respond(ANSWER)

    def test_a_grpc_call_goes_through_with_its_trailers(self):
        daemon = self.picker(A, pool={"protocol": "h2"})
        frame = b"\0\0\0\0\3abc"
        sent = Exchange(self.channel(daemon), path="/inference.GRPCInferenceService/ModelReady", body=frame,
                        fields=[("te", "trailers")], content_type="application/grpc")
        self.assertEqual(sent.pick(), A)
        self.assertEqual(sent.body, frame)
        sent.begin_response(fields=[("content-type", "application/grpc")])
        sent.send_response(frame)
        self.assertEqual(sent.read_response(), (frame, False))
        sent.stream.send("response_trailers", lambda part: part.trailers.headers.add(key="grpc-status", raw_value=b"0"))
        sent.stream.receive("response_trailers")
        self.assertEqual(sent.stream.wait_end(), grpc.StatusCode.OK)
        self.assertEqual(daemon.wait_access(1)[0]["grpc_status"], 0)

    def test_a_refused_grpc_call_has_a_status_of_grpc(self):
        daemon = self.picker(A, auth={}, tenants=[{"name": "blue", "keys_sha256": ["0" * 64]}])
        with self.assertRaises(Refused) as raised:
            Exchange(self.channel(daemon), path="/a.B/C", body=b"\0\0\0\0\0", content_type="application/grpc").pick()
        self.assertEqual((raised.exception.status, raised.exception.grpc_status), (200, 16))


class Service(PickerCase):
    def check(self, channel, service):
        call = channel.unary_unary("/grpc.health.v1.Health/Check")
        return call(bytes([10, len(service)]) + service.encode() if service else b"", timeout=20)

    def test_health_knows_the_names_that_gateways_probe(self):
        channel = self.channel(self.picker(A))
        for name in ("", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor", "inference-extension"):
            self.assertEqual(self.check(channel, name), b"\x08\x01", name)
        with self.assertRaises(grpc.RpcError) as raised:
            self.check(channel, "other")
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_a_watch_tells_of_a_drain(self):
        daemon = self.picker(A)
        statuses = self.channel(daemon).unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=20)
        self.assertEqual(next(statuses), b"\x08\x01")
        daemon.signal(signal.SIGTERM)
        self.assertEqual(list(statuses), [b"\x08\x02"])
        self.assertEqual(daemon.wait_exit(), 0)

    def test_other_calls_are_unimplemented_and_other_requests_not_found(self):
        daemon = self.picker(A)
        with self.assertRaises(grpc.RpcError) as raised:
            self.channel(daemon).unary_unary("/other.Service/Call")(b"", timeout=20)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertEqual(exchange(daemon.address, "GET", "/v1/models").status, 404)

    def test_tls_with_a_certificate_of_its_own_that_a_reload_keeps(self):
        daemon = self.picker(A, listener={"tls": {"self_signed": True}})
        before = self.certificate(daemon)
        credentials = grpc.ssl_channel_credentials(before.encode())
        channel = grpc.secure_channel(daemon.address, credentials, options=[
            ("grpc.ssl_target_name_override", "evenkeel"), *ANY_SIZE])
        self.addCleanup(channel.close)
        self.assertEqual(Exchange(channel, body=chat()).pick(), A)
        daemon.signal(signal.SIGHUP)
        daemon.wait_line("reloaded")
        self.assertEqual(self.certificate(daemon), before)

    def certificate(self, daemon):
        host, port = daemon.address.split(":")
        return ssl.get_server_certificate((host, int(port)), timeout=20)


if __name__ == "__main__":
    case.main()
