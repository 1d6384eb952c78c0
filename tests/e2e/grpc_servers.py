"""gRPC servers: a grpcio server that its caller scripts, and the real inference servers on PyPI, Triton and MLServer."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # we start programs and do not fork
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from certificates import Certificate
from ports import free_ports

try:
    import grpc
except ImportError:
    grpc = None

SERVICE = "evenkeel.test.Echo"
LARGEST = 64 * 1024 * 1024
ANY_SIZE = [("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST)]


class Call:
    """A call as the server received it."""

    def __init__(self, method, context):
        self.method = method
        self.metadata = [(key, value) for key, value in context.invocation_metadata()]
        self.time_remaining = context.time_remaining()
        self.began = time.monotonic()
        self.ended = threading.Event()
        self.ended_at = None
        context.add_callback(self._end)

    def _end(self):
        self.ended_at = time.monotonic()
        self.ended.set()


class EchoServer:
    """grpcio's server in this process. Messages are bytes, without a schema.

    Say      unary: echoes the message; the metadata `fail-code` and `fail-text` make it fail with that status
    Collect  joins a stream of messages
    Count    answers `n` with n messages
    Chat     echoes each message as it arrives, and sends `bye` when the client has finished
    Wait     answers `waiting` and then nothing, until the call ends
    """

    def __init__(self, name="", certificate=None, described=False):
        """`described`: adds gRPC's health service and reflection."""
        self.name = name
        self.calls = []
        self._workers = concurrent.futures.ThreadPoolExecutor(max_workers=64)
        self._server = grpc.server(self._workers, options=[
            *ANY_SIZE, ("grpc.http2.min_ping_interval_without_data_ms", 1000)])
        self._server.add_generic_rpc_handlers((self._handlers(),))
        if described:
            self._describe()
        where = "127.0.0.1:0"
        bound = (self._server.add_secure_port(where, _showing(certificate)) if certificate
                 else self._server.add_insecure_port(where))
        self.address = f"127.0.0.1:{bound}"
        self._server.start()

    def _handlers(self):
        return grpc.method_handlers_generic_handler(SERVICE, {
            "Say": grpc.unary_unary_rpc_method_handler(self._say),
            "Collect": grpc.stream_unary_rpc_method_handler(self._collect),
            "Count": grpc.unary_stream_rpc_method_handler(self._count),
            "Chat": grpc.stream_stream_rpc_method_handler(self._chat),
            "Wait": grpc.unary_stream_rpc_method_handler(self._wait),
        })

    def _describe(self):
        from grpc_health.v1 import health, health_pb2_grpc  # pylint: disable=import-outside-toplevel
        from grpc_reflection.v1alpha import reflection  # pylint: disable=import-outside-toplevel
        health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), self._server)
        reflection.enable_server_reflection(["grpc.health.v1.Health", reflection.SERVICE_NAME], self._server)

    def _begin(self, method, context):
        """Sends initial metadata: the server's name, and the caller's metadata as `sent-...`; the latter also in the trailers,
        under another name."""
        call = Call(method, context)
        self.calls.append(call)
        sent = [(key, value) for key, value in call.metadata if key.startswith("sent-")]
        context.send_initial_metadata([("server", self.name), *sent])
        context.set_trailing_metadata([("trailing-" + key, value) for key, value in sent])
        return call

    def _say(self, message, context):
        call = self._begin("Say", context)
        wanted = dict(call.metadata)
        if "fail-code" in wanted:
            context.abort(grpc.StatusCode[wanted["fail-code"]],
                          wanted.get("fail-text-bin", b"").decode())
        return message

    def _collect(self, messages, context):
        self._begin("Collect", context)
        return b"".join(messages)

    def _count(self, message, context):
        self._begin("Count", context)
        for number in range(int(message)):
            yield b"%d" % number

    def _chat(self, messages, context):
        self._begin("Chat", context)
        yield from messages
        yield b"bye"

    def _wait(self, _, context):
        call = self._begin("Wait", context)
        yield b"waiting"
        call.ended.wait(60)

    def stop(self):
        self._server.stop(None).wait()
        self._workers.shutdown(wait=True)


def _showing(certificate):
    return grpc.ssl_server_credentials([(pathlib.Path(certificate.key).read_bytes(),
                                         pathlib.Path(certificate.cert).read_bytes())])


