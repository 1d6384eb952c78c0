"""The demo ends by itself or by Ctrl-C, reports its results, and leaves nothing running."""

import os
import pathlib
import re
import signal
import subprocess

import case
from process import BINARY, command, wait_until
from stream import PATIENCE


def children_of(pid):
    return [int(child) for child in
            pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Demo(case.Case):
    def start(self, *arguments):
        demo = subprocess.Popen([BINARY, "demo", *arguments], stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end():
            if demo.poll() is None:
                demo.kill()
            demo.wait(PATIENCE)
            demo.stdout.close()
            demo.stderr.close()

        self.addCleanup(end)
        return demo

    def begin(self, *arguments):
        """A demo that has printed its first line, and its children."""
        demo = self.start(*arguments)
        for line in demo.stdout:
            if " req/s" in line:
                children = children_of(demo.pid)
                self.assertEqual(len(children), 1, "the balancer is its only child")
                return demo, children
        self.fail("the demo printed nothing: " + demo.stderr.read())

    def check_gone(self, children):
        """Ended. Without an init that reaps orphans, as in some containers, a zombie stays."""
        for child in children:
            wait_until(lambda: not is_running(child), what="the balancer's end")

    def test_ends_by_itself(self):
        ended = command("demo", "--seconds", "2", "--backends", "3", "--picker", "round-robin")

        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertRegex(ended.stdout, r"3 simulated GPUs .* \(round-robin\)")
        self.assertEqual(len(re.findall(r"^  simulator +http://127", ended.stdout, re.M)), 3)
        started, succeeded = re.search(r"(\d+) started, (\d+) succeeded, 0 failed, 0 abandoned",
                                       ended.stdout).groups()
        self.assertEqual(started, succeeded)
        self.assertGreater(int(started), 20)
        last = re.findall(r"(\d+) in flight .* share (\S+) %$", ended.stdout, re.M)[-1]
        self.assertEqual(last[0], "0")
        for share in last[1].split("/"):
            self.assertAlmostEqual(int(share), 33, delta=3)

    def test_prefers_the_faster_ones(self):
        ended = command("demo", "--seconds", "3")

        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        shares = re.findall(r" share (\S+) %$", ended.stdout, re.M)[-1].split("/")
        self.assertGreater(int(shares[0]), int(shares[3]), "the full H100 and the slowed A100")

    def test_a_blast_brings_standby_servers_in_and_keeps_ttft_within_its_objective(self):
        """Six servers and two standby servers, eight times the traffic: the demo checks that these enter service
        and return, and that p99 TTFT stays under 3 s."""
        ended = command("demo", "--scenario", "blast", within=80)

        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        came = [float(after) for after in
                re.findall(r"standby servers? in service, (\S+) s after the jump", ended.stdout)]
        self.assertGreater(came[0], 0, "not before the jump")
        self.assertLess(came[-1], 8)
        self.assertRegex(ended.stdout, r"2 of 2 standby servers entered service, 2 returned to standby")

    def test_ends_at_ctrl_c(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            demo, children = self.begin()
            demo.send_signal(number)
            rest = demo.stdout.read()

            self.assertEqual(demo.wait(PATIENCE), 0, rest)
            self.assertRegex(rest, r"0 failed, \d+ abandoned")
            self.check_gone(children)

    def test_its_balancer_ends_when_the_demo_is_killed(self):
        demo, children = self.begin()

        demo.kill()
        demo.wait(PATIENCE)

        self.check_gone(children)

    def test_reports_that_the_balancer_died(self):
        demo, children = self.begin()

        os.kill(children[0], signal.SIGKILL)

        self.assertEqual(demo.wait(PATIENCE), 1)
        self.assertIn("the balancer ended with 137", demo.stderr.read())

    def test_refuses_invalid_options(self):
        for arguments, said in ((["--backends", "0"], "--backends: expected 1 to"),
                                (["--picker", "best"], "'best' is not one of round-robin")):
            ended = command("demo", *arguments)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(said, ended.stderr)


if __name__ == "__main__":
    case.main()
