"""Usage records over HTTP: a collector gets each record, once in normal running, and none is missing whatever happens."""

import json
import pathlib
import signal
import threading
import time

import case
from certificates import Authority, serving
from ports import free_port
from process import command
from upgrading import UpgradeCase
from usage_records import QUIET, Usage, answer, chat, read_records


class Collector:
    """A script of a backend: takes batches of records, unless `refuse` answers a request with a status."""

    def __init__(self):
        self.batches, self.heads, self.times = [], [], []
        self.refuse = lambda events: None
        self.fields = []
        self._lock = threading.Lock()

    def __call__(self, request):
        assert request.method == "POST", request.method
        assert request.head.field("content-type") == "application/cloudevents-batch+json"
        events = json.loads(request.body)
        assert isinstance(events, list) and events, request.body
        for each in events:
            assert each["specversion"] == "1.0" and each["type"] == "evenkeel.request" and each["id"], each
        with self._lock:
            self.heads.append((request.target, request.head))
            self.times.append(time.monotonic())
            status = self.refuse(events) or 202
            if status == 202:
                self.batches.append([each["id"] for each in events])
        request.answer(b"no" if status != 202 else b"", status=status, fields=self.fields if status != 202 else [])

    def ids(self):
        with self._lock:
            return [each for batch in self.batches for each in batch]


class Sending(Usage, UpgradeCase):
    """A daemon whose records `self.collector` gets, at `self.url`."""

    def collect(self, url=None, started=True, **more):
        self.collector = Collector()
        self.port = free_port()
        self.url = url or f"http://127.0.0.1:{self.port}/v1/events?key=s3cr3t"
        if started:
            self.start_collector()
        self.http = {"url": self.url, **more}

    def start_collector(self, **kwargs):
        return self.backend(self.collector, port=self.port, **kwargs)

    def sending(self, url=None, started=True, **more):
        self.collect(url, started, **more)
        return self.begin()

    def begin(self):
        return self.running(self.backend(answer), pool=QUIET, usage=self.usage(http=self.http))

    def ask_often(self, daemon, count):
        for _ in range(count):
            self.ask(daemon)

    def written(self):
        """The ids in all files."""
        return [each["id"] for each in read_records(*sorted(self.path_of().parent.glob("usage.json*[l0-9]")))]

    def assert_sent(self, count):
        """Waits until the collector has all records, and each once."""
        self.eventually(lambda: len(self.written()) >= count, f"{count} records in the files")
        self.eventually(lambda: set(self.written()) <= set(self.collector.ids()), "all records at the collector")
        self.assertEqual(sorted(self.collector.ids()), sorted(self.written()))
        self.assertEqual(len(self.written()), count)

    def rotate(self, name):
        self.path_of().rename(self.path_of(name))
        self.served.signal(signal.SIGUSR1)
        self.eventually(self.path_of().exists, "a new file")

    def failed(self):
        return self.served.metric("evenkeel_usage_send_failures_total")

    def lines_with(self, text):
        return [line for line in list(self.served.lines) if text in line]


