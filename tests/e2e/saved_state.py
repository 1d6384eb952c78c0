"""The state file, read by the description of its message."""

import importlib
import pathlib
import subprocess
import sys
import tempfile

PROTO = pathlib.Path(__file__).resolve().parents[2] / "src" / "state" / "proto"
FORMAT = b"evenkeel state 3 "


def _message_type():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", "state.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("state_pb2").State
        finally:
            sys.path.remove(folder)


State = _message_type()


def read(path):
    """What the file says of each backend, by id. Of one pool."""
    head, _, content = path.read_bytes().partition(b"\n")
    assert head.startswith(FORMAT), head
    message = State()
    message.ParseFromString(content)
    return {each.id.decode(): each for each in message.backends}
