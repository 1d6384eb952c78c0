"""Tests of old_words.py and sizes.py on small projects, and both checks on this project."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import old_words
import sizes


class Project(unittest.TestCase):
    def check(self, main):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            failed = main(pathlib.Path(__file__).resolve().parents[2])
        self.assertFalse(failed, output.getvalue())

    def test_it_has_no_retired_words(self):
        self.check(old_words.main)

    def test_its_long_functions_have_a_reason(self):
        self.check(sizes.main)


class Check(unittest.TestCase):
    def project(self, name, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
        return root


class OldWords(Check):
    def found(self, text, name="src/a.cc"):
        return [line.split("'")[1] for line in old_words.violations(self.project(name, text))]

    def test_a_word_of_prose_in_any_case(self):
        self.assertEqual(["Whom", "nobody"], self.found("// Whom it serves,\nint nobody_waits;\n"))

    def test_a_retired_identifier_as_a_whole_word(self):
        self.assertEqual(["word_of", "most_links"], self.found("word_of(x); most_links; // sheets, Sheetlike\n"))

    def test_position_and_replacement(self):
        self.assertEqual(["src/a.cc:2: 'Upkeep' is retired; write PoolMaintenance"],
                         list(old_words.violations(self.project("src/a.cc", "\nclass Upkeep;\n"))))

    def test_other_words_are_allowed(self):
        self.assertEqual([], self.found("pleased; utmost; most_common; the whole queue\n"))

    def test_the_changelog_is_exempt(self):
        self.assertEqual([], self.found("nobody\n", "docs/CHANGELOG.md"))


class Sizes(Check):
    def functions(self, text):
        root = self.project("src/a.cc", text)
        return [(each.name, each.line, each.length, each.reason) for each in sizes.functions_of(root / "src" / "a.cc")]

    def test_a_function_counts_from_its_declarator_to_its_closing_brace(self):
        self.assertEqual([("A::run", 3, 5, False)],
                         self.functions("namespace a {\n\nint A::run(\n    int x) {\n  if (x) {\n  }\n}\n}\n"))

    def test_lambdas_count_in_the_function_around_them(self):
        self.assertEqual([("f", 1, 5, False)], self.functions("void f() {\n  auto g = [](int y) {\n    y;\n  };\n}\n"))

    def test_methods_constructors_and_initializers(self):
        text = "class A {\n public:\n  A(int x) : a_{x}, b_(x) {\n  }\n  int a() const { return a_; }\n  int a_ = {1};\n};\n"
        self.assertEqual([("A", 3, 2, False), ("a", 5, 1, False)], self.functions(text))

    def test_braces_in_strings_and_comments_do_not_count(self):
        self.assertEqual([("f", 1, 4, False)], self.functions("void f() {\n  g(\"{\");  // {\n  '{';\n}\n"))

    def test_a_table_is_not_a_function(self):
        self.assertEqual([], self.functions("const Row rows[] = {{1, f(2)}, {3, f(4)}};\nenum class E { a, b };\n"))

    def test_the_comment_above_gives_the_reason(self):
        self.assertEqual([("f", 3, 2, True)], self.functions("// Does much.\n// Long: one case per row.\nvoid f() {\n}\n"))


if __name__ == "__main__":
    unittest.main()
