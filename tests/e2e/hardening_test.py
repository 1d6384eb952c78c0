"""Every case of the conformance page (bench/results/conformance.md) that has a table of its own. With EVENKEEL_CONFORMANCE in the environment,
the outcomes are written to that file as JSON, by id."""

import json
import os

import case
from hardening import grpc_calls, http1_requests, http1_responses, http2_requests, page, tables


class Hardening(case.Case):
    def check(self, bench, attacks):
        outcomes = {}
        bench = bench(self)
        for attack in attacks:
            with self.subTest(attack.id):
                outcomes[attack.id] = got = bench.run(attack)
                self.assertTrue(attack.accepts(got), f"{attack.id}: got {got!r}, expected {' or '.join(attack.expected)!r}")
        if path := os.environ.get("EVENKEEL_CONFORMANCE"):
            with open(path, "a") as file:
                file.write(json.dumps(outcomes) + "\n")

    def test_requests_over_http1(self):
        self.check(http1_requests.Bench, tables.of("http1_requests"))

    def test_responses_over_http1(self):
        self.check(http1_responses.Bench, tables.of("http1_responses"))

    def test_requests_over_http2(self):
        self.check(http2_requests.Bench, tables.of("http2_requests"))

    def test_grpc_calls(self):
        self.check(grpc_calls.Bench, tables.of("grpc_calls"))


class Page(case.Case):
    """bench/results/conformance.md is generated from a run; `./dev conformance` writes it."""

    def setUp(self):
        self.rows = page.rows_of(page.PAGE.read_text())
        self.cases = [*page.all_attacks(), *page.all_proven()]

    def test_it_lists_every_case_with_its_expectation(self):
        self.assertEqual({key: sent_and_expected for key, (*sent_and_expected, _) in self.rows.items()},
                         {each.id: [page.escaped(each.sends), page.escaped(page.expectation(each))] for each in self.cases},
                         "run ./dev conformance")

    def test_every_id_is_used_once(self):
        ids = [each.id for each in self.cases]
        self.assertEqual([each for each in ids if ids.count(each) > 1], [])

    def test_what_is_listed_as_a_result_is_as_expected_or_a_known_deviation(self):
        for each in page.all_attacks():
            got = self.rows[each.id][2].split(". Known deviation")[0]
            self.assertTrue(any(got == page.escaped(one) for one in (*each.expected, each.deviates) if one), f"{each.id}: {got}")
        for each in page.all_proven():
            self.assertEqual(self.rows[each.id][2], page.escaped(page.result_of(each, True)), each.id)

    def test_the_tests_that_it_names_exist(self):
        self.assertEqual([test for each in page.all_proven() for test in each.tests if not page.exists(test)], [])

    def test_a_case_without_a_test_is_a_known_deviation(self):
        self.assertEqual([each.id for each in page.all_proven() if not each.tests and not each.deviation], [])


if __name__ == "__main__":
    case.main()
