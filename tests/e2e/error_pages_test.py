"""Pages that people get instead of evenkeel's own errors."""

import pathlib
import shutil
import subprocess
import unittest

import case
import http2
from ports import refusing_address
from stream import exchange

try:
    import openai
except ImportError:
    openai = None

BROWSER = [("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")]


class ErrorPages(case.Case):
    def setUp(self):
        self.file = pathlib.Path(self.folder()) / "sorry.html"
        self.file.write_text("<h1>Sorry</h1>")

    def failing(self, backend=None, **config):
        return self.daemon({
            "pools": [{"name": "pool", "backends": [backend or refusing_address()], "health": {"check": "off"}}],
            "routes": [{"match": {"path": "/v1/**"}, "pool": "pool",
                        "error_pages": [{"status": [502, 503, 504], "file": str(self.file)}]},
                       {"match": {"path": "/plain"}, "pool": "pool"}], **config})

    def test_browsers_get_the_page_and_the_reason(self):
        daemon = self.failing()
        answer = exchange(daemon.address, target="/v1/x", fields=BROWSER)
        self.assertEqual((answer.status, answer.body), (502, b"<h1>Sorry</h1>"))
        self.assertEqual(answer.all("content-type"), ["text/html; charset=utf-8"])
        self.assertEqual(answer.reason, "connect_failed")
        self.assertEqual(answer.field("vary"), "accept")
        self.assertIsNotNone(answer.field("x-request-id"))
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["status"], line["reason"], line["bytes_out"]),
                         (502, "connect_failed", len(answer.body)))
        with http2.Peer.connect(daemon.address) as peer:
            second = peer.request(path="/v1/x", fields=BROWSER).read_response()
        self.assertEqual((second.status, second.body), (502, b"<h1>Sorry</h1>"))

    def test_head_has_no_body(self):
        answer = exchange(self.failing().address, method="HEAD", target="/v1/x", fields=BROWSER)
        self.assertEqual((answer.status, answer.field("content-length"), answer.body), (502, "14", b""))

    def test_clients_of_apis_keep_errors_in_their_dialect(self):
        daemon = self.failing()
        for accept in ([], [("accept", "*/*")], [("accept", "application/json")], [("accept", "text/event-stream")]):
            answer = exchange(daemon.address, target="/v1/x", fields=accept)
            self.assertEqual((answer.status, answer.field("content-type")), (502, "application/json"), accept)
            self.assertIn(b'"connect_failed"', answer.body)

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_curl_gets_the_error_unless_it_asks_for_the_page(self):
        url = f"http://{self.failing().address}/v1/x"
        for arguments, wanted in (([], b'"error"'), (["-H", "accept: text/html"], b"<h1>")):
            ended = subprocess.run(["curl", "-sS", "--max-time", "20", *arguments, url], capture_output=True, check=True)
            self.assertIn(wanted, ended.stdout)

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_the_openai_sdk_gets_its_error(self):
        with openai.OpenAI(base_url=f"http://{self.failing().address}/v1", api_key="sk", max_retries=0) as client:
            with self.assertRaises(openai.InternalServerError) as raised:
                client.models.list()
        self.assertEqual(raised.exception.code, "connect_failed")

    def test_other_routes_and_answers_of_backends_stay(self):
        daemon = self.failing()
        self.assertIn(b"connect", exchange(daemon.address, target="/plain", fields=BROWSER).body)
        backend = self.backend(lambda request: request.answer(b"theirs", status=503, fields=[("content-type", "text/html")]))
        answer = exchange(self.failing(backend.address).address, target="/v1/x", fields=BROWSER)
        self.assertEqual((answer.status, answer.body), (503, b"theirs"))

    def test_errors_of_limits_have_pages_too(self):
        daemon = self.daemon({
            "pools": [{"name": "pool", "backends": [self.backend().address], "health": {"check": "off"}}],
            "rate_limits": [{"by": ["address"], "requests": "1/hour"}],
            "routes": [{"pool": "pool", "error_pages": [{"status": 429, "file": str(self.file)}]}]})
        self.assertEqual(exchange(daemon.address, fields=BROWSER).status, 200)
        answer = exchange(daemon.address, fields=BROWSER)
        self.assertEqual((answer.status, answer.body), (429, b"<h1>Sorry</h1>"))
        self.assertIsNotNone(answer.field("retry-after"))

    def test_a_reload_reads_the_page_again(self):
        daemon = self.failing()
        self.file.write_text("<h1>Back soon</h1>")
        self.assertEqual(exchange(daemon.address, target="/v1/x", fields=BROWSER).body, b"<h1>Sorry</h1>")
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        self.assertEqual(exchange(daemon.address, target="/v1/x", fields=BROWSER).body, b"<h1>Back soon</h1>")
        self.file.unlink()
        refused = daemon.ask_admin("/api/v1/reload", method="POST")
        self.assertEqual(refused.status, 422)
        self.assertIn(b"cannot be read: No such file", refused.body)
        self.assertIn(b"routes[0].error_pages[0].file", refused.body)
        self.assertEqual(exchange(daemon.address, target="/v1/x", fields=BROWSER).body, b"<h1>Back soon</h1>")

    def test_pages_are_compressed_as_other_answers(self):
        self.file.write_text("<p>" + "sorry " * 1000)
        daemon = self.daemon({
            "pools": [{"name": "pool", "backends": [refusing_address()], "health": {"check": "off"}}],
            "routes": [{"pool": "pool", "compression": {"codings": "gzip"},
                        "error_pages": [{"status": 502, "file": str(self.file)}]}]})
        answer = exchange(daemon.address, fields=[*BROWSER, ("accept-encoding", "gzip")])
        self.assertEqual(answer.field("content-encoding"), "gzip")
        self.assertEqual(answer.all("vary"), ["accept", "accept-encoding"])
        self.assertLess(len(answer.body), 500)


if __name__ == "__main__":
    case.main()
