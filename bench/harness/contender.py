"""The contenders: how each is found, configured and started. One thread or worker each."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import h2load, ways
from .process import Children, free_port, tree, wait_until
from .ways import Protocol, Way

START_PATIENCE_SECONDS = 30.0
LOG_TAIL_CHARACTERS = 1500
MAX_FIRST_REQUESTS = 200  # before the measurement


class Unavailable(Exception):
    """A contender that cannot be measured; the reason goes into the table."""


@dataclass(frozen=True)
class Site:
    """The parameters of one instance: a way, a port, two backends, a folder of its own."""

    way: Way
    port: int
    side_port: int  # for metrics or administration
    backends: list[str]  # HOST:PORT
    folder: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    @property
    def tls(self) -> bool:
        return self.way.front is Protocol.HTTP1_TLS

    def certificate(self) -> tuple[Path, Path]:
        """Certificate and key: ECDSA P-256, self-signed."""
        certificate, key = self.folder / "certificate.pem", self.folder / "key.pem"
        argv = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split()
        )
        argv += ["-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1"]
        argv += ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run(argv, check=True, capture_output=True)
        return certificate, key


@dataclass(frozen=True)
class Command:
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Contender:
    """`command` may raise Unavailable. `traced`: a single process, for valgrind and strace."""

    name: str
    version: Callable[[], str]
    command: Callable[[Site, bool], Command]
    headers: tuple[str, ...] = ()  # request header lines that it insists on
    model: str = "bench"
    ways: tuple[Way, ...] = (ways.HTTP1,)  # those that it knows
    start_patience: float = START_PATIENCE_SECONDS
    repeats: bool = False  # its clients ask the same again and again
    takes_crowds: bool = True  # of idle and slow clients, for which its memory is measured

    def load_flags(self) -> list[str]:
        flags = ["--model", self.model, *(["--repeats", "1"] if self.repeats else [])]
        for line in self.headers:
            flags += ["--header", line]
        return flags


@dataclass
class Running:
    """A started contender that has answered a request from each backend."""

    contender: Contender
    site: Site
    process: subprocess.Popen[str]

    def pids(self) -> list[int]:
        return tree(self.process.pid)

    def drop_logs(self) -> None:
        """Truncates the logs between measurements, so that they do not fill the disk."""
        for path in self.site.folder.glob("*.log"):
            os.truncate(path, 0)


def start(
    contender: Contender,
    way: Way,
    backends: list[str],
    folder: Path,
    children: Children,
    core: int | list[int],
    *,
    wrapper: list[str] | None = None,
    patience: float | None = None,
) -> Running:
    """`wrapper` is the command line of a tool that runs the contender inside itself."""
    folder.mkdir(parents=True)
    site = Site(way=way, port=free_port(), side_port=free_port(), backends=backends, folder=folder)
    command = contender.command(site, wrapper is not None)
    with (folder / "output.log").open("a") as log:
        process = children.start(
            [*(wrapper or []), *command.argv],
            core,
            env=command.env,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    running = Running(contender=contender, site=site, process=process)
    try:
        wait_until(
            f"{contender.name} answers",
            patience or contender.start_patience,
            lambda: _answers_or_died(running, children, core),
        )
    except TimeoutError as late:
        children.stop(process)
        raise Unavailable(f"{late}: {_log_tail(folder)}") from late
    return running


def _answers_or_died(running: Running, children: Children, core: int | list[int]) -> bool:
    site = running.site
    if running.process.poll() is not None:
        raise Unavailable(f"exit status {running.process.returncode}: {_log_tail(site.folder)}")
    requests = min(2 * len(site.backends), MAX_FIRST_REQUESTS)
    if site.way.front is Protocol.HTTP2:
        return _answers_http2(site, children, core, requests)
    return all(_answers(running) for _ in range(requests))


def _answers_http2(
    site: Site, children: Children, core: int | list[int], requests: int
) -> bool:
    flags = ["-n", str(requests)]
    try:
        report, _ = h2load.run(children, core, site.way.front, site.address, flags, site.folder)
    except h2load.Broken:
        return False
    return report["requests"] == requests and not any(report["errors"].values())


def _answers(running: Running) -> bool:
    body = json.dumps(
        {"model": running.contender.model, "messages": [{"role": "user", "content": "ready?"}]}
    )
    headers = {"content-type": "application/json"}
    headers |= dict(line.split(": ", 1) for line in running.contender.headers)
    port = running.site.port
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=unverified_tls_context())
        if running.site.tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    )
    with contextlib.closing(connection):
        try:
            connection.request("POST", "/v1/chat/completions", body, headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False


def unverified_tls_context() -> ssl.SSLContext:
    """A TLS context for our own server on loopback, whose certificate no CA has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _log_tail(folder: Path) -> str:
    text = (folder / "output.log").read_text(errors="replace")
    return " ".join(text[-LOG_TAIL_CHARACTERS:].split())


