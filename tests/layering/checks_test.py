"""Tests of old_words.py, comments.py, sizes.py and awaits.py on small projects, and all four checks on this project."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import awaits
import comments
import old_words
import sizes


class Project(unittest.TestCase):
    def check(self, main, *skipped):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            failed = main(pathlib.Path(__file__).resolve().parents[2], *skipped)
        self.assertFalse(failed, output.getvalue())

    def test_it_has_no_retired_words(self):
        self.check(old_words.main)

    def test_its_comments_begin_with_what_they_declare(self):
        self.check(comments.main)

    def test_its_long_functions_have_a_reason(self):
        self.check(sizes.main)

    def test_it_awaits_in_whole_statements(self):
        self.check(awaits.main)


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


class Comments(Check):
    def found(self, text):
        return [line.split("'")[1] for line in comments.violations(self.project("src/m/a.h", text))]

    def test_the_declared_thing_or_a_verb_comes_first(self):
        self.assertEqual([], self.found("""
            // The links of one worker.
            #pragma once
            /// The most links that are kept. They are closed when idle.
            constexpr int max_links = 4;
            /// Closes the link. In a drain, without waiting.
            void close();
            // ---- The rest ----
            """))

    def test_a_pronoun_before_its_noun(self):
        self.assertEqual(["Its links."], self.found("/// Its links.\nLinks links;\n"))
        self.assertEqual(["When it ended."], self.found("/// When it ended.\nInstant ended;\n"))
        self.assertEqual(["True if it ended."], self.found("/// True if it ended.\nbool ended();\n"))
        self.assertEqual(["Makes it a request."], self.found("/// Makes it a request.\nvoid enter();\n"))

    def test_fragments(self):
        for comment in ("Of one in so many tokens.", "As `open`, for a file.", "Likewise.", "One that waits.", "Null: none."):
            self.assertEqual([comment], self.found(f"// {comment}\nint value;\n"))

    def test_a_bool_is_true_if(self):
        self.assertEqual(["Whether it is open."], self.found("/// Whether it is open.\nbool open() const;\n"))
        self.assertEqual(["The link is open."], self.found("/// The link is open.\nstatic constexpr bool open = true;\n"))
        self.assertEqual(["Sends at once."], self.found("/// Sends at once.\nbool at_once = false;\n"))
        self.assertEqual(["Whether it came."], self.found("/// Whether it came.\n[[nodiscard]] Task<bool> wait();\n"))
        self.assertEqual([], self.found("/// True if the link is open.\nbool open();\n/// Reads on. False: done.\nbool read();\n"))
        self.assertEqual([], self.found("/// Whether a client must present a certificate.\nenum class Auth {};\n"))

    def test_bodies_of_functions_and_ends_of_lines_are_not_checked(self):
        self.assertEqual([], self.found("void f() {\n  // Of no interest.\n  g();\n}\nint x;  // of the link\n"))
        self.assertEqual(["Of the link."], self.found("void f() {\n}\n// Of the link.\nint x;\n"))

    def test_modules_are_skipped(self):
        root = self.project("src/m/a.h", "/// Of the link.\nint x;\n")
        self.assertEqual(1, len(list(comments.violations(root))))
        self.assertEqual(0, len(list(comments.violations(root, ["m"]))))


class Awaits(Check):
    def found(self, body):
        text = "Task<int> f() {\n" + body + "\n}\n"
        return len(list(awaits.violations(self.project("src/a.cc", text))))

    def test_whole_statements_initialisers_and_returns(self):
        self.assertEqual(0, self.found("""
            co_await a.b(c ? d : e);
            auto x = co_await y;
            const auto& [p, q] = co_await y->z();
            x = co_await y;
            if (x && (y || z)) co_await w;
            for (int i = 0; i < 3; ++i) x = co_await w;
            while (x) { co_await y; }
            if (x) y(); else co_await w;
            switch (x) { case K::a: co_await y; break; default: co_return co_await z; }
            f([&]() -> Task<int> { co_return co_await g(); });
            // a ? co_await b : co_await c
            """))

    def test_conditional_expressions(self):
        self.assertEqual(2, self.found("auto x = held ? co_await a :\n co_await b;"))
        self.assertEqual(1, self.found("auto x = co_await a ? b : c;"))

    def test_conditions_and_arguments(self):
        self.assertEqual(1, self.found("while (!(co_await a)->last) {}"))
        self.assertEqual(1, self.found("if (co_await a) b();"))
        self.assertEqual(1, self.found("f(co_await a);"))
        self.assertEqual(1, self.found("auto x = a && co_await b;"))
        self.assertEqual(1, self.found("for (int i = 0; i < co_await n; ++i) f();"))


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

    def test_public_methods_and_data_members_of_classes(self):
        root = self.project("src/a.cc", """
            class A final : public B<int> {
             public:
              explicit A(int x) : x_{x} {}
              ~A();
              A& operator=(const A&) = delete;
              int a() const { return x_; }
              template <class T> void b(T t);
              enum class E { x, y };
              struct Inner { int m = 0; bool f(); };
              std::function<void(int)> hook;

             private:
              friend class C;
              void c();
              static constexpr int d = 1;
              int x_ = f(2);
            };
            enum class F { a };
            """)
        self.assertEqual([("A", 2, 2), ("Inner", 1, 1)],
                         [(each.name, each.methods, each.members) for each in sizes.classes_of(root / "src/a.cc")])

    def test_the_comment_above_gives_the_reason(self):
        self.assertEqual([("f", 3, 2, True)], self.functions("// Does much.\n// Long: one case per row.\nvoid f() {\n}\n"))


if __name__ == "__main__":
    unittest.main()