class Records(Sending):
    def test_come_once_and_in_order(self):
        daemon = self.sending(batch=7)
        self.ask_often(daemon, 20)
        self.assert_sent(20)
        self.ask_often(daemon, 5)
        self.assert_sent(25)
        self.assertEqual(self.collector.ids(), self.written(), "in the order of the file")
        self.assertLessEqual(max(map(len, self.collector.batches)), 7)
        target, head = self.collector.heads[0]
        self.assertEqual(target, "/v1/events?key=s3cr3t")
        self.assertIsNone(head.field("authorization"))
        self.eventually(lambda: daemon.metric("evenkeel_usage_sent_total") == 25, "the count")
        self.assertEqual(daemon.metric("evenkeel_usage_refused_total"), 0)
        self.assertEqual(self.failed(), 0)
        self.eventually(lambda: daemon.metric("evenkeel_usage_unsent_age_seconds") == 0, "an age of nothing")
        position = json.loads(self.path_of("usage.jsonl.sent").read_text())
        self.assertEqual((position["file"], position["last"]), (self.written()[0], self.written()[-1]))

    def test_that_are_there_at_the_end_come_before_it(self):
        daemon = self.sending()
        self.ask_often(daemon, 10)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(sorted(self.collector.ids()), sorted(self.written()))
        self.assertEqual(len(self.written()), 10)

    def test_come_with_a_token_over_tls(self):
        authority = Authority(self.folder())
        token = pathlib.Path(self.folder()) / "token"
        token.write_text("t0ken-1\n")
        self.collect(started=False, token_file=str(token), ca=authority.cert)
        self.http["url"] = f"https://127.0.0.1:{self.port}/v1/events"
        self.start_collector(tls=serving(authority.issue("127.0.0.1")))
        daemon = self.begin()
        self.ask(daemon)
        self.assert_sent(1)
        token.write_text("t0ken-2\n")
        self.ask(daemon)
        self.assert_sent(2)
        self.assertEqual([head.field("authorization") for _, head in self.collector.heads], ["Bearer t0ken-1", "Bearer t0ken-2"])
        token.unlink()
        self.ask(daemon)
        daemon.wait_line("records cannot be sent to .*token_file .* cannot be read: No such file")
        token.write_text("t0ken-3\n")
        self.assert_sent(3)
        self.assertNotIn("t0ken", "\n".join(daemon.lines) + daemon.ask_admin("/metrics").body.decode())

    def test_do_not_go_to_a_server_of_another_authority(self):
        self.collect(started=False)
        self.http["url"] = f"https://127.0.0.1:{self.port}/"
        self.http["ca"] = Authority(self.folder()).cert
        self.start_collector(tls=serving(Authority(self.folder()).issue("127.0.0.1")))
        daemon = self.begin()
        self.ask(daemon)
        daemon.wait_line("records cannot be sent to .*tls_failed.*certificate verify failed")
        self.assertEqual(self.collector.ids(), [])


class Failures(Sending):
    def test_of_a_collector_that_is_away_cost_nothing_but_time(self):
        daemon = self.sending(started=False)
        self.ask_often(daemon, 5)
        line = daemon.wait_line("records cannot be sent to (.*): connect_failed: Connection refused; they wait in (.*)")
        self.assertEqual(line[2], str(self.path_of()))
        self.assertNotIn("s3cr3t", line[0])
        self.eventually(lambda: self.failed() >= 2, "another attempt")
        self.assertGreater(daemon.metric("evenkeel_usage_unsent_age_seconds"), 0)
        self.start_collector()
        self.assert_sent(5)
        daemon.wait_line("usage.http: records are sent again")
        self.ask(daemon)
        self.assert_sent(6)
        self.assertEqual(len(self.lines_with("records cannot be sent")), 1, "not one for each attempt")

    def test_of_the_server_are_tried_again(self):
        statuses = [500, 404, 401]
        self.collect()
        self.collector.refuse = lambda events: statuses.pop(0) if statuses else None
        daemon = self.begin()
        self.ask_often(daemon, 3)
        daemon.wait_line("it answers with status 500: no; they wait")
        self.assert_sent(3)
        self.assertEqual(daemon.metric("evenkeel_usage_refused_total"), 0)

    def test_are_tried_again_when_the_collector_says(self):
        self.collect()
        self.collector.fields = [("retry-after", "3")]
        self.collector.refuse = lambda events: 429 if len(self.collector.times) == 1 else None
        daemon = self.begin()
        self.ask(daemon)
        self.assert_sent(1)
        self.assertGreater(self.collector.times[1] - self.collector.times[0], 2.9)

    def test_of_large_batches_make_them_smaller(self):
        self.collect(started=False)
        self.collector.refuse = lambda events: 413 if len(events) > 3 else None
        daemon = self.begin()
        self.ask_often(daemon, 20)
        self.start_collector()
        self.assert_sent(20)
        self.assertEqual(daemon.metric("evenkeel_usage_refused_total"), 0)
        self.ask_often(daemon, 5)
        before = self.failed()
        self.assert_sent(25)
        self.assertEqual(self.failed(), before, "the size is known")

    def test_of_a_record_skip_it_alone(self):
        self.collect(started=False)
        self.collector.refuse = lambda events: 400 if any(each["data"]["model"] == "bad" for each in events) else None
        daemon = self.begin()
        for number in range(12):
            self.ask(daemon, chat(**({"model": "bad"} if number in (4, 9) else {})))
        self.eventually(lambda: len(self.written()) == 12, "the records")
        bad = [each["id"] for each in read_records(self.path_of()) if each["data"]["model"] == "bad"]
        self.start_collector()
        self.eventually(lambda: len(self.collector.ids()) == 10, "the others")
        self.assertEqual(sorted(self.collector.ids() + bad), sorted(self.written()))
        self.eventually(lambda: daemon.metric("evenkeel_usage_refused_total") == 2, "the count")
        for each in bad:
            daemon.wait_line(f"refuses the record {each}, which is skipped: it answers with status 400: no")

    def test_of_all_records_skip_few_of_them(self):
        self.collect()
        self.collector.refuse = lambda events: 400
        daemon = self.begin()
        self.ask_often(daemon, 50)
        self.eventually(lambda: len(self.lines_with("which is skipped")) >= 3, "records that are skipped")
        self.assertLess(daemon.metric("evenkeel_usage_refused_total"), 10)

    def test_of_a_position_that_cannot_be_kept_stop_it(self):
        self.collect()
        self.path_of("usage.jsonl.sent").mkdir()
        daemon = self.begin()
        self.ask(daemon)
        daemon.wait_line("records cannot be sent .*usage.jsonl.sent: ")
        self.assertEqual(self.collector.ids(), [])
        self.eventually(lambda: daemon.metric("evenkeel_usage_unsent_age_seconds") > 0, "an age")
        ended = command("check", "-c", str(daemon.config_path))
        self.assertEqual(ended.returncode, 0)
        self.assertIn("usage.http: '" + str(self.path_of("usage.jsonl.sent")) + "' is not a regular file", ended.stderr)
        self.path_of("usage.jsonl.sent").rmdir()
        self.assert_sent(1)


