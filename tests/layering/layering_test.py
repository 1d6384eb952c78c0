"""Tests of the layering check: each builds a small project and breaks one rule in it."""

import pathlib
import tempfile
import unittest

import layering

TABLES = """
| layer | module | what lives there | may include | owns |
|---|---|---|---|---|
| 2 | `main.cc` | the command | all below | |
| 1 | `kitchen` | meals | cellar | oven |
| 1 | `study` | books | all below but cellar | |
| 0 | `cellar` | stores | | |

| library | headers | CMake target | seen from |
|---|---|---|---|
| oven | `oven/` `stove.h` | `Oven::oven` | one module |
| fmt | `fmt/` | `fmt::fmt` | any module |

| noun | module |
|---|---|
| `Meal`, `cook` | kitchen |
"""

PROJECT = {
    "docs/architecture.md": TABLES,
    "src/main.cc": '#include "evenkeel/kitchen/meal.h"\n',
    "src/kitchen/meal.cc": '#include "evenkeel/kitchen/meal.h"\n#include <oven/heat.h>\n#include "pan.h"\n',
    "src/kitchen/pan.h": "#include <fmt/core.h>\n#include <vector>\n#include <sys/socket.h>\n",
    "include/evenkeel/kitchen/meal.h": '#include "evenkeel/cellar/jar.h"\nclass Meal {};\nMeal cook(int);\n',
    "include/evenkeel/cellar/jar.h": "#include <string>\n",
}

LINKS = """evenkeel;evenkeel_flags;evenkeel_kitchen;evenkeel_cellar
evenkeel_kitchen;evenkeel_flags;evenkeel_cellar;Oven::oven;fmt::fmt
evenkeel_cellar;evenkeel_flags;Threads::Threads
"""


