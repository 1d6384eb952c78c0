"""Sessions that servers name in their answers, and those that coding agents name without configuration."""

import itertools
import json
import threading

import case
from affinity_test import SESSIONS, AffinityCase
from stream import PATIENCE, exchange
from upgrading import UpgradeCase, upgrade


class LearnedCase(AffinityCase):
    def learning(self, by, script, count=3, **pool):
        self.ids = itertools.count(1)
        return self.pinned(by=by, script=script, count=count, **pool)

    def ask(self, daemon, method="GET", target="/", fields=(), **body):
        sent = json.dumps(body).encode() if body else None
        return exchange(daemon.address, method, target, fields, sent)

    def remove(self, number):
        address = self.backends[number].address
        self.pool["backends"] = [each for each in self.pool["backends"] if each != address]
        self.reload()


class Fields(LearnedCase):
    """Model Context Protocol: `initialize` is answered with the id of the session."""

    def mcp(self, **pool):
        def script(request, number):
            named = request.head.field("mcp-session-id")
            request.answer(b"%d" % number, fields=[] if named else [("Mcp-Session-Id", f"mcp-{next(self.ids)}")])

        return self.learning(["header:mcp-session-id"], script, **pool)

    def initialize(self, daemon, count):
        answers = [self.ask(daemon, "POST", "/mcp", rpc="initialize") for _ in range(count)]
        return [(answer.field("mcp-session-id"), answer.body) for answer in answers]

    def test_an_id_in_an_answer_leads_to_its_server(self):
        daemon = self.mcp()
        sessions = self.initialize(daemon, 6)
        self.assertEqual({server for _, server in sessions}, {b"0", b"1", b"2"})
        for _ in range(3):
            for name, server in sessions:
                answer = self.ask(daemon, "POST", "/mcp", [("mcp-session-id", name)], rpc="tools/list")
                self.assertEqual(answer.body, server)

    def test_a_lost_server_is_told(self):
        daemon = self.mcp()
        name = next(name for name, server in self.initialize(daemon, 6) if server == b"0")
        self.remove(0)

        answer = self.ask(daemon, "POST", "/mcp", [("mcp-session-id", name)], rpc="tools/list")

        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (404, "session_lost"))
        self.assertEqual(daemon.metric("evenkeel_errors_total", reason="session_lost"), 1)
        daemon.wait_line(r"pool pool: refused 1 requests with session_lost")

    def test_a_soft_session_goes_elsewhere(self):
        daemon = self.mcp(affinity={"by": ["header:mcp-session-id"], "mode": "soft"})
        name = next(name for name, server in self.initialize(daemon, 6) if server == b"0")
        self.assertEqual(self.ask(daemon, fields=[("mcp-session-id", name)]).body, b"0")
        self.remove(0)

        self.assertEqual(self.ask(daemon, fields=[("mcp-session-id", name)]).status, 200)


class Cookies(LearnedCase):
    def test_a_cookie_of_the_application_leads_to_its_server(self):
        def script(request, number):
            named = request.head.field("cookie")
            request.answer(b"%d" % number, fields=[] if named else [
                ("Set-Cookie", "theme=dark; Path=/"),
                ("Set-Cookie", f"JSESSIONID=j{next(self.ids)}; Path=/; HttpOnly")])

        daemon = self.learning(["cookie:JSESSIONID"], script)
        for expected in range(1, 7):
            server = self.ask(daemon).body
            for _ in range(3):
                self.assertEqual(self.ask(daemon, fields=[("cookie", f"theme=dark; JSESSIONID=j{expected}")]).body,
                                 server)
        lost = self.ask(daemon, fields=[("cookie", "JSESSIONID=j1")]).body
        self.remove(int(lost))
        self.assertEqual(self.ask(daemon, fields=[("cookie", "JSESSIONID=j1")]).status, 200)


def response_server(ids):
    """OpenAI's responses with their state in the server: it knows only its own ids."""
    known = {}

    def respond(request, number):
        own = known.setdefault(number, set())
        body = json.loads(request.head.body or b"{}")
        place = request.target.partition("?")[0].split("/")[3:]
        before = place[0] if place else body.get("previous_response_id")
        if before and before not in own:
            return request.answer(b'{"error":{"message":"not found"}}', status=404, phrase="Not Found",
                                  fields=[("content-type", "application/json")])
        name = place[0] if place else f"resp_{next(ids):050d}"
        own.add(name)
        document = {"id": name, "object": "response", "model": str(number), "output": [{"id": "msg_1"}]}
        if not body.get("stream"):
            return request.answer(json.dumps(document).encode(), fields=[("content-type", "application/json")])
        request.begin_chunks([("content-type", "text/event-stream")])
        for kind in ("response.created", "response.completed"):
            event = json.dumps({"type": kind, "response": document})
            request.chunk(f"event: {kind}\ndata: {event}\n\n".encode())
        return request.end_chunks()

    return respond


