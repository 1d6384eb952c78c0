"""Endpoint pickers over Envoy's external processing: one as the Endpoint Picker Protocol wants it, and others, each of which
breaks one of its rules."""

import asyncio
import concurrent.futures
import importlib
import pathlib
import subprocess
import sys
import tempfile
import threading

from grpc_servers import ANY_SIZE, _showing, grpc

try:
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc
except ImportError:
    health = None

PROTO = pathlib.Path(__file__).resolve().parents[2] / "src" / "epp" / "proto"
SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
DESTINATION = "x-gateway-destination-endpoint"
PATIENCE = 20


def _messages():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", "ext_proc.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("ext_proc_pb2")
        finally:
            sys.path.remove(folder)


messages = _messages()


class Picker:
    """Keeps all rules. Picks its endpoints in turn, and answers a request when all of it is there."""

    endpoints = ("127.0.0.1:8001", "127.0.0.1:8002")
    piece_bytes = 62_000

    def __init__(self):
        self._turn = 0

    # ---- the pick ----

    def choose(self, head):
        """The endpoints in the order of preference; none: the request is refused."""
        subset = self.subset(head)
        allowed = [each for each in self.endpoints if subset is None or each in subset]
        return self.in_turn(allowed)

    def in_turn(self, allowed):
        self._turn += 1
        return allowed[self._turn % len(allowed):][:1] if allowed else []

    def subset(self, head):
        hint = head.metadata_context.filter_metadata.get("envoy.lb.subset_hint")
        if hint is None:
            return None
        value = hint.fields[DESTINATION + "-subset"]
        if value.WhichOneof("kind") == "string_value":
            return value.string_value.split(",")
        return [each.string_value for each in value.list_value.values]

    def in_header(self, picked):
        return ",".join(picked)

    def in_metadata(self, picked):
        return self.in_header(picked)

    # ---- answers to a request ----

    def answers(self, head, body, has_trailers):
        picked = self.choose(head)
        if not picked:
            return [self.refusal(503)]
        bodiless = head.request_headers.end_of_stream
        pieces = [] if bodiless else list(self.pieces(body, not has_trailers))
        trailers = [messages.ProcessingResponse(request_trailers={})] if has_trailers else []
        return self.arranged(self.head(picked), pieces, trailers)

    def arranged(self, head, pieces, trailers):
        return [head, *pieces, *trailers]

    def head(self, picked):
        return messages.ProcessingResponse(
            request_headers={"response": {
                "clear_route_cache": True,
                "header_mutation": {"set_headers": [{"header": {
                    "key": DESTINATION, "raw_value": self.in_header(picked).encode()}}]}}},
            dynamic_metadata={"fields": {"envoy.lb": {"struct_value": {"fields": {
                DESTINATION: {"string_value": self.in_metadata(picked)}}}}}})

    def pieces(self, body, ends):
        for at in range(0, max(len(body), 1), self.piece_bytes):
            yield self.piece(body[at:at + self.piece_bytes], ends and at + self.piece_bytes >= len(body))

    def piece(self, body, end):
        return messages.ProcessingResponse(request_body={"response": {"body_mutation": {
            "streamed_response": {"body": body, "end_of_stream": end}}}})

    def refusal(self, status):
        return messages.ProcessingResponse(immediate_response={"status": {"code": status}, "body": b"no endpoint"})

    # ---- answers to a response ----

    def response_piece(self, chunk):
        return messages.ProcessingResponse(response_body={"response": {"body_mutation": {
            "streamed_response": {"body": chunk.body, "end_of_stream": chunk.end_of_stream}}}})

    # ---- the stream ----

    async def process(self, requests, context):
        head, body, buffered = None, bytearray(), False
        async for message in requests:
            kind = message.WhichOneof("request")
            if kind == "request_headers":
                head = message
                buffered = message.protocol_config.request_body_mode == messages.ProcessingMode.BUFFERED
                if buffered:
                    yield self.head(self.choose(head))
                elif message.request_headers.end_of_stream:
                    for answer in await self.bodiless(head):
                        yield answer
            elif kind == "request_body" and buffered:
                yield messages.ProcessingResponse(request_body={"response": {}})
            elif kind == "request_body":
                body += message.request_body.body
                if message.request_body.end_of_stream:
                    for answer in self.answers(head, bytes(body), False):
                        yield answer
                    if self.leaves():
                        return
            elif kind == "request_trailers":
                for answer in self.answers(head, bytes(body), True):
                    yield answer
            elif kind == "response_headers":
                yield messages.ProcessingResponse(response_headers={"response": {}})
            elif kind == "response_body":
                yield self.response_piece(message.response_body)
            elif kind == "response_trailers":
                yield messages.ProcessingResponse(response_trailers={})

    async def bodiless(self, head):
        return self.answers(head, b"", False)

    def leaves(self):
        """True if the stream ends with the request."""
        return False


# ---- others that keep all rules ----

class LeavesAfterTheRequest(Picker):
    def leaves(self):
        return True


