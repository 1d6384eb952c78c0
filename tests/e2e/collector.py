"""A collector of traces: takes OTLP over HTTP as JSON, and checks that it is what the specification says."""

import gzip
import http.server
import json
import re
import threading

RESOURCE_KEYS = {"attributes"}
SPAN_KEYS = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano",
             "attributes", "status"}
VALUES = {"stringValue": str, "intValue": str, "doubleValue": (int, float), "boolValue": bool, "arrayValue": dict}
KINDS = {1: "internal", 2: "server", 3: "client"}


def attributes_of(pairs):
    """Attributes as a dict of Python values."""
    found = {}
    for pair in pairs:
        assert set(pair) == {"key", "value"} and len(pair["value"]) == 1, pair
        ((kind, value),) = pair["value"].items()
        assert isinstance(value, VALUES[kind]), pair
        assert pair["key"] not in found, f"{pair['key']} occurs twice"
        if kind == "intValue":
            assert re.fullmatch(r"\d+", value), pair
            value = int(value)
        elif kind == "arrayValue":
            value = [each["stringValue"] for each in value["values"]]
        found[pair["key"]] = value
    return found


class Span:
    def __init__(self, span):
        assert set(span) <= SPAN_KEYS, span
        assert re.fullmatch(r"[0-9a-f]{32}", span["traceId"]) and re.fullmatch(r"[0-9a-f]{16}", span["spanId"]), span
        assert re.fullmatch(r"\d{19}", span["startTimeUnixNano"]) and re.fullmatch(r"\d{19}", span["endTimeUnixNano"]), span
        self.trace, self.id, self.parent = span["traceId"], span["spanId"], span.get("parentSpanId")
        self.name, self.kind = span["name"], KINDS[span["kind"]]
        self.begin, self.end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert self.begin <= self.end, span
        self.attributes = attributes_of(span["attributes"])
        self.error = span.get("status", {}).get("message") if span.get("status", {}).get("code") == 2 else None


class Collector:
    """Answers with `status`; `fields` are further fields of the answer, `answer` is its body."""

    def __init__(self, address=("127.0.0.1", 0)):
        self.status, self.fields, self.answer = 200, {}, b"{}"
        self.bodies, self.heads, self.spans, self.resources, self.failures = [], [], [], [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                try:
                    collector.take(self.path, self.headers, body)
                except Exception as failure:  # reported by close()
                    collector.failures.append(failure)
                self.send_response(collector.status)
                for name, value in collector.fields.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(collector.answer)))
                self.end_headers()
                self.wfile.write(collector.answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(address, Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, head, body):
        assert head["content-type"] == "application/json" and head["content-encoding"] == "gzip", dict(head)
        text = gzip.decompress(body)
        self.bodies.append(text)
        self.heads.append((path, dict(head)))
        document = json.loads(text)
        assert set(document) == {"resourceSpans"}, document
        for resource in document["resourceSpans"]:
            assert set(resource) == {"resource", "scopeSpans"} and set(resource["resource"]) == RESOURCE_KEYS, resource
            self.resources.append(attributes_of(resource["resource"]["attributes"]))
            for scope in resource["scopeSpans"]:
                assert scope["scope"]["name"] == "evenkeel", scope
                spans = [Span(each) for each in scope["spans"]]
                if self.status == 200:
                    self.spans += spans

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        assert self.failures == [], self.failures
