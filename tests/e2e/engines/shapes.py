"""The requests that users send to inference servers, by their own clients: OpenAI's and Anthropic's libraries, tritonclient, curl.
Each shape is (name, function of the address). A function raises if the server does not answer as the client expects."""

import base64
import gzip
import json
import queue
import subprocess

try:
    import anthropic
    import grpc
    import numpy
    import openai
    import tritonclient.grpc
    import tritonclient.http
    from tritonclient.grpc import service_pb2
except ImportError as missing:
    MISSING = missing.name
else:
    MISSING = None

MODEL = "random"
PATIENCE = 60
TRICKY = 'Say "user": {"model": "other", "stream": true}\n\t\u00e9\u4e16\u754c \U0001f680 \\ / \x7f \u2028 end'
USER = [{"role": "user", "content": "tell me more"}]
ROUNDS = [{"role": "system", "content": "You are brief."}, *USER, {"role": "assistant", "content": "More of what?"},
          {"role": "user", "content": [{"type": "text", "text": TRICKY}, {"type": "text", "text": "Go on."}]}]
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Looks a word up.", "parameters": {
    "type": "object", "properties": {"model": {"type": "string"}, "max_tokens": {"type": "integer"}}}}}
PIXEL = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20).decode()
LONG = " ".join(f"line {number}: the quick brown fox" for number in range(60))


def spent(stream):
    """Reads a stream to its end."""
    for _ in stream:
        pass


def why_not():
    return f"PyPI's {MISSING} is not installed (./dev setup)" if MISSING else None


# ---- OpenAI and Anthropic ------------------------------------------------------------------------


def openai_client(address):
    return openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0, timeout=PATIENCE)


def anthropic_client(address):
    return anthropic.Anthropic(base_url=f"http://{address}", api_key="none", max_retries=0, timeout=PATIENCE)


def chat(**more):
    def ask(address):
        with openai_client(address) as client:
            answer = client.chat.completions.create(**{"model": MODEL, "messages": USER, "max_tokens": 8, **more})
            spent(answer) if more.get("stream") else answer.choices[0]
    return ask


def refused(ask):
    """A request that the server may refuse: what counts is how it is passed on."""
    def try_to(address):
        try:
            ask(address)
        except openai.APIStatusError:
            pass
    return try_to


def completion(**more):
    def ask(address):
        with openai_client(address) as client:
            answer = client.completions.create(**{"model": MODEL, "prompt": "once upon", "max_tokens": 8, **more})
            spent(answer) if more.get("stream") else answer.choices[0]
    return ask


def response(**more):
    def ask(address):
        with openai_client(address) as client:
            answer = client.responses.create(**{"model": MODEL, "input": "tell me more", "max_output_tokens": 8, **more})
            if more.get("stream"):
                spent(answer)
    return ask


def message(**more):
    def ask(address):
        with anthropic_client(address) as client:
            answer = client.messages.create(**{"model": MODEL, "messages": USER, "max_tokens": 8, **more})
            if more.get("stream"):
                spent(answer)
    return ask


def count_tokens(address):
    with anthropic_client(address) as client:
        assert client.messages.count_tokens(model=MODEL, messages=USER).input_tokens > 0


def embedding(**more):
    def ask(address):
        with openai_client(address) as client:
            assert client.embeddings.create(**{"model": MODEL, "input": "one", **more}).data
    return ask


def transcription(address):
    """No server here has a model for it: it is the request that counts."""
    with openai_client(address) as client:
        client.audio.transcriptions.create(model=MODEL, file=("a.wav", b"RIFF\r\n--\0\xff" * 4000), language="en")


USAGE = {"stream_options": {"include_usage": True}}

