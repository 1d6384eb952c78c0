"""PyPI's `grpcio`, both its APIs: calls through evenkeel to three of its servers, over clear HTTP/2 and over TLS."""

import asyncio
import collections
import os
import queue
import signal
import time
import unittest

import case
from certificates import Authority
from grpc_servers import ANY_SIZE, SERVICE, EchoProcess, EchoServer, grpc
from ports import refusing_address
from process import SANITIZED

PATIENCE = 20
PROMPTLY = 2.0  # seconds: far less than any timeout that would end a call by itself


def multicallable(channel, method):
    make = {"Say": "unary_unary", "Collect": "stream_unary", "Count": "unary_stream", "Wait": "unary_stream",
            "Chat": "stream_stream"}[method]
    return getattr(channel, make)(f"/{SERVICE}/{method}")


@unittest.skipIf(grpc is None, "PyPI's grpcio is not installed (./dev setup)")
class Grpc(case.Case):
    def setUp(self):
        self.authority = None

    # ---- servers and clients ----

    def server(self, name="", **kwargs):
        server = EchoServer(name, **kwargs)
        self.addCleanup(server.stop)
        return server

    def mortal(self, name="", certificate=None):
        """A server that can be killed."""
        server = EchoProcess(self.folder(), name, certificate)
        self.addCleanup(server.kill)
        return server

    def pool_of(self, *servers, name="pool", **more):
        return {"name": name, "protocol": "h2", "backends": [each.address for each in servers], **more}

    def front(self, *servers, pool=None, **config):
        return self.daemon({"pools": [self.pool_of(*servers, **(pool or {}))], "listeners": [self.listener()],
                            **config})

    def listener(self, **more):
        return {"name": "public", "limits": {"body": "64MiB"}, **more}

    def channel(self, *daemons, options=()):
        """To the first of them; to the next, where that one is gone."""
        channel = self.make_channel("ipv4:" + ",".join(each.address for each in daemons), [
            *ANY_SIZE, ("grpc.default_authority", "localhost"), *options])
        self.addCleanup(channel.close)
        return channel

    def make_channel(self, target, options):
        return grpc.insecure_channel(target, options)

    def aio_channel(self, daemon):
        return grpc.aio.insecure_channel(daemon.address, options=ANY_SIZE)

    def say(self, channel, message=b"hello", method="Say", **kwargs):
        return multicallable(channel, method)(message, **{"timeout": PATIENCE, **kwargs})

    def refused(self, call):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        return raised.exception

    # ---- the four kinds of calls ----

    def test_calls_of_one_connection_are_spread_over_the_servers(self):
        servers = [self.server(name) for name in "abc"]
        channel = self.channel(self.front(*servers, pool={"picker": "round-robin"}))

        heard = []
        for _ in range(9):
            answer, call = multicallable(channel, "Say").with_call(b"hello", timeout=PATIENCE)
            self.assertEqual(answer, b"hello")
            heard.append(dict(call.initial_metadata())["server"])

        self.assertEqual(collections.Counter(heard), {"a": 3, "b": 3, "c": 3})

    def test_many_calls_at_a_time_over_one_connection(self):
        servers = [self.server(name) for name in "abc"]
        channel = self.channel(self.front(*servers))
        messages = [b"%d" % number * 1000 for number in range(300)]

        calls = [multicallable(channel, "Say").future(message, timeout=PATIENCE) for message in messages]

        self.assertEqual([call.result() for call in calls], messages)
        self.assertTrue(all(server.calls for server in servers))

    def test_a_stream_of_messages_to_the_server(self):
        channel = self.channel(self.front(self.server()))
        messages = [b"%d," % number for number in range(1000)]
        self.assertEqual(self.say(channel, iter(messages), "Collect"), b"".join(messages))

    def test_a_stream_of_messages_to_the_client(self):
        channel = self.channel(self.front(self.server()))
        self.assertEqual(list(self.say(channel, b"1000", "Count")), [b"%d" % number for number in range(1000)])

    def test_a_bidirectional_stream_in_which_each_message_waits_for_the_previous_one(self):
        channel = self.channel(self.front(self.server()))
        ours = Words()

        answers = self.say(channel, ours, "Chat")
        for word in (b"one", b"two", b"three"):
            ours.say(word)
            self.assertEqual(next(answers), word)
        ours.end()

        self.assertEqual(list(answers), [b"bye"], "after the client's half was closed")
        self.assertEqual(answers.code(), grpc.StatusCode.OK)

    def test_messages_of_20_mb(self):
        channel = self.channel(self.front(self.server()))
        message = os.urandom(20_000_000)
        self.assertTrue(self.say(channel, message) == message, "unary")
        self.assertTrue(list(self.say(channel, iter([message]), "Chat")) == [message, b"bye"], "streamed")

    def test_compressed_messages(self):
        channel = self.channel(self.front(self.server()))
        message = b"the same again and again; " * 10_000
        self.assertEqual(self.say(channel, message, compression=grpc.Compression.Gzip), message)

    # ---- metadata and status ----

    def test_metadata_both_ways_before_and_after_the_messages(self):
        channel = self.channel(self.front(self.server()))
        sent = [("sent-text", "plain, with commas; 'and' \"quotes\""), ("sent-twice", "1"), ("sent-twice", "2"),
                ("sent-empty", ""), ("sent-any-bin", bytes(range(256))),
                ("sent-twice-bin", b"\0,"), ("sent-twice-bin", b",\xff")]

        _, call = multicallable(channel, "Say").with_call(b"", timeout=PATIENCE, metadata=sent)

        began = [each for each in call.initial_metadata() if each[0].startswith("sent-")]
        ended = [each for each in call.trailing_metadata() if each[0].startswith("trailing-sent-")]
        self.assertEqual(sorted(map(tuple, began)), sorted(sent))
        self.assertEqual(sorted(map(tuple, ended)), sorted(("trailing-" + key, value) for key, value in sent))

    def test_a_status_message_that_is_not_ascii(self):
        channel = self.channel(self.front(self.server()))
        words = "zu groß: 20 °C — 太大了 100% \U0001f525\nsecond line"
        error = self.refused(lambda: self.say(channel, metadata=[
            ("fail-code", "FAILED_PRECONDITION"), ("fail-text-bin", words.encode()), ("sent-detail-bin", b"\0\1")]))
        self.assertEqual((error.code(), error.details()), (grpc.StatusCode.FAILED_PRECONDITION, words))
        self.assertEqual(dict(error.trailing_metadata())["trailing-sent-detail-bin"], b"\0\1")

    def test_every_status_is_passed_on_and_counted(self):
        daemon = self.front(self.server())
        channel = self.channel(daemon)
        codes = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
        for code in codes:
            error = self.refused(lambda: self.say(channel, metadata=[("fail-code", code.name)]))
            self.assertEqual(error.code(), code)
        self.assertEqual(self.say(channel), b"hello")

        numbers = [code.value[0] for code in grpc.StatusCode]
        self.eventually(lambda: [daemon.metric("evenkeel_grpc_responses_total", grpc_status=str(number))
                                 for number in numbers] == [1] * len(numbers), "each status, counted once")

    # ---- ends ----

    def test_a_cancelled_call_ends_at_the_server_at_once(self):
        server = self.server()
        daemon = self.front(server)
        answers = self.say(self.channel(daemon), method="Wait")
        self.assertEqual(next(answers), b"waiting")

        cancelled = time.monotonic()
        answers.cancel()

        self.assertTrue(server.calls[0].ended.wait(PATIENCE))
        self.assert_within(server.calls[0].ended_at - cancelled, PROMPTLY)
        self.assertEqual(answers.code(), grpc.StatusCode.CANCELLED)

    def test_a_deadline_reaches_the_server_and_ends_the_call_at_both_ends(self):
        server = self.server()
        answers = self.say(self.channel(self.front(server)), method="Wait", timeout=1.0)
        self.assertEqual(next(answers), b"waiting")

        error = self.refused(lambda: next(answers))

        self.assertEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        call = server.calls[0]
        self.assertLessEqual(call.time_remaining, 1.1)  # the library rounds
        self.assertTrue(call.ended.wait(PATIENCE))
        self.assert_within(call.ended_at - call.began, 1.0 + PROMPTLY)

    def test_a_server_that_is_killed_makes_its_calls_unavailable(self):
        server = self.mortal()
        answers = self.say(self.channel(self.front(server)), method="Wait")
        self.assertEqual(next(answers), b"waiting")

        server.kill()

        error = self.refused(lambda: next(answers))
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)

    def test_calls_go_on_with_the_servers_that_are_left(self):
        killed, left = self.mortal("killed"), self.server("left")
        channel = self.channel(self.front(killed, left, pool={"picker": "round-robin"}))
        self.say(channel)
        self.say(channel)

        killed.kill()

        codes = collections.Counter()
        for _ in range(20):
            try:
                self.say(channel)
                codes["OK"] += 1
            except grpc.RpcError as error:
                codes[error.code().name] += 1
        # A call may have been in flight to the killed server; calls that no server began are retried.
        self.assertGreaterEqual(codes["OK"], 19, codes)

    def test_no_server_is_unavailable(self):
        daemon = self.daemon({"pools": [{"name": "pool", "protocol": "h2", "backends": [refusing_address()]}],
                              "listeners": [self.listener()]})
        error = self.refused(lambda: self.say(self.channel(daemon)))
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)

    def test_no_route_is_unimplemented(self):
        daemon = self.front(self.server(), routes=[{"match": {"grpc": "another.Service"}, "pool": "pool"}])
        error = self.refused(lambda: self.say(self.channel(daemon)))
        self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_an_unknown_method_is_the_servers_own_answer(self):
        channel = self.channel(self.front(self.server()))
        error = self.refused(lambda: channel.unary_unary(f"/{SERVICE}/Nothing")(b"", timeout=PATIENCE))
        self.assertEqual((error.code(), error.details()), (grpc.StatusCode.UNIMPLEMENTED, "Method not found!"))

    # ---- routes ----

    def test_routes_by_service_and_method(self):
        all_others, of_say = self.server("all others"), self.server("say")
        daemon = self.daemon({
            "listeners": [self.listener()],
            "pools": [self.pool_of(all_others, name="others"), self.pool_of(of_say, name="say")],
            "routes": [{"match": {"grpc": f"{SERVICE}/Say"}, "pool": "say"},
                       {"match": {"grpc": SERVICE}, "pool": "others"}],
        })
        channel = self.channel(daemon)
        self.say(channel)
        self.assertEqual(list(self.say(channel, b"2", "Count")), [b"0", b"1"])
        self.assertEqual([call.method for call in of_say.calls], ["Say"])
        self.assertEqual([call.method for call in all_others.calls], ["Count"])

    def test_a_server_whose_protocol_is_detected(self):
        channel = self.channel(self.front(self.server(), pool={"protocol": "auto"}))
        for _ in range(3):
            self.assertEqual(self.say(channel), b"hello")

    # ---- connections ----

    def test_keepalive_pings_of_a_waiting_client_are_allowed(self):
        server = self.server()
        # Ten times as often as gRPC's recommended once in 10 s.
        channel = self.channel(self.front(server), options=[
            ("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 2000),
            ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0)])
        answers = self.say(channel, method="Wait", timeout=4.0)
        self.assertEqual(next(answers), b"waiting")

        error = self.refused(lambda: next(answers))

        self.assertEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED, "and not UNAVAILABLE: too_many_pings")
        self.assertEqual(self.say(channel), b"hello")

    def test_a_call_in_both_directions_ends_when_its_server_hangs(self):
        """A stopped process acknowledges no ping, and so is told from one that waits for the client's next message."""
        server = self.mortal()
        daemon = self.front(server, pool={"health": {"check": "off"}},
                            routes=[{"match": {"grpc": SERVICE}, "pool": "pool"}])
        messages = queue.Queue()
        call = multicallable(self.channel(daemon), "Chat")(iter(messages.get, None))
        self.addCleanup(messages.put, None)
        messages.put(b"one")
        self.assertEqual(next(call), b"one")
        server.stop()
        began = time.monotonic()
        messages.put(b"two")

        with self.assertRaises(grpc.RpcError) as failure:
            next(call)

        self.assertEqual(failure.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(failure.exception.details(), "the backend does not answer pings")
        self.assert_within(time.monotonic() - began, 22 if not SANITIZED else 60)

    def test_a_drain_loses_no_call(self):
        """A draining backend finishes its calls, and new ones go to the next backend."""
        server = self.server()
        first, second = self.front(server), self.front(server)
        channel = self.channel(first, second)
        waiting = Words()
        conversation = self.say(channel, waiting, "Chat")
        waiting.say(b"before")
        self.assertEqual(next(conversation), b"before")

        calls = [multicallable(channel, "Say").future(b"%d" % each, timeout=PATIENCE) for each in range(50)]
        first.signal(signal.SIGTERM)
        answers = [call.result() for call in calls]
        after = [self.say(channel, b"%d" % each) for each in range(100)]
        waiting.say(b"after")
        self.assertEqual(next(conversation), b"after")
        waiting.end()
        self.assertEqual(list(conversation), [b"bye"])

        self.assertEqual(answers, [b"%d" % each for each in range(50)])
        self.assertEqual(after, [b"%d" % each for each in range(100)])
        self.assertEqual(first.wait_exit(), 0, "it waited for the conversation, and left in peace")
        self.assertGreater(second.metric("evenkeel_requests_total"), 0, "calls have moved over")

    # ---- grpc.aio ----

    def test_aio_calls_of_all_kinds(self):
        server = self.server()
        daemon = self.front(server)

        async def ask():
            async with self.aio_channel(daemon) as channel:
                await channel.channel_ready()
                said = await asyncio.gather(*(multicallable(channel, "Say")(b"%d" % number, timeout=PATIENCE)
                                              for number in range(100)))
                collected = await multicallable(channel, "Collect")(iter([b"a", b"b"]), timeout=PATIENCE)
                counted = [each async for each in multicallable(channel, "Count")(b"3", timeout=PATIENCE)]
                chat = multicallable(channel, "Chat")(timeout=PATIENCE)
                heard = []
                for word in (b"one", b"two"):
                    await chat.write(word)
                    heard.append(await chat.read())
                await chat.done_writing()
                heard += [await chat.read(), await chat.read()]
                return said, collected, counted, heard, await chat.code()

        said, collected, counted, heard, code = asyncio.run(ask())
        self.assertEqual(said, [b"%d" % number for number in range(100)])
        self.assertEqual((collected, counted), (b"ab", [b"0", b"1", b"2"]))
        self.assertEqual((heard, code), ([b"one", b"two", b"bye", grpc.aio.EOF], grpc.StatusCode.OK))

    def test_an_aio_task_that_is_cancelled_ends_the_call_at_the_server(self):
        server = self.server()
        daemon = self.front(server)

        async def ask():
            async with self.aio_channel(daemon) as channel:
                call = multicallable(channel, "Wait")(b"", timeout=PATIENCE)
                heard = await call.read()
                reading = asyncio.ensure_future(call.read())
                await asyncio.sleep(0)
                call.cancel()
                cancelled = time.monotonic()
                with self.assertRaises(asyncio.CancelledError):
                    await reading
                ended = await asyncio.get_running_loop().run_in_executor(None, server.calls[0].ended.wait, PATIENCE)
                return heard, cancelled, ended

        heard, cancelled, ended = asyncio.run(ask())
        self.assertEqual((heard, ended), (b"waiting", True))
        self.assert_within(server.calls[0].ended_at - cancelled, PROMPTLY)


class GrpcOverTls(Grpc):
    """The same with TLS on both sides."""

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder())
        self.certificate = self.authority.issue("127.0.0.1", "localhost")

    def server(self, name="", **kwargs):
        return super().server(name, certificate=self.certificate, **kwargs)

    def pool_of(self, *servers, **more):
        secure = [f"https://{each.address}" for each in servers]
        return {**super().pool_of(**more), "backends": secure, "tls": {"ca": self.authority.cert}}

    def listener(self, **more):
        return super().listener(tls={"certificates": [self.certificate.config()]}, **more)

    def mortal(self, name=""):
        return super().mortal(name, self.certificate)

    def credentials(self):
        with open(self.authority.cert, "rb") as cert:
            return grpc.ssl_channel_credentials(cert.read())

    def make_channel(self, target, options):
        return grpc.secure_channel(target, self.credentials(),
                                   [*options, ("grpc.ssl_target_name_override", "localhost")])

    def aio_channel(self, daemon):
        return grpc.aio.secure_channel(daemon.address, self.credentials(), options=ANY_SIZE)


class Words:
    """An iterator of messages that waits for the next one to be added."""

    def __init__(self):
        self._queue = queue.Queue()

    def __iter__(self):
        return self

    def __next__(self):
        word = self._queue.get(timeout=2 * PATIENCE)
        if word is None:
            raise StopIteration
        return word

    def say(self, word):
        self._queue.put(word)

    def end(self):
        self._queue.put(None)


if __name__ == "__main__":
    case.main()
