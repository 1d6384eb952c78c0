"""The verbs that end at once, and usage errors."""

import json
import os
import re
import shutil
import subprocess
import unittest

import case
import certificates
from process import command

SOURCE = os.environ.get("EVENKEEL_SOURCE_DIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

DEFAULT_FILE = "/etc/evenkeel/evenkeel.yaml"
SMALLEST = "pools: [{name: llama, backends: [http://127.0.0.1:8000]}]\n"

# Each line with a mistake ends in a pattern for its message.
FIFTEEN_MISTAKES = """\
workers: many                                    # workers: .*auto
listeners:
  - name: public
    adress: 0.0.0.0:8080                         # listeners\\[0\\].adress: unknown key; did you mean 'address'
    timeouts: {header: 10}                       # listeners\\[0\\].timeouts.header: .*did you mean '10s'
  - name: public                                 # listeners\\[1\\].name: duplicate .*in line 3
    address: 0.0.0.0:99999                       # listeners\\[1\\].address: .*99999
    limits: {body: 32MB!}                        # listeners\\[1\\].limits.body: .*32MB!
pools:
  - name: llama
    picker: leest-connections                    # pools\\[0\\].picker: .*did you mean 'least-connections'
    engine: vlm                                  # pools\\[0\\].engine: .*did you mean 'vllm'
    backends:
      - 127.0.0.1:8000
      - {address: 127.0.0.1:8001, weight: 0}     # pools\\[0\\].backends\\[1\\].weight: .*1
      - ftp://127.0.0.1:8002                     # pools\\[0\\].backends\\[2\\]: .*'ftp'
    debug_headers: sometimes                     # pools\\[0\\].debug_headers: .*true
  - backends: [127.0.0.1:8003]                   # pools\\[1\\].name: missing key
routes:
  - match: {path: v1/chat}                       # routes\\[0\\].match.path: .*did you mean '/v1/chat'
    pool: lama                                   # routes\\[0\\].pool: .*did you mean 'llama'
  - match: {method: POST}
    pool: llama
    split: {llama: 1}                            # routes\\[1\\].split.llama: .*remove 'pool'
"""


class Check(case.Case):
    def check(self, text, *arguments, env=None):
        path = os.path.join(self.folder(), "evenkeel.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.path = path
        return command("check", "-c", path, *arguments, env=env)

    def test_each_of_fifteen_mistakes_gets_its_own_line(self):
        wanted = [(number, line.split("# ", 1)[1])
                  for number, line in enumerate(FIFTEEN_MISTAKES.splitlines(), 1) if "# " in line]
        self.assertEqual(len(wanted), 15)

        ended = self.check(FIFTEEN_MISTAKES)

        self.assertEqual(ended.returncode, 1)
        errors = [line for line in ended.stderr.splitlines() if line.startswith(self.path)]
        self.assertEqual(len(errors), 15, ended.stderr)
        for error, (number, pattern) in zip(errors, wanted):
            self.assertRegex(error, re.escape(self.path) + rf":{number}:\d+: error: {pattern}")

    def test_each_problem_shows_its_line_and_a_caret(self):
        ended = self.check("pools:\n  - name: llama\n    backends: [127.0.0.1:1]\n    debug_header: true\n")
        error, source, caret = ended.stderr.splitlines()
        self.assertIn(":4:5: error: pools[0].debug_header: unknown key; did you mean 'debug_headers'?",
                      error)
        self.assertIn("debug_header: true", source)
        self.assertEqual(source.index("debug_header"), caret.index("^"))

    def test_json_lists_the_same_problems(self):
        ended = self.check(FIFTEEN_MISTAKES, "--json")
        self.assertEqual(ended.returncode, 1)
        problems = json.loads(ended.stdout)
        self.assertEqual(len(problems), 15)
        for problem in problems:
            self.assertEqual(set(problem), {"file", "line", "column", "path", "message", "help", "severity"})
            self.assertEqual(problem["file"], self.path)
        self.assertEqual((problems[1]["line"], problems[1]["column"]), (4, 5))

    def test_a_path_that_looks_like_a_prefix_is_a_warning(self):
        text = SMALLEST + "routes: [{match: {path: /v1/}, pool: llama}]\n"
        ended = self.check(text)
        self.assertEqual(ended.returncode, 0)
        self.assertIn(f"{self.path}:2:25: warning: routes[0].match.path: matches exactly '/v1/'; "
                      "write '/v1/**'", ended.stderr)
        problems = json.loads(self.check(text, "--json").stdout)
        self.assertEqual([each["severity"] for each in problems], ["warning"])

    def test_what_a_run_accepts_is_at_most_a_warning(self):
        text = ("tenants: [{name: acme}]\n"
                "pools: [{name: used, backends: ['no-such-host.invalid:1']}, {name: spare, backends: ['127.0.0.1:1']}]\n"
                "routes: [{pool: used}, {match: {path: /v1/**}, pool: used}]\n")
        ended = self.check(text)
        self.assertEqual((ended.returncode, ended.stdout), (0, f"{self.path}: ok\n"))
        for warning in ("tenants[0]: no request can be of this tenant", "no-such-host.invalid' has no address",
                        "no route leads to the pool 'spare'", "routes[1]: never reached"):
            self.assertIn(warning, ended.stderr)
        self.assertEqual(self.check(text, "--strict").returncode, 1)

    def test_a_valid_file_passes(self):
        ended = self.check(SMALLEST)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        ended = self.check(SMALLEST, "--json")
        self.assertEqual((ended.returncode, json.loads(ended.stdout)), (0, []))

    def test_environment_variables_are_expanded(self):
        text = 'pools: [{name: llama, backends: ["${SERVER}", "${OTHER:-127.0.0.1:9}"]}]\n'
        self.assertEqual(self.check(text, env={"SERVER": "127.0.0.1:8"}).returncode, 0)
        ended = self.check(text)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("SERVER", ended.stderr)

    def test_every_sample_passes(self):
        folder = os.path.join(SOURCE, "config")
        samples = [name for name in os.listdir(folder) if name.endswith(".yaml")]
        self.assertGreater(len(samples), 3)
        work = self.folder()
        os.mkdir(os.path.join(work, "certs"))
        authority = certificates.Authority(work)
        for name in samples:
            with open(os.path.join(folder, name)) as sample:
                text = sample.read()
            for key in set(re.findall(r"key: (certs/[\w.]+)", text)):
                made = authority.issue("localhost")
                os.rename(made.key, os.path.join(work, key))
                os.rename(made.cert, os.path.join(work, key.replace(".key", ".pem")))
            for ca in set(re.findall(r"ca: (certs/[\w.]+)", text)):
                shutil.copy(authority.cert, os.path.join(work, ca))
            for keys in re.findall(r"keys: {file: ([\w.]+)}", text):
                open(os.path.join(work, keys), "w").close()
            for key in re.findall(r"api_key_file: ([\w.]+)", text):
                with open(os.path.join(work, key), "w") as file:
                    file.write("sk-provider")
            for backends in re.findall(r"discover: {file: ([\w.]+)}", text):
                with open(os.path.join(work, backends), "w") as file:
                    json.dump([{"targets": ["10.0.0.1:8000"]}], file)
            for page in re.findall(r"file: ([\w.]+\.html)", text):
                open(os.path.join(work, page), "w").close()
            ended = command("check", "-c", os.path.join(folder, name), folder=work)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), name)


