"""The real inference servers, one class each: how to start, stop and kill it, which requests to send, and what to expect. Two
instances of a class form a pool."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

from grpc_servers import LARGEST, Serving, triton_backend, triton_command, unshare, why_no_mlserver, why_no_triton
from installing import MODELS, Home
from ports import free_port

FIRST_HOST = "127.0.0.1"
JSON = {"content-type": "application/json"}


@dataclasses.dataclass(frozen=True)
class Ask:
    """A request, and how a complete response ends."""

    target: str
    body: dict = None
    ends: bytes = b""

    @property
    def method(self):
        return "GET" if self.body is None else "POST"

    def payload(self):
        return None if self.body is None else json.dumps(self.body).encode()


class Server:
    """One server on its own loopback address, with the same ports as the other one."""

    name = None
    title = None  # for display
    engine = None  # the engine that evenkeel must detect
    ports = ("http",)  # what it listens on
    models = ()
    checked_port = None  # port of its checks, if it differs from that of requests
    scraped_by = None  # how the file gives the metrics: `port` of the pool, or `url` of each backend
    readiness = "/health"  # path that the preset checks
    trap = None  # a case in which readiness is wrong; `provoke` causes it
    trap_takes_out = False  # whether evenkeel must take it out of rotation until `calm`
    patience = 30  # seconds for its start
    start_fault = None  # what it says when a start fails now and then for a reason of its own
    signals = frozenset()  # which of running, waiting, kv_cache_ratio its metrics have
    exposition_seconds = 0  # how old its values may be
    openai = False  # whether `evenkeel load` can drive it
    quick = None  # an Ask that it answers at once
    busy = None  # an Ask that keeps it busy for a while
    long = None  # an Ask whose stream takes 5 s or more
    core = None  # name of the process that does the work, if the server can lose it and go on

    @staticmethod
    def why_not():
        """Why it cannot run here, or None."""

    other_stops = ()  # further ways to stop it, besides SIGTERM with default options

    def __init__(self, folder, host, ports, loading_seconds=2.0, stopping=None):
        """`ports`: by name; `stopping`: one of `other_stops`."""
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.host = host
        self.port = dict(ports)
        self.loading_seconds = loading_seconds
        self.stopping = stopping
        self.serving = None
        self.killed_at = None  # when `kill` sent its signal
        self.shared = set()  # its shared memory at SIGTERM
        self.address = f"{host}:{ports['http']}"
        self.prepare()

    def prepare(self):
        """Writes its models and settings, once."""

    def command(self):
        """Its command line and environment."""
        raise NotImplementedError

    def start(self):
        self.serving = Serving(self.folder, *self.command())

    def running(self):
        return self.serving is not None and self.serving.process.poll() is None

    def kill(self):
        """Kills all its processes, as a power failure would, and removes its shared memory."""
        if self.serving is None:
            return
        family = family_of(self.serving.process.pid) if self.serving.owns_session() else []
        shared = self.shared | shared_by(family)
        self.killed_at = time.monotonic()
        self.serving.kill()
        for each in family:  # some start their own sessions
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        for each in shared:
            each.unlink(missing_ok=True)

    def terminate(self):
        """Stops it as an operator does. vLLM does not always clean up when it exits."""
        self.shared |= shared_by(family_of(self.serving.process.pid))
        self.serving.process.send_signal(signal.SIGTERM)

    def provoke(self):
        """Causes its trap, until `calm` or until it ends by itself."""

    def calm(self):
        pass

    def tokens_on_page(self):
        """How many tokens it has generated, as its metrics say; None: they do not."""

    @classmethod
    def embedding_server(cls, folder):
        """Another server, ready, that serves /v1/embeddings; None: there is none."""

    aborts = False  # whether it stops working for a client that has left

    def ended_early(self):
        """Something that changes when it stops working for a client that has left; None: it does not tell."""

    def exposition_url(self):
        return f"http://{self.host}:{self.port.get('metrics', self.port['http'])}/metrics"

    def version(self):
        raise NotImplementedError

    def said(self):
        return self.serving.said() if self.serving else ""


def version_of(python, package):
    """Version of a package in another Python environment."""
    return subprocess.run([python, "-c", "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))", package],
                          capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def told(url, method="POST"):
    with urllib.request.urlopen(urllib.request.Request(url, b"", JSON, method=method), timeout=30) as answer:
        answer.read()


def asked_over_http(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
        return json.load(answer)


# ---- KServe v2: Triton and MLServer --------------------------------------------------------------


class Kserve(Server):
    """Two models: `work` sleeps for a given time, and `tokens` streams numbers at a given pace."""

    ports = ("http", "grpc", "metrics")
    models = ("work", "tokens")
    readiness = "/v2/health/ready"

    @staticmethod
    def working(seconds):
        return Ask("/v2/models/work/infer", {"inputs": [
            {"name": "seconds", "datatype": "FP32", "shape": [1], "data": [seconds]}]})

    def version(self):
        return asked_over_http(self.address, "/v2")["version"]


TRITON_MODEL = """\
import os, time
import numpy
import triton_python_backend_utils as backend

