"""Finds co_await where g++ 12 may miscompile it, and prints where:

    awaits.py ROOT

It has to be a whole statement, a whole initialiser, or the operand of co_return: not within `?:`, a condition, an argument or a
larger expression. g++ 12 destroys some temporaries of such expressions twice, or not at all; clang does not, and all sanitizers
run with clang.
"""

import pathlib
import re
import sys

from sizes import blank

AWAIT = re.compile(r"\bco_await\b")
# What may stand between the beginning of the statement and co_await.
BEFORE = re.compile(r"(?:|co_return|\(void\)|[\w:<>,&*\s\[\]\->.]+=)\s*$")
# The beginning of a statement: behind another one, a label, `else`, `do`, or a condition that closes.
CONDITION = re.compile(r"^(?:else\s+)?(?:if|while|for)\b")


def statement_before(text, at):
    """The text of the statement up to `at`, without a condition that it stands behind."""
    begin, depth = at, 0
    while begin > 0:
        char = text[begin - 1]
        if depth == 0 and char in ";{}":
            break
        depth = max(0, depth + (char == ")") - (char == "("))
        begin -= 1
    statement = text[begin:at].strip()
    statement = re.sub(r"^(?:case\s+[\w:]+|default)\s*:(?!:)\s*", "", statement)
    while CONDITION.match(statement):
        depth = 0
        for i, char in enumerate(statement):
            depth += (char == "(") - (char == ")")
            if depth == 0 and char == ")":
                statement = statement[i + 1:].strip()
                break
        else:
            return statement  # within the condition
    return re.sub(r"^(?:else|do)\b\s*", "", statement)


def statement_after(text, at):
    """The rest of the statement behind `at`, without what is in brackets."""
    depth = 0
    rest = []
    for char in text[at:]:
        if char in ")]}" and depth == 0 or char == ";" and depth == 0:
            break
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            rest.append(char)
    return "".join(rest)


def violations(root):
    for folder in ("src", "include", "tests", "bench"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            text = blank(path.read_text())
            for found in AWAIT.finditer(text):
                before = statement_before(text, found.start())
                after = statement_after(text, found.end())
                if BEFORE.fullmatch(before) and not re.search(r"\?|&&|\|\|", after):
                    continue
                line = text.count("\n", 0, found.start()) + 1
                yield f"{path.relative_to(root)}:{line}: co_await within an expression; g++ 12 may destroy a temporary twice"


def main(root):
    found = list(violations(root))
    for each in found:
        print(each)
    print(f"awaits: {len(found)} violation(s)")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
