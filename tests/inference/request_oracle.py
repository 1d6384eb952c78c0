"""Compares the reader of requests with Python's `json` on generated bodies:

    request_oracle.py PRINT_REQUESTS [COUNT]

What is well-formed, and what the body says, is worked out a second time here, from the tree that `json` makes of it.
"""

import json
import random
import re
import subprocess
import sys

SEED = 12
MAX_NAME = 256
MAX_DEPTH = 512
MAX_COUNT = 2**32 - 1
MAX_NUMBER = 48  # of one with a fraction or an exponent


# ---- what a body says

class Object(list):
    """The members of an object in their order, duplicates included."""

    def last(self, key):
        return next((value for name, value in reversed(self) if name == key), None)


class Float(float):
    def __init__(self, text):
        self.text = text


def refuse_constant(name):
    raise ValueError(name)


def depth_of(value):
    deepest, level = 0, [value]
    while level:
        below = []
        for each in level:
            if isinstance(each, Object):
                below += [item for _, item in each] or [None]
            elif isinstance(each, list):
                below += each or [None]
        deepest += 1 if any(isinstance(each, list) for each in level) else 0
        level = below
    return deepest


def parse(body):
    """The tree, or an exception of the kind ValueError."""
    if body.startswith(b"\xef\xbb\xbf"):
        raise ValueError("byte order mark")
    tree = json.loads(body.decode(), object_pairs_hook=Object, parse_constant=refuse_constant, parse_float=Float)
    if depth_of(tree) > MAX_DEPTH:
        raise ValueError("depth")
    return tree


def size(text):
    return len(text.encode("utf-8", "surrogatepass"))


def name(value):
    """As names are kept: surrogates replaced, cut between two characters."""
    if not isinstance(value, str):
        return ""
    value = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    return value.encode()[:MAX_NAME].decode(errors="ignore")


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


LAX_TEXT = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9](?:_?[0-9])*)(?:\.0+)?[ \t\n\v\f\r]*")


