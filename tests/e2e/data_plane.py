"""A data plane of the Endpoint Picker Protocol: the client side of Envoy's ext_proc. It checks what Envoy relies on: the
order of answers, the sizes of pieces, and that header and metadata name the same backend."""

import contextlib
import os
import pathlib
import queue
import shutil
import subprocess

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    grpc = None

PATIENCE = 20
PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
DESTINATION = "x-gateway-destination-endpoint"
SUBSET = "x-gateway-destination-endpoint-subset"
SERVED = "x-gateway-destination-endpoint-served"
MOST_BYTES = 62_000  # of a piece

why_not = (None if grpc is not None and shutil.which("protoc")
           else "PyPI's grpcio (./dev setup) or protoc is not installed")


def _messages():
    """The classes of messages by name, from the schema of the daemon."""
    source = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR", ".")) / "src/epp/proto/ext_proc.proto"
    read = subprocess.run(["protoc", f"-I{source.parent}", "--descriptor_set_out=/dev/stdout", source.name],
                          check=True, capture_output=True, timeout=60)
    files = descriptor_pb2.FileDescriptorSet.FromString(read.stdout)
    return message_factory.GetMessages(files.file, pool=descriptor_pool.DescriptorPool())


if why_not is None:
    _CLASSES = _messages()

    def message(name):
        return _CLASSES[f"evenkeel.ext_proc.{name}"]()


NONE, STREAMED, BUFFERED, BUFFERED_PARTIAL, DUPLEX = range(5)


class Refused(Exception):
    """An ImmediateResponse."""

    def __init__(self, immediate):
        self.status = immediate.status.code
        self.headers = {each.header.key: each.header.raw_value.decode() for each in immediate.headers.set_headers}
        self.body = immediate.body
        self.details = immediate.details
        self.grpc_status = immediate.grpc_status.status
        super().__init__(f"{self.status}: {self.body.decode(errors='replace')}")


class Stream:
    """One call of Process."""

    def __init__(self, channel, timeout=PATIENCE):
        self._sent = queue.Queue()
        self._call = channel.stream_stream(
            PROCESS, request_serializer=lambda sent: sent.SerializeToString(),
            response_deserializer=_CLASSES["evenkeel.ext_proc.ProcessingResponse"].FromString)(
                iter(self._sent.get, None), timeout=timeout)

    def send(self, kind, fill, **more):
        sent = message("ProcessingRequest")
        part = getattr(sent, kind)
        part.SetInParent()
        fill(part)
        for name, value in more.items():
            getattr(sent, name).CopyFrom(value)
        self._sent.put(sent)

    def receive(self, wanted=None):
        """The next answer, None at the end. `wanted`: its only right kind."""
        got = next(self._call, None)
        if got is None:
            assert wanted is None, f"the stream ended, with {self._call.code()}, before {wanted}"
            return None
        kind = got.WhichOneof("response")
        if kind == "immediate_response":
            raise Refused(got.immediate_response)
        assert wanted in (None, kind), f"{kind} in place of {wanted}"
        return got

    def end(self):
        """No message follows."""
        self._sent.put(None)

    def cancel(self):
        self._call.cancel()

    def code(self):
        return self._call.code()

    def wait_end(self):
        """Nothing but the end is left; returns the status."""
        rest = [each.WhichOneof("response") for each in self._call]
        assert rest == [], rest
        return self.code()


def headers_of(fields):
    def fill(part):
        for name, value in fields:
            added = part.headers.headers.add()
            added.key = name
            added.raw_value = value.encode("latin-1")
    return fill


def metadata_of(space, name, value):
    made = message("Metadata")
    inside = made.filter_metadata[space].fields[name]
    if isinstance(value, str):
        inside.string_value = value
    else:
        for each in value:
            inside.list_value.values.add().string_value = each
    return made


def fields_of(mutation):
    return {each.header.key: each.header.raw_value.decode() for each in mutation.set_headers}


