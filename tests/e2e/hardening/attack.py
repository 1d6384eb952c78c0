"""One row of the conformance tables: what is sent, what must happen, and how it is seen."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Attack:
    """`payload` is what the bench of its table sends. `expected` has the allowed outcomes, in the bench's notation. A known
    `deviation` says why the daemon does something else, and `deviates` what it does."""

    id: str
    sends: str  # for the page
    payload: object
    expected: tuple
    deviates: str = ""
    deviation: str = ""

    def accepts(self, got):
        return got in self.expected or (self.deviates != "" and got == self.deviates)


@dataclasses.dataclass(frozen=True)
class Proven:
    """A case that other tests prove. `tests`: "file.Class.test" of tests/e2e, without "_test"; "file.Class" for a whole class;
    or "module:Suite.Test" for a unit test."""

    id: str
    sends: str
    expected: str
    tests: tuple
    deviation: str = ""


def shown(raw, most=90):
    """Bytes for the page: escaped, runs of one character abbreviated, cut after `most` characters."""
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    text = re.sub(r"(.)\1{19,}", lambda run: f"{run[1]}{{{len(run[0])}}}", text, flags=re.DOTALL)
    text = "".join({"\r": "\\r", "\n": "\\n", "\t": "\\t", "\\": "\\\\"}.get(
        each, each if " " <= each <= "~" else f"\\x{ord(each):02x}") for each in text)
    if len(text) > most:
        text = text[:most - 3] + "..."
    return f"`` {text} ``" if "`" in text else f"`{text}`"