def lax_integer(value):
    """As pydantic reads an `int`; see also problem_with_pydantic()."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Float):
        return int(value) if value.is_integer() and abs(value) < 2**63 and len(value.text) <= MAX_NUMBER else None
    text = LAX_TEXT.fullmatch(value) if isinstance(value, str) and len(value) <= MAX_NAME else None
    return int(text[1]) if text else None


def limit(value):
    value = lax_integer(value)
    return min(value, MAX_COUNT) if value is not None and value >= 0 else None


def priority(value):
    value = lax_integer(value)
    return value if value is not None and abs(value) < 2**63 else None


def first(*values):
    return next((value for value in values if value is not None and value != ""), None)


def member(value, *keys):
    for key in keys:
        value = value.last(key) if isinstance(value, Object) else None
    return value


class Prompt:
    """Counts what belongs to a prompt."""

    def __init__(self):
        self.bytes = self.tokens = self.images = 0

    def text(self, value):
        if isinstance(value, str):
            self.bytes += size(value)

    def tree(self, value):
        """Any JSON: keys and strings."""
        if isinstance(value, Object):
            for key, item in value:
                self.text(key)
                self.tree(item)
        elif isinstance(value, list):
            for item in value:
                self.tree(item)
        else:
            self.text(value)

    def image(self, value):
        self.images += isinstance(value, (str, Object))

    def image_list(self, value):
        if type(value) is list:
            for item in value:
                self.image(item)

    def calls(self, value):
        if isinstance(value, Object):
            for key, item in value:
                {"function": self.calls, "name": self.text, "arguments": self.tree}.get(key, ignore)(item)
        elif isinstance(value, list):
            for item in value:
                self.calls(item)

    def kind(self, value):
        self.images += value == "image"

    def part(self, value):
        members = {"type": self.kind, "content": self.content, "output": self.content, "image_url": self.image,
                   "input": self.tree, "arguments": self.tree, "multimodal_data": self.image_list}
        members |= dict.fromkeys(["text", "thinking", "name", "refusal", "title", "context", "prompt_string"], self.text)
        for key, item in value:
            members.get(key, ignore)(item)

    def content(self, value):
        if isinstance(value, Object):
            self.part(value)
        elif isinstance(value, list):
            for item in value:
                self.content(item)
        else:
            self.text(value)

    def prompt(self, value):
        if is_integer(value):
            self.tokens += 1
        elif type(value) is list:
            for item in value:
                self.prompt(item)
        else:
            self.content(value)

    def messages(self, value):
        if type(value) is not list:
            self.text(value)
            return
        members = {"content": self.content, "output": self.content, "summary": self.content, "arguments": self.tree,
                   "tool_calls": self.calls, "function_call": self.calls, "images": self.image_list,
                   "image_url": self.image}
        members |= dict.fromkeys(["name", "reasoning_content", "reasoning", "thinking", "refusal", "text"], self.text)
        for message in value:
            if isinstance(message, Object):
                for key, item in message:
                    members.get(key, ignore)(item)


def ignore(_):
    pass


PROMPTS = {
    "/v1/chat/completions": {"messages": "messages", "tools": "tree", "functions": "tree"},
    "/v1/completions": {"prompt": "prompt", "suffix": "text", "text": "prompt", "input_ids": "prompt",
                        "inputs": "prompt", "image_data": "image_list"},
    "/v1/responses": {"input": "messages", "instructions": "content", "tools": "tree"},
    "/v1/embeddings": {"input": "prompt", "messages": "messages", "content": "prompt"},
    "/v1/messages": {"messages": "messages", "system": "content", "tools": "tree"},
    "/v1/rerank": {"query": "prompt", "documents": "prompt"},
    "/v1/score": {"text_1": "prompt", "text_2": "prompt"},
    "/api/chat": {"messages": "messages", "tools": "tree", "prompt": "prompt"},
}


TREES = ("tools", "arguments", "input", "options")  # of their members no key is matched, or as it is


def folded(key):
    """As Go's encoding/json compares it."""
    return key.translate({0x17f: "s", 0x212a: "k"} | {code: chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})


def as_go_reads_it(value):
    if isinstance(value, Object):
        return Object((folded(key), item if folded(key) in TREES else as_go_reads_it(item)) for key, item in value)
    return [as_go_reads_it(item) for item in value] if type(value) is list else value


def facts(path, root):
    if not isinstance(root, Object):
        root = Object()
    models = [value for key, value in root if key == "model"]
    if path == "/api/chat":
        root = as_go_reads_it(root)
        models = [value for key, value in root if key == "model" and isinstance(value, str)]
    prompt = Prompt()
    for key, kind in PROMPTS[path].items():
        getattr(prompt, kind)(root.last(key))
    stream = root.last("stream")
    session = first(name(root.last("session_id")), name(member(root, "vllm_xargs", "session_id")),
                    name(root.last("prompt_cache_key")))
    user = first(name(root.last("user")), name(root.last("safety_identifier")),
                 name(member(root, "metadata", "user_id")) if path == "/v1/messages" else None)
    limits = [root.last("max_tokens")]
    if path == "/v1/chat/completions":
        limits = [root.last("max_completion_tokens"), root.last("n_predict"), *limits]
    if path == "/v1/completions":
        limits = [root.last("n_predict"), max_new_tokens(root), *limits]
    if path == "/v1/responses":
        limits = [root.last("max_output_tokens"), *limits]
    if path == "/api/chat":
        limits = [member(root, "options", "num_predict"), *limits]
    choices = limit(root.last("n"))
    said = {
        "model": name(models[-1]) if models else "",
        "stream": stream if isinstance(stream, bool) else path == "/api/chat",
        "include_usage": member(root, "stream_options", "include_usage") is True,
        "max_tokens": next((limit(value) for value in limits if limit(value) is not None), None),
        "choices": max(choices or 1, 1),
        "prompt_bytes": prompt.bytes,
        "prompt_tokens": prompt.tokens,
        "images": prompt.images,
        "session": session or "",
        "user": user or "",
        "priority": priority(root.last("priority")),
        "models": [value for value in models if isinstance(value, str)],
    }
    if path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
        messages = root.last("messages")
        has_user = type(messages) is list and any(member(each, "role") == "user" for each in messages)
        said["has_conversation"] = has_user or isinstance(messages, str)
    return said


