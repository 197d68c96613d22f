"""nginx, Caddy and HAProxy with the configuration of `deploy/`: only names, ports and certificates are replaced."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.deployment import DEPLOY

NGINX_AROUND = """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/tms.conf;
}}
"""


@dataclass(frozen=True)
class Proxy:
    """A proxy of the documentation: its program, and its files in a folder."""

    name: str
    check: tuple[str, ...]
    run: tuple[str, ...]
    environ: Mapping[str, str]


@dataclass(frozen=True)
class Ports:
    """The ports on which a proxy listens, and that of the service behind it."""

    http: int
    https: int
    service: int


def replaced(text: str, changes: Mapping[str, str]) -> str:
    """The configuration with each pattern replaced, which must occur in it."""
    for pattern, value in changes.items():
        text, count = re.subn(pattern, value, text, flags=re.MULTILINE)
        assert count, pattern
    return text


def nginx(folder: Path, certificate: Path, ports: Ports) -> Proxy:
    """nginx, whose documented file is included by a main file, as in /etc/nginx/conf.d."""
    changes = {
        r"127\.0\.0\.1:8000": f"127.0.0.1:{ports.service}",
        r"^    listen \[::\]:.*\n": "",
        r"listen 80;": f"listen 127.0.0.1:{ports.http};",
        r"listen 443 ": f"listen 127.0.0.1:{ports.https} ",
        r"/etc/nginx/certs/\S+;": f"{certificate};",
    }
    (folder / "tms.conf").write_text(replaced((DEPLOY / "nginx.conf").read_text(), changes))
    main = folder / "nginx.conf"
    main.write_text(NGINX_AROUND.format(folder=folder))
    command = ("nginx", "-c", str(main), "-p", str(folder))
    return Proxy("nginx", (*command, "-t"), command, {})


def caddy(folder: Path, certificate: Path, ports: Ports) -> Proxy:
    """Caddy with a certificate, since it could not get one in a test."""
    changes = {
        r"^\{\n": f"{{\n\tadmin off\n\thttp_port {ports.http}\n\thttps_port {ports.https}\n",
        r"^api\.example\.com \{\n": (
            f"https://localhost:{ports.https} {{\n\tbind 127.0.0.1\n\ttls {certificate} {certificate}\n"
        ),
        r"127\.0\.0\.1:8000": f"127.0.0.1:{ports.service}",
    }
    path = folder / "Caddyfile"
    path.write_text(replaced((DEPLOY / "Caddyfile").read_text(), changes))
    options = ("--config", str(path), "--adapter", "caddyfile")
    home = {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    return Proxy("caddy", ("caddy", "validate", *options), ("caddy", "run", *options), home)


def haproxy(folder: Path, certificate: Path, ports: Ports) -> Proxy:
    """In the foreground."""
    changes = {
        r"127\.0\.0\.1:8000": f"127.0.0.1:{ports.service}",
        r"bind :80$": f"bind 127.0.0.1:{ports.http}",
        r"bind :443 ": f"bind 127.0.0.1:{ports.https} ",
        r"/etc/haproxy/certs/": str(certificate),
        r"maxconn 10000": "maxconn 100",
    }
    path = folder / "haproxy.cfg"
    path.write_text(replaced((DEPLOY / "haproxy.cfg").read_text(), changes))
    return Proxy("haproxy", ("haproxy", "-c", "-f", str(path)), ("haproxy", "-db", "-f", str(path)), {})


PROXIES = {"nginx": nginx, "caddy": caddy, "haproxy": haproxy}


def is_installed(name: str) -> bool:
    """Whether the program is on this machine, for root also in the folders of the system."""
    return shutil.which(name) is not None or shutil.which(name, path="/usr/sbin:/usr/local/sbin") is not None


def checked(proxy: Proxy) -> str:
    """What the proxy itself says of its configuration; empty if it is valid."""
    done = subprocess.run(proxy.check, capture_output=True, text=True, check=False, env={"PATH": PATH, **proxy.environ})
    return "" if done.returncode == 0 else done.stdout + done.stderr


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
