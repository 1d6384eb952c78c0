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
from certificates import Authority
from http2 import CANCEL, NO_ERROR, WINDOW_UPDATE, Wire, data, rst_stream, window_update
from stream import Stream, exchange

MEGABYTE = 1 << 20


def go_client(test):
    """A program whose arguments are an address or URL, and a number of megabytes or a file."""
    go = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
    if go is None:
        test.skipTest("no go")
    folder = pathlib.Path(test.folder())
    (folder / "upload.go").write_text(textwrap.dedent("""
        package main

        import (
            "bytes"
            "crypto/tls"
            "fmt"
            "net/http"
            "os"
            "strconv"
            "strings"
        )

        func main() {
            url := os.Args[1]
            if !strings.Contains(url, "://") {
                url = "http://" + url + "/"
            }
            var body []byte
            if size, err := strconv.Atoi(os.Args[2]); err == nil {
                body = make([]byte, size<<20)
            } else {
                body, _ = os.ReadFile(os.Args[2])
            }
            client := http.Client{Transport: &http.Transport{
                ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
            response, err := client.Post(url, "text/plain", bytes.NewReader(body))
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
        test.skipTest(f"go cannot build: {built.stderr[:200]}")
    return client


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
        self.check_client([go_client(self)])


class OverHttp2(case.Case):
    """Over HTTP/2 the rest of the upload is read too: clients that see RST_STREAM before they have read the answer may lose
    it, though RFC 9113 8.1 forbids that."""

    def uploading(self, daemon, path="/", fields=()):
        """A connection with an upload on stream 1 that has its answer, and goes on."""
        wire = Wire.connect(daemon.address)
        self.addCleanup(wire.close)
        wire.open()
        wire.ask(1, "POST", path, fields=fields, end=False)
        wire.send(data(1, b"x" * 1000))
        return wire

    def upload_all(self, wire, size, stream=1):
        """Sends as the windows allow; the daemon must open them until everything is sent or it resets the stream."""
        sent, seen, credit = 1000, 0, 65535 - 1000
        while sent < size and stream not in wire.transcript.resets:
            frames = wire.transcript.frames
            credit += sum(int.from_bytes(each.payload, "big") for each in frames[seen:]
                          if each.kind == WINDOW_UPDATE and each.stream == stream)
            seen = len(frames)
            piece = min(size - sent, credit, 16384)
            if piece == 0:
                wire.take()
                continue
            wire.send(data(stream, b"x" * piece, end=sent + piece == size))
            sent, credit = sent + piece, credit - piece
        return sent

    def test_the_rest_of_an_upload_is_read(self):
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/v1"}, "pool": "pool"}])
        wire = self.uploading(daemon)
        self.assertEqual(wire.answer_to(1).status, 404)
        self.assertEqual(self.upload_all(wire, MEGABYTE), MEGABYTE)
        wire.ask(3, path="/v1")
        self.assertEqual(wire.answer_to(3).status, 200)
        self.assertEqual(wire.transcript.resets, {})

    def test_the_file_bounds_the_bytes(self):
        daemon = self.start_daemon(self.backend(), listeners=[{"name": "public", "limits": {"body": "1KiB", "linger": "256KiB"}}])
        wire = self.uploading(daemon, fields=[("content-length", "9000000")])
        self.assertEqual(wire.answer_to(1).status, 413)
        sent = self.upload_all(wire, 9_000_000)
        self.assertEqual(wire.transcript.resets, {1: NO_ERROR})
        self.assertLess(sent, MEGABYTE)
        wire.ask(3)
        self.assertEqual(wire.answer_to(3).status, 200)

    def test_the_file_bounds_the_time(self):
        daemon = self.start_daemon(self.backend(), listeners=[
            {"name": "public", "limits": {"body": "1KiB"}, "timeouts": {"linger": "300ms"}}])
        wire = self.uploading(daemon, fields=[("content-length", "9000000")])
        began = time.monotonic()
        self.assertEqual(wire.answer_to(1).status, 413)
        wire.until(lambda transcript: 1 in transcript.resets)
        self.assertEqual(wire.transcript.resets, {1: NO_ERROR})
        self.assertGreater(time.monotonic() - began, 0.2)

    def test_the_request_ends_with_its_answer(self):
        """Its line and its slot do not wait for the rest of the upload."""
        def refuse(asked):
            asked.answer(b"no", status=429)
            asked.wait_disconnected()

        daemon = self.start_daemon(self.backend(refuse, reads_body=False))
        wire = self.uploading(daemon)
        self.assertEqual(wire.answer_to(1).status, 429)
        self.assertEqual(daemon.wait_access(1)[0]["status"], 429)
        self.assertEqual(daemon.api("pools")[0]["in_flight"], 0)
        self.assertEqual(wire.transcript.resets, {})

    def test_an_upload_that_stalls_after_its_answer_does_not_delay_the_exit(self):
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/v1"}, "pool": "pool"}])
        wire = self.uploading(daemon)
        self.assertEqual(wire.answer_to(1).status, 404)
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_exit(20), 0)
        self.assert_within(time.monotonic() - began, 4)

    def test_a_call_of_grpc_is_reset_at_once(self):
        """As servers of gRPC do: the client of a stream need not wait to write more."""
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/v1"}, "pool": "pool"}])
        wire = self.uploading(daemon, fields=[("content-type", "application/grpc"), ("te", "trailers")])
        began = time.monotonic()
        wire.until(lambda transcript: 1 in transcript.resets)
        self.assertEqual(wire.transcript.resets, {1: NO_ERROR})
        self.assertIn(1, wire.transcript.ended)
        self.assert_within(time.monotonic() - began, 2)

    def test_clients_that_give_up_their_uploads_are_no_flood(self):
        """Such as Go's, which resets the stream when it has the answer."""
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/v1"}, "pool": "pool"}])
        wire = self.uploading(daemon)
        wire.send(window_update(0, MEGABYTE))
        for stream in range(3, 3003, 2):
            wire.ask(stream, "POST", end=False)
            self.assertEqual(wire.answer_to(stream).status, 404)
            wire.send(rst_stream(stream, CANCEL))
        self.assertIsNone(wire.transcript.goaway)

    def check_client(self, command, schemes=("http", "https")):
        """`command` URL FILE uploads and prints the status."""
        def refuse(asked):
            asked.answer(b"slow down", status=429)
            asked.read_body()

        files = pathlib.Path(self.folder())
        own = Authority(files).issue("127.0.0.1")
        daemon = self.start_daemon(
            self.backend(refuse, reads_body=False), workers=1,
            listeners=[{"name": "clear"}, {"name": "tls", "tls": {"certificates": [own.config()]}}],
            routes=[{"match": {"path": "/busy"}, "pool": "pool"}])
        large, middle = files / "large", files / "middle"
        large.write_bytes(bytes(40 * MEGABYTE))
        middle.write_bytes(bytes(5 * MEGABYTE))
        for path, file, status in (("/busy", large, "413"), ("/busy", middle, "429"), ("/none", middle, "404")):
            for scheme in schemes:
                address = f"{scheme}://{daemon.listening['clear' if scheme == 'http' else 'tls']}"
                for _ in range(5):
                    done = subprocess.run([*command, address + path, str(file)], capture_output=True, text=True, timeout=60,
                                          check=False)
                    self.assertEqual(done.stdout.split()[:1], [status], (address + path, done.stdout[:500], done.stderr[-500:]))
        self.assertEqual({line["protocol"] for line in daemon.wait_access(15)}, {"HTTP/2"})

    def test_curl_sees_its_answers(self):
        if shutil.which("curl") is None:
            self.skipTest("no curl")
        self.check_client(["sh", "-c", "exec curl -sSk --http2-prior-knowledge -o /dev/null -w '%{http_code}\\n' --max-time 30 "
                           "--data-binary @\"$2\" \"$1\"", "sh"])

    def test_go_sees_its_answers(self):
        self.check_client([go_client(self)], schemes=["https"])

    def test_nghttp_sees_its_answers(self):
        if shutil.which("nghttp") is None:
            self.skipTest("no nghttp")
        self.check_client(["sh", "-c", "nghttp -nv --no-verify-peer -d \"$2\" \"$1\" | sed -n 's/.*:status: //p'", "sh"])

    def test_node_sees_its_answers(self):
        node = shutil.which("node")
        if node is None:
            self.skipTest("no node")
        self.check_client([node, "-e", textwrap.dedent("""
            const http2 = require('http2'), fs = require('fs');
            const url = new URL(process.argv[1]);
            const session = http2.connect(url.origin, {rejectUnauthorized: false});
            session.on('error', error => console.log(error.code));
            const size = fs.statSync(process.argv[2]).size;
            const stream = session.request({':method': 'POST', ':path': url.pathname, 'content-length': size});
            stream.on('response', fields => { console.log(fields[':status']); });
            stream.on('error', error => console.log(error.code));
            stream.on('end', () => { stream.close(); session.close(); });
            stream.resume();
            fs.createReadStream(process.argv[2]).pipe(stream);
        """)])


if __name__ == "__main__":
    case.main()
