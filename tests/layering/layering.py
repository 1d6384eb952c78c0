"""Compares the code with the tables of docs/architecture.md.

Reads the tables of modules, libraries and main types, then every include under src/ and include/, the types that public headers
declare, and what CMake links, and prints each difference:

    layering.py ROOT [LINKS]

CMakeLists.txt in this folder writes LINKS: a line per target, `name;library;library...`.
"""

import pathlib
import re
import sys
from dataclasses import dataclass, field

# Headers of the language or the system, which belong to no library.
STANDARD = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes
climits clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef
cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution expected filesystem
format forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator
latch limits list locale map memory memory_resource mutex new numbers numeric optional ostream queue random
ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept
stop_token streambuf string string_view syncstream system_error thread tuple type_traits typeindex typeinfo
unordered_map unordered_set utility valarray variant vector version
""".split())
SYSTEM = re.compile(
    r"(sys|netinet|arpa|net|linux)/|(cxxabi|dirent|dlfcn|emmintrin|execinfo|fcntl|getopt|ifaddrs|immintrin|"
    r"malloc|netdb|nmmintrin|poll|pthread|pwd|sched|signal|spawn|termios|tmmintrin|time|ucontext|unistd)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# A type at the scope of the namespace, whose contents are not indented: declared, or defined.
DECLARED = re.compile(r"^(?:class|struct) (\w+);", re.M)
DEFINED = re.compile(r"^(?:class|struct) (?:\[\[\w+\]\] |alignas\(\w+\) )*(\w+)(?: final)?(?: : [^;{]*)? {", re.M)


NAMESPACE = re.compile(r"^namespace (\S+) {", re.M)


@dataclass
class Module:
    layer: int
    may_include: set
    owns: set  # libraries that only this module may include


@dataclass
class Library:
    headers: list  # prefixes
    target: str
    anywhere: bool  # every module may see it


@dataclass
class Architecture:
    modules: dict = field(default_factory=dict)
    libraries: dict = field(default_factory=dict)
    nouns: list = field(default_factory=list)  # (type or function, module)

    def library_of(self, header):
        for name, library in self.libraries.items():
            if any(header.startswith(prefix) for prefix in library.headers):
                return name
        return None


class BadTable(Exception):
    pass


def rows_of(text, *columns):
    """The rows of the table that has all these columns, as dicts."""
    head = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|"):
            if head:
                return
        elif head is None:
            if all(column in cells for column in columns):
                head = cells
        elif set("".join(cells)) - set("-: "):
            if len(cells) != len(head):
                raise BadTable(f"{len(head)} cells expected: {line}")
            yield dict(zip(head, cells))
    if head is None:
        raise BadTable(f"no table with the columns {', '.join(columns)}")


def words(cell):
    return [word for word in re.split(r"[,\s]+", cell.replace("`", "")) if word]


def read_architecture(text):
    arch = Architecture()
    for row in rows_of(text, "library", "headers", "CMake target", "seen from"):
        arch.libraries[row["library"]] = Library(
            words(row["headers"]), row["CMake target"].strip("`"), row["seen from"] == "any module")

    rows = list(rows_of(text, "layer", "module", "may include", "owns"))
    layers = {row["module"].strip("`"): int(row["layer"]) for row in rows}
    for row in rows:
        name, may = row["module"].strip("`"), row["may include"].replace("`", "")
        if may.startswith("all below"):
            named = {module for module, layer in layers.items() if layer < layers[name]}
            named -= set(words(may.removeprefix("all below").strip().removeprefix("but")))
        else:
            named = set(words(may))
        for module in sorted(named):
            if module not in layers:
                raise BadTable(f"{name} may include {module}, which is not a module")
            if layers[module] >= layers[name]:
                raise BadTable(f"{name} may include {module}, which is not of a lower layer")
        owned = set(words(row["owns"]))
        for library in sorted(owned):
            if library not in arch.libraries:
                raise BadTable(f"{name} owns {library}, which is not in the table of libraries")
            others = [other for other, module in arch.modules.items() if library in module.owns]
            if others:
                raise BadTable(f"{library} has two owners: {others[0]} and {name}")
        arch.modules[name] = Module(layers[name], named, owned)

    seen = set()
    for row in rows_of(text, "noun", "module"):
        for noun in re.findall(r"`(\w+)", row["noun"]):
            if noun in seen:
                raise BadTable(f"{noun} has two rows")
            seen.add(noun)
            arch.nouns.append((noun, row["module"]))
    return arch


def includes_of(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == '"', match[2]


def module_of(relative):
    """src/http/x.cc and include/evenkeel/http/x.h are in http; src/main.cc is in main.cc."""
    parts = relative.parts[1:] if relative.parts[0] == "src" else relative.parts[2:]
    return parts[0]


def sources(root):
    for folder in (root / "src", root / "include" / "evenkeel"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path


def target_of(root, path, name):
    """The project file that `#include "name"` in `path` refers to, or None."""
    for candidate in (path.parent / name, root / "include" / name, root / "src" / name):
        if candidate.is_file():
            return candidate.resolve()
    return None


def check_include(arch, module, public, target, name):
    """The error in an include of `name` in a file of `module`, or None. `target`: the included file, if it is ours."""
    if target:
        theirs = module_of(target)
        if theirs == module or theirs not in arch.modules:  # an unknown module is reported once, by itself
            return None
        if theirs not in arch.modules[module].may_include:
            return f"{module} may not include {theirs}"
        if target.parts[0] == "src":
            return f"{name} is private to {theirs}"
        return None
    if name in STANDARD or SYSTEM.match(name):
        return None
    library = arch.library_of(name)
    if library is None:
        return f"<{name}> is neither a system header nor a header of a library in the table"
    if arch.libraries[library].anywhere:
        return None
    if library not in arch.modules[module].owns:
        return f"{library} may not be seen from {module}"
    if public:
        return f"a public header exposes {library} to every module that includes it"
    return None


def include_violations(arch, root):
    root = root.resolve()
    graph = {}
    unknown = set()
    for path in sources(root):
        relative = path.relative_to(root)
        module = module_of(relative)
        if module not in arch.modules:
            unknown.add(module)
            continue
        public = relative.parts[0] == "include"
        graph[path.resolve()] = edges = []
        for number, quoted, name in includes_of(path):
            where = f"{relative}:{number}: "
            target = target_of(root, path, name) if quoted else None
            if quoted and target is None:
                yield where + f'"{name}" is not a file of this project'
                continue
            if target:
                edges.append(target)
            problem = check_include(arch, module, public, target and target.relative_to(root), name)
            if problem:
                yield where + problem
    for module in sorted(unknown):
        yield f"{module}: this module is not in the table of docs/architecture.md"
    for ring in cycles(graph):
        yield "include cycle: " + " -> ".join(str(path.relative_to(root)) for path in ring)


def forward_violations(arch, root):
    """The types that public headers declare although a module defines them which theirs may not include."""
    modules = {}
    for path in sources(root):
        for name in DEFINED.findall(path.read_text()):
            modules.setdefault(name, set()).add(module_of(path.relative_to(root)))
    for path in sources(root):
        relative = path.relative_to(root)
        module = module_of(relative)
        if relative.parts[0] != "include" or module not in arch.modules:
            continue
        text = path.read_text()
        for found in DECLARED.finditer(text):
            theirs = modules.get(found[1], {module})
            if not theirs & (arch.modules[module].may_include | {module}):
                line = text.count("\n", 0, found.start()) + 1
                yield f"{relative}:{line}: {module} may not know {found[1]} of {', '.join(sorted(theirs))}"


def double_violations(root):
    """The types that headers of two modules define with one name: to the linker they are one, without a word."""
    first = {}
    for path in sorted(sources(root)):
        relative = path.relative_to(root)
        if path.suffix != ".h":
            continue
        text = path.read_text()
        namespaces = tuple(NAMESPACE.findall(text))
        for name in DEFINED.findall(text):
            other = first.setdefault((namespaces, name), relative)
            if module_of(other) != module_of(relative):
                yield f"{relative}: {other} defines {name}, too: name one of them apart"


def cycles(graph):
    """Every include cycle, in depth-first order."""
    done, trail = set(), []

    def visit(node):
        if node in trail:
            yield trail[trail.index(node):] + [node]
        elif node not in done:
            trail.append(node)
            for neighbour in graph.get(node, ()):
                yield from visit(neighbour)
            trail.pop()
            done.add(node)

    for node in sorted(graph):
        yield from visit(node)


def link_violations(arch, links):
    """`links`: the libraries that CMake links into each target."""
    built = {name.removeprefix("evenkeel_") for name in links}
    libraries = {library.target: name for name, library in arch.libraries.items()}
    for target, linked in sorted(links.items()):
        module = "main.cc" if target == "evenkeel" else target.removeprefix("evenkeel_")
        if module not in arch.modules:
            yield f"{target}: its module is not in the table of docs/architecture.md"
            continue
        modules = {name.removeprefix("evenkeel_") for name in linked if name.startswith("evenkeel_")}
        for name in sorted(arch.modules[module].may_include & built - modules):
            yield f"{target}: CMake does not link {name}, which {module} may include"
        for name in sorted(modules - arch.modules[module].may_include):
            yield f"{target}: CMake links {name}, which {module} may not include"

        seen = {libraries.get(name, name) for name in linked if not name.startswith("evenkeel_")}
        seen = {name for name in seen if name not in arch.libraries or not arch.libraries[name].anywhere}
        for name in sorted(seen - arch.modules[module].owns):
            yield f"{target}: CMake links {name}, which may not be seen from {module}"
        for name in sorted(arch.modules[module].owns - seen):
            yield f"{target}: CMake does not link {name}, which {module} owns"


def read_links(text):
    """Targets by name, without compiler flags and system threads."""
    lines = [line.split(";") for line in text.splitlines() if line]
    return {line[0]: set(line[1:]) - {"", "evenkeel_flags", "Threads::Threads"} for line in lines}


def noun_violations(arch, root):
    """The types and functions in the table of nouns that their module does not declare."""
    for noun, module in arch.nouns:
        declared = re.compile(rf"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s+|alignas\(\w+\)\s+)*{noun}\b|^[^/\n]*\s{noun}\(", re.M)
        if not any(declared.search(path.read_text()) for path in sources(root)
                   if module_of(path.relative_to(root)) == module):
            yield f"docs/architecture.md: {module} declares no {noun}"


def violations(root, links=None):
    try:
        arch = read_architecture((root / "docs" / "architecture.md").read_text())
    except BadTable as problem:
        yield f"docs/architecture.md: {problem}"
        return
    yield from include_violations(arch, root)
    yield from forward_violations(arch, root)
    yield from double_violations(root)
    yield from noun_violations(arch, root)
    if links is not None:
        yield from link_violations(arch, read_links(links.read_text()))


def main(arguments):
    found = list(violations(*map(pathlib.Path, arguments)))
    for line in found:
        print(line)
    print(f"layering: {len(found)} violation(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
