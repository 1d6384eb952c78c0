"""Traces: what backends are told, and which spans a collector gets."""

import json
import pathlib
import re
import shutil
import socket
import time
import unittest

import case
from collector import Collector
from ports import refusing_address
from process import command
from prometheus import Prometheus
from stream import PATIENCE, Stream, exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
PROMPT = b'{"model": "llama", "max_tokens": 5, "messages": [{"role": "user", "content": "a secret"}]}'
ANSWER = (b'{"object": "chat.completion", "model": "llama", "choices": [{"index": 0, "finish_reason": "stop", "message": '
          b'{"role": "assistant", "content": "hi"}}], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}')
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def traceparent(sampled):
    return ("Traceparent", f"00-{TRACE}-{PARENT}-{'01' if sampled else '00'}")


class Tracing(case.Case):
    def collector(self, **kwargs):
        collector = Collector(**kwargs)
        self.addCleanup(collector.close)
        return collector

    def traced(self, collector, *backends, pool=None, workers=1, env=None, **tracing):
        """A daemon that sends its traces to this collector; None: only variables say where."""
        config = {"pools": [{"name": "pool", "backends": [each.address for each in backends], **QUIET, **(pool or {})}],
                  "routes": [{"name": "chat", "pool": "pool"}], "workers": workers}
        if collector is not None:
            config["tracing"] = {"otlp": collector.url, **tracing}
        return self.daemon(config, env=env)

    def spans(self, collector, count):
        return self.eventually(lambda: len(collector.spans) >= count and list(collector.spans), f"{count} spans")

    def told(self, backend):
        """The traceparent and the tracestate of each request that the backend got."""
        return [(each.head.field("traceparent"), each.head.field("tracestate")) for each in backend.exchanges]

    def test_without_tracing_the_fields_pass_as_they_are(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        for fields in ([], [("Traceparent", "anything"), ("Tracestate", "a=b")]):
            exchange(daemon.address, fields=fields)
        self.assertEqual(self.told(backend), [(None, None), ("anything", "a=b")])
        self.assertNotIn("trace_id", daemon.wait_access(2)[0])

    def test_a_request_has_a_trace_that_its_log_line_and_its_backend_name(self):
        collector, backend = self.collector(), self.backend()
        daemon = self.traced(collector, backend)
        exchange(daemon.address, target="/a?key=hidden", fields=[("X-Request-Id", "r-1")])

        server, client = self.spans(collector, 2)
        ((told, _),) = self.told(backend)
        self.assertEqual(told, f"00-{server.trace}-{client.id}-01")
        self.assertEqual(daemon.wait_access(1)[0]["trace_id"], server.trace)
        self.assertEqual((server.kind, server.name, server.parent, server.error), ("server", "GET chat", None, None))
        self.assertEqual((client.kind, client.name, client.parent, client.error), ("client", "GET pool", server.id, None))
        self.assertTrue(server.begin <= client.begin <= client.end <= server.end)
        self.assertTrue(abs(server.end / 1e9 - time.time()) < 60)
        host, port = backend.address.split(":")
        self.assertEqual({name: client.attributes[name] for name in (
            "server.address", "server.port", "http.request.method", "http.response.status_code", "evenkeel.backend")},
            {"server.address": host, "server.port": int(port), "http.request.method": "GET",
             "http.response.status_code": 200, "evenkeel.backend": backend.address})
        self.assertEqual({name: server.attributes[name] for name in (
            "url.path", "http.route", "evenkeel.request_id", "evenkeel.pool", "network.protocol.version")},
            {"url.path": "/a", "http.route": "chat", "evenkeel.request_id": "r-1", "evenkeel.pool": "pool",
             "network.protocol.version": "1.1"})
        self.assertEqual(collector.resources[0]["service.name"], "evenkeel")
        self.assertEqual(collector.heads[0][0], "/v1/traces")
        self.eventually(lambda: daemon.metric("evenkeel_trace_spans_exported_total") == 2)

    def test_the_trace_of_a_retried_request_shows_both_attempts(self):
        statuses, scripts = [503, 200], {}

        def serve(request):
            status = scripts.setdefault(request.backend, statuses[min(len(scripts), 1)])
            request.answer(ANSWER, status=status)

        backends = [self.backend(serve), self.backend(serve)]
        collector = self.collector()
        daemon = self.traced(collector, *backends, pool={"engine": "vllm", "inspect": True})
        self.assertEqual(exchange(daemon.address, "POST", CHAT, body=PROMPT).status, 200)

        server, first, second = self.spans(collector, 3)
        self.assertEqual([each.kind for each in (server, first, second)], ["server", "client", "client"])
        self.assertEqual({first.parent, second.parent}, {server.id})
        self.assertEqual(len({server.id, first.id, second.id}), 3)
        self.assertEqual((first.error, first.attributes["http.response.status_code"]), ("overloaded", 503))
        self.assertEqual((second.error, second.attributes["http.request.resend_count"]), (None, 1))
        self.assertTrue(first.end <= second.begin)
        by_address = {each.address: self.told(each)[0][0] for each in backends}
        self.assertEqual([by_address[each.attributes["evenkeel.backend"]] for each in (first, second)],
                         [f"00-{server.trace}-{each.id}-01" for each in (first, second)])
        self.assertEqual((server.error, server.attributes["evenkeel.attempts"]), (None, 2))
        (recent,) = daemon.api("requests/recent")
        self.assertEqual(recent["trace_id"], server.trace)

    def test_backends_that_speak_http2_are_told_too(self):
        collector, backend = self.collector(), self.h2_backend()
        daemon = self.traced(collector, backend, pool={"protocol": "h2"})
        for _ in range(3):
            exchange(daemon.address, fields=[("Tracestate", "a=b")])
        clients = [each for each in self.spans(collector, 6) if each.kind == "client"]
        self.assertEqual(self.told(backend), [(f"00-{each.trace}-{each.id}-01", None) for each in clients])

    def test_the_client_decides_on_its_own_traces(self):
        collector, backend = self.collector(), self.backend()
        daemon = self.traced(collector, backend, sample="0%")
        exchange(daemon.address, fields=[traceparent(False), ("Tracestate", "a=b"), ("Tracestate", "c=d")])
        exchange(daemon.address)
        exchange(daemon.address, fields=[traceparent(True), ("Tracestate", "a=b")])

        server, client = self.spans(collector, 2)
        self.assertEqual((server.trace, server.parent, client.trace), (TRACE, PARENT, TRACE))
        unsampled, begun, sampled = self.told(backend)
        self.assertRegex(unsampled[0], rf"^00-{TRACE}-[0-9a-f]{{16}}-00$")
        self.assertRegex(begun[0], r"^00-[0-9a-f]{32}-[0-9a-f]{16}-00$")
        self.assertEqual(sampled, (f"00-{TRACE}-{client.id}-01", "a=b"))
        self.assertEqual(backend.exchanges[0].head.all("tracestate"), ["a=b", "c=d"])

    def test_an_invalid_traceparent_is_replaced(self):
        collector, backend = self.collector(), self.backend()
        daemon = self.traced(collector, backend)
        bad = ["", "00", f"00-{TRACE}-{PARENT}", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01",
               f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-x", f"00-{TRACE}-{PARENT}-0\xff"]
        for value in bad:
            exchange(daemon.address, fields=[("Traceparent", value), ("Tracestate", "a=b")])
        exchange(daemon.address, fields=[traceparent(True), traceparent(True)])  # they contradict each other
        told = self.told(backend)
        self.assertEqual(len({parent for parent, _ in told}), len(bad) + 1)
        for parent, state in told:
            self.assertRegex(parent, r"^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
            self.assertNotIn(TRACE, parent)
            self.assertIsNone(state)
        self.spans(collector, 2 * len(told))

    def test_failed_and_slow_requests_are_exported_whatever_is_sampled(self):
        def serve(request):
            time.sleep(0.3 if request.target == "/slow" else 0)
            request.answer(b"x", status=500 if request.target == "/bad" else 404 if request.target == "/no" else 200)

        collector = self.collector()
        daemon = self.traced(collector, self.backend(serve), sample="0%", slow="200ms")
        for target in ("/good", "/no", "/bad", "/slow"):
            exchange(daemon.address, target=target)

        spans = self.spans(collector, 4)
        self.assertEqual([(each.attributes["url.path"], each.error) for each in spans if each.kind == "server"],
                         [("/bad", "500"), ("/slow", None)])
        down = self.daemon({"pools": [{"name": "pool", "backends": [refusing_address()], **QUIET}], "workers": 1,
                            "tracing": {"otlp": collector.url, "sample": 0}})
        self.assertEqual(exchange(down.address).status, 502)
        failed = self.spans(collector, 6)[4:]
        self.assertEqual([(each.kind, each.error) for each in failed],
                         [("server", "connect_failed"), ("client", "connect_failed")])
        self.assertEqual(failed[0].attributes["error.type"], "connect_failed")

    def test_a_wait_has_a_span_of_its_own(self):
        def serve(request):
            time.sleep(0.2)
            request.answer(b"x")

        collector, backend = self.collector(), self.backend(serve)
        daemon = self.traced(collector, backend, pool={"limits": {"max_in_flight": 1}})
        for client in [self.spawn(lambda: exchange(daemon.address)) for _ in range(2)]:
            client.join()
        spans = self.spans(collector, 5)
        (queue,) = [each for each in spans if each.kind == "internal"]
        (server,) = [each for each in spans if each.id == queue.parent]
        (client,) = [each for each in spans if each.kind == "client" and each.parent == server.id]
        self.assertEqual((queue.name, queue.error), ("queue", None))
        self.assertTrue(server.begin <= queue.begin < queue.end <= client.begin + 1_000_000, (queue.end, client.begin))
        self.assertGreater(queue.end - queue.begin, 50_000_000)
        self.assertEqual(client.attributes["evenkeel.pick.reason"], "waited")

    def test_an_attempt_says_who_picked_its_backend_and_why(self):
        collector = self.collector()
        daemon = self.traced(collector, self.backend(), self.backend(),
                             pool={"picker": "round-robin", "affinity": {"by": ["header:x-session-id"]}})
        for _ in range(2):
            exchange(daemon.address, fields=[("X-Session-Id", "a")])
        clients = [each for each in self.spans(collector, 4) if each.kind == "client"]
        self.assertEqual([(each.attributes["evenkeel.picker"], each.attributes["evenkeel.pick.reason"])
                          for each in clients], [("round-robin", "picked"), ("round-robin", "session")])

    def test_models_and_tokens_have_plain_names_or_those_of_opentelemetry_and_prompts_none(self):
        for gen_ai, expected in ((False, {"evenkeel.model": "llama", "evenkeel.task": "chat", "evenkeel.max_tokens": 5,
                                          "evenkeel.prompt_tokens": 11, "evenkeel.completion_tokens": 7,
                                          "evenkeel.finish_reason": "stop"}),
                                 (True, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "llama",
                                         "gen_ai.request.max_tokens": 5, "gen_ai.usage.input_tokens": 11,
                                         "gen_ai.usage.output_tokens": 7,
                                         "gen_ai.response.finish_reasons": ["stop"]})):
            with self.subTest(gen_ai=gen_ai):
                collector = self.collector()
                backend = self.backend(lambda ask: ask.answer(ANSWER, fields=[("Content-Type", "application/json")]))
                daemon = self.traced(collector, backend, pool={"engine": "vllm", "inspect": True},
                                     gen_ai=gen_ai)
                exchange(daemon.address, "POST", CHAT, body=PROMPT)
                _, client = self.spans(collector, 2)
                self.assertEqual({name: client.attributes.get(name) for name in expected}, expected)
                self.assertNotIn(b"secret", collector.bodies[0])

    def test_hostile_values_are_whole_json(self):
        names = ['"},{"traceId":"', "\\u0000\\", "\u2028\x85\x1b[31m", "m" * 7000, "\U0001f41f"]
        collector = self.collector()
        backend = self.backend(lambda ask: ask.answer(ANSWER.replace(b'"stop"', json.dumps(names[0]).encode()),
                                                      fields=[("Content-Type", "application/json")]))
        daemon = self.traced(collector, backend, pool={"engine": "vllm", "inspect": True})
        for name in names:
            body = json.dumps({"model": name, "messages": []}).encode()
            self.assertEqual(exchange(daemon.address, "POST", CHAT, body=body).status, 200)
        clients = [each for each in self.spans(collector, 2 * len(names)) if each.kind == "client"]
        models = [each.attributes["evenkeel.model"] for each in clients]
        self.assertEqual(models[:3] + models[4:], names[:3] + names[4:])
        self.assertTrue(models[3].endswith("m..."))
        self.assertEqual({each.attributes["evenkeel.finish_reason"] for each in clients}, {json.dumps(names[0])[1:-1]})

    def test_a_collector_that_is_down_costs_no_request(self):
        address = refusing_address()
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [self.backend().address], **QUIET}],
                              "tracing": {"otlp": f"http://{address}"}})
        for _ in range(20):
            self.assertEqual(exchange(daemon.address).status, 200)
        daemon.wait_line(r"tracing\.otlp: spans cannot be exported: connect_failed")
        self.eventually(lambda: daemon.metric("evenkeel_trace_export_failures_total") >= 2)
        self.eventually(lambda: daemon.metric("evenkeel_trace_spans_dropped_total", reason="unreachable") > 0,
                        within=60)
        self.assertEqual(daemon.metric("evenkeel_trace_spans_exported_total"), 0)

    def test_what_waits_for_a_collector_is_bounded(self):
        collector = self.collector()
        collector.status, collector.fields = 429, {"retry-after": "25"}
        daemon = self.traced(collector, self.backend())
        exchange(daemon.address)
        self.eventually(lambda: collector.bodies, "a request to the collector")
        target = "/" + "a" * 2000
        with Stream.connect(daemon.address) as stream:
            for _ in range(1500):
                stream.exchange(target=target)
        dropped = daemon.metric("evenkeel_trace_spans_dropped_total", reason="queue_full")
        self.assertTrue(0 < dropped < 3000, dropped)
        self.assertEqual(len(collector.bodies), 1)  # it has been told to come back later

    def test_what_the_collector_refuses_is_not_sent_again(self):
        collector = self.collector()
        daemon = self.traced(collector, self.backend())
        collector.answer = b'{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}'
        exchange(daemon.address)
        daemon.wait_line(r"it rejected 1 spans: too old")
        self.eventually(lambda: daemon.metric("evenkeel_trace_spans_dropped_total", reason="rejected") == 1)
        self.assertEqual(daemon.metric("evenkeel_trace_spans_exported_total"), 1)
        collector.status, collector.answer = 400, b"no"
        exchange(daemon.address)
        self.eventually(lambda: daemon.metric("evenkeel_trace_spans_dropped_total", reason="rejected") == 3)
        self.assertEqual(len(collector.bodies), 2)

    def test_spans_are_sent_again_to_a_collector_that_was_overloaded(self):
        collector = self.collector()
        collector.status = 503
        daemon = self.traced(collector, self.backend())
        exchange(daemon.address)
        self.eventually(lambda: collector.bodies, "a request to the collector")
        collector.status = 200
        self.assertEqual(len(self.spans(collector, 2)), 2)
        daemon.wait_line("traces are exported again")

    def test_the_last_spans_are_sent_before_the_end(self):
        collector = self.collector()
        daemon = self.traced(collector, self.backend())
        exchange(daemon.address)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(len(collector.spans), 2)

    def test_a_reload_turns_tracing_on_and_changes_the_collector(self):
        backend = self.backend()
        daemon = self.traced(None, backend)
        exchange(daemon.address)
        whole = daemon.config_path.read_text()
        for number in (1, 2):
            collector = self.collector()
            daemon.config_path.write_text(whole.rstrip()[:-1] + f', "tracing": {{"otlp": "{collector.url}"}}}}')
            self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
            exchange(daemon.address)
            self.assertEqual(len(self.spans(collector, 2)), 2)
        self.assertIsNone(self.told(backend)[0][0])

    def test_another_collector_does_not_wait_for_one_that_hangs(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [self.backend().address], **QUIET}], "workers": 1,
                              "tracing": {"otlp": "http://127.0.0.1:%d" % silent.getsockname()[1]}})
        exchange(daemon.address)
        silent.settimeout(PATIENCE)
        connection, _ = silent.accept()
        self.addCleanup(connection.close)
        connection.settimeout(PATIENCE)
        self.assertTrue(connection.recv(1))  # the request is under way, and gets no answer

        collector = self.collector()
        config = json.loads(daemon.config_path.read_text())
        config["tracing"]["otlp"] = collector.url
        daemon.config_path.write_text(json.dumps(config))
        began = time.monotonic()
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        self.spans(collector, 2)
        self.assert_within(time.monotonic() - began, 3)
        self.assertEqual(daemon.metric("evenkeel_trace_export_failures_total"), 0)

    def open_metrics(self, daemon):
        """The page in OpenMetrics, as Prometheus asks for it."""
        accept = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
        answer = daemon.ask_admin("/metrics", fields=[("Accept", accept)])
        self.assertEqual(answer.field("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8")
        return answer.body.decode()

    def test_histograms_name_the_traces_of_what_they_count(self):
        event = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n'
        collector = self.collector()
        backend = self.backend(lambda ask: ask.answer(event, fields=[("Content-Type", "text/event-stream")]))
        daemon = self.traced(collector, backend, pool={"engine": "vllm", "inspect": True}, sample="0%")
        exchange(daemon.address, "POST", CHAT, body=PROMPT)
        daemon.wait_access(1)
        self.assertNotIn("trace_id", self.open_metrics(daemon))

        exchange(daemon.address, "POST", CHAT, body=PROMPT, fields=[traceparent(True)])
        daemon.wait_access(2)
        lines = self.eventually(
            lambda: [line for line in self.open_metrics(daemon).splitlines() if "trace_id" in line], "exemplars")
        for family in ("request_duration", "time_to_first_byte", "wait", "time_to_first_token"):
            (line,) = [each for each in lines if each.startswith(f"evenkeel_{family}_seconds_bucket")]
            found = re.fullmatch(r'.*,le="(\S+)"} \d # {trace_id="(\w+)"} (\S+) (\d+\.\d{3})', line)
            self.assertEqual(found[2], TRACE, line)
            self.assertLessEqual(float(found[3]), float(found[1]), line)
            self.assertLess(abs(float(found[4]) - time.time()), 60, line)
        self.assertNotIn(b"trace_id", daemon.ask_admin("/metrics").body)

    def test_the_page_with_traces_is_valid_open_metrics(self):
        try:
            from prometheus_client.openmetrics.parser import text_string_to_metric_families
        except ImportError as missing:
            raise unittest.SkipTest(f"{missing}; `./dev setup` installs it") from missing
        daemon = self.traced(self.collector(), self.backend(), pool={"picker": "expected-time", "engine": "vllm"})
        for _ in range(4):
            exchange(daemon.address, target="/a")
        page = self.open_metrics(daemon)
        families = {each.name: each for each in text_string_to_metric_families(page)}
        self.assertEqual(len(families), page.count("# TYPE "))
        self.assertEqual(families["evenkeel_requests"].type, "counter")
        self.assertEqual(families["evenkeel_build"].type, "info")
        self.assertEqual(families["evenkeel_request_duration_seconds"].unit, "seconds")
        self.assertTrue([each for each in families["evenkeel_request_duration_seconds"].samples if each.exemplar])

    @unittest.skipUnless(shutil.which("prometheus"), "no prometheus here")
    def test_prometheus_goes_from_a_bucket_to_the_trace(self):
        daemon = self.traced(self.collector(), self.backend())
        prometheus = Prometheus(self, daemon.admin, flags=["--enable-feature=exemplar-storage"])
        exchange(daemon.address, fields=[traceparent(True)])
        began = time.time()

        def exemplars():
            found = prometheus.exemplars("evenkeel_request_duration_seconds_bucket", since=began - 60)
            return [each for series in found for each in series["exemplars"]]

        (found, *_) = self.eventually(exemplars, "an exemplar")
        self.assertEqual(found["labels"], {"trace_id": TRACE})

    def test_the_variables_of_opentelemetry_count_where_the_file_is_silent(self):
        collector, other = self.collector(), self.collector()
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/", "OTEL_SERVICE_NAME": "edge",
                     "OTEL_RESOURCE_ATTRIBUTES": "service.name=x,deployment.environment=a%20b",
                     "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%3Db,x-bad=a%0D%0Ab", "OTEL_TRACES_SAMPLER": "always_off"}
        daemon = self.traced(None, self.backend(), env=variables)
        exchange(daemon.address, fields=[traceparent(True)])
        self.spans(collector, 2)
        path, head = collector.heads[0]
        self.assertEqual((path, head["x-key"], head.get("x-bad")), ("/v1/traces", "a=b", None))
        resource = collector.resources[0]
        self.assertEqual((resource["service.name"], resource["deployment.environment"]), ("edge", "a b"))
        self.assertEqual(len(collector.resources[0]), 3)  # and the version

        daemon = self.traced(other, self.backend(), env=variables, sample="100%")
        exchange(daemon.address)
        self.spans(other, 2)
        self.assertEqual(len(collector.spans), 2)

        backend = self.backend()
        daemon = self.traced(None, backend, env={**variables, "OTEL_SDK_DISABLED": "true"})
        exchange(daemon.address)
        self.assertEqual(self.told(backend), [(None, None)])

    def test_a_variable_that_cannot_be_used_is_named(self):
        """It is refused only beside a `tracing` of the file: platforms set it for all that they run."""
        silent = pathlib.Path(self.folder()) / "evenkeel.yaml"
        silent.write_text("pools: [{name: a, backends: ['http://127.0.0.1:1']}]\n")
        tracing = silent.with_name("tracing.yaml")
        tracing.write_text(silent.read_text() + "tracing: {slow: 10s}\n")
        for variables, message in (
                ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"),
                ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "asks for gRPC"),
                ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_SAMPLER": "traceidratio",
                  "OTEL_TRACES_SAMPLER_ARG": "1%"}, "OTEL_TRACES_SAMPLER_ARG is not a number")):
            for file, status in ((silent, 0), (tracing, 1)):
                checked = command("check", "-c", str(file), env=variables)
                self.assertEqual(checked.returncode, status, checked.stderr)
                self.assertIn(message, checked.stdout + checked.stderr)

    def test_it_is_what_the_schema_of_otlp_says(self):
        try:
            from google.protobuf import json_format
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
        except ImportError as missing:
            raise unittest.SkipTest(f"{missing}; `./dev setup` installs it") from missing
        collector = self.collector()
        daemon = self.traced(collector, self.backend(lambda ask: ask.answer(ANSWER)), pool={"engine": "vllm", "inspect": True})
        exchange(daemon.address, "POST", CHAT, body=PROMPT)
        self.spans(collector, 2)
        # OTLP writes ids in hexadecimal, where protobuf's JSON has base64: digits of both.
        text = re.sub(rb'("(?:trace|span|parentSpan)Id":"[0-9a-f]+)"', rb'\1"', collector.bodies[0])
        request = json_format.Parse(text, ExportTraceServiceRequest())  # refuses unknown fields
        spans = request.resource_spans[0].scope_spans[0].spans
        self.assertEqual([each.name for each in spans], ["POST chat", "POST pool"])


if __name__ == "__main__":
    case.main()
