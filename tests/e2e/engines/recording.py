"""Records what an engine answers to each shape of request: recording.py ENGINE FOLDER. Writes NAME.sse, NAME.json or NAME.bin (the body of
the response, without HTTP's framing), and NAME.request (what was sent) into FOLDER/ENGINE. The responses in
tests/inference/answers were recorded so."""

import pathlib
import re
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import servers  # pylint: disable=wrong-import-position
import shapes  # pylint: disable=wrong-import-position
from ports import free_ports  # pylint: disable=wrong-import-position
from process import wait_until  # pylint: disable=wrong-import-position
from tap import Tap  # pylint: disable=wrong-import-position


def file_name(name):
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def keep(folder, name, exchange):
    said = exchange.answered.get("content-type", "").partition(";")[0]
    kind = {"text/event-stream": "sse", "application/json": "json"}.get(said, "bin")
    (folder / f"{file_name(name)}.{kind}").write_bytes(exchange.readable())
    fields = "".join(f"{key}: {value}\n" for key, value in exchange.fields.items() if key.startswith("content-"))
    (folder / f"{file_name(name)}.request").write_bytes(
        f"{exchange.method} {exchange.target}\n{fields}\n".encode() + exchange.sent)


def record(kind, folder, wanted):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-e2e-", ignore_cleanup_errors=True) as scratch:
        ports = dict(zip(kind.ports, free_ports(len(kind.ports))))
        server = kind(pathlib.Path(scratch) / pathlib.Path(scratch).name[-8:], servers.FIRST_HOST, ports, loading_seconds=0)
        server.start()
        tap = Tap(server.address)
        try:
            server.serving.wait_ready(f"http://{server.address}{kind.readiness}", 3 * kind.patience)
            for name, ask in wanted:
                before = len(tap.exchanges())
                try:
                    ask(tap.address)
                except Exception:  # pylint: disable=broad-exception-caught
                    traceback.print_exc(limit=1)
                wait_until(lambda: len(tap.exchanges()) > before, what="the end of the response")  # pylint: disable=cell-var-from-loop
                for each in tap.exchanges()[before:]:
                    print(f"{name:<34} {each}  {len(each.sent)} -> {len(each.received)} bytes", flush=True)
                    keep(folder, name, each)
        finally:
            tap.close()
            server.kill()


def main(name, folder):
    why_not = shapes.why_not() or servers.ENGINES[name].why_not()
    if why_not:
        sys.exit(why_not)
    record(servers.ENGINES[name], pathlib.Path(folder) / name, shapes.SHAPES[name][0])
    if name == "llamacpp":
        record(servers.LlamaEmbeddings, pathlib.Path(folder) / name, shapes.EMBEDDINGS)


if __name__ == "__main__":
    main(*sys.argv[1:])
