"""A Postfix of its own, with STARTTLS, authentication and OpenDKIM as its milter, in a folder and on loopback ports."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import free_port, wait_until

USER, PASSWORD = "service", "correct horse"
REALM = "relay.test"

MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/postfix.log
maillog_file_prefixes = /tmp
myhostname = relay.test
mydestination =
alias_maps =
alias_database =
local_recipient_maps =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtp_host_lookup = native
smtpd_tls_chain_files = {certificate}
smtpd_tls_security_level = may
smtpd_tls_auth_only = yes
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = cyrus
smtpd_sasl_local_domain = relay.test
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_recipient_restrictions = check_recipient_access texthash:{folder}/access, permit_sasl_authenticated, reject
transport_maps = texthash:{folder}/transport
default_transport = error:no route
smtpd_milters = inet:127.0.0.1:{milter}
milter_default_action = tempfail
minimal_backoff_time = 1s
queue_run_delay = 2s
"""

MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
smtp unix - - n - - smtp
lmtp unix - - n - - lmtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""

ACCOUNTS = Path("/etc/sasldb2")
"""Where the packaged library keeps its accounts; it reads no other file, whatever Postfix is configured to say."""

DKIM = """
Socket inet:{milter}@127.0.0.1
Mode v
UserID root
Background no
AlwaysAddARHeader yes
AuthservID relay.test
TestDNSData file:{folder}/dns
"""


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes of mail: ports of the loopback address by domain, and what refuses or defers at RCPT."""

    transports: dict[str, str]
    answers: dict[str, str]


class Postfix:
    """One instance. `start` returns when it answers; `stop` leaves nothing behind."""

    def __init__(self, folder: Path, certificate: Path, routes: Routes, further: str = "") -> None:
        """`further` are lines of its configuration that take precedence."""
        self.port = free_port()
        self.folder = folder
        self._milter = free_port()
        self._certificate = certificate
        self._routes = routes
        self._further = further
        self._opendkim: subprocess.Popen[bytes] | None = None

    def start(self, records: dict[str, str]) -> None:
        """`records` are the TXT records that OpenDKIM sees."""
        self._write(records)
        self._opendkim = subprocess.Popen(["opendkim", "-f", "-x", str(self.folder / "opendkim.conf")])
        self._run("start")
        wait_until(lambda: "daemon started" in self.log(), "Postfix has started")

    def stop(self) -> None:
        """All of its processes."""
        subprocess.run(["saslpasswd2", "-d", "-u", REALM, USER], check=False)
        self._run("stop")
        if self._opendkim is not None:
            self._opendkim.terminate()
            self._opendkim.wait(10)

    def log(self) -> str:
        """What it has logged."""
        path = self.folder / "postfix.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def _run(self, command: str) -> None:
        subprocess.run(["postfix", "-c", str(self.folder / "conf"), command], check=True, timeout=60)

    def _write(self, records: dict[str, str]) -> None:
        names = {
            "folder": self.folder,
            "port": self.port,
            "milter": self._milter,
            "certificate": self._certificate,
        }
        for name in ("conf", "queue", "data"):
            (self.folder / name).mkdir()
        shutil.chown(self.folder / "data", "postfix")
        for path, text in (("conf/main.cf", MAIN), ("conf/master.cf", MASTER)):
            (self.folder / path).write_text(text.format(**names).lstrip() + (self._further if "main" in path else ""))
        (self.folder / "opendkim.conf").write_text(DKIM.format(**names).lstrip())
        (self.folder / "dns").write_text("".join(f"{name} {text}\n" for name, text in records.items()))
        (self.folder / "transport").write_text(_lines(self._routes.transports))
        (self.folder / "access").write_text(_lines(self._routes.answers))
        set_password = ["saslpasswd2", "-p", "-c", "-u", REALM, USER]
        subprocess.run(set_password, input=PASSWORD.encode(), check=True)
        shutil.chown(ACCOUNTS, group="postfix")
        ACCOUNTS.chmod(0o640)


def _lines(table: dict[str, str]) -> str:
    return "".join(f"{domain} {value}\n" for domain, value in table.items())
