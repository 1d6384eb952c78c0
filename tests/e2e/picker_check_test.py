"""`evenkeel picker check`: pickers that keep the rules of the Endpoint Picker Protocol pass, and one that breaks a rule fails
by that rule and by no other."""

import json
import re
import unittest

import case
from certificates import Authority
from grpc_servers import grpc
from ports import refusing_address
from process import command

if grpc is not None:
    import endpoint_pickers as pickers

LINE = re.compile(r"(ok  |FAIL|skip)  (\S+) +(.*) / (.*)")


@unittest.skipIf(grpc is None, "PyPI's grpcio is not installed (./dev setup)")
class PickerCheck(case.Case):
    def serve(self, picker, certificate=None):
        serving = pickers.Serving(picker, certificate)
        self.addCleanup(serving.stop)
        return serving

    def check(self, url, *arguments):
        """The verdicts by rule, and how the verb ended."""
        ended = command("picker", "check", url, "--timeout", "5s", "--streams", "100", *arguments, within=120)
        verdicts = {found[2]: found[1].strip() for found in map(LINE.fullmatch, ended.stdout.splitlines()) if found}
        return verdicts, ended

    def assert_all_hold(self, picker, skipped=()):
        verdicts, ended = self.check(self.serve(picker).url)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual({rule for rule, verdict in verdicts.items() if verdict == "skip"}, set(skipped), ended.stdout)
        self.assertEqual(ended.stdout.splitlines()[-1], f"{len(verdicts)} rules: {len(verdicts) - len(skipped)} ok, "
                                                        f"0 failed, {len(skipped)} skipped")

    def assert_breaks(self, picker, *rules):
        verdicts, ended = self.check(self.serve(picker).url)
        self.assertEqual([rule for rule, verdict in verdicts.items() if verdict == "FAIL"], list(rules), ended.stdout)
        self.assertEqual(ended.returncode, 1)

    # ---- pickers that keep all rules ----

    def test_a_picker_that_keeps_all_rules(self):
        self.assert_all_hold(pickers.Picker(), () if pickers.health else ("health",))

    def test_a_picker_that_leaves_the_response_alone(self):
        self.assert_all_hold(pickers.LeavesAfterTheRequest(), () if pickers.health else ("health",))

    def test_a_picker_that_lists_several_endpoints(self):
        self.assert_all_hold(pickers.ListsSeveral(), () if pickers.health else ("health",))

    def test_a_picker_that_rewrites_the_body_and_says_its_length(self):
        self.assert_all_hold(pickers.RewritesTheBody(), () if pickers.health else ("health",))

    def test_a_picker_whose_requests_wait_for_others(self):
        self.assert_all_hold(pickers.HoldsTwentyAtATime(), () if pickers.health else ("health",))

    def test_1000_streams_at_once(self):
        ended = command("picker", "check", self.serve(pickers.Picker()).url, "--only", "streams", within=120)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("1000 at once", ended.stdout)

    def test_ours(self):
        for more in ({"picker": "round-robin"}, {"picker": "expected-time", "limits": {"max_in_flight": 8}}):
            daemon = self.daemon({
                "listeners": [{"name": "picker", "endpoint_picker": {"pool": "llama"}}],
                "pools": [{"name": "llama", "backends": ["127.0.0.1:7001", "127.0.0.1:7002"], "health": {"check": "off"}, **more}]})
            verdicts, ended = self.check("http://" + daemon.address)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            self.assertEqual(set(verdicts.values()), {"ok"}, ended.stdout)

    # ---- each breaks one rule ----

    def test_header_and_metadata_that_differ(self):
        self.assert_breaks(pickers.HeaderAndMetadataDiffer(), "pick-equal")

    def test_no_metadata(self):
        self.assert_breaks(pickers.NoMetadata(), "pick-metadata")

    def test_an_endpoint_without_brackets_and_port(self):
        self.assert_breaks(pickers.BareIpv6(), "endpoint-syntax")

    def test_the_body_before_the_head(self):
        self.assert_breaks(pickers.BodyBeforeHead(), "order")

    def test_two_heads(self):
        self.assert_breaks(pickers.TwoHeads(), "one-head")

    def test_pieces_of_100_kb(self):
        self.assert_breaks(pickers.LargePieces(), "body-pieces")

    def test_two_ends_of_the_body(self):
        self.assert_breaks(pickers.TwoEnds(), "body-end")

    def test_no_end_of_the_body(self):
        self.assert_breaks(pickers.NoEnd(), "body-end")

    def test_a_changed_body(self):
        self.assert_breaks(pickers.BodyChanged(), "body-whole")

    def test_an_ignored_subset(self):
        self.assert_breaks(pickers.IgnoresSubset(), "subset")

    def test_a_pick_outside_of_an_unknown_subset(self):
        self.assert_breaks(pickers.PicksOutsideOfAnUnknownSubset(), "subset-unknown")

    def test_an_empty_subset_taken_for_none(self):
        self.assert_breaks(pickers.TakesAnEmptySubsetForNone(), "subset-empty")

    def test_the_clients_own_destination(self):
        self.assert_breaks(pickers.FollowsTheClient(), "claimed-destination")

    def test_a_get_without_answer(self):
        self.assert_breaks(pickers.HangsOnGet(), "bodiless")

    def test_dropped_trailers(self):
        self.assert_breaks(pickers.DropsTrailers(), "trailers")

    def test_a_lost_chunk_of_the_response(self):
        self.assert_breaks(pickers.LosesAChunkOfTheResponse(), "response", "response-trailers", "served")

    def test_a_picker_that_breaks_after_a_cancel(self):
        self.assert_breaks(pickers.BreaksAfterCancel(), "cancel")

    # ---- how it is asked, and what it prints ----

    def test_https_with_any_certificate_or_that_of_an_authority(self):
        ours, other = Authority(self.folder()), Authority(self.folder())
        url = self.serve(pickers.Picker(), ours.issue("127.0.0.1")).url

        self.assertEqual(self.check(url, "--only", "pick")[1].returncode, 0)
        self.assertEqual(self.check(url, "--only", "pick", "--ca", ours.cert)[1].returncode, 0)
        refused = self.check(url, "--only", "pick", "--ca", other.cert)[1]
        self.assertEqual(refused.returncode, 2)
        self.assertIn("certificate", refused.stderr)

    def test_one_rule_as_json(self):
        url = self.serve(pickers.HeaderAndMetadataDiffer()).url

        ended = command("picker", "check", url, "--only", "pick-equal", "--json")

        self.assertEqual(ended.returncode, 1)
        document = json.loads(ended.stdout)
        self.assertEqual([document[key] for key in ("url", "ok", "failed", "skipped")], [url, 0, 1, 0])
        self.assertEqual([(rule["name"], rule["verdict"]) for rule in document["rules"]], [("pick-equal", "failed")])

    def test_the_requests_are_as_the_options_say(self):
        class Watching(pickers.Picker):
            heads = []
            bodies = []

            def answers(self, head, body, has_trailers):
                self.heads.append({each.key: each.raw_value.decode()
                                   for each in head.request_headers.headers.headers})
                self.bodies.append(json.loads(body))
                return super().answers(head, body, has_trailers)

        ended = command("picker", "check", "--only", "pick", "--model", "llama", "--path", "/v1/chat/completions",
                        "--header", "x-tenant: acme", "--header", "x-team:a", self.serve(Watching()).url)

        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual([Watching.heads[0][name] for name in (":path", "x-tenant", "x-team")],
                         ["/v1/chat/completions", "acme", "a"])
        self.assertEqual((Watching.bodies[0]["model"], Watching.bodies[0]["messages"][0]["role"]), ("llama", "user"))

    def test_no_picker_at_the_url(self):
        for url, why in [(f"http://{refusing_address()}", "refused"), (f"http://{self.backend().address}", "HTTP/2"),
                         ("ftp://127.0.0.1:1", "ftp")]:
            ended = command("picker", "check", url)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), url)
            self.assertIn(why, ended.stderr)

    def test_usage(self):
        for arguments in (["check"], ["check", "http://127.0.0.1:1", "--only", "nothing"],
                          ["check", "http://127.0.0.1:1", "--subset", "somewhere"], []):
            self.assertEqual(command("picker", *arguments).returncode, 2, arguments)


if __name__ == "__main__":
    case.main()
