"""Inspected pools in front of real engines: the requests of real clients pass unchanged in both directions, and evenkeel counts the
tokens that the engines count. Taps record both sides of evenkeel."""

import contextlib
import json
import re
import traceback

import shapes
from process import Daemon, wait_until
from stream import exchange
from tap import Tap
from usage import Usage, usage_of

MALFORMED = {  # a body, and the byte at which it is malformed
    b'{"model": "random" "stream": true}': 19,
    b'{"model": "random", "messages": [}': 33,
    b'{"model": "random", "max_tokens": 0x10}': 35,
    b'{"model": "random", "user": "a\nb"}': 30,
    b'{"model": "random"} more': 20,
}
SEVERAL = ("two choices", "prompts")  # llama.cpp's usage counts only one of several choices


class Inspection:
    """A daemon with inspected pools, between taps, in front of one server."""

    def __init__(self, folder, kind, server, embedding=None):
        """`embedding`: a server that serves only embeddings."""
        self.kind = kind
        self.server = server
        self.back = [Tap(server.address)]
        pools = [self.pool("http", kind, self.back[0])]
        routes = [{"match": {"path": "/**"}, "pool": "http"}]
        if "grpc" in server.port:
            self.back.append(Tap(f"{server.host}:{server.port['grpc']}"))
            pools.append({**self.pool("grpc", kind, self.back[1]), "protocol": "h2"})
            routes.insert(0, {"match": {"grpc": "inference.GRPCInferenceService"}, "pool": "grpc"})
        if embedding:
            self.back.append(Tap(embedding.address))
            pools.append(self.pool("embedding", kind, self.back[-1]))
            routes.insert(0, {"match": {"path": "/v1/embeddings"}, "pool": "embedding"})
        self.daemon = Daemon(folder, {"pools": pools, "routes": routes, "limits": {"inspected_body": "2MiB"}})
        self.front = Tap(self.daemon.address)
        self.direct = Tap(server.address)  # around evenkeel

    @staticmethod
    def pool(name, kind, tap):
        return {"name": name, "engine": kind.engine, "backends": [f"http://{tap.address}"], "inspect": True,
                "health": {"check": "off"}}

    def close(self):
        for each in (*self.back, self.front, self.direct):
            each.close()
        self.daemon.finish()

    def behind(self):
        return sorted((each for tap in self.back for each in tap.exchanges()), key=lambda each: each.began)

    def ask(self, shape):
        """Sends a request of this shape through evenkeel; returns it as it was in front of evenkeel and behind it, and its line in
        the access log."""
        before, lines = len(self.front.exchanges()), len(self.daemon.access_lines())
        behind = len(self.behind())
        shape(self.front.address)
        front = wait_until(lambda: self.front.exchanges()[before:], 5, "the exchange with the client")
        back = wait_until(lambda: self.behind()[behind:], 5, "the exchange with the server")
        line = self.daemon.wait_access(lines + 1)[lines:]
        assert len(front) == len(back) == len(line) == 1, (front, back, len(line))
        return front[0], back[0], line[0]

    def ask_directly(self, shape):
        before = len(self.direct.exchanges())
        shape(self.direct.address)
        return wait_until(lambda: self.direct.exchanges()[before:], what="the exchange")[0]

    def tokens(self):
        """evenkeel_tokens_total: prompts, generated, cached."""
        page = self.daemon.metrics()
        return [sum(value for (name, labels), value in page.items()
                    if name == "evenkeel_tokens_total" and ("direction", direction) in labels)
                for direction in ("input", "output", "cached")]


# ---- bytes ---------------------------------------------------------------------------------------


def difference(front, back):
    """How the exchange differs on the two sides of evenkeel, apart from usage that was added and removed; None if it does not."""
    if front.target != back.target or front.status != back.status:
        return f"{front} became {back}"
    added = front.sent != back.sent
    if added and not usage_was_added(front.sent, back.sent):
        return f"the request {front.sent[:200]!r} became {back.sent[:200]!r}"
    if added and back.status == 200:
        return removal(front.received, back.received)
    if front.received != back.received:
        return f"the response {back.received[-300:]!r} became {front.received[-300:]!r}"
    return None


def usage_was_added(sent, became):
    """One piece was inserted, which asks for usage; nothing else differs."""
    size = len(became) - len(sent)
    begin = next((at for at, (one, other) in enumerate(zip(sent, became)) if one != other), len(sent))
    if size <= 0 or became[begin + size:] != sent[begin:]:
        return False
    wanted, asked = json.loads(became), json.loads(sent)
    options = wanted.pop("stream_options", {})
    return "stream_options" not in asked and options == {"include_usage": True} and wanted == asked


def events(body):
    return [each for each in re.split(rb"(?<=\n\n)", body) if each]


def removal(front, back):
    """What else was removed from a stream than its usage."""
    usage = [each for each in events(back) if any(not one.get("choices", True) and one.get("usage") for one in parsed(each))]
    rest = [each for each in events(back) if each not in usage]
    if len(usage) != 1:
        return f"{len(usage)} events with usage"
    if len(rest) != len(events(front)):
        return f"{len(events(back))} events became {len(events(front))}"
    for mine, its in zip(events(front), rest):
        if mine != its and [without_usage(each) for each in parsed(mine)] != [without_usage(each) for each in parsed(its)]:
            return f"the event {its!r} became {mine!r}"
    return None