class ListsSeveral(Picker):
    endpoints = ("[2001:db8::1]:8001", "[2001:db8::2]:8001", "10.0.0.1:80")

    def in_turn(self, allowed):
        self._turn += 1
        at = self._turn % len(allowed) if allowed else 0
        return [*allowed[at:], *allowed[:at]]


class RewritesTheBody(Picker):
    """Says how long the new one is."""

    def answers(self, head, body, has_trailers):
        body = body.replace(b'"test"', b'"rewritten"')
        answers = super().answers(head, body, has_trailers)
        if answers[0].WhichOneof("response") == "request_headers" and not head.request_headers.end_of_stream:
            answers[0].request_headers.response.header_mutation.set_headers.add(
                header={"key": "content-length", "raw_value": b"%d" % len(body)})
        return answers


class HoldsTwentyAtATime(Picker):
    """Others wait until one of them has ended."""

    def __init__(self):
        super().__init__()
        self._slots = asyncio.Semaphore(20)

    async def process(self, requests, context):
        async with self._slots:
            async for answer in super().process(requests, context):
                yield answer


# ---- those that break a rule ----

class HeaderAndMetadataDiffer(Picker):
    def in_metadata(self, picked):
        return "10.0.0.9:80"


class NoMetadata(Picker):
    def head(self, picked):
        answer = super().head(picked)
        answer.ClearField("dynamic_metadata")
        return answer


class BareIpv6(Picker):
    endpoints = ("2001:db8::1",)


class BodyBeforeHead(Picker):
    def arranged(self, head, pieces, trailers):
        return [*pieces, head, *trailers]


class TwoHeads(Picker):
    def arranged(self, head, pieces, trailers):
        return [head, head, *pieces, *trailers]


class LargePieces(Picker):
    piece_bytes = 100_000


class TwoEnds(Picker):
    def pieces(self, body, ends):
        yield from super().pieces(body, ends)
        if ends:
            yield self.piece(b"", True)


class NoEnd(Picker):
    def pieces(self, body, ends):
        yield from super().pieces(body, False)


class BodyChanged(Picker):
    def pieces(self, body, ends):
        return super().pieces(body.replace(b"max_tokens", b"min_tokens"), ends)


class IgnoresSubset(Picker):
    def in_turn(self, allowed):
        return super().in_turn(self.endpoints) if allowed else []


class PicksOutsideOfAnUnknownSubset(Picker):
    def choose(self, head):
        picked = super().choose(head)
        return picked or (self.in_turn(self.endpoints) if self.subset(head) else [])


class TakesAnEmptySubsetForNone(Picker):
    def choose(self, head):
        return super().choose(head) or (self.in_turn(self.endpoints) if not self.subset(head) else [])


class FollowsTheClient(Picker):
    def choose(self, head):
        claimed = [header.raw_value.decode() for header in head.request_headers.headers.headers
                   if header.key == DESTINATION]
        return claimed or super().choose(head)


class HangsOnGet(Picker):
    async def bodiless(self, head):
        await asyncio.Event().wait()


class DropsTrailers(Picker):
    def arranged(self, head, pieces, trailers):
        return [head, *pieces]


class LosesAChunkOfTheResponse(Picker):
    def response_piece(self, chunk):
        if chunk.body == b"data: [DONE]\n\n":
            chunk.body = b""
        return super().response_piece(chunk)


class BreaksAfterCancel(Picker):
    broken = False

    async def process(self, requests, context):
        if self.broken:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
        whole = False

        async def noted():
            nonlocal whole
            async for message in requests:
                whole = whole or message.request_body.end_of_stream or message.HasField("request_trailers") or (
                    message.request_headers.end_of_stream)
                yield message

        try:
            async for answer in super().process(noted(), context):
                yield answer
            if not whole:  # grpcio ends the requests of a cancelled call before it cancels the call
                await asyncio.sleep(0.3)
        except asyncio.CancelledError:
            self.broken = True
            raise


class Serving:
    """Serves a picker, on a thread of its own."""

    def __init__(self, picker, certificate=None):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = None
        self.address = self._wait(self._start(picker, certificate))
        self.url = ("https://" if certificate else "http://") + self.address

    def _wait(self, work):
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)
        except concurrent.futures.TimeoutError as late:
            raise AssertionError("the picker does not start or stop") from late

    async def _start(self, picker, certificate):
        self._server = grpc.aio.server(options=ANY_SIZE)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {
            "Process": grpc.stream_stream_rpc_method_handler(
                picker.process, request_deserializer=messages.ProcessingRequest.FromString,
                response_serializer=messages.ProcessingResponse.SerializeToString)}),))
        if health is not None:
            states = health.aio.HealthServicer()
            health_pb2_grpc.add_HealthServicer_to_server(states, self._server)
            for service in ("", "liveness", "readiness", SERVICE):
                await states.set(service, health_pb2.HealthCheckResponse.SERVING)
        where = "127.0.0.1:0"
        port = (self._server.add_secure_port(where, _showing(certificate)) if certificate
                else self._server.add_insecure_port(where))
        await self._server.start()
        return f"127.0.0.1:{port}"

    def stop(self):
        self._wait(self._server.stop(None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