class Files(Sending):
    def test_that_are_rotated_meanwhile_are_sent_too(self):
        daemon = self.sending(batch=2)
        for number in range(1, 4):
            self.ask_often(daemon, 3)
            self.eventually(lambda number=number: len(self.written()) == 3 * number, "records in the file")
            self.rotate(f"usage.jsonl.{4 - number}")
        self.ask(daemon)
        self.assert_sent(10)

    def test_that_were_rotated_while_the_collector_was_away_come_in_order(self):
        daemon = self.sending(started=False)
        for number in range(1, 4):
            self.ask_often(daemon, 3)
            self.eventually(lambda number=number: len(self.written()) == 3 * number, "records in the file")
            self.rotate(f"usage.jsonl.{4 - number}")
        self.ask(daemon)
        self.start_collector()
        self.assert_sent(10)
        files = (self.path_of(name) for name in ("usage.jsonl.3", "usage.jsonl.2", "usage.jsonl.1", "usage.jsonl"))
        self.assertEqual(self.collector.ids(), [each["id"] for each in read_records(*files)])

    def test_that_were_rotated_while_no_process_ran_are_sent_too(self):
        daemon = self.sending(started=False)
        self.ask_often(daemon, 3)
        daemon.wait_line("records cannot be sent")
        self.assertEqual(daemon.stop(), 0)
        self.path_of().rename(self.path_of("usage.jsonl.1"))
        self.start_collector()
        daemon = self.begin()
        self.ask(daemon)
        self.assert_sent(4)

    def test_that_a_reload_names_come_after_the_one_before(self):
        daemon = self.sending(started=False)
        self.ask_often(daemon, 3)
        daemon.wait_line("records cannot be sent")
        self.config["usage"]["path"] = str(self.path_of("usage.jsonl.0"))
        self.reload()
        self.ask(daemon)
        self.start_collector()
        self.assert_sent(4)
        self.eventually(lambda: self.path_of("usage.jsonl.0.sent").exists(), "a position of its own")