CHAT = [
    ("chat", chat()),
    ("chat, stream", chat(stream=True)),
    ("chat, stream with usage", chat(stream=True, **USAGE)),
    ("chat, stream without usage", chat(stream=True, stream_options={"include_usage": False})),
    ("chat, rounds", chat(messages=ROUNDS, max_completion_tokens=8, max_tokens=openai.omit if not MISSING else None)),
    ("chat, rounds, stream", chat(messages=ROUNDS, stream=True, user="me", seed=1)),
    ("chat, long, stream", chat(messages=[{"role": "user", "content": LONG}], stream=True)),
    ("chat, the same again", chat(messages=[{"role": "user", "content": LONG}])),
    ("chat, two choices, stream", chat(stream=True, n=2, temperature=1.0)),
    ("chat, two choices", chat(n=2, temperature=1.0)),
    ("chat, stop", chat(stop=["e"], max_tokens=40)),
    ("chat, log probabilities, stream", chat(stream=True, logprobs=True, top_logprobs=2)),
    ("chat, tools", chat(tools=[TOOL], tool_choice="none")),
    ("chat, image", refused(chat(messages=[{"role": "user", "content": [
        {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]}]))),
    ("completion", completion()),
    ("completion, stream", completion(stream=True)),
    ("completion, stream with usage", completion(stream=True, **USAGE)),
    ("completion, tokens", completion(prompt=[5, 6, 7, 400])),
    ("completion, prompts", completion(prompt=["one", "two two", "three three three"])),
    ("response", response()),
    ("response, stream", response(stream=True)),
    ("response, rounds, stream", response(stream=True, instructions="You are brief.", input=[
        {"role": "user", "content": [{"type": "input_text", "text": TRICKY}]}])),
    ("message", message()),
    ("message, stream", message(stream=True)),
    ("message, rounds, stream", message(stream=True, system="You are brief.", messages=[
        *USER, {"role": "assistant", "content": "More of what?"},
        {"role": "user", "content": [{"type": "text", "text": TRICKY}]}])),
    ("message, count", count_tokens),
    ("transcription", refused(transcription)),
]


# ---- curl ----------------------------------------------------------------------------------------


def curl(target, body, *options, status=200):
    def ask(address):
        run = subprocess.run(["curl", "-sS", "--max-time", str(PATIENCE), "-o", "/dev/null", "-w", "%{http_code}", "-H",
                              "content-type: application/json", "--data-binary", "@-", *options,
                              f"http://{address}{target}"], input=body, capture_output=True, check=False)
        assert run.returncode == 0, run.stderr
        assert status is None or int(run.stdout) == status, f"{int(run.stdout)} and not {status}"
    return ask


def asked(**more):
    return {"model": MODEL, "messages": USER, "max_tokens": 4, **more}


CHAT_PATH = "/v1/chat/completions"
TWICE = b'{"model": "nothing", "stream": true, "max_tokens": 4, "messages": [{"role": "user", "content": "a"}],' \
        b' "stream": false, "model": "random"}'
ESCAPED = rb'{"mod\u0065l": "r\u0061ndom", "messages": [{"role": "user", "content": "\ud83d\ude80 \u0000 \"model\": \\"}],' \
          rb' "max_tokens": 4, "stream": true}'
CURL = [
    ("curl, spaces", curl(CHAT_PATH, json.dumps(asked(stream=True), indent="\t").replace("\n", "\r\n").encode() + b" \n")),
    ("curl, keys twice", curl(CHAT_PATH, TWICE)),
    ("curl, keys escaped", curl(CHAT_PATH, ESCAPED)),
    ("curl, chunked", curl(CHAT_PATH, json.dumps(asked()).encode(), "-H", "transfer-encoding: chunked")),
    ("curl, expect", curl(CHAT_PATH, json.dumps(asked(unknown="x" * 1_100_000)).encode())),
    ("curl, compressed", curl(CHAT_PATH, gzip.compress(json.dumps(asked()).encode()), "-H", "content-encoding: gzip",
                              status=None)),
    ("curl, wrong types", curl(CHAT_PATH, b'{"model": 7, "messages": "x", "stream": "yes", "max_tokens": "many"}', status=None)),
    ("curl, another type", curl(CHAT_PATH, b"[1, 2, 3]", status=None)),
    ("curl, no model", curl(CHAT_PATH, json.dumps(asked(model="nothing")).encode(), status=None)),
    ("curl, statistics in the stream", curl(CHAT_PATH, json.dumps(asked(stream=True, stream_options={
        "continuous_usage_stats": True, "include_usage": True})).encode())),
]
EMBEDDINGS = [  # llama.cpp and vLLM serve them only with options of their own
    ("embedding", embedding()),
    ("embeddings, as base64", embedding(input=["one", "two two"], encoding_format="base64")),
    ("embedding, as floats", embedding(encoding_format="float")),
    ("curl, rerank", curl("/v1/rerank", json.dumps({"model": MODEL, "query": "one", "documents": ["two", "three"]}).encode(),
                          status=None)),
]
LLAMACPP = [
    ("curl, /completion", curl("/completion", b'{"prompt": "once upon", "n_predict": 8}')),
    ("curl, /completion, stream", curl("/completion", b'{"prompt": "once upon", "n_predict": 8, "stream": true}')),
]


# ---- KServe v2 -----------------------------------------------------------------------------------


def inputs(kind, **values):
    made = []
    for name, (datatype, array) in values.items():
        made.append(kind.InferInput(name, list(array.shape), datatype))
        made[-1].set_data_from_numpy(array)
    return made


def seconds(size=1):
    return ("FP32", numpy.full(size, 0.001, numpy.float32))


def infer_http(binary=True, **more):
    def ask(address):
        with tritonclient.http.InferenceServerClient(address, network_timeout=PATIENCE) as client:
            tensor = tritonclient.http.InferInput("seconds", [1], "FP32")
            tensor.set_data_from_numpy(seconds()[1], binary_data=binary)
            wanted = [tritonclient.http.InferRequestedOutput("slept", binary_data=binary)]
            result = client.infer("work", [tensor], outputs=wanted, **more)
            assert result.as_numpy("slept").size == 1
    return ask


def infer_grpc(**more):
    def ask(address):
        with tritonclient.grpc.InferenceServerClient(address) as client:
            result = client.infer("work", inputs(tritonclient.grpc, seconds=seconds()), client_timeout=PATIENCE, **more)
            assert result.as_numpy("slept").size == 1
    return ask


def stream_grpc(address):
    answers = queue.Queue()
    with tritonclient.grpc.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("tokens", inputs(
            tritonclient.grpc, count=("INT32", numpy.array([6], numpy.int32)),
            pause=("FP32", numpy.array([0.001], numpy.float32))), sequence_id=42, sequence_start=True, sequence_end=True)
        for _ in range(6):
            result, error = answers.get(timeout=PATIENCE)
            assert error is None, error
            assert result.as_numpy("token").size == 1
        client.stop_stream()


def stream_of_mlserver(address):
    """Its streams carry bare responses, which tritonclient does not read."""
    tensors = [service_pb2.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=[1],
                                                              contents=service_pb2.InferTensorContents(**contents))
               for name, datatype, contents in (("count", "INT32", {"int_contents": [6]}),
                                                ("pause", "FP32", {"fp32_contents": [0.001]}))]
    with grpc.insecure_channel(address) as channel:
        ask = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                    request_serializer=service_pb2.ModelInferRequest.SerializeToString,
                                    response_deserializer=service_pb2.ModelInferResponse.FromString)
        request = service_pb2.ModelInferRequest(model_name="tokens", inputs=tensors)
        assert len(list(ask(iter([request]), timeout=PATIENCE))) == 6