class Responses(LearnedCase):
    def serving(self, **pool):
        ids = itertools.count(1)
        respond = response_server(ids)
        return self.learning(["agent-session", "response-id", "header:x-session-id"], respond, **pool)

    def create(self, daemon, before=None, stream=False, fields=(), model="tiny", text="hello"):
        body = {"model": model, "input": text, "stream": stream}
        if before:
            body["previous_response_id"] = before
        answer = self.ask(daemon, "POST", "/v1/responses", fields, **body)
        self.assertEqual(answer.status, 200, answer.body)
        text = answer.body
        if stream:
            text = text.partition(b"data: ")[2].partition(b"\n")[0]
        document = json.loads(text)
        document = document.get("response", document)
        return document["id"], document["model"]

    def test_each_turn_of_a_chain_goes_to_the_server_that_knows_the_one_before(self):
        daemon = self.serving()
        for stream in (False, True):
            chains = [self.create(daemon, stream=stream) for _ in range(6)]
            self.assertEqual({server for _, server in chains}, {"0", "1", "2"})
            for _ in range(3):
                later = [self.create(daemon, before=name, stream=stream) for name, _ in chains]
                self.assertEqual([server for _, server in later], [server for _, server in chains])
                chains = later

    def test_an_id_counts_before_the_session_of_an_agent(self):
        daemon = self.serving()
        agent = [("thread-id", "one")]
        servers = {self.create(daemon, before=self.create(daemon)[0], fields=agent)[1] for _ in range(6)}
        self.assertEqual(servers, {"0", "1", "2"})

    def test_requests_about_a_response_lead_to_it(self):
        daemon = self.serving()
        for name, server in [self.create(daemon) for _ in range(6)]:
            for method, target in (("GET", ""), ("GET", "?stream=true"), ("GET", "/input_items"),
                                   ("POST", "/cancel"), ("DELETE", "")):
                answer = self.ask(daemon, method, f"/v1/responses/{name}{target}")
                self.assertEqual((answer.status, json.loads(answer.body)["model"]), (200, server), (method, target))

    def test_a_client_that_takes_compressed_answers_is_learned_from(self):
        daemon = self.serving()
        for _ in range(6):
            name, server = self.create(daemon, fields=[("accept-encoding", "gzip, deflate")])
            self.assertEqual(self.create(daemon, before=name)[1], server)
        self.assertTrue(all(request.head.field("accept-encoding") is None
                            for backend in self.backends for request in backend.exchanges))

    def test_an_unknown_id_is_for_any_server_to_refuse(self):
        daemon = self.serving()
        answer = self.ask(daemon, "GET", "/v1/responses/resp_unknown")
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (404, None))
        self.assertEqual(self.sessions(daemon), 0)

    def test_a_lost_server_is_told_in_the_shape_of_the_api(self):
        daemon = self.serving()
        name, server = self.create(daemon)
        self.remove(int(server))

        for answer in (self.ask(daemon, "GET", f"/v1/responses/{name}"),
                       self.ask(daemon, "POST", "/v1/responses", model="tiny", input="x", previous_response_id=name)):
            error = json.loads(answer.body)["error"]
            self.assertEqual((answer.status, error["code"], error["type"]),
                             (404, "session_lost", "invalid_request_error"))

    def test_a_failing_server_keeps_its_requests(self):
        daemon = self.serving(retry={"on": ["5xx"], "attempts": 3}, outlier={"consecutive": 0})
        name, server = self.create(daemon)
        backend = self.backends[int(server)]
        backend.script = lambda request: request.answer(b"", status=503, phrase="Service Unavailable")

        answer = self.ask(daemon, "GET", f"/v1/responses/{name}")

        self.assertEqual(answer.status, 503)

    def test_a_reload_keeps_them(self):
        daemon = self.serving()
        chains = [self.create(daemon) for _ in range(6)]
        self.pool["limits"] = {"max_in_flight": 50}
        self.reload()
        for name, server in chains:
            self.assertEqual(self.create(daemon, before=name)[1], server)


    def test_a_client_that_names_its_session_alike_neither_moves_nor_ends_them(self):
        daemon = self.serving(affinity={"by": ["agent-session", "response-id"], "mode": "soft"})
        for name, server in [self.create(daemon) for _ in range(6)]:
            self.create(daemon, fields=[("x-dynamo-session-id", name), ("x-dynamo-session-final", "true")])
            for _ in range(3):
                self.create(daemon, fields=[("x-session-id", name)])
            self.assertEqual(self.create(daemon, before=name)[1], server)

    def test_an_id_behind_images_is_found(self):
        """OpenAI's libraries write `previous_response_id` behind the input."""
        daemon = self.serving()
        text = "x" * 3_000_000
        for name, server in [self.create(daemon) for _ in range(3)]:
            for _ in range(2):
                self.assertEqual(self.create(daemon, before=name, text=text)[1], server)

    def test_a_session_behind_images_is_found(self):
        daemon = self.learning(["header:x-session-id", "session_id"], lambda request, number: request.answer(b"%d" % number))
        text = "x" * 3_000_000
        for session in SESSIONS[:4]:
            chat = {"messages": [{"role": "user", "content": text}], "session_id": session}
            servers = {self.ask(daemon, "POST", "/v1/chat/completions", **chat).body for _ in range(3)}
            self.assertEqual(len(servers), 1)

    def test_a_sequence_behind_tensors_is_found(self):
        daemon = self.learning(["sequence_id"], lambda request, number: request.answer(b"%d" % number))
        tensor = {"name": "x", "datatype": "INT32", "shape": [1_000_000], "data": [7] * 1_000_000}
        for sequence in range(1, 4):
            infer = {"inputs": [tensor], "parameters": {"sequence_id": sequence}}
            servers = {self.ask(daemon, "POST", "/v2/models/m/infer", **infer).body for _ in range(3)}
            self.assertEqual(len(servers), 1)


