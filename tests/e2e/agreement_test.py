"""`check`, `run` and a reload refuse the same files, with the same messages."""

import json
import pathlib

import certificates
from ports import free_port
from process import command
from reloading import ReloadCase, serve


def lines_of(problems):
    """The problems of a document as `check` prints them."""
    return [f"{each['file']}:{each['line']}:{each['column']}: error: {each['path']}: {each['message']}"
            + (f"; {each['help']}" if each["help"] else "") for each in problems]


class BadFiles(ReloadCase):
    def setUp(self):
        self.files = pathlib.Path(self.folder())
        self.server = self.backend(serve)
        self.running(self.server)
        self.good = json.dumps(self.config)

    def assert_all_refuse(self, message):
        path = str(self.served.config_path)
        status, problems = self.post_reload()
        checked, ran = command("check", "-c", path), command("run", "-c", path)
        self.assertEqual((status, checked.returncode, ran.returncode), (422, 1, 1), message)
        said = [[line for line in text.splitlines() if line.startswith(path)]
                for text in (checked.stderr, ran.stderr)]
        self.assertEqual(said, [lines_of(problems)] * 2)
        self.assertEqual(len(problems), 1, problems)
        self.assertRegex(said[0][0], message)
        self.config = json.loads(self.good)
        self.reload()

    def backend_with_key(self, name, text=None):
        path = self.files / name
        if text is not None:
            path.write_text(text)
        self.pool["backends"] = [{"address": self.server.address, "api_key_file": str(path)}]

    def admin_token(self, name, text=None):
        path = self.files / name
        if text is not None:
            path.write_text(text)
        self.config["admin"]["token_file"] = str(path)

    def test_files_that_the_configuration_names(self):
        self.backend_with_key("none")
        self.assert_all_refuse(r"backends\[0\]\.api_key_file: '.*/none' cannot be read: No such file")
        self.backend_with_key("empty", "\n")
        self.assert_all_refuse(r"api_key_file: '.*/empty' holds no key")
        self.admin_token("none")
        self.assert_all_refuse(r"admin\.token_file: '.*/none' cannot be read: No such file")
        self.admin_token("short", "secret\n")
        self.assert_all_refuse(r"admin\.token_file: '.*/short' holds 6 bytes, a token has 16 to 4096")
        self.config["access_log"]["path"] = str(self.files / "no" / "folder" / "access.log")
        self.assert_all_refuse(r"access_log\.path: '.*' cannot be opened: No such file")
        self.config["access_log"]["path"] = str(self.files)
        self.assert_all_refuse(r"access_log\.path: '.*' cannot be opened: Is a directory")

    def test_certificates(self):
        authority = certificates.Authority(str(self.files))
        pair, other = authority.issue("localhost"), authority.issue("localhost")
        self.config["listeners"][0]["tls"] = {"certificates": [{"cert": pair.cert, "key": other.key}]}
        self.assert_all_refuse(r"listeners\[0\]\.tls\.certificates\[0\]\.key: .*does not belong")
        self.pool["tls"] = {"ca": str(self.files / "none")}
        self.assert_all_refuse(r"pools\[0\]\.tls\.ca: .*none")

    def test_a_backend_that_is_a_listener_of_ours(self):
        port = free_port()
        for listen in (f"127.0.0.1:{port}", f"0.0.0.0:{port}"):
            self.config["listeners"].append({"name": "second", "address": listen})
            self.pool["backends"].append(f"localhost:{port}")
            self.assert_all_refuse(r"backends\[1\]: this is listener 'second' on .*requests to itself")

    def test_words_of_other_proxies(self):
        self.pool["picker"] = "leastconn"
        self.assert_all_refuse("did you mean 'least-connections'")
        self.pool["protocol"] = "http2"
        self.assert_all_refuse("did you mean 'h2'")
        self.config["logging"] = {"level": "debug"}
        self.assert_all_refuse("did you mean 'log'")


if __name__ == "__main__":
    import case
    case.main()