def first_line(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return next(iter((done.stdout or done.stderr).splitlines()), "").strip()


def found(program: str) -> str:
    """/usr/sbin is searched too: Debian puts haproxy and nginx there, not on a user's path."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if not path:
        raise Unavailable(f"{program} is not installed")
    return path


# --- evenkeel: metrics always, the access log by default --------------------------------


TENANT_KEY = "sk-bench"


def evenkeel(
    build: Path,
    *,
    logging: bool = True,
    inspects: bool = False,
    picker: str = "round-robin",
    workers: int = 1,
    tenants: bool = False,
    caches: bool = False,
    name: str = "",
) -> Contender:
    """`inspects`: it reads requests and responses, as the inference routers do. `tenants`: with API keys, limits and usage
    records. `caches`: it answers from its cache after the first request. `name`: in place of the one that says what differs
    from the defaults."""
    binary = build / "evenkeel"

    def command(site: Site, traced: bool) -> Command:
        if not binary.exists():
            raise Unavailable(f"{binary.name} is not built in {build.name}")
        text = _evenkeel_file(site, logging, inspects, picker, workers, CACHE if caches else "")
        config = site.write("evenkeel.yaml", text + (_tenants_file(site) if tenants else ""))
        return Command([str(binary), "run", "-c", str(config)])

    def version() -> str:
        return first_line([str(binary), "version"]) if binary.exists() else ""

    usual = "evenkeel" if logging else "evenkeel-quiet"
    if inspects:
        usual = "evenkeel-inspect"
    if picker != "round-robin":
        usual = f"evenkeel-{picker}"
    if tenants or caches:
        usual = "evenkeel-tenants" if tenants else "evenkeel-cache"
    headers = (f"authorization: Bearer {TENANT_KEY}",) if tenants else ()
    return Contender(
        name=name or usual, version=version, command=command, headers=headers, ways=ways.ALL_WAYS, repeats=caches
    )


CACHE = "cache: {}\n    body: {set: {temperature: 0}}"


def _tenants_file(site: Site) -> str:
    """Limits of each kind, none of which is reached."""
    key = hashlib.sha256(TENANT_KEY.encode()).hexdigest()
    return f"""\
auth: {{}}
tenants:
  - name: bench
    keys_sha256: [{key}]
    limits: {{requests: 1000000/s, tokens: [900000000/min, 100000000000/month], concurrent: 100000}}
usage: {{path: "{site.folder / 'usage.log'}", prices: {{"*": {{input: 0.6, output: 1.8}}}}}}
"""


def _evenkeel_file(
    site: Site, logging: bool, inspects: bool, picker: str, workers: int, further: str
) -> str:
    access_log = site.folder / "access.log" if logging else "off"
    backends = ", ".join(f"http://{address}" for address in site.backends)
    protocol = "protocol: h2" if site.way.back is Protocol.HTTP2 else ""
    tls = ""
    if site.tls:
        certificate, key = site.certificate()
        tls = f", tls: {{certificates: [{{cert: {certificate}, key: {key}}}]}}"
    return f"""\
version: 1
listeners:
  - {{name: public, address: {site.address}{tls}}}
admin: {{address: 127.0.0.1:{site.side_port}}}
workers: {workers}
pools:
  - name: bench
    picker: {picker}
    inspect: {str(inspects).lower()}
    backends: [{backends}]
    {protocol}
    {further}
access_log: {{path: "{access_log}", format: json}}
"""


# --- a relay of bytes ---------------------------------------------------------------------------


def relay(build: Path) -> Contender:
    """The floor: what the kernel takes for moving the bytes of two connections, unread."""
    binary = build / "bench_relay"

    def command(site: Site, traced: bool) -> Command:
        if not binary.exists():
            raise Unavailable(f"{binary.name} is not built in {build.name}")
        backends = [word for address in site.backends for word in ("--backend", address)]
        return Command([str(binary), "--listen", site.address, *backends])

    return Contender(
        name="relay",
        version=lambda: "bench_relay, which reads nothing of what it passes on",
        command=command,
        ways=(ways.HTTP1,),
        takes_crowds=False,
    )


# --- HAProxy ------------------------------------------------------------------------------------


def haproxy(*, logging: bool = False, threads: int = 1) -> Contender:
    def command(site: Site, traced: bool) -> Command:
        config = site.write("haproxy.cfg", _haproxy_file(site, logging, threads))
        return Command([found("haproxy"), "-db", "-f", str(config)])

    return Contender(
        name="haproxy-log" if logging else "haproxy",
        version=lambda: first_line([found("haproxy"), "-v"]),
        command=command,
        ways=ways.ALL_WAYS,
    )


def _haproxy_file(site: Site, logging: bool, threads: int) -> str:
    protocol = "proto h2" if site.way.back is Protocol.HTTP2 else ""
    servers = "\n".join(
        f"  server b{number} {address} {protocol}" for number, address in enumerate(site.backends)
    )
    front = "proto h2" if site.way.front is Protocol.HTTP2 else ""
    if site.tls:
        certificate, key = site.certificate()
        both = site.write("both.pem", certificate.read_text() + key.read_text())
        front = f"ssl crt {both} alpn http/1.1 ssl-min-ver TLSv1.3"
    target = "log stdout format raw local0" if logging else ""
    per_request = "log global\n  option httplog" if logging else ""
    return f"""\
global
  nbthread {threads}
  maxconn 12000
  no strict-limits
  {target}
defaults
  mode http
  {per_request}
  timeout connect 5s
  timeout client 300s
  timeout server 600s
  option http-no-delay
  http-reuse always
frontend public
  bind {site.address} {front}
  default_backend bench
backend bench
  balance roundrobin
{servers}
"""


# --- nginx --------------------------------------------------------------------------------------


def nginx(*, logging: bool = False) -> Contender:
    def command(site: Site, traced: bool) -> Command:
        config = site.write("nginx.conf", _nginx_file(site, logging, traced))
        return Command([found("nginx"), "-p", str(site.folder), "-c", str(config), "-e", "stderr"])

    return Contender(
        name="nginx-log" if logging else "nginx",
        version=lambda: first_line([found("nginx"), "-v"]),
        command=command,
        ways=(ways.HTTP1, ways.H2_TO_H1, ways.TLS_TO_CLEAR),  # HTTP/2 to backends: gRPC only
    )


def _nginx_file(site: Site, logging: bool, single_process: bool) -> str:
    servers = "\n".join(f"    server {address};" for address in site.backends)
    front, tls = ("http2" if site.way.front is Protocol.HTTP2 else ""), ""
    if site.tls:
        certificate, key = site.certificate()
        front = "ssl"
        tls = f"ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;"
    uploads = "on" if site.way.front is Protocol.HTTP2 else "off"  # whichever is its cheaper one
    user = "user root;" if os.geteuid() == 0 else ""
    access_log = f"{site.folder}/access.log json buffer=64k flush=1s" if logging else "off"
    temporary = "\n".join(
        f"  {kind}_temp_path {site.folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""\
daemon off;
master_process {"off" if single_process else "on"};
worker_processes 1;
worker_rlimit_nofile 60000;
pid {site.folder}/nginx.pid;
{user}
events {{ worker_connections 24000; }}
http {{
  log_format json escape=json '{{"time":"$time_iso8601","method":"$request_method",'
    '"path":"$request_uri","status":$status,"bytes":$body_bytes_sent,"seconds":$request_time,'
    '"backend":"$upstream_addr","id":"$request_id"}}';
  access_log {access_log};
{temporary}
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  client_max_body_size 0;
  upstream bench {{
{servers}
    keepalive 256;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }}
  server {{
    listen {site.address} {front} backlog=4096;
    {tls}
    tcp_nodelay on;
    location / {{
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering {uploads};
      client_body_buffer_size 64k;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


# --- nghttpx ------------------------------------------------------------------------------------


def nghttpx() -> Contender:
    def command(site: Site, traced: bool) -> Command:
        protocol = ";/;proto=h2" if site.way.back is Protocol.HTTP2 else ""
        backends = [f"--backend={address.replace(':', ',')}{protocol}" for address in site.backends]
        frontend = f"--frontend=127.0.0.1,{site.port}{'' if site.tls else ';no-tls'}"
        argv = [
            found("nghttpx"),
            "--conf=/dev/null",
            frontend,
            *backends,
            "--workers=1",
            "--backend-connections-per-host=256",
            "--no-ocsp",
            f"--pid-file={site.folder}/nghttpx.pid",
        ]
        if traced:
            argv += ["--single-process", "--single-thread"]
        if site.tls:
            certificate, key = site.certificate()
            argv += ["--tls-min-proto-version=TLSv1.3", str(key), str(certificate)]
        return Command(argv)

    return Contender(
        name="nghttpx",
        version=lambda: first_line([found("nghttpx"), "--version"]),
        command=command,
        ways=(ways.H2_TO_H1, ways.H2_TO_H2, ways.TLS_TO_CLEAR),
    )