class Serving:
    """A server in its own process; its output goes to a file."""

    def __init__(self, folder, arguments, env=None):
        self.log = pathlib.Path(folder) / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                                            env={**os.environ, **(env or {})}, start_new_session=True)

    def wait_ready(self, url, within):
        deadline = time.monotonic() + within
        while not self._answers(url):
            if self.process.poll() is not None:
                raise AssertionError(f"the server has exited: {self.said()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the server is not ready after {within} s: {self.said()}")
            time.sleep(0.02)

    def _answers(self, url):
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def said(self):
        return self.log.read_text(errors="replace")[-3000:]

    def count(self, words):
        """How often it has said this."""
        return self.log.read_text(errors="replace").count(words)

    def stop(self):
        """Stops the process as a debugger does. A thread that still runs could answer once more."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        while any(each.joinpath("stat").read_text().rpartition(")")[2].split()[0] not in "Tt" for each in tasks.iterdir()):
            time.sleep(0.01)

    def kill(self):
        """Kills the server and all its child processes, which form a session."""
        if self.owns_session():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # child processes may outlive the first one
        self.process.wait()

    def owns_session(self):
        """Whether the pid still belongs to this server and has not been reused."""
        return self.process.poll() is None or not os.path.exists(f"/proc/{self.process.pid}")


class EchoProcess(Serving):
    """The EchoServer in its own process, so that a test can kill it."""

    def __init__(self, folder, name="", certificate=None):
        files = [certificate.cert, certificate.key] if certificate else []
        super().__init__(folder, [sys.executable, "-B", os.path.abspath(__file__), name, *files])
        deadline = time.monotonic() + 20
        while not self.said().endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no address: {self.said()}")
            time.sleep(0.01)
        self.address = self.said().split()[-1]


# ---- Triton: the server bundled in PyPI's nvidia-pytriton ---------------------------------------

ECHO_CONFIG = """\
name: "echo"
backend: "python"
max_batch_size: 0
input [{ name: "in" data_type: TYPE_UINT8 dims: [-1] }]
output [{ name: "out" data_type: TYPE_UINT8 dims: [-1] }]
instance_group [{ kind: KIND_CPU }]
"""

ECHO_MODEL = """\
import triton_python_backend_utils as backend

class TritonPythonModel:
    def execute(self, requests):
        return [backend.InferenceResponse([
            backend.Tensor("out", backend.get_input_tensor_by_name(each, "in").as_numpy())]) for each in requests]
"""

TOKENS_CONFIG = """\
name: "tokens"
backend: "python"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [{ name: "count" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "token" data_type: TYPE_INT32 dims: [1] }]
instance_group [{ kind: KIND_CPU }]
"""

TOKENS_MODEL = """\
import numpy
import triton_python_backend_utils as backend