WORK = json.dumps({"id": "mine", "parameters": {"sequence_id": 42, "priority": 1}, "inputs": [
    {"name": "seconds", "datatype": "FP32", "shape": [1], "data": [0.001]}]}, indent=1).encode()
COUNTED = {"inputs": [{"name": "count", "datatype": "INT32", "shape": [1], "data": [6]},
                      {"name": "pause", "datatype": "FP32", "shape": [1], "data": [0.001]}]}
KSERVE = [
    ("tritonclient, JSON", infer_http(binary=False)),
    ("tritonclient, request id", infer_http(binary=False, request_id="mine")),
    ("curl, infer", curl("/v2/models/work/infer", WORK)),
    ("curl, infer, wrong model", curl("/v2/models/nothing/infer", WORK, status=None)),
]
TRITON = [
    ("tritonclient, binary", infer_http()),
    ("tritonclient, sequence", infer_http(sequence_id=42, sequence_start=True, sequence_end=True)),
    ("tritonclient, gzip", infer_http(request_compression_algorithm="gzip", response_compression_algorithm="gzip")),
    ("curl, generate", curl("/v2/models/work/generate", b'{"seconds": 0.001, "text_input": "none"}', status=None)),
    ("curl, generate_stream", curl("/v2/models/tokens/generate_stream", b'{"count": 6, "pause": 0.001}')),
]
MLSERVER = [
    ("curl, infer_stream", curl("/v2/models/tokens/infer_stream", json.dumps(COUNTED).encode())),
]
KSERVE_RPC = [
    ("tritonclient, gRPC", infer_grpc()),
    ("tritonclient, gRPC with a sequence", infer_grpc(sequence_id=42, sequence_start=True, priority=1)),
]

# By engine: over HTTP, and over gRPC.
SHAPES = {
    "triton": (KSERVE + TRITON, [*KSERVE_RPC, ("tritonclient, gRPC stream", stream_grpc)]),
    "mlserver": (KSERVE + MLSERVER, [*KSERVE_RPC, ("grpcio, stream", stream_of_mlserver)]),
    "llamacpp": (CHAT + CURL + LLAMACPP, []),
    "vllm": (CHAT + CURL, []),
}
