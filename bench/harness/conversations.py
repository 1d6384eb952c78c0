"""Conversations about documents: a load on servers of language models whose prompts share prefixes."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

REQUEST_SECONDS = 300.0


@dataclass(frozen=True)
class Shape:
    """Conversations about documents. The document is the system prompt; each turn has the answers before it."""

    documents: int
    conversations: int  # about each
    turns: int
    clients: int
    document_bytes: tuple[int, int] = (2500, 6500)
    question_bytes: tuple[int, int] = (150, 500)
    answer_tokens: tuple[int, int] = (12, 24)

    def requests(self) -> int:
        return self.documents * self.conversations * self.turns


class Text:
    """Made-up words like those of the model's tokenizer, which has 3.4 bytes per token of them."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._words = [self._word() for _ in range(4000)]

    def _word(self) -> str:
        syllables = range(self._chance.randint(1, 4))
        return "".join(self._chance.choice("bdfgklmnprst") + self._chance.choice("aeiou") for _ in syllables)

    def number(self, between: tuple[int, int]) -> int:
        return self._chance.randint(*between)

    def some(self, length: tuple[int, int]) -> str:
        wanted, words = self.number(length), []
        while wanted > 0:
            words.append(self._chance.choice(self._words))
            wanted -= len(words[-1]) + 1
        return " ".join(words)

    def shuffled(self, items: list[Any]) -> list[Any]:
        self._chance.shuffle(items)
        return items


@dataclass
class Conversation:
    document: str
    questions: list[str]
    answer_tokens: list[int]


def conversations_of(shape: Shape, seed: str, mark: str) -> list[Conversation]:
    """The same for the same seed, but for the mark at the beginning of each prompt: with another one, no cache knows it."""
    text = Text(seed)
    documents = [f"{mark} {text.some(shape.document_bytes)}" for _ in range(shape.documents)]
    return text.shuffled(
        [
            Conversation(
                document,
                [text.some(shape.question_bytes) for _ in range(shape.turns)],
                [text.number(shape.answer_tokens) for _ in range(shape.turns)],
            )
            for document in documents
            for _ in range(shape.conversations)
        ]
    )


@dataclass
class Answer:
    """Times are seconds since the request was sent."""

    status: int = 0
    failure: str = ""
    backend: str = ""
    head: float = 0.0
    outputs: list[float] = field(default_factory=list)
    tokens: int = 0  # asked for, and generated, since the end of the text is ignored
    text: str = ""
    has_usage: bool = False  # the client did not ask for it


def ask(address: str, body: dict[str, Any]) -> Answer:
    answer, began = Answer(), time.monotonic()
    connection = http.client.HTTPConnection(address, timeout=REQUEST_SECONDS)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        answer.status, answer.head = response.status, time.monotonic() - began
        answer.backend = response.headers.get("x-evenkeel-backend") or ""
        complete = False
        for line in response:
            complete = complete or line.startswith(b"data: [DONE]")
            _read_event(line, answer, began)
        if answer.status != 200 or not complete or not answer.outputs:
            answer.failure = f"status {answer.status}" if answer.status != 200 else "incomplete"
    except (OSError, http.client.HTTPException) as failure:
        answer.failure = type(failure).__name__
    finally:
        connection.close()
    return answer


def _read_event(line: bytes, answer: Answer, began: float) -> None:
    if not line.startswith(b"data: {"):
        return
    event = json.loads(line[6:])
    answer.has_usage = answer.has_usage or bool(event.get("usage"))
    for choice in event.get("choices", []):
        if content := (choice.get("delta") or {}).get("content"):
            answer.outputs.append(time.monotonic() - began)
            answer.text += content


class Clients:
    """Each takes the next conversation and leads it to its end."""

    def __init__(self, address: str, conversations: list[Conversation], count: int) -> None:
        self.answers: list[Answer] = []
        self._address, self._waiting = address, list(reversed(conversations))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]

    def run(self) -> list[Answer]:
        for each in self._threads:
            each.start()
        for each in self._threads:
            each.join()
        return self.answers

    def _next(self) -> Conversation | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def _run(self) -> None:
        while conversation := self._next():
            messages = [{"role": "system", "content": conversation.document}]
            for question, tokens in zip(conversation.questions, conversation.answer_tokens, strict=True):
                messages.append({"role": "user", "content": question})
                body = {"model": "random", "messages": messages, "max_tokens": tokens, "stream": True}
                answer = ask(self._address, body | {"ignore_eos": True})
                answer.tokens = tokens
                self.answers.append(answer)
                messages.append({"role": "assistant", "content": answer.text})
