"""pack_tarball and pack_deb of tools/package.sh: the same bytes from the same files, wherever and whenever they lie.

    pack_test.py SOURCE PROGRAM
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = pathlib.Path(sys.argv[1]), sys.argv[2]

FILES = {"usr/share/man/man1/evenkeel.1": ".TH EVENKEEL 1\n", "usr/share/doc/evenkeel/start.md": "# Start\n",
         "usr/share/doc/evenkeel/copyright": "all of it\n", "etc/evenkeel/evenkeel.yaml": "routes: []\n",
         "etc/logrotate.d/evenkeel": "/var/log/evenkeel/*.log {}\n"}


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "dpkg-dev is not installed")
class Packages(unittest.TestCase):
    def pack(self, umask, names):
        """Packs the files, written in this order; returns the folder with the packages."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = pathlib.Path(folder.name)
        before = os.umask(umask)
        try:
            for name in names:
                path = out / "root" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(FILES[name])
                os.utime(path, (umask, 10**9 + umask))
            (out / "root/usr/bin").mkdir(parents=True)
            shutil.copyfile(PROGRAM, out / "root/usr/bin/evenkeel")
            (out / "root/usr/bin/evenkeel").chmod(0o755)
            subprocess.run(["bash", "-euc", '. tools/package.sh; pack_tarball "$1/root" evenkeel-1.2.3 "$1/tar"; '
                            'pack_deb "$1/root" 1.2.3 "$1/deb"', "bash", out], cwd=SOURCE, check=True,
                           env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "LC_ALL": "C.UTF-8"})
        finally:
            os.umask(before)
        return out

    def test_have_the_same_bytes_whatever_the_order_the_times_and_the_umask(self):
        one, other = self.pack(0o022, FILES), self.pack(0o077, reversed(FILES))
        for name in ("tar", "deb"):
            digests = {hashlib.sha256((out / name).read_bytes()).hexdigest() for out in (one, other)}
            self.assertEqual(len(digests), 1, name)

    def test_say_what_they_are_and_what_they_need(self):
        deb = self.pack(0o022, FILES) / "deb"

        def control(field):
            return subprocess.run(["dpkg-deb", "-f", deb, field], capture_output=True, text=True, check=True).stdout.strip()
        self.assertEqual((control("Package"), control("Version")), ("evenkeel", "1.2.3"))
        self.assertRegex(control("Depends"), r"\blibc6 .*, adduser$")
        self.assertGreater(int(control("Installed-Size")), 0)
        conffiles = subprocess.run(["dpkg-deb", "--info", deb, "conffiles"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(conffiles.split(), ["/etc/evenkeel/evenkeel.yaml", "/etc/logrotate.d/evenkeel"])
        listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
        for line in ("-rwxr-xr-x root/root .* ./usr/bin/evenkeel", "-rw-r--r-- root/root .* ./usr/share/man/man1/evenkeel.1.gz",
                     "drwxr-xr-x root/root .* ./var/lib/evenkeel/"):
            self.assertRegex(listed, line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
