"""Prints how large the product is (files and functions under src/ and include/, classes, the main types of
docs/architecture.md), and the largest of each:

    sizes.py ROOT [MODULE...]     # MODULE: a folder of src/ whose functions may be longer

Fails if a function is longer than MAX_LINES, unless the comment above it gives the reason in a line that begins with
`// Long:`. A function counts from the first line of its declarator to its closing brace; lambdas count in the function
around them. The methods of a class are its public functions without constructors, destructors and assignments.
"""

import pathlib
import re
import statistics
import sys
from dataclasses import dataclass

import layering

MAX_LINES = 60
CENTRAL = ("Plan", "Forwarder", "Reloader")  # whose data members are counted
IGNORED = re.compile(r'R"(?P<tag>\w*)\(.*?\)(?P=tag)"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'(?!\w)|//[^\n]*|/\*.*?\*/', re.S)
CONTROL = re.compile(r"^(?:else|do|try|if|for|while|switch|catch|return|co_return|co_await|co_yield)\b")
SCOPE = re.compile(r"^(?:(?:template\s*<.*>|inline|export|alignas\s*\([^)]*\))\s*)*"
                   r"(?:namespace|class|struct|union|enum|extern)\b", re.S)
# The end of a declarator: parameters, then qualifiers, a trailing return type or a constructor's initializers.
DECLARATOR = re.compile(r"\)\s*(?:const|noexcept(?:\s*\([^)]*\))?|override|final|&&?|\s)*(?:->[^;{]*|requires[^;{]*|:[^:;].*)?$",
                        re.S)


@dataclass
class Function:
    path: pathlib.Path
    line: int
    length: int
    name: str
    reason: bool


def blank(text):
    """The text with comments, strings and preprocessor lines replaced by spaces, at the same offsets."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match[0])
    text = IGNORED.sub(spaces, text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M | re.S)


def matching_brace(code, at):
    depth = 0
    for i in range(at, len(code)):
        if code[i] == "{":
            depth += 1
        elif code[i] == "}":
            depth -= 1
            if depth == 0:
                return i
    return len(code) - 1


def is_declarator(head):
    """Whether a function body follows `head`."""
    before_parameters = re.sub(r"operator\s*\S+?(?=\()", "", head).partition("(")[0]
    return "(" in head and "=" not in before_parameters and DECLARATOR.search(head) and not CONTROL.match(head)


def ends_in_initializer(head):
    """Whether `head` ends with the name of a member that a constructor initializes."""
    return (re.search(r"\)[^()]*:[^:]", head, re.S) and re.search(r"[\w>]\s*$", head)
            and not re.search(r"\)\s*(?:const|noexcept|override|final|\s)*$", head))


def has_reason(lines, first):
    """Whether the comment above line `first` (from 1) says why the function is long."""
    above = first - 2
    while above >= 0 and lines[above].lstrip().startswith("//"):
        if re.match(r"\s*//+ Long:", lines[above]):
            return True
        above -= 1
    return False


def functions_of(path):
    text = path.read_text()
    code = blank(text)
    lines = text.splitlines()
    at, begin, parens = 0, 0, 0  # `begin`: where the current declaration begins
    while at < len(code):
        char = code[at]
        if char == "(":
            parens += 1
        elif char == ")":
            parens -= 1
        elif parens == 0 and char in ";}":
            begin = at + 1
        elif char == "{" and parens > 0:
            at = matching_brace(code, at)  # a braced argument or a lambda
        elif char == "{":
            head = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)*", "", code[begin:at])
            if SCOPE.match(head) and not head.rstrip().endswith(")"):
                if re.match(r"\s*(?:template\s*<.*>\s*)?enum\b", head, re.S):
                    at = matching_brace(code, at)
                begin = at + 1
            elif is_declarator(head):
                end = matching_brace(code, at)
                if ends_in_initializer(head):
                    at = end + 1  # the braces of a member initializer; the body follows
                    continue
                first = code.count("\n", 0, at - len(head.lstrip())) + 1
                last = code.count("\n", 0, end) + 1
                name = re.search(r"([~\w:]+|operator\s*\S+)\s*\(", head)
                yield Function(path, first, last - first + 1, name[1] if name else "?", has_reason(lines, first))
                at = end
                begin = at + 1
            else:
                at = matching_brace(code, at)  # an initializer; the declaration goes on
        at += 1


@dataclass
class Class:
    path: pathlib.Path
    name: str
    methods: int
    members: int


def statements_of(body):
    """The declarations of a class body, without the bodies of its functions and nested classes."""
    at, begin, parens = 0, 0, 0
    while at < len(body):
        char = body[at]
        if char in "()":
            parens += 1 if char == "(" else -1
        elif char == "{":
            end = matching_brace(body, at)
            head = body[begin:at]
            if parens == 0 and is_declarator(re.sub(ACCESS, "", head)) and not ends_in_initializer(head):
                yield head
                begin = end + 1
            at = end
        elif char == ";" and parens == 0:
            yield body[begin:at]
            begin = at + 1
        at += 1


ACCESS = re.compile(r"\s*\b(public|private|protected)\s*:(?!:)")
CLASS = re.compile(r"^[ \t]*(?:template\s*<[^;{]*>\s*)?(class|struct)\s+(?:\[\[\w+\]\]\s*)?([\w:]+)(?:\s+final)?(?:\s*:[^:;{][^;{]*)?\s*\{",
                   re.M)
NEITHER = re.compile(r"^\s*(?:using|friend|typedef|static_assert|enum|class|struct|union|template\s*<[^;]*>\s*(?:class|struct))\b")


def classes_of(path):
    code = blank(path.read_text())
    for match in CLASS.finditer(code):
        kind, name = match[1], match[2].rpartition("::")[2]
        public = kind == "struct"
        methods = members = 0
        for statement in statements_of(code[match.end():matching_brace(code, match.end() - 1)]):
            for access in ACCESS.findall(statement):
                public = access == "public"
            text = ACCESS.sub("", statement).strip()
            if not text or NEITHER.match(text):
                continue
            declarator = re.sub(r"=.*|\{.*", "", re.sub(r"operator\s*\S+?(?=\()", "operator", text), flags=re.S)
            if "(" not in re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", declarator)):
                members += not re.match(r"(?:static|constexpr|inline)\b", text)
            elif public and not re.search(r"(?:^|\s)(?:explicit\s+)?~?%s\s*\(|operator\s*\(" % re.escape(name), declarator):
                methods += 1
        yield Class(path, name, methods, members)


def sources(root):
    for folder in (root / "src", root / "include"):
        yield from (path for path in sorted(folder.rglob("*")) if path.suffix in (".h", ".cc"))


def figures(values):
    values = sorted(values)
    return f"median {statistics.median(values):.0f}, p95 {values[int(0.95 * (len(values) - 1))]}, max {values[-1]}"


def main(root, *skipped):
    root = pathlib.Path(root)
    paths = list(sources(root))
    functions = [function for path in paths for function in functions_of(path)]
    files = {path: len(path.read_text().splitlines()) for path in paths}
    classes = [each for path in paths for each in classes_of(path)]
    nouns = layering.read_architecture((root / "docs/architecture.md").read_text()).nouns
    print(f"{sum(files.values())} lines")
    print(f"{len(files)} files: lines {figures(files.values())}")
    print(f"{len(functions)} functions: lines {figures(each.length for each in functions)}")
    print(f"{len(classes)} classes: public methods {figures(each.methods for each in classes)}")
    print(f"{len(nouns)} main types in docs/architecture.md")
    for each in classes:
        if each.name in CENTRAL and each.members > 0:
            print(f"  {each.name}: {each.members} data members")
    for each in sorted(classes, key=lambda each: -each.methods)[:10]:
        print(f"  {each.methods:4} {each.path.relative_to(root)} {each.name}")
    for path, count in sorted(files.items(), key=lambda each: -each[1])[:10]:
        print(f"  {count:4} {path.relative_to(root)}")
    for each in sorted(functions, key=lambda each: -each.length)[:20]:
        print(f"  {each.length:4} {each.path.relative_to(root)}:{each.line} {each.name}")
    too_long = [each for each in functions if each.length > MAX_LINES and not each.reason
                and each.path.parent.name not in skipped]
    for each in too_long:
        print(f"{each.path.relative_to(root)}:{each.line}: {each.name} has {each.length} lines, more than {MAX_LINES}; "
              "split it, or give the reason above it: // Long: ...")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