class Exchange:
    """A request of a client through the data plane, in modes of bodies that Envoy has."""

    def __init__(self, channel, method="POST", path="/v1/chat/completions", body=b"", fields=(), subset=None,
                 modes=(DUPLEX, DUPLEX), piece=60_000, timeout=PATIENCE, content_type="application/json"):
        self.stream = Stream(channel, timeout)
        self.modes = modes
        self.changes = {}
        self.removed = []
        self.endpoint = None
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "models.example"),
                ("content-type", content_type), *fields]
        if body:
            head.append(("content-length", str(len(body))))
        more = {}
        if subset is not None:
            more["metadata_context"] = metadata_of("envoy.lb.subset_hint", SUBSET, subset)
        if modes is not None:
            more["protocol_config"] = message("ProtocolConfiguration")
            more["protocol_config"].request_body_mode, more["protocol_config"].response_body_mode = modes

        def fill(part):
            headers_of(head)(part)
            part.end_of_stream = not body
        self.stream.send("request_headers", fill, **more)
        self._body = body
        self._piece = piece

    def pick(self):
        """Sends the body, and takes the pick and the body as it comes back. Returns the backend."""
        mode = DUPLEX if self.modes is None else self.modes[0]
        if self._body and mode == DUPLEX:
            self._send_pieces()
        if self._body and mode == BUFFERED:
            answer = self.stream.receive("request_headers")
            self.stream.send("request_body", lambda part: (setattr(part, "body", self._body),
                                                           setattr(part, "end_of_stream", True)))
            if not answer.request_headers.response.header_mutation.set_headers:
                answer = self.stream.receive("request_body")
                self.body = answer.request_body.response.body_mutation.body
                return self._read_pick(answer, answer.request_body.response)
            self._read_pick(answer, answer.request_headers.response)
            self.body = self.stream.receive("request_body").request_body.response.body_mutation.body
            return self.endpoint
        answer = self.stream.receive("request_headers")
        self._read_pick(answer, answer.request_headers.response)
        self.body = self._read_pieces("request_body") if self._body and mode == DUPLEX else b""
        return self.endpoint

    def _send_pieces(self):
        for at in range(0, len(self._body), self._piece):
            piece = self._body[at:at + self._piece]
            last = at + self._piece >= len(self._body)
            self.stream.send("request_body", lambda part, piece=piece, last=last: (
                setattr(part, "body", piece), setattr(part, "end_of_stream", last)))

    def _read_pieces(self, kind):
        whole = []
        while True:
            piece = getattr(self.stream.receive(kind), kind).response.body_mutation.streamed_response
            assert len(piece.body) <= MOST_BYTES, len(piece.body)
            whole.append(piece.body)
            if piece.end_of_stream:
                return b"".join(whole)

    def _read_pick(self, answer, common):
        self.changes = fields_of(common.header_mutation)
        self.removed = list(common.header_mutation.remove_headers)
        self.endpoint = self.changes.pop(DESTINATION)
        named = answer.dynamic_metadata.fields["envoy.lb"].struct_value.fields[DESTINATION].string_value
        assert named == self.endpoint, f"metadata names {named}, the header {self.endpoint}"
        assert common.clear_route_cache
        return self.endpoint

    # ---- the response ----

    def begin_response(self, status=200, fields=(), served=None, ended=False):
        """Tells of the head of a response, and takes what has become of it."""
        more = {}
        if served:
            more["metadata_context"] = metadata_of("envoy.lb", SERVED, served)

        def fill(part):
            headers_of([(":status", str(status)), *fields])(part)
            part.end_of_stream = ended
        self.stream.send("response_headers", fill, **more)
        answer = self.stream.receive("response_headers").response_headers.response.header_mutation
        self.response_changes = fields_of(answer)
        self.response_removed = list(answer.remove_headers)

    def send_response(self, piece, last=False):
        self.stream.send("response_body", lambda part: (setattr(part, "body", piece),
                                                        setattr(part, "end_of_stream", last)))

    def read_response(self):
        """A piece of the response, as it comes back."""
        piece = self.stream.receive("response_body").response_body.response.body_mutation.streamed_response
        return piece.body, piece.end_of_stream

    def respond(self, body, status=200, fields=(("content-type", "application/json"),), served=None):
        """A whole response; returns its body as it comes back."""
        fields = [*fields, ("content-length", str(len(body)))]
        self.begin_response(status, fields, served)
        self.send_response(body, True)
        whole = self._read_pieces("response_body")
        assert self.stream.wait_end() == grpc.StatusCode.OK
        return whole


@contextlib.contextmanager
def refused():
    """Yields a list that has the refusal afterwards."""
    caught = []
    try:
        yield caught
    except Refused as refusal:
        caught.append(refusal)
    assert caught, "no ImmediateResponse"
