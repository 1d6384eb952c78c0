"""Test certificates: a certificate authority and the certificates that it signs."""

import pathlib
import ssl
import subprocess


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL,
                   timeout=60)


class Certificate:
    def __init__(self, cert, key):
        self.cert = str(cert)
        self.key = str(key)

    def config(self):
        """For `tls.certificates` of a listener and `tls` of a pool."""
        return {"cert": self.cert, "key": self.key}


class Authority:
    """A certificate authority; `self.cert` is its root certificate."""

    def __init__(self, folder, name="evenkeel test authority"):
        self._folder = pathlib.Path(folder)
        self._count = 0
        self.cert, self._key = self._paths()
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-days", "2", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.cert,
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def _paths(self):
        self._count += 1
        stem = self._folder / f"{self._count}-{id(self):x}"
        return f"{stem}.pem", f"{stem}.key"

    def issue(self, *names, days=2):
        """A certificate for these names, URIs and addresses; the first is also the subject."""
        cert, key = self._paths()
        alternatives = ",".join(("IP:" if name[0].isdigit() else "URI:" if "://" in name else "DNS:") + name
                                for name in names)
        subject = names[0].replace("/", "\\/")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-subj", f"/CN={subject}", "-addext", f"subjectAltName={alternatives}",
                 "-keyout", key, "-out", f"{cert}.csr")
        extensions = pathlib.Path(f"{cert}.ext")
        extensions.write_text(f"subjectAltName={alternatives}\nbasicConstraints=critical,CA:false\n"
                              "extendedKeyUsage=serverAuth,clientAuth\n")
        _openssl("x509", "-req", "-in", f"{cert}.csr", "-CA", self.cert, "-CAkey", self._key,
                 "-CAcreateserial", "-days", str(days), "-extfile", str(extensions), "-out", cert)
        return Certificate(cert, key)

    def revoke(self, *certificates, file=None):
        """A file with a list that revokes these certificates; replaces `file` if there is one."""
        file = file or self._paths()[0]
        database = pathlib.Path(f"{file}.database")
        database.write_text("")
        config = pathlib.Path(f"{file}.cnf")
        config.write_text(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {database}\n")
        settings = ["-config", str(config), "-cert", self.cert, "-keyfile", self._key, "-md", "sha256"]
        for certificate in certificates:
            _openssl("ca", *settings, "-revoke", certificate.cert)
        _openssl("ca", *settings, "-gencrl", "-crldays", "1", "-out", file)
        return file

    def trust(self, alpn=(), certificate=None):
        """A client context that verifies servers, optionally with a client certificate."""
        context = ssl.create_default_context(cafile=self.cert)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if certificate:
            context.load_cert_chain(certificate.cert, certificate.key)
        return context


def serving(certificate, alpn=()):
    """A server context with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context
