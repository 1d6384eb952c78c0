"""Answers that come before the end of an upload reach their clients, who may still be sending."""

import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import textwrap
import time

import case
from stream import Stream, exchange

MEGABYTE = 1 << 20


class EarlyAnswers(case.Case):
    def upload(self, daemon, size, **kwargs):
        """With Python's client, which reads the response after it has sent everything."""
        host, _, port = daemon.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/", body=b"x" * size, **kwargs)
        answer = connection.getresponse()
        return answer.status, answer.getheader("connection")

    def test_a_body_over_the_limit_gets_its_413(self):
        daemon = self.start_daemon(self.backend(), workers=1)
        for _ in range(10):
            self.assertEqual(self.upload(daemon, 40 * MEGABYTE), (413, "close"))

    def test_a_backends_early_answer_arrives(self):
        def refuse(asked):
            asked.answer(b"slow down", status=429)
            asked.read_body()

        daemon = self.start_daemon(self.backend(refuse, reads_body=False), workers=1)
        for _ in range(20):
            self.assertEqual(self.upload(daemon, 5 * MEGABYTE)[0], 429)

    def test_a_chunked_upload_keeps_its_connection(self):
        def refuse(asked):
            if asked.method == "POST":
                asked.answer(b"slow down", status=429)
                asked.read_body()
            else:
                asked.answer(b"fine")

        daemon = self.start_daemon(self.backend(refuse, reads_body=False), workers=1)
        host, _, port = daemon.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/", body=iter([b"x" * 65536] * 80), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.read()), (429, b"slow down"))
        sock = connection.sock
        connection.request("GET", "/")
        self.assertEqual(connection.getresponse().status, 200)
        self.assertIs(connection.sock, sock)

    def test_an_upload_that_stalls_after_its_answer_does_not_delay_the_exit(self):
        def refuse(asked):
            asked.answer(b"no", status=413)

        for head, begun in (
            (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
            (b"Content-Length: 1000000", b"x" * 1000),
        ):
            daemon = self.start_daemon(self.backend(refuse, reads_body=False), workers=1)
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n" + begun)
            self.assertEqual(stream.read_head().status, 413)
            began = time.monotonic()
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait_exit(20), 0)
            self.assert_within(time.monotonic() - began, 4, head)

    def test_the_file_bounds_what_is_read(self):
        daemon = self.start_daemon(self.backend(), workers=1, listeners=[
            {"name": "public", "limits": {"body": "1MiB", "linger": "0B"}, "timeouts": {"linger": "1s"}}])
        with self.assertRaises(OSError):
            for _ in range(10):
                self.upload(daemon, 60 * MEGABYTE)
        self.assertEqual(exchange(daemon.address).status, 200)

    def check_client(self, command):
        """`command` ADDRESS MEGABYTES uploads and prints the status, or the error."""
        def refuse(asked):
            asked.answer(b"slow down", status=429)
            asked.read_body()

        full = self.start_daemon(self.backend(), workers=1)
        busy = self.start_daemon(self.backend(refuse, reads_body=False), workers=1, listeners=[
            {"name": "public", "limits": {"body": "64MiB"}}])
        for daemon, size, status in ((full, 40, "413"), (busy, 5, "429"), (busy, 40, "429")):
            for _ in range(5):
                done = subprocess.run([*command, daemon.address, str(size)], capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual(done.stdout.split()[:1], [status], done.stderr)

    def test_node_sees_its_answers(self):
        node = shutil.which("node")
        if node is None:
            self.skipTest("no node")
        self.check_client([node, "-e", textwrap.dedent("""
            const http = require('http');
            const [host, port] = process.argv[1].split(':');
            let left = Number(process.argv[2]);
            const request = http.request({host, port, method: 'POST', path: '/',
                                          headers: {'content-length': left << 20}}, response => {
              console.log(response.statusCode); response.resume();
            });
            request.on('error', error => { console.log(error.code); });
            const piece = Buffer.alloc(1 << 20);
            const more = () => { while (left-- > 0) if (!request.write(piece)) return request.once('drain', more);
                                 request.end(); };
            more();
        """)])

    def test_go_sees_its_answers(self):
        go = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
        if go is None:
            self.skipTest("no go")
        folder = pathlib.Path(self.folder())
        (folder / "upload.go").write_text(textwrap.dedent("""
            package main

            import (
                "bytes"
                "fmt"
                "net/http"
                "os"
                "strconv"
            )

            func main() {
                size, _ := strconv.Atoi(os.Args[2])
                response, err := http.Post("http://"+os.Args[1]+"/", "text/plain", bytes.NewReader(make([]byte, size<<20)))
                if err != nil {
                    fmt.Println(err)
                    return
                }
                fmt.Println(response.StatusCode)
            }
        """))
        client = str(folder / "upload")
        built = subprocess.run([go, "build", "-o", client, "upload.go"], cwd=folder, capture_output=True, text=True, timeout=100,
                               env={**os.environ, "GO111MODULE": "off", "GOFLAGS": ""}, check=False)
        if built.returncode != 0:
            self.skipTest(f"go cannot build: {built.stderr[:200]}")
        self.check_client([client])


if __name__ == "__main__":
    case.main()