def parsed(event):
    found = []
    for line in event.splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line.removeprefix(b"data:")))
    return [each for each in found if isinstance(each, dict)]


def without_usage(document):
    """vLLM moves `system_fingerprint` to the event with usage."""
    return {key: value for key, value in document.items() if key not in ("usage", "system_fingerprint")}


def outline(exchange_):
    """What a stream is made of: the members of its events, in order; repeated ones once."""
    found = []
    for event in events(exchange_.received):
        for each in parsed(event):
            keys = tuple(each)
            if not found or found[-1] != keys:
                found.append(keys)
    return found


# ---- the observations ----------------------------------------------------------------------------


def inspected(trial, sighting):
    """All shapes of requests to one server, through an inspected pool."""
    first = trial.servers[0]
    folder = trial.folder / "inspection"
    folder.mkdir()
    embedding = trial.kind.embedding_server(trial.folder / "embedding") if not trial.folded else None
    inspection = Inspection(folder, trial.kind, first, embedding)
    try:
        over_http, over_grpc = shapes.SHAPES[trial.kind.name]
        wanted = [*over_http, *over_grpc, *(shapes.EMBEDDINGS if embedding else [])]
        observe_shapes(inspection, sighting, wanted)
        if trial.kind.openai:
            observe_usage_removed(inspection, sighting)
        observe_malformed(inspection, sighting)
    finally:
        inspection.close()
        if embedding:
            embedding.kill()


def observe_shapes(inspection, sighting, wanted):
    unchanged, added, counted, total = 0, [], 0, Usage(0, 0, 0)
    own, before = inspection.server.tokens_on_page(), inspection.tokens()
    for name, shape in wanted:
        try:
            front, back, line = inspection.ask(shape)
        except Exception as failure:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            sighting.claim(False, f"{name}: {failure!r}"[:300])
            continue
        why = difference(front, back)
        sighting.claim(why is None, f"{name}: {why}")
        unchanged += why is None
        if front.sent != back.sent:
            added.append(name)
        usage = usage_of(back.readable()) if back.status == 200 else Usage()
        sighting.claim(logged(line) == usage.as_tuple(), f"{name}: the engine reported {usage}, the log {Usage(*logged(line))}")
        after = inspection.tokens()
        added_up = [now - then for now, then in zip(after, before)]
        sighting.claim(added_up == [each or 0 for each in usage.as_tuple()],
                       f"{name}: the engine reported {usage}, evenkeel_tokens_total grew by {added_up}")
        before = after
        counted += usage.prompt is not None
        for key in ("prompt", "output", "cached"):
            setattr(total, key, getattr(total, key) + (getattr(usage, key) or 0))
        now = inspection.server.tokens_on_page()
        if now is not None and usage.output is not None and not any(each in name for each in SEVERAL):
            spent = now - own
            sighting.claim(spent == usage.output, f"{name}: {usage}, but its page counts {spent:.0f} generated")
        own = now
    sighting.fact(f"{len(wanted)} requests of clients, {unchanged} of them and of their responses unchanged"
                  + (f", {len(added)} of them but for usage that was added and removed" if added else ""))
    if not counted:
        sighting.fact("the engine reports no tokens")
        return
    sighting.fact(f"tokens of {counted} responses, as their usage says: {total}"
                  + ("" if sighting.broken else "; the access log and evenkeel_tokens_total have the same"))


def logged(line):
    """What the access log has of the response; nothing of a body that was not read."""
    return tuple(line.get(each) for each in ("prompt_tokens", "completion_tokens", "cached_tokens"))


def observe_usage_removed(inspection, sighting):
    """A stream from which usage was removed consists of what the engine sends when it is not asked for usage."""
    for name, shape in (("chat", shapes.chat(stream=True)), ("completion", shapes.completion(stream=True))):
        front, _, _ = inspection.ask(shape)
        mine, its = outline(front), outline(inspection.ask_directly(shape))
        sighting.claim(mine == its, f"{name}: a stream of {its} has become {mine}")


def observe_malformed(inspection, sighting):
    """Malformed JSON is answered by evenkeel, with the byte, in the form that clients of the API expect."""
    paths = {"/v1/chat/completions": lambda body: body["error"]["message"],
             "/v1/messages": lambda body: body["type"] == "error" and body["error"]["message"]}
    if not inspection.kind.openai:
        paths = {"/v2/models/work/infer": lambda body: body["error"]}
    before, broken = len(inspection.behind()), len(sighting.broken)
    for path, message in paths.items():
        for body, byte in MALFORMED.items():
            answer = exchange(inspection.daemon.address, "POST", path, [("content-type", "application/json")], body)
            try:
                said = message(json.loads(answer.body))
            except (ValueError, TypeError, KeyError):
                said = answer.body
            sighting.claim(answer.status == 400 and re.search(rf"\bbyte {byte}\b", str(said)),
                           f"{path} with {body!r}: {answer.status} {said!r}")
    sighting.claim(len(inspection.behind()) == before, "the server received malformed JSON")
    if len(sighting.broken) == broken:
        sighting.fact(f"malformed JSON: {len(paths) * len(MALFORMED)} x 400 that names the byte; none of it reached the server")


OBSERVATIONS = {"inspected": inspected}
