"""Finds comments whose first sentence does not say what the declared thing is or does, and prints where they are:

    comments.py ROOT [MODULE...]     # MODULE: a folder of src/ and include/evenkeel/ to skip

A comment is a block of `///` or `//` lines outside functions. Its first sentence has the declared thing as its subject
("The largest body, in bytes."), or is a verb ("Returns ..."); that of a bool is "True if ...". Comments in the
bodies of functions and at the end of a line are not checked.
"""

import pathlib
import re
import sys
from dataclasses import dataclass

import sizes

PRONOUN = r"(?:It|Its|They|Their|Them|Those|These|That)"
FRAGMENT = (r"Of|In|As|By|With|Without|Within|For|From|At|On|To|Until|After|Behind|Before|Beside|Between|Among|Under|Unlike|"
            r"Because|Or|And|But|Also|Likewise|If|Otherwise|Once|Only|Whose")
VALUE = r"(?:True|False|Null|Nothing|Empty|0)"

# The beginnings of first sentences that are refused, and what to write instead.
REFUSED = {
    rf"{PRONOUN}\b": "name the thing before a pronoun stands for it",
    rf"(?:{FRAGMENT})\b": "begin with the declared thing, or with a verb",
    rf"(?:When|Where|While|What|Which|{VALUE} if) {PRONOUN.lower()}\b": "name the thing before a pronoun stands for it",
    rf"{VALUE}: ": "write '... if'",
    r"While\b|(?:One (?:that|of|more)|What is of)\b": "begin with the declared thing, or with a verb",
    r"Makes (?:it|them)\b": "say what becomes what",
}
IS_BOOL = re.compile(r"(?:(?:template\s*<.*?>|static|virtual|inline|constexpr|explicit|mutable|const|\[\[.*?\]\])\s+)*"
                     r"(?:std::atomic<|Task<)?bool\b>?\s+\w")
NOT_PROSE = re.compile(r"NOLINT|clang-format|----|Long: |REQUIRES: |Thread: ")


@dataclass
class Comment:
    line: int
    text: str
    declaration: str  # the first lines of code under it; empty if there is a gap


def comments_of(path):
    """The comments outside functions."""
    text = path.read_text()
    code = sizes.blank(text).splitlines()
    lines = text.splitlines()
    in_function = set()
    for each in sizes.functions_of(path):
        in_function.update(range(each.line, each.line + each.length))
    at = 0
    while at < len(lines):
        first = at
        while at < len(lines) and lines[at].lstrip().startswith("//"):
            at += 1
        if at == first:
            at += 1
        elif first + 1 not in in_function:
            words = " ".join(re.sub(r"^\s*///?\s?", "", line) for line in lines[first:at])
            yield Comment(first + 1, words, " ".join(code[at:at + 3]).strip() if code[at:at + 1] != [""] else "")


def problem_of(comment):
    """What is wrong with the first sentence, or None."""
    if NOT_PROSE.match(comment.text):
        return None
    if IS_BOOL.match(comment.declaration):
        verb = r"|[A-Z][a-z]+s\b" if "(" in re.split("[;{]", comment.declaration)[0] else ""
        if not re.match(r"(?:True|False)\b" + verb, comment.text):
            return "a bool is 'True if ...'"
    return next((advice for pattern, advice in REFUSED.items() if re.match(pattern, comment.text)), None)


def violations(root, skipped=()):
    for path in sizes.sources(root):
        relative = path.relative_to(root)
        module = relative.parts[1 if relative.parts[0] == "src" else 2]
        if module in skipped:
            continue
        for comment in comments_of(path):
            problem = problem_of(comment)
            if problem:
                yield f"{relative}:{comment.line}: '{comment.text[:50]}': {problem}"


def main(root, *skipped):
    found = list(violations(pathlib.Path(root), skipped))
    for line in found:
        print(line)
    print(f"comments: {len(found)} violation(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