def max_new_tokens(root):
    """SGLang's object and TGI's: the later one counts."""
    given = [key for key, _ in root if key in ("sampling_params", "parameters")]
    return member(root, given[-1], "max_new_tokens") if given else None


# ---- bodies

class Generator:
    WORDS = ["", "a", "user", "the quick brown fox", "\n", "line\nline\n", "\"model\": \"x\"", "\\", "é", "你好", "😀",
             "\x7f", "\u2028", "x" * 70, "y\n" * 40, "{\"user\":\"no\"}", "\ud83d", "\ude00", "\x00\x1f", "data:image/png;base64,AA"]
    ROLES = ["system", "user", "user", "assistant", "tool"]
    NAMES = ["m", "llama-3.1", "modèle", "m" * 300, "é" * 200, "", "\ud83d", "a/b"]
    NUMBERS = ["0", "1", "17", "-1", "4294967295", "4294967296", "99999999999999999999999", "1.0", "1e3", "-0",
               "9223372036854775807", "-9223372036854775807", "0.25", "1E-7", "-12", "500.0", "5e2", "0.5E+3", "50000e-2",
               "-2.50e1", "-0.0", "500.5", "9007199254740993.0", "9.3e18", "1e400", "5.000000000000000000000"]
    NUMBERS_IN_TEXT = ["500", " 500\n", "+500", "-500", "0500", "5_00", "500.0", "1_000.00 ", "00", "-0", "0_5", "0", "1" * 30,
                       "", " ", "+", "-", ".0", "500.", "500.5", "500.0_0", "5e2", "0x10", "5 00", "--5", "+-5", "_5", "5_", "5__0",
                       "٥", "five"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, share):
        return self.random.random() < share

    def space(self):
        return self.random.choice(["", "", "", " ", "\n", "\t", "\r\n  "])

    def string(self, text):
        out = []
        for c in text:
            code = ord(c)
            short = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\"": "\\\"", "\\": "\\\\", "/": "\\/", "\b": "\\b"}
            if c in short and (code < 0x20 or c in "\"\\" or self.chance(0.3)):
                out.append(short[c])
            elif code < 0x20 or 0xd800 <= code < 0xe000 or self.chance(0.05):
                units = c.encode("utf-16-be", "surrogatepass")
                form = self.random.choice(["\\u{:04x}", "\\u{:04X}"])
                out += [form.format(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2)]
            else:
                out.append(c)
        return '"' + "".join(out) + '"'

    def words(self):
        return self.string("".join(self.random.choices(self.WORDS, k=self.random.randrange(4))))

    def name(self):
        return self.string(self.random.choice(self.NAMES))

    def array(self, items):
        return "[" + ",".join(self.space() + item + self.space() for item in items) + self.space() + "]"

    def key(self, key):
        cases = [key.upper(), key.title(), key.replace("s", "\u017f"), key.replace("k", "\u212a"), key.swapcase()]
        return self.string(self.random.choice(cases) if self.chance(0.05) else key)

    def object(self, members):
        parts = [f"{self.space()}{self.key(key)}{self.space()}:{self.space()}{value}{self.space()}" for key, value in members]
        return "{" + ",".join(parts) + self.space() + "}"

    def number(self):
        return self.random.choice(self.NUMBERS)

    def number_in_text(self):
        return self.string(self.random.choice(self.NUMBERS_IN_TEXT))

    def anything(self, depth=0):
        kind = self.random.randrange(4 if depth > 3 else 7)
        if kind == 0:
            return self.random.choice(["null", "true", "false"])
        if kind == 1:
            return self.number()
        if kind < 4:
            return self.words()
        if kind == 4:
            return self.array([self.anything(depth + 1) for _ in range(self.random.randrange(4))])
        keys = ["model", "user", "stream", "content", "text", "type", "x", "max_tokens", "image_url", "role"]
        return self.object([(self.random.choice(keys), self.anything(depth + 1)) for _ in range(self.random.randrange(4))])

    def part(self):
        image = self.object([("url", self.words()), ("detail", '"low"')])
        return self.random.choice([
            lambda: self.object([("type", '"text"'), ("text", self.words())]),
            lambda: self.object([("type", '"image_url"'), ("image_url", image)]),
            lambda: self.object([("type", '"input_image"'), ("image_url", self.words())]),
            lambda: self.object([("source", self.object([("data", self.words())])), ("type", '"image"')]),
            lambda: self.object([("type", '"tool_result"'), ("content", self.content())]),
            lambda: self.object([("type", '"tool_use"'), ("name", self.words()), ("input", self.anything(2))]),
            lambda: self.object([("text", self.words()), ("text", self.words()), ("cache_control", self.anything(2))]),
        ])()

    def content(self):
        if self.chance(0.6):
            return self.words()
        return self.array([self.part() for _ in range(self.random.randrange(4))])

    def message(self):
        members = [("role", self.string(self.random.choice(self.ROLES))), ("content", self.content())]
        if self.chance(0.2):
            call = self.object([("name", self.words()), ("arguments", self.words())])
            members.append(("tool_calls", self.array([self.object([("id", '"1"'), ("function", call)])])))
        if self.chance(0.1):
            members.append(("images", self.array([self.words()])))
        if self.chance(0.1):
            members.append((self.random.choice(["role", "content", "name", "extra"]), self.anything(2)))
        self.random.shuffle(members)
        return self.object(members)

    def prompt(self):
        ids = [self.number() for _ in range(self.random.randrange(6))]
        return self.random.choice([self.words, lambda: self.array([self.words(), self.words()]), lambda: self.array(ids),
                                   lambda: self.array([self.array(ids), self.array([])]), self.anything])()

    def prompt_member(self, kind):
        return {
            "messages": lambda: self.array([self.message() for _ in range(self.random.randrange(5))]),
            "tree": lambda: self.array([self.anything()]),
            "text": self.words,
            "content": self.content,
            "image_list": lambda: self.array([self.words(), self.anything(2)]),
            "prompt": self.prompt,
        }[kind]()

    def fact(self):
        key = self.random.choice([
            "model", "model", "stream", "max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "n", "priority",
            "user", "safety_identifier", "session_id", "prompt_cache_key", "stream_options", "vllm_xargs", "options",
            "sampling_params", "parameters", "metadata", "temperature", "unknown"])
        if self.chance(0.15):
            return key, self.anything()
        inner = {"stream_options": "include_usage", "vllm_xargs": "session_id", "options": "num_predict",
                 "sampling_params": "max_new_tokens", "parameters": "max_new_tokens", "metadata": "user_id"}
        if key in inner:
            value = self.random.choice(["true", "false", self.number(), self.number_in_text(), self.name()])
            return key, self.object([(inner[key], value)] * self.random.randrange(1, 3))
        if key == "stream":
            return key, self.random.choice(["true", "true", "false", "null"])
        if key in ("n", "priority") or key.startswith(("max", "n_")):
            return key, self.number_in_text() if self.chance(0.3) else self.number()
        return key, self.name()

    def body(self, path):
        members = [self.fact() for _ in range(self.random.randrange(8))]
        for key, kind in PROMPTS[path].items():
            for _ in range(self.random.choice([0, 1, 1, 1, 1, 2])):
                members.append((key, self.anything() if self.chance(0.1) else self.prompt_member(kind)))
        self.random.shuffle(members)
        if self.chance(0.01):
            levels = self.random.choice([10, 510, 511, 512, 700])
            members.append(("deep", "[" * levels + "]" * levels))
        text = self.anything() if self.chance(0.02) else self.object(members)
        text = self.space() + text + self.space()
        return text.encode("utf-8", "surrogatepass")

    def mutate(self, body):
        body = bytearray(body)
        for _ in range(self.random.randrange(1, 3)):
            at = self.random.randrange(len(body) + 1)
            kind = self.random.randrange(6)
            if kind == 0:
                del body[at:]
            elif kind == 1:
                del body[at:at + 1]
            elif kind == 2:
                body[at:at] = self.random.choice([b",", b"\"", b"\\", b"}", b"]", b"{", b":", b"0", b"-", b".", b"e", b"\xc3", b"\xed\xa0\x80",
                                                  b"\xef\xbb\xbf", b"\x00", b" ", b"NaN", b"\xf4\x90\x80\x80", b"\xe0\x80\x80"])
            elif kind == 3 and at < len(body):
                body[at] ^= 1 << self.random.randrange(8)
            elif kind == 4:
                end = at + self.random.randrange(20)
                body[at:at] = body[at:end]
            elif kind == 5:
                body += self.random.choice([b"x", b"{}", b"\n", b"\x00", b","])
        return bytes(body)