class Config(case.Case):
    def test_the_printed_configuration_is_equivalent(self):
        printed = command("config", "print", "-c", "-", text=SMALLEST)
        whole = command("config", "print", "--defaults", "-c", "-", text=SMALLEST)
        self.assertEqual((printed.returncode, whole.returncode), (0, 0))
        self.assertIn("first_byte: 600s", whole.stdout)
        for text in (printed.stdout, whole.stdout):
            again = command("config", "print", "--defaults", "-c", "-", text=text)
            self.assertEqual((again.returncode, again.stdout), (0, whole.stdout), again.stderr)

    def test_the_schema_and_the_reference_are_those_in_the_repository(self):
        for verb, path in (("schema", "config/evenkeel.schema.json"),
                           ("reference", "docs/configuration.md")):
            printed = command("config", verb)
            self.assertEqual(printed.returncode, 0)
            with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                self.assertEqual(printed.stdout, file.read(), f"{path} is not up to date")

    def test_the_schema_has_no_key_twice(self):
        def unique(pairs):
            names = [name for name, _ in pairs]
            self.assertEqual(len(names), len(set(names)), names)
            return dict(pairs)

        schema = json.loads(command("config", "schema").stdout, object_pairs_hook=unique)
        self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")


class Usage(case.Case):
    def test_an_unknown_verb_is_a_usage_error(self):
        for arguments in (["fly"], ["config"], ["run", "-c"], ["run", "--fast"], ["completion", "csh"]):
            ended = command(*arguments)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertTrue(ended.stderr, arguments)

    def test_help_of_a_verb_can_be_asked_for_as_a_verb(self):
        for words in ([], ["check"], ["ctl", "drain"]):
            asked = command("help", *words)
            self.assertEqual((asked.returncode, asked.stdout), (0, command(*words, "--help").stdout), words)
        self.assertEqual(command("help", "chekc").returncode, 2)

    def test_a_simulator_that_cannot_be_is_a_usage_error(self):
        for option, message in (("--engine", "'foo' is not one of vllm"),
                                ("--preset", "'foo' is not one of llama-3-8b-a100")):
            ended = command("sim", option, "foo")
            self.assertEqual(ended.returncode, 2)
            self.assertIn(f"{option}: {message}", ended.stderr)

    def test_an_unknown_option_is_named_with_a_suggestion(self):
        for arguments, message, usage in (
                (["check", "-c", "x", "--jsn"], "unknown option '--jsn'; did you mean '--json'?", "evenkeel check"),
                (["check", "--jsn"], "unknown option '--jsn'; did you mean '--json'?", "evenkeel check"),
                (["run", "--confg=x"], "unknown option '--confg'; did you mean '--config'?", "evenkeel run"),
                (["ctl", "drain", "a:1", "--wiat"], "unknown option '--wiat'; did you mean '--wait'?",
                 "evenkeel ctl drain"),
                (["ctl", "status", "--amdin", "x"], "unknown option '--amdin'; did you mean '--admin'?",
                 "evenkeel ctl status"),
                (["--fast"], "unknown option '--fast'", "evenkeel run"),
                (["ctl", "rload"], "unexpected argument 'rload'; did you mean 'reload'?", "evenkeel ctl"),
                (["ctl"], "name one of status, backends, requests, sessions, tenants, explain, drain", "evenkeel ctl"),
                (["chekc"], "unknown verb 'chekc'; did you mean 'check'?", "evenkeel"),
                (["drain", "a:1"], "unknown verb 'drain'; did you mean 'ctl drain'?", "evenkeel"),
                (["load"], "url is required", "evenkeel load"),
                (["ctl", "drain", "a:1", "--wait", "--timeout", "soon"], "'soon' is not a duration",
                 "evenkeel ctl drain"),
                (["check", "my.yaml"], "unexpected argument 'my.yaml'; did you mean '-c my.yaml'?", "evenkeel check"),
                (["load", "http://h:1", "--rate", "5x"], "--rate: '5x' is not a number above 0", "evenkeel load"),
                (["load", "http://h:1", "--rate", "0"], "--rate: '0' is not a number above 0", "evenkeel load"),
                (["sim", "--head", "x"], "--head: 'x' is not early or with-first-token", "evenkeel sim"),
                (["load", "http://h:1", "--duration", "0s"], "--duration: must be more than 0", "evenkeel load"),
                (["load", "http://h:1", "--prompt-tokens", "x"], "--prompt-tokens: ", "evenkeel load")):
            ended = command(*arguments)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), arguments)
            self.assertEqual(len(ended.stderr.splitlines()), 2, ended.stderr)
            self.assertIn(message, ended.stderr.splitlines()[0])
            self.assertEqual(ended.stderr.splitlines()[1], f"Try '{usage} --help'.")

    def test_help_lists_every_verb_and_every_verb_has_help(self):
        listed = command("--help").stdout
        for verb in ("run", "check", "config", "quick", "ctl", "top", "sim", "load", "demo", "replay", "usage", "completion",
                     "version"):
            self.assertRegex(listed, rf"(?m)^  {verb} +[A-Z]")
            ended = command(verb, "--help")
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), verb)
            self.assertIn(f"Usage: evenkeel {verb} ", ended.stdout)

    def test_run_is_the_default_verb(self):
        ended = command("-c", "/nowhere/evenkeel.yaml")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("/nowhere/evenkeel.yaml", ended.stderr)

    @unittest.skipIf(os.path.exists(DEFAULT_FILE), f"{DEFAULT_FILE} exists")
    def test_without_a_file_the_default_one_is_looked_for(self):
        for arguments in ([], ["run"], ["-t"], ["check"], ["config", "print"]):
            ended = command(*arguments)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertEqual(len(ended.stderr.splitlines()), 2, arguments)
            self.assertIn(f"there is no {DEFAULT_FILE}: name a file with -c FILE", ended.stderr)

    def test_t_is_an_alias_of_check(self):
        minimal = os.path.join(SOURCE, "config", "minimal.yaml")
        for arguments in (["-t", "-c", minimal], ["-tc", minimal], ["-c", minimal, "-t"], ["run", "-t", "-c", minimal]):
            ended = command(*arguments)
            self.assertEqual((ended.returncode, ended.stdout), (0, f"{minimal}: ok\n"), arguments)
        ended = command("-t", "-c", "-", text="pools: []\n")
        self.assertEqual((ended.returncode, ended.stderr), (1, command("check", "-c", "-", text="pools: []\n").stderr))

    def test_help_and_version_exit_with_zero(self):
        self.assertIn("run", command("--help").stdout)
        self.assertEqual(command("--help").returncode, 0)
        self.assertRegex(command("version").stdout, r"^evenkeel \d+\.\d+\.\d+\n$")
        printed = json.loads(command("version", "--json").stdout)
        self.assertIn(printed["version"], command("version").stdout)


