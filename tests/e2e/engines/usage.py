"""What an engine's response says of its tokens: the oracle for what evenkeel counts."""

import json


class Usage:
    """Tokens as the engine reports them; None where it reports none."""

    def __init__(self, prompt=None, output=None, cached=None):
        self.prompt = prompt
        self.output = output
        self.cached = cached

    def __repr__(self):
        return f"{self.prompt} + {self.output} tokens, {self.cached} cached"

    def as_tuple(self):
        return self.prompt, self.output, self.cached


def documents(body):
    """The JSON documents of a body: the data of each event of a stream, or the body itself."""
    found = []
    texts = [line[5:] for line in body.splitlines() if line.startswith(b"data:")] or [body]
    for text in texts:
        try:
            found.append(json.loads(text))
        except ValueError:  # [DONE], or no JSON
            pass
    return [each for each in found if isinstance(each, dict)]


def usage_of(body):
    """Of OpenAI's and Anthropic's APIs and llama.cpp's own. Later reports count."""
    usage = Usage()
    for each in documents(body):
        for holder in (each, each.get("response"), each.get("message")):
            reported = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(reported, dict):
                read(reported, usage)
        if "tokens_evaluated" in each:  # llama.cpp's own API
            usage.prompt, usage.output = each["tokens_evaluated"], each["tokens_predicted"]
        timings = each.get("timings")
        if isinstance(timings, dict):  # llama.cpp's, where it reports no usage
            usage.prompt = timings["prompt_n"] + timings["cache_n"] if usage.prompt is None else usage.prompt
            usage.output = timings["predicted_n"] if usage.output is None else usage.output
            usage.cached = timings["cache_n"] if usage.cached is None else usage.cached
    return usage


def read(reported, usage):
    details = reported.get("prompt_tokens_details") or reported.get("input_tokens_details") or {}
    if "prompt_tokens" in reported:
        usage.prompt = reported["prompt_tokens"]
    elif "input_tokens" in reported:  # Anthropic does not count those that were cached, OpenAI does
        apart = [reported.get(name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens")]
        usage.prompt = reported["input_tokens"] + sum(apart)
    for name in ("completion_tokens", "output_tokens"):
        if reported.get(name) is not None:
            usage.output = reported[name]
    for cached in (details.get("cached_tokens"), reported.get("cache_read_input_tokens")):
        if cached is not None:
            usage.cached = cached
