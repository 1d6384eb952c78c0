"""The guides, tried as a reader would: the commands of each page run one after another, in a network of their own where
`gpu1` to `gpu3` are addresses of this machine and simulators stand for the engines' own commands. Every configuration in
a guide passes the check."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import case
import certificates
from process import BINARY, command

ROOT = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PATIENCE_OF_A_GUIDE = 120
ISOLATED = ["unshare", "--user", "--map-root-user", "--net", "--mount"]

# What the engines' own commands are here: NAME serves at the port that it is told, ten times faster than life.
STAND_INS = {
    "vllm": ("vllm", 8000, 1, "$2"),
    "llama-server": ("llamacpp", 8080, 1, "local"),
    "tritonserver": ("triton", 8000, 2, "resnet"),
    "sglang-server": ("sglang", 30000, 1, "$2"),
}
STAND_IN = """#!/bin/bash
port={port}
for word in "$@"; do [[ $before == --port ]] && port=$word; before=$word; done
exec evenkeel sim --engine {engine} --listen 0.0.0.0:$port --count {count} --model "{model}" --speed 10 2> /dev/null
"""
PYTHON = """#!/bin/bash
[[ "$1 $2" == "-m sglang.launch_server" ]] && exec sglang-server "${@:3}"
exec /usr/bin/python3 "$@"
"""
PRELUDE = """
ip link set lo up
mount --bind hosts /etc/hosts
set -e
PS4='$ '
"""


def blocks(page):
    """(language, text) of each block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S)


def script(page):
    """The commands of a page. A configuration is the file evenkeel.yaml of the commands behind it."""
    text = PRELUDE + "set -x\n"
    for language, block in blocks(page):
        block = block.replace("/usr/share/evenkeel", str(ROOT / "config"))  # as if it were installed
        if language == "yaml":
            text += f"cat > evenkeel.yaml <<'END'\n{block}END\n"
        elif language == "sh":
            text += block
    return text


class Guides(case.Case):
    def programs(self, folder):
        """A folder with evenkeel and the engines' commands."""
        programs = folder / "bin"
        programs.mkdir()
        (programs / "evenkeel").symlink_to(os.path.abspath(BINARY))
        texts = {name: STAND_IN.format(engine=engine, port=port, count=count, model=model)
                 for name, (engine, port, count, model) in STAND_INS.items()}
        for name, text in {**texts, "python3": PYTHON}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        return programs

    def tried(self, page):
        folder = pathlib.Path(self.folder())
        (folder / "hosts").write_text("127.0.0.1 localhost\n127.0.0.1 gpu1\n127.0.0.2 gpu2\n127.0.0.3 gpu3\n")
        for name in ("nginx.conf", "haproxy.cfg", "litellm.yaml"):
            shutil.copy(ROOT / "tests" / "import" / "samples" / name, folder / name)
        (folder / "script").write_text(script(page))
        environment = {**os.environ, "PATH": f"{self.programs(folder)}:{os.environ['PATH']}"}
        with open(folder / "output", "w", encoding="utf-8") as output:
            shell = subprocess.Popen([*ISOLATED, "bash", "script"], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                     stdout=output, stderr=output, start_new_session=True)
            try:
                status = shell.wait(PATIENCE_OF_A_GUIDE)
            except subprocess.TimeoutExpired:
                status = "time is over"
            finally:
                os.killpg(shell.pid, signal.SIGKILL)
        self.assertEqual(status, 0, f"{page.name}:\n{(folder / 'output').read_text()[-6000:]}")

    def test_each_guide_works_from_start_to_end(self):
        isolated = subprocess.run([*ISOLATED, "ip", "link"], capture_output=True, check=False)
        if isolated.returncode != 0:
            self.skipTest("no network namespaces here")
        for page in GUIDES:
            if any(language == "sh" for language, _ in blocks(page)):
                with self.subTest(page.name):
                    self.tried(page)

    def test_each_configuration_passes_the_check(self):
        folder = pathlib.Path(self.folder())
        issued = certificates.Authority(folder).issue("localhost")
        shutil.copy(issued.cert, folder / "cert.pem")
        shutil.copy(issued.key, folder / "key.pem")
        for name in ("token", "engine.key"):
            (folder / name).write_text("a-secret-of-sixteen-bytes")
        for page in GUIDES:
            for text in (text for language, text in blocks(page) if language == "yaml"):
                checked = command("check", "--offline", "-c", "-", text=text, folder=folder)
                self.assertEqual(checked.returncode, 0, f"{page.name}: {text}\n{checked.stderr}")


if __name__ == "__main__":
    case.main()
