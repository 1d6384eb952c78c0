"""The ways through a contender: the protocol of its clients, and the protocol of its backends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Protocol(Enum):
    HTTP1 = "http/1.1"
    HTTP2 = "h2c"  # clear, by prior knowledge
    HTTP1_TLS = "http/1.1 over TLS"


@dataclass(frozen=True)
class Way:
    name: str  # what `--ways` calls it
    front: Protocol
    back: Protocol


HTTP1 = Way("h1", Protocol.HTTP1, Protocol.HTTP1)
H2_TO_H1 = Way("h2-h1", Protocol.HTTP2, Protocol.HTTP1)
H2_TO_H2 = Way("h2-h2", Protocol.HTTP2, Protocol.HTTP2)
TLS_TO_CLEAR = Way("tls", Protocol.HTTP1_TLS, Protocol.HTTP1)

ALL_WAYS = (HTTP1, H2_TO_H1, H2_TO_H2, TLS_TO_CLEAR)