class LayeringTest(unittest.TestCase):
    def violations(self, changes=None, links=LINKS):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**PROJECT, **(changes or {})}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            (root / "links").write_text(links)
            return list(layering.violations(root, root / "links"))

    def table(self, old, new):
        self.assertIn(old, TABLES)
        return {"docs/architecture.md": TABLES.replace(old, new)}

    def test_a_valid_tree_has_no_violations(self):
        self.assertEqual([], self.violations())

    def test_an_include_that_the_row_does_not_allow(self):
        self.assertEqual(
            ["src/study/book.cc:2: study may not include cellar"],
            self.violations({"src/study/book.cc": '#include <string>\n  #  include "evenkeel/cellar/jar.h"\n'}))

    def test_an_include_of_a_higher_layer(self):
        self.assertIn(
            "src/cellar/jar.cc:1: cellar may not include kitchen",
            self.violations({"src/cellar/jar.cc": '#include "evenkeel/kitchen/meal.h"\n'}))

    def test_a_private_header_of_another_module(self):
        self.assertEqual(
            ["src/kitchen/soup.cc:1: cellar/shelf.h is private to cellar"],
            self.violations({"src/cellar/shelf.h": "", "src/kitchen/soup.cc": '#include "cellar/shelf.h"\n'}))

    def test_a_public_header_that_declares_a_type_of_a_module_that_it_may_not_include(self):
        jar = "#include <string>\nnamespace house {\nclass Meal;\nstruct Lid;\nclass Oven;\nclass Label {\n  class Meal;\n};\n}\n"
        self.assertEqual(
            ["include/evenkeel/cellar/jar.h:3: cellar may not know Meal of kitchen"],
            self.violations({"include/evenkeel/cellar/jar.h": jar, "src/cellar/jar.cc": "struct Lid final : Cover {\n"}))

    def test_a_public_header_that_declares_a_type_of_a_module_that_it_may_include(self):
        self.assertEqual(
            [],
            self.violations({"include/evenkeel/kitchen/pot.h": "class Jar;\n", "src/cellar/jar.h": "class Jar {\n"}))

    def test_two_modules_that_define_a_type_of_one_name(self):
        self.assertEqual(
            ["src/study/jar.h: src/cellar/jar.h defines Jar, too: name one of them apart"],
            self.violations({"src/cellar/jar.h": "class Jar {\n", "src/study/jar.h": "struct Jar final {\n"}))

    def test_two_namespaces_with_a_type_of_one_name(self):
        self.assertEqual([], self.violations({"src/cellar/jar.h": "namespace a {\nclass Jar {\n",
                                              "src/study/jar.h": "namespace b {\nclass Jar {\n"}))

    def test_a_library_seen_from_a_module_that_does_not_own_it(self):
        self.assertEqual(
            ["src/cellar/jar.cc:1: oven may not be seen from cellar"],
            self.violations({"src/cellar/jar.cc": "#include <stove.h>\n"}))

    def test_a_public_header_that_shows_a_library(self):
        self.assertEqual(
            ["include/evenkeel/kitchen/heat.h:1: a public header exposes oven to every module that includes it"],
            self.violations({"include/evenkeel/kitchen/heat.h": "#include <oven/heat.h>\n"}))

    def test_a_library_that_is_not_in_the_table(self):
        self.assertEqual(
            ["src/cellar/jar.cc:1: <pickle/jar.hpp> is neither a system header nor a header of a library in the table"],
            self.violations({"src/cellar/jar.cc": "#include <pickle/jar.hpp>\n"}))

    def test_a_quoted_include_of_a_missing_file(self):
        self.assertEqual(
            ['src/cellar/jar.cc:1: "oven/heat.h" is not a file of this project'],
            self.violations({"src/cellar/jar.cc": '#include "oven/heat.h"\n'}))

    def test_headers_that_include_each_other(self):
        self.assertEqual(
            ["include cycle: src/cellar/a.h -> src/cellar/b.h -> src/cellar/a.h"],
            self.violations({"src/cellar/a.h": '#include "b.h"\n', "src/cellar/b.h": '#include "a.h"\n'}))

    def test_a_module_that_is_not_in_the_table(self):
        self.assertEqual(
            ["attic: this module is not in the table of docs/architecture.md"],
            self.violations({"src/attic/box.h": "", "src/attic/box.cc": '#include "evenkeel/cellar/jar.h"\n'}))

    def test_a_table_whose_rows_form_a_cycle(self):
        self.assertEqual(
            ["docs/architecture.md: cellar may include kitchen, which is not of a lower layer"],
            self.violations(self.table("| stores | |", "| stores | kitchen |")))

    def test_a_table_that_names_an_unknown_module(self):
        self.assertEqual(
            ["docs/architecture.md: kitchen may include larder, which is not a module"],
            self.violations(self.table("| meals | cellar |", "| meals | cellar larder |")))

    def test_a_noun_that_its_module_does_not_declare(self):
        self.assertEqual(
            ["docs/architecture.md: kitchen declares no Soup"],
            self.violations(self.table("`cook`", "`cook`, `Soup`")))

    def test_a_noun_with_two_rows(self):
        self.assertEqual(
            ["docs/architecture.md: Meal has two rows"],
            self.violations(self.table("| `Meal`, `cook` | kitchen |", "| `Meal` | kitchen |\n| `Meal` | study |")))

    def test_a_library_with_two_owners(self):
        self.assertEqual(
            ["docs/architecture.md: oven has two owners: kitchen and study"],
            self.violations(self.table("| all below but cellar | |", "| all below but cellar | oven |")))

    def test_a_page_without_the_table(self):
        self.assertEqual(
            ["docs/architecture.md: no table with the columns library, headers, CMake target, seen from"],
            self.violations({"docs/architecture.md": "# Architecture\n"}))

    def test_a_link_that_the_table_does_not_allow(self):
        self.assertEqual(
            ["evenkeel_cellar: CMake links kitchen, which cellar may not include",
             "evenkeel_cellar: CMake links oven, which may not be seen from cellar"],
            self.violations(links=LINKS.replace("Threads::Threads", "evenkeel_kitchen;Oven::oven")))

    def test_a_link_that_is_missing(self):
        self.assertEqual(
            ["evenkeel_kitchen: CMake does not link cellar, which kitchen may include",
             "evenkeel_kitchen: CMake does not link oven, which kitchen owns"],
            self.violations(links=LINKS.replace(";evenkeel_cellar;Oven::oven", "")))

    def test_a_target_of_an_unknown_module(self):
        self.assertEqual(
            ["evenkeel_attic: its module is not in the table of docs/architecture.md"],
            self.violations(links=LINKS + "evenkeel_attic\n"))


if __name__ == "__main__":
    unittest.main()