class SeveralPools(LearnedCase):
    """What a server knows leads to its pool, which a request about it does not name."""

    def serving(self, *routes, **keys):
        respond = response_server(itertools.count(1))
        pools = [{"name": name, "affinity": {"by": ["response-id"]}, "health": {"check": "off"}, "metrics": {"scrape": "off"},
                  "backends": [self.backend(lambda request, name=name: respond(request, name)).address]} for name in "abc"]
        return self.daemon({"pools": pools, "routes": list(routes), **keys})

    def assert_known(self, daemon, name, pool):
        for method, target, body in (("GET", "", {}), ("GET", "/input_items", {}), ("POST", "/cancel", {}),
                                     ("POST", "/cancel", {"x": 1}), ("DELETE", "", {})):
            answer = self.ask(daemon, method, f"/v1/responses/{name}{target}", **body)
            self.assertEqual((answer.status, json.loads(answer.body).get("model")), (200, pool), (method, target))

    def test_by_model(self):
        daemon = self.serving(*({"match": {"model": name}, "pool": name} for name in "abc"))
        for model in "abcabc":
            name, pool = Responses.create(self, daemon, model=model)
            self.assertEqual(pool, model)
            self.assert_known(daemon, name, pool)
            self.assertEqual(Responses.create(self, daemon, before=name, model=model)[1], pool)
        self.assertEqual(self.ask(daemon, "GET", "/v1/responses/resp_unknown").status, 404)
        lines = daemon.wait_access(43)
        self.assertEqual([line["pool"] for line in lines if "resp_unknown" in line["path"]], ["a"])

    def test_in_shares(self):
        daemon = self.serving({"split": {"a": 1, "b": 1, "c": 1}})
        created = [Responses.create(self, daemon, text=f"hello {number}") for number in range(20)]
        self.assertEqual({pool for _, pool in created}, {"a", "b", "c"})
        for name, pool in created:
            self.assert_known(daemon, name, pool)
            for turn in range(3):
                name, later = Responses.create(self, daemon, before=name, text=f"turn {turn} of {name}")
                self.assertEqual(later, pool)

    def test_by_the_size_of_the_prompt(self):
        daemon = self.serving({"match": {"prompt_tokens": {"max": 1000}}, "pool": "a"}, {"pool": "b"})
        name, pool = Responses.create(self, daemon)
        self.assertEqual(pool, "a")
        self.assertEqual(Responses.create(self, daemon, before=name, text="word " * 5000)[1], "a")
        self.assertEqual(Responses.create(self, daemon, text="word " * 5000)[1], "b")

    def test_never_where_no_route_leads(self):
        daemon = self.serving({"match": {"header": {"x-team": "one"}}, "pool": "a"}, {"pool": "b"})
        name, pool = Responses.create(self, daemon, fields=[("x-team", "one")])
        self.assertEqual(pool, "a")
        self.assertEqual(self.ask(daemon, "GET", f"/v1/responses/{name}").status, 404)
        self.assertEqual(self.ask(daemon, "GET", f"/v1/responses/{name}", [("x-team", "one")]).status, 200)