class TritonPythonModel:
    def initialize(self, args):
        time.sleep({loading_seconds})

    def execute(self, requests):
        return self.{kind}(requests)

    def work(self, requests):
        answers = []
        for each in requests:
            seconds = backend.get_input_tensor_by_name(each, "seconds").as_numpy()
            time.sleep(float(seconds[0]))
            answers.append(backend.InferenceResponse([backend.Tensor("slept", seconds)]))
        return answers

    def tokens(self, requests):
        for each in requests:
            sender = each.get_response_sender()
            count = int(backend.get_input_tensor_by_name(each, "count").as_numpy()[0])
            pause = float(backend.get_input_tensor_by_name(each, "pause").as_numpy()[0])
            for number in range(count):
                if each.is_cancelled():
                    print("stopped at", number, flush=True)
                    break
                sender.send(backend.InferenceResponse([
                    backend.Tensor("token", numpy.array([number], numpy.int32))]))
                time.sleep(pause)
            sender.send(flags=backend.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

TRITON_WORK = """\
name: "{name}"
backend: "python"
max_batch_size: 0
input [{{ name: "seconds" data_type: TYPE_FP32 dims: [1] }}]
output [{{ name: "slept" data_type: TYPE_FP32 dims: [1] }}]
instance_group [{{ kind: KIND_CPU count: 1 }}]
"""

TRITON_TOKENS = """\
name: "tokens"
backend: "python"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [{ name: "count" data_type: TYPE_INT32 dims: [1] }, { name: "pause" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "token" data_type: TYPE_INT32 dims: [1] }]
instance_group [{ kind: KIND_CPU count: 2 }]
"""


class Triton(Kserve):
    name = "triton"
    title = "Triton"
    engine = "triton"
    scraped_by = "port"
    start_fault = "boost::interprocess::lock_exception"  # of its Python backend, after a kill on a busy machine
    signals = frozenset({"waiting"})
    quick = Kserve.working(0.005)
    busy = Kserve.working(0.2)
    late_model = "late"  # loaded on request; takes 3 s
    trap = "one more model loads"

    why_not = staticmethod(why_no_triton)

    long = Ask("/v2/models/tokens/generate_stream", {"count": 100, "pause": 0.05}, ends=b'"token":99}\n\n')

    def prepare(self):
        triton_backend(self.folder)
        for name, config, kind, seconds in (
                ("work", TRITON_WORK.format(name="work"), "work", self.loading_seconds),
                ("tokens", TRITON_TOKENS, "tokens", 0),
                (self.late_model, TRITON_WORK.format(name=self.late_model), "work", 3)):
            (self.folder / "models" / name / "1").mkdir(parents=True)
            (self.folder / "models" / name / "config.pbtxt").write_text(config)
            (self.folder / "models" / name / "1" / "model.py").write_text(
                TRITON_MODEL.replace("{kind}", kind).replace("{loading_seconds}", str(seconds)))

    def command(self):
        command, environment = triton_command(self.folder, self.host, *self.port.values())
        return [*command, "--model-control-mode=explicit",
                *(f"--load-model={each}" for each in self.models)], environment

    def provoke(self):
        told(f"http://{self.address}/v2/repository/models/{self.late_model}/load")

    aborts = True

    def ended_early(self):
        return self.serving.count("stopped at")

    def kill(self):
        super().kill()
        unshare(self.folder)


MLSERVER_MODELS = """\
import asyncio
from mlserver import MLModel
from mlserver.types import InferenceResponse, ResponseOutput

def answer(model, name, datatype, value):
    return InferenceResponse(model_name=model.name, outputs=[
        ResponseOutput(name=name, datatype=datatype, shape=[1], data=[value])])

class Work(MLModel):
    async def load(self):
        await asyncio.sleep(%s)
        return True

    async def predict(self, payload):
        seconds = float(payload.inputs[0].data[0])
        await asyncio.sleep(seconds)
        return answer(self, "slept", "FP32", seconds)

class Tokens(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            count, pause = (each.data[0] for each in payload.inputs)
            try:
                for number in range(int(count)):
                    yield answer(self, "token", "INT32", number)
                    await asyncio.sleep(float(pause))
            except (GeneratorExit, asyncio.CancelledError):
                print("stopped at", number, flush=True)
                raise
"""


class MlServer(Kserve):
    name = "mlserver"
    title = "MLServer"
    engine = "mlserver"
    scraped_by = "port"
    signals = frozenset({"running"})
    quick = Kserve.working(0.005)
    busy = Kserve.working(0.5)
    trap = "a model is unloaded"
    trap_takes_out = True

    why_not = staticmethod(why_no_mlserver)

    long = Ask("/v2/models/tokens/infer_stream", {"inputs": [
        {"name": "count", "datatype": "INT32", "shape": [1], "data": [100]},
        {"name": "pause", "datatype": "FP32", "shape": [1], "data": [0.05]}]}, ends=b'"data":[99]}]}\n\n')

    def prepare(self):
        (self.folder / "settings.json").write_text(json.dumps({
            "host": self.host, **{f"{name}_port": port for name, port in self.port.items()},
            "parallel_workers": 0, "gzip_enabled": False, "grpc_max_message_length": LARGEST}))
        (self.folder / "waiting.py").write_text(MLSERVER_MODELS % self.loading_seconds)
        for name, kind in (("work", "Work"), ("tokens", "Tokens")):
            (self.folder / name).mkdir()
            (self.folder / name / "model-settings.json").write_text(json.dumps(
                {"name": name, "implementation": f"waiting.{kind}"}))

    def provoke(self):
        told(f"http://{self.address}/v2/repository/models/work/unload")

    def calm(self):
        told(f"http://{self.address}/v2/repository/models/work/load")

    def ended_early(self):
        return self.serving.count("stopped at")

    def command(self):
        return [str(pathlib.Path(sys.executable).parent / "mlserver"), "start", str(self.folder)], {
            "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}


# ---- OpenAI API: llama.cpp and vLLM --------------------------------------------------------------


def chat(tokens, stream=False, **more):
    return Ask("/v1/chat/completions", {
        "model": "random", "messages": [{"role": "user", "content": "tell me more"}], "max_tokens": tokens,
        "stream": stream, **more}, ends=b"data: [DONE]\n\n" if stream else b"}")


class OpenAi(Server):
    models = ("random",)
    openai = True
    aborts = True
    running_family = None  # of its metrics
    generated_family = None
    quick = chat(2)
    busy = chat(30, ignore_eos=True)
    long = chat(6000, stream=True, ignore_eos=True)

    def ended_early(self):
        return value_of(self.exposition_url(), self.running_family) == 0

    def tokens_on_page(self):
        return value_of(self.exposition_url(), self.generated_family)


class LlamaCpp(OpenAi):
    name = "llamacpp"
    title = "llama.cpp"
    engine = "llamacpp"
    running_family = "llamacpp:requests_processing"
    generated_family = "llamacpp:tokens_predicted_total"
    more = ()  # options
    signals = frozenset({"running", "waiting"})

    @staticmethod
    def why_not():
        return None if (Home("llamacpp").path / "llama-server").exists() else "llama-server is not installed"

    def command(self):
        home = Home("llamacpp").path
        return [str(home / "llama-server"), "-m", str(home / "random.gguf"), "--alias", "random", "--load-mode", "none",
                "--host", self.host, "--port", str(self.port["http"]), "-c", "16384", "-np", "2", "-t", "1",
                "--metrics", "--slots", *self.more], {}

    def version(self):
        said = subprocess.run([self.command()[0][0], "--version"], capture_output=True, text=True, check=True)
        return re.search(r"version: (.*)", said.stdout + said.stderr)[1]

    @classmethod
    def embedding_server(cls, folder):
        server = LlamaEmbeddings(folder, FIRST_HOST, {"http": free_port()})
        server.start()
        server.serving.wait_ready(f"http://{server.address}{server.readiness}", server.patience)
        return server


class LlamaEmbeddings(LlamaCpp):
    """One that computes embeddings and generates nothing."""

    more = ("--embeddings", "--pooling", "mean")


class Vllm(OpenAi):
    name = "vllm"
    title = "vLLM"
    engine = "vllm"
    running_family = "vllm:num_requests_running"
    generated_family = "vllm:generation_tokens_total"
    signals = frozenset({"running", "waiting", "kv_cache_ratio"})
    patience = 240
    other_stops = ("--shutdown-timeout",)
    core = "VLLM::EngineCore"
    model = "random"  # folder, by default in its home
    more = ()  # options
    variables = {}  # of its environment

    @staticmethod
    def why_not():
        return None if (Home("vllm").path / "random").exists() else "vLLM is not installed"

    def command(self):
        home = Home("vllm")
        more = [*self.more, *([self.stopping, "20"] if self.stopping else [])]
        return [home.program("vllm"), "serve", str(home.path / self.model), "--served-model-name", "random",
                "--host", self.host, "--port", str(self.port["http"]), "--dtype", "float32", "--max-model-len", "8192",
                "--max-num-seqs", "4", "--enforce-eager", *more], {
                    "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                    "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
                    "HOME": str(self.folder), "PATH": f"{home.path}/venv/bin:{os.environ['PATH']}", **self.variables}

    def version(self):
        return asked_over_http(self.address, "/version")["version"]


# ---- Ray Serve and TorchServe -------------------------------------------------------------------


class Ray(Server):
    name = "ray"
    title = "Ray Serve"
    engine = "ray"
    ports = ("http", "metrics", "metrics_of_second")
    scraped_by = "url"
    readiness = "/-/healthz"
    patience = 90
    signals = frozenset({"running", "waiting"})
    exposition_seconds = 15
    quick = Ask("/work?seconds=0.005", ends=b"done")
    busy = Ask("/work?seconds=3", ends=b"done")
    long = Ask("/stream?count=100&pause=0.05", ends=b"data: [DONE]\n\n")

    @staticmethod
    def why_not():
        return None if pathlib.Path(Home("ray").program("serve")).exists() else "Ray is not installed"

    def prepare(self):
        """Its metrics page listens on all addresses, so two servers need two ports."""
        second = self.port.pop("metrics_of_second")
        if self.host != FIRST_HOST:
            self.port["metrics"] = second

    def command(self):
        told = [self.host, self.port["http"], self.port["metrics"], self.folder, self.loading_seconds]
        return [Home("ray").program("python3"), "-B", str(MODELS / "ray_app.py"), *map(str, told)], {
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "120"}

    def version(self):
        return version_of(Home("ray").program("python3"), "ray")


class TorchServe(Server):
    name = "torchserve"
    title = "TorchServe"
    engine = "torchserve"
    ports = ("http", "management", "metrics", "grpc", "grpc_management")
    models = ("wait",)
    checked_port = "management"  # /models/M lists the workers of a model
    trap = "all workers are gone"
    trap_takes_out = True
    scraped_by = "port"
    readiness = "/ping"
    patience = 60
    signals = frozenset()
    quick = Ask("/predictions/wait", {"seconds": 0.005}, ends=b"done")
    busy = Ask("/predictions/wait", {"seconds": 0.3}, ends=b"done")
    long = Ask("/predictions/wait", {"count": 100, "pause": 0.05}, ends=b"done")

    @staticmethod
    def why_not():
        if not pathlib.Path(Home("torchserve").program("torchserve")).exists():
            return "TorchServe is not installed"
        return None if shutil.which("java") else "TorchServe needs Java"

    def prepare(self):
        (self.folder / "loading-seconds.txt").write_text(str(self.loading_seconds))
        (self.folder / "store").mkdir()
        (self.folder / "settings.properties").write_text("\n".join([
            f"inference_address=http://{self.address}",
            f"management_address=http://{self.host}:{self.port['management']}",
            f"metrics_address=http://{self.host}:{self.port['metrics']}",
            f"grpc_inference_address={self.host}", f"grpc_management_address={self.host}",
            f"grpc_inference_port={self.port['grpc']}", f"grpc_management_port={self.port['grpc_management']}",
            f"initial_worker_port={9000 + 100 * int(self.host.rpartition('.')[2])}",  # part of the names of their sockets
            "metrics_mode=prometheus", "default_workers_per_model=1", "job_queue_size=50", ""]))
        subprocess.run([Home("torchserve").program("torch-model-archiver"), "--model-name", "wait", "--version", "1.0",
                        "--handler", str(MODELS / "torchserve_handler.py"),
                        "--extra-files", str(self.folder / "loading-seconds.txt"),
                        "--export-path", str(self.folder / "store")],
                       env={**os.environ, **self.environment()}, check=True, capture_output=True, timeout=60)

    def environment(self):
        """Its own folder for temporary files, where it detects other instances."""
        home = Home("torchserve")
        return {"TMPDIR": str(self.folder), "PYTHONPATH": str(MODELS / "torch_stand_in"),
                "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{home.path}/venv/bin:{os.environ['PATH']}"}

    def command(self):
        return [Home("torchserve").program("torchserve"), "--start", "--foreground", "--disable-token-auth",
                "--model-store", str(self.folder / "store"), "--models", "wait=wait.mar",
                "--ts-config", str(self.folder / "settings.properties")], self.environment()

    def provoke(self):
        self.have_workers(0)

    def calm(self):
        self.have_workers(1)

    def have_workers(self, count):
        told(f"http://{self.host}:{self.port['management']}/models/wait"
             f"?min_worker={count}&max_worker={count}&synchronous=true", "PUT")

    def terminate(self):
        """Sends the signal to Java, because the launcher does not pass it on."""
        for each in family_of(self.serving.process.pid):
            with contextlib.suppress(OSError):
                if os.path.basename(os.readlink(f"/proc/{each}/exe")) == "java":
                    os.kill(each, signal.SIGTERM)

    def version(self):
        return version_of(Home("torchserve").program("python3"), "torchserve")


def shared_by(family):
    """Named shared memory; Python's psm_* segments remain when a process is killed."""
    found = set()
    for each in family:
        with contextlib.suppress(OSError):
            found.update(re.findall(r" (/dev/shm/[^ \n]+)$", pathlib.Path(f"/proc/{each}/maps").read_text(), re.M))
    return {pathlib.Path(each) for each in found}


def title_of(pid):
    """The command line of a process."""
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def value_of(url, family):
    """The sum of a family on a metrics page."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        page = answer.read().decode()
    return sum(float(each) for each in re.findall(rf"^{re.escape(family)}(?:{{.*}})? (\S+)", page, re.M))


def family_of(pid):
    """All processes of its session and their descendants."""
    children, found = {}, []
    for each in os.listdir("/proc"):
        if each.isdigit():
            with contextlib.suppress(OSError):
                stat = pathlib.Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
                parent, session = int(stat[1]), int(stat[3])
                children.setdefault(parent, []).append(int(each))
                if session == pid:
                    found.append(int(each))
    for each in found:  # the list grows
        found += [child for child in children.get(each, []) if child not in found]
    return found


ENGINES = {each.name: each for each in (Triton, MlServer, LlamaCpp, Vllm, Ray, TorchServe)}