class Processes(Sending):
    def test_that_are_killed_leave_the_rest_to_the_next_one(self):
        daemon = self.sending(batch=3)
        for _ in range(3):
            self.ask_often(daemon, 15)
            self.eventually(lambda: self.collector.ids(), "a batch")
            daemon.kill()
            daemon = self.begin()
        self.eventually(lambda: set(self.written()) == set(self.collector.ids()), "all records at the collector")
        repeated = len(self.collector.ids()) - len(set(self.collector.ids()))
        self.assertLessEqual(repeated, 3 * 3, "the last batch of each")

    def test_that_are_killed_before_the_answer_send_that_batch_again(self):
        self.collect()
        stalled, released = threading.Event(), threading.Event()
        self.addCleanup(released.set)

        def stall(_):
            if not stalled.is_set():
                stalled.set()
                released.wait(60)

        self.collector.refuse = stall
        daemon = self.begin()
        self.ask_often(daemon, 3)
        self.assertTrue(stalled.wait(60))
        daemon.kill()
        released.set()
        daemon = self.begin()
        self.ask(daemon)
        self.eventually(lambda: len(self.written()) == 4 and set(self.written()) == set(self.collector.ids()), "all records")
        repeated = [each for each in set(self.collector.ids()) if self.collector.ids().count(each) > 1]
        self.assertEqual(sorted(repeated), sorted(self.collector.batches[0]), "the batch without an answer")

    def test_end_in_time_though_the_collector_does_not_answer(self):
        self.collect()
        released = threading.Event()
        self.addCleanup(released.set)
        self.collector.refuse = lambda events: released.wait(60) and None
        daemon = self.begin()
        self.ask(daemon)
        self.eventually(lambda: self.collector.heads, "a request")
        began = time.monotonic()
        self.assertEqual(daemon.stop(), 0)
        self.assert_within(time.monotonic() - began, 5)

    def test_that_replace_one_another_send_each_record_once(self):
        self.collect()
        daemon = self.start(self.backend(answer), pool=QUIET, usage=self.usage(http=self.http))
        for _ in range(2):
            self.ask_often(daemon, 5)
            self.upgrade()
        self.ask_often(daemon, 5)
        self.assert_sent(15)
        self.eventually(lambda: daemon.metric("evenkeel_usage_unsent_age_seconds") == 0, "the age of this process")


class Reloads(Sending):
    def threads(self):
        found = pathlib.Path(f"/proc/{self.served.pid}/task").glob("*/comm")
        return [each.read_text().strip() for each in found].count("usage-sender")

    def test_change_the_collector(self):
        daemon = self.sending()
        self.ask(daemon)
        self.assert_sent(1)
        other = Collector()
        self.config["usage"]["http"] = {"url": f"http://{self.backend(other).address}/other"}
        self.reload()
        self.ask(daemon)
        self.eventually(lambda: len(other.ids()) == 1, "a record at the other one")
        self.assertEqual(other.heads[0][0], "/other")
        self.assertEqual(sorted(self.collector.ids() + other.ids()), sorted(self.written()))

    def test_end_and_begin_it(self):
        daemon = self.sending()
        self.ask(daemon)
        self.assert_sent(1)
        http = self.config["usage"].pop("http")
        self.reload()
        self.eventually(lambda: self.threads() == 0, "the end of the thread")
        self.assertNotIn("evenkeel_usage_sent_total", daemon.ask_admin("/metrics").body.decode())
        self.ask_often(daemon, 2)
        self.records(3)
        self.assertEqual(len(self.collector.ids()), 1)
        self.config["usage"]["http"] = http
        self.reload()
        self.assert_sent(3)
        self.assertEqual(self.threads(), 1)

    def test_of_other_keys_leave_it_alone(self):
        daemon = self.sending(started=False)
        self.ask(daemon)
        self.eventually(lambda: self.failed() >= 2, "a pause")
        self.config["usage"]["prices"] = {"*": {"input": 1}}
        self.reload()
        self.assertEqual(len(self.lines_with("records cannot be sent")), 1)


if __name__ == "__main__":
    case.main()