class Upgrades(UpgradeCase, LearnedCase):
    def test_an_upgrade_keeps_cookies_that_have_not_come_back(self):
        self.backends = [self.backend(lambda request, number=number: request.answer(b"%d" % number)) for number in range(3)]
        daemon = self.start(*self.backends, pool={"picker": "round-robin", "affinity": {"by": ["cookie"]}})
        begun = [exchange(daemon.address) for _ in range(6)]

        self.main = upgrade(daemon, self.main)

        for answer in begun:
            cookie = answer.field("set-cookie").partition(";")[0]
            for _ in range(2):
                self.assertEqual(exchange(daemon.address, fields=[("cookie", cookie)]).body, answer.body)

    def test_an_upgrade_keeps_them(self):
        respond = response_server(itertools.count(1))
        self.backends = [self.backend(lambda request, number=number: respond(request, number)) for number in range(3)]
        daemon = self.start(*self.backends, pool={"picker": "round-robin", "affinity": {"by": ["response-id"]}})
        create = Responses.create
        chains = [create(self, daemon) for _ in range(6)]

        self.main = upgrade(daemon, self.main)

        for name, server in chains:
            self.assertEqual(create(self, daemon, before=name)[1], server)


class Agents(LearnedCase):
    def inspected(self, **pool):
        self.backends = [self.backend(lambda request, number=number: request.answer(b"%d" % number))
                         for number in range(3)]
        return self.running(*self.backends, pool={"picker": "round-robin", "inspect": True, **pool})

    def chat(self, daemon, *fields):
        body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}).encode()
        return exchange(daemon.address, "POST", "/v1/chat/completions", fields, body).body

    def test_are_known_without_configuration(self):
        daemon = self.inspected()
        for field in ("x-claude-code-session-id", "thread-id", "session_id", "x-session-affinity", "x-session-id"):
            first = [self.chat(daemon, (field, f"{field}-{session}")) for session in SESSIONS]
            self.assertEqual(set(first), {b"0", b"1", b"2"}, field)
            for _ in range(2):
                self.assertEqual([self.chat(daemon, (field, f"{field}-{session}")) for session in SESSIONS], first)

    def test_a_child_begins_where_its_parent_is(self):
        daemon = self.inspected()
        for session in SESSIONS[:4]:
            main = ("x-claude-code-session-id", session)
            parent = self.chat(daemon, main)
            children = {self.chat(daemon, main, ("x-claude-code-agent-id", f"{session}-{number}"))
                        for number in range(4)}
            self.assertEqual(children, {parent})

    def test_can_be_turned_off(self):
        daemon = self.inspected(affinity="off")
        self.assertEqual({self.chat(daemon, ("x-session-id", "one")) for _ in range(6)}, {b"0", b"1", b"2"})
        self.assertIsNone(self.sessions(daemon))

    def test_do_not_wait_for_a_full_server(self):
        arrived, leave = threading.Event(), threading.Event()

        def script(request, number):
            if request.head.field("x-slow"):
                arrived.set()
                leave.wait(PATIENCE)
            request.answer(b"%d" % number)

        daemon = self.pinned(by=["agent-session"], script=script, inspect=True,
                             affinity={"by": ["agent-session"], "mode": "soft"}, limits={"max_in_flight": 1})
        first = self.chat(daemon, ("x-session-id", "one"))
        slow = self.spawn(lambda: self.chat(daemon, ("x-session-id", "one"), ("x-slow", "1")))
        self.assertTrue(arrived.wait(PATIENCE))

        second = self.chat(daemon, ("x-session-id", "one"))
        leave.set()

        self.assertEqual(slow.join(), first)
        self.assertNotEqual(second, first)
        self.assertEqual(self.chat(daemon, ("x-session-id", "one")), second)


if __name__ == "__main__":
    case.main()