class TritonPythonModel:
    def execute(self, requests):
        for each in requests:
            sender = each.get_response_sender()
            for number in range(int(backend.get_input_tensor_by_name(each, "count").as_numpy()[0])):
                sender.send(backend.InferenceResponse([backend.Tensor("token", numpy.array([number], numpy.int32))]))
            sender.send(flags=backend.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def triton_home():
    """The folder of the bundled server, or None."""
    try:
        import pytriton  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return pathlib.Path(pytriton.__file__).parent / "tritonserver"


def why_no_triton():
    """Why Triton cannot run here, or None."""
    if platform.machine() != "x86_64":
        return f"PyPI has no Triton for {platform.machine()}"
    home = triton_home()
    if home is None:
        return "PyPI's nvidia-pytriton is not installed (./dev setup)"
    if not (home / "python_backend_stubs" / _python() / "triton_python_backend_stub").exists():
        return f"this Triton has no backend for Python {_python()}"
    return None


def _python():
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def triton_backend(folder):
    """Prepares Triton's Python backend in this folder."""
    home = triton_home()
    backend = pathlib.Path(folder) / "backends" / "python"
    shutil.copytree(home / "backends" / "python", backend)
    stub = shutil.copy(home / "python_backend_stubs" / _python() / "triton_python_backend_stub", backend)
    os.chmod(stub, 0o755)


def triton_command(folder, host, http, rpc, metrics):
    """The command for the models in the folder's `models`, and its environment. Its shared memory is named
    /dev/shm/NAME-OF-FOLDER*."""
    home = triton_home()
    return [
        str(home / "bin" / "tritonserver"), f"--model-repository={folder / 'models'}",
        f"--backend-directory={folder / 'backends'}", "--allow-gpu-metrics=false",
        f"--backend-config=python,shm-region-prefix-name={folder.name}",
        *(f"--{each}-address={host}" for each in ("http", "grpc", "metrics")),
        f"--http-port={http}", f"--grpc-port={rpc}", f"--metrics-port={metrics}",
    ], {
        # The stub uses the first to find libraries, and the second to find the packages of this Python.
        "LD_LIBRARY_PATH": str(home.parents[1] / "nvidia_pytriton.libs"),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def unshare(folder):
    """Removes the shared memory that a killed Triton has left."""
    for left in pathlib.Path("/dev/shm").glob(folder.name + "*"):
        left.unlink()


class Triton(Serving):
    """Triton with Python models, by default `echo` (one tensor of bytes) and `tokens`, a decoupled model that counts."""

    def __init__(self, folder, models=(("echo", ECHO_CONFIG, ECHO_MODEL), ("tokens", TOKENS_CONFIG, TOKENS_MODEL))):
        self._folder = pathlib.Path(folder)
        triton_backend(folder)
        for name, config, model in models:
            (self._folder / "models" / name / "1").mkdir(parents=True)
            (self._folder / "models" / name / "config.pbtxt").write_text(config)
            (self._folder / "models" / name / "1" / "model.py").write_text(model)
        while not self._started(folder):
            pass

    def _started(self, folder):
        """False if another program has taken one of the ports first."""
        http, rpc, metrics = free_ports(3)
        super().__init__(folder, *triton_command(self._folder, "127.0.0.1", http, rpc, metrics))
        self.address = f"127.0.0.1:{rpc}"
        try:
            self.wait_ready(f"http://127.0.0.1:{http}/v2/health/ready", 60)
        except BaseException:
            self.kill()
            if "already in use" in self.said():
                return False
            raise
        return True

    def kill(self):
        super().kill()
        unshare(self._folder)


# ---- MLServer ------------------------------------------------------------------------------------

MLSERVER_MODELS = """\
from mlserver import MLModel
from mlserver.types import InferenceResponse, ResponseOutput

def answer(request, name, datatype, values):
    return InferenceResponse(model_name=request.model_name or "model", outputs=[
        ResponseOutput(name=name, datatype=datatype, shape=[len(values)], data=values)])

class Echo(MLModel):
    async def predict(self, payload):
        given = payload.inputs[0]
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=[
            ResponseOutput(name="out", datatype=given.datatype, shape=given.shape, data=given.data)])

class Tokens(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            for number in range(int(payload.inputs[0].data[0])):
                yield InferenceResponse(model_name=self.name, outputs=[
                    ResponseOutput(name="token", datatype="INT32", shape=[1], data=[number])])
"""


def why_no_mlserver():
    if shutil.which("mlserver", path=str(pathlib.Path(sys.executable).parent)) is None:
        return "PyPI's mlserver is not installed (./dev setup)"
    return None


class MlServer(Serving):
    """MLServer with the same two models as Triton."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        http, rpc, metrics = free_ports(3)
        (folder / "settings.json").write_text(json.dumps({
            "host": "127.0.0.1", "http_port": http, "grpc_port": rpc, "metrics_port": metrics,
            "parallel_workers": 0, "gzip_enabled": False, "grpc_max_message_length": LARGEST}))
        (folder / "echoing.py").write_text(MLSERVER_MODELS)
        for name, kind in (("echo", "Echo"), ("tokens", "Tokens")):
            (folder / name).mkdir()
            (folder / name / "model-settings.json").write_text(json.dumps(
                {"name": name, "implementation": f"echoing.{kind}"}))
        super().__init__(folder, [str(pathlib.Path(sys.executable).parent / "mlserver"), "start", str(folder)],
                         {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})
        self.address = f"127.0.0.1:{rpc}"
        try:
            self.wait_ready(f"http://127.0.0.1:{http}/v2/health/ready", 60)
        except BaseException:
            self.kill()
            raise


if __name__ == "__main__":
    print(EchoServer(sys.argv[1], Certificate(*sys.argv[2:]) if sys.argv[2:] else None).address, flush=True)
    signal.pause()