# ---- the comparison

def generated(count):
    generator = Generator(SEED)
    paths = list(PROMPTS)
    for _ in range(count):
        path = generator.random.choice(paths)
        body = generator.body(path)
        yield path, generator.mutate(body) if generator.chance(0.35) else body


def problem_with(path, body, line):
    """Nothing, or how the reader's line differs from what Python says."""
    read = json.loads(line)
    try:
        tree = parse(body)
    except ValueError as error:
        if read["accepted"]:
            return f"accepted, but Python says: {error}"
        at = int(read["problem"].removeprefix("invalid JSON at byte ").partition(":")[0])
        return None if at <= len(body) else f"an error behind the end: {read['problem']}"
    if not read["accepted"]:
        return f"refused: {read['problem']}"
    said = facts(path, tree)
    models = [json.loads(body[begin:end]) for begin, end in read.pop("models")]
    if models != said.pop("models"):
        return f"models at {models}"
    differing = {key: (read[key], value) for key, value in said.items() if read[key] != value}
    return f"read, expected: {differing}" if differing else None


def problem_with_pydantic():
    """What of this page's own reading of integers differs from pydantic's, which is not on every machine."""
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError:
        return None
    integer = TypeAdapter(int)
    for text in Generator.NUMBERS + [json.dumps(text) for text in Generator.NUMBERS_IN_TEXT] + ["true", "false"]:
        try:
            expected = integer.validate_json(text)
        except ValidationError:
            expected = None
        read = lax_integer(json.loads(text, parse_float=Float))
        if read != expected:
            return f"{text}: {read}, pydantic {expected}"


def main():
    if problem := problem_with_pydantic():
        sys.exit(problem)
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(20000)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    requests = list(generated(count))
    told = b"".join(f"{path} {len(body)} {seed}\n".encode() + body for seed, (path, body) in enumerate(requests))
    lines = subprocess.run([sys.argv[1]], input=told, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    assert len(lines) == count, f"{len(lines)} answers"
    valid = failed = 0
    for (path, body), line in zip(requests, lines):
        problem = problem_with(path, body, line)
        valid += json.loads(line)["accepted"]
        if problem:
            failed += 1
            if failed < 6:
                print(f"{path} {body!r}\n  {problem}", file=sys.stderr)
    print(f"{count} bodies, {valid} well-formed, {failed} read differently")
    assert count / 4 < valid < count * 0.95, "the generator has lost its balance"
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