class Completion(case.Case):
    def script(self, shell):
        path = os.path.join(self.folder(), "evenkeel")
        with open(path, "w", encoding="utf-8") as file:
            file.write(command("completion", shell).stdout)
        return path

    def complete(self, *words):
        """What bash offers for the last word."""
        call = ('. "$1"; shift; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                '_evenkeel; printf "%s\\n" "${COMPREPLY[@]}"')
        ended = subprocess.run(["bash", "-c", call, "bash", self.script("bash"), "evenkeel", *words],
                               capture_output=True, text=True, check=True)
        self.assertEqual(ended.stderr, "")
        return ended.stdout.split()

    def test_bash_completes_verbs_options_and_values(self):
        self.assertEqual(self.complete("che"), ["check"])
        self.assertEqual(self.complete("ctl", "un"), ["undrain"])
        self.assertEqual(self.complete("ctl", "drain", "--wa"), ["--wait"])
        self.assertEqual(self.complete("ctl", "--json", "reload", "--wa"), ["--wait"])
        self.assertEqual(self.complete("top", "--sort", "tt"), ["ttft"])
        self.assertEqual(self.complete("top", "--sort", "=", "tt"), ["ttft"])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])
        self.assertEqual(self.complete("load", "--rate", ""), [])
        minimal = os.path.join(SOURCE, "config", "minimal")
        self.assertEqual(self.complete("check", "-c", minimal), [minimal + ".yaml"])
        self.assertEqual(self.complete("-c", minimal), [minimal + ".yaml"])

    def test_every_shell_can_read_its_script(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell):
                ended = subprocess.run([shell, "-n", self.script(shell)], capture_output=True, text=True, check=False)
                self.assertEqual((ended.returncode, ended.stderr), (0, ""), shell)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_completes_verbs_options_and_values(self):
        for line, offered in (("evenkeel che", ["check"]), ("evenkeel ctl drain --wa", ["--wait"]),
                              ("evenkeel top --sort tt", ["ttft"])):
            ended = subprocess.run(["fish", "--no-config", "-c", f"source {self.script('fish')}; complete -C '{line}'"],
                                   capture_output=True, text=True, check=False,
                                   env=os.environ | {"HOME": self.folder()})
            self.assertEqual([each.split("\t")[0] for each in ended.stdout.splitlines()], offered, ended.stderr)


class Manual(case.Case):
    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_pages_have_no_mistake(self):
        for page in ("evenkeel", "evenkeel-ctl", "evenkeel.yaml"):
            ended = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=command("manual", page).stdout,
                                   capture_output=True, text=True, check=False)
            # Without a date, the page is the same whenever it is built.
            found = [line for line in ended.stdout.splitlines() if "missing date" not in line]
            self.assertEqual(found, [], page)


if __name__ == "__main__":
    case.main()
