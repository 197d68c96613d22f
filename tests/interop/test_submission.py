"""Applications of others that send by SMTP: Postfix as a smarthost, swaks, PHPMailer, Nodemailer, and Python. Their
mails become sends, and arrive as they were written."""

from __future__ import annotations

import os
import smtplib
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.interop.mailboxes import Mailboxes, mailboxes
from tests.interop.operator import Operator
from tests.interop.postfix import Postfix, Routes
from tests.support.certificates import Authority
from tests.support.launched import TOKEN, LaunchedService
from tests.support.servers import PATIENCE, free_port, short_folder, wait_until

SENDER = "Acme <hello@acme.example>"
PACKAGED_MODULES = "/usr/share/nodejs"
SMARTHOST = """
smtpd_milters =
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_recipient_restrictions =
transport_maps =
default_transport = smtp
relayhost = [localhost]:{port}
smtp_tls_security_level = secure
smtp_tls_CAfile = {authority}
smtp_sasl_auth_enable = yes
smtp_sasl_password_maps = texthash:{folder}/sasl
smtp_sasl_tls_security_options = noanonymous
smtp_destination_recipient_limit = 100
smtpd_recipient_limit = 1000
maximal_backoff_time = 1s
"""
PHP = r"""
require '/usr/share/php/libphp-phpmailer/autoload.php';
[$_, $port, $authority, $token, $to] = $argv;
$mail = new PHPMailer\PHPMailer\PHPMailer(true);
$mail->isSMTP();
$mail->CharSet = 'utf-8';
$mail->Host = 'localhost';
$mail->Port = $port;
$mail->SMTPAuth = true;
$mail->Username = 'apikey';
$mail->Password = $token;
$mail->SMTPSecure = 'tls';
$mail->SMTPOptions = ['ssl' => ['cafile' => $authority]];
$mail->setFrom('hello@acme.example', 'Acme');
$mail->addAddress($to, 'Zoë');
$mail->addCustomHeader('X-TMS-Group', 'PHP');
$mail->Subject = 'Grüße %%first_name%%';
$mail->isHTML(true);
$mail->addStringEmbeddedImage("\x89PNG\r\n\x1a\n", 'logo', 'logo.png', 'base64', 'image/png');
$mail->Body = '<p>Zoë <img src="cid:logo"></p>';
$mail->AltBody = 'Zoë';
$mail->addStringAttachment('%PDF-1.4', 'Rechnung.pdf');
$mail->send();
"""
NODE = """
const nodemailer = require('nodemailer');
const [port, authority, token, to] = process.argv.slice(2);
nodemailer.createTransport({
  host: 'localhost', port: Number(port), requireTLS: true, auth: {user: 'apikey', pass: token},
  tls: {ca: require('fs').readFileSync(authority)},
}).sendMail({
  from: 'Acme <hello@acme.example>', to: `Zoë <${to}>`, subject: 'Grüße %%first_name%%',
  headers: {'X-TMS-Group': 'Node'},
  text: 'Zoë', html: '<p>Zoë <img src="cid:logo"></p>',
  attachments: [
    {filename: 'logo.png', content: Buffer.from('89504e470d0a1a0a', 'hex'), cid: 'logo'},
    {filename: 'Rechnung.pdf', content: '%PDF-1.4'},
  ],
}).then(info => console.log(info.response), error => { console.error(error); process.exit(1); });
"""


@dataclass(frozen=True)
class Stage(Operator):
    """The operator of the service, its port for applications, its certificate authority, and where its mail arrives."""

    port: int
    authority: Path
    trust: ssl.SSLContext
    inboxes: Mailboxes
    folder: Path

    def arrived(self, address: str) -> EmailMessage:
        """The only mail to an address, once it has arrived."""
        wait_until(lambda: self.inboxes.of(address), f"a mail to {address} has arrived", 60)
        (mail,) = self.inboxes.of(address)
        return mail

    def run(self, *command: str | Path | int) -> str:
        """The output of a program, which must succeed."""
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={**os.environ, "NODE_PATH": PACKAGED_MODULES},
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        folder.chmod(0o755)
        inboxes = stack.enter_context(mailboxes())
        authority = Authority(folder)
        authority.server("localhost")
        port = free_port()
        (folder / "service").mkdir()
        service = LaunchedService(
            folder / "service",
            EMAIL_TRANSPORT_URL=f"smtp://127.0.0.1:{inboxes.port}?tls=none",
            SUBMISSION_LISTEN=f"127.0.0.1:{port}",
            SUBMISSION_CERTIFICATE=str(folder / "localhost.pem"),
        )
        service.start()
        stack.callback(service.clear)
        trusted = authority.write(folder / "ca.pem")
        made = Stage(service, port, trusted, authority.trust, inboxes, folder)
        made.flask("keys", "update", "backend", "--list", "Customers")
        wait_until(lambda: is_listening(port), "the service listens for applications", PATIENCE)
        yield made


def is_listening(port: int) -> bool:
    try:
        with smtplib.SMTP("localhost", port, timeout=5):
            return True
    except OSError:
        return False


def check_whole(mail: EmailMessage, address: str) -> None:
    """A mail with two bodies, an image in one of them, and a file."""
    assert mail["To"] == f"Zoë <{address}>"
    assert (mail["From"], mail["Subject"]) == (SENDER, "Grüße %%first_name%%")
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().strip() == "Zoë"
    (image,) = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    assert image.get_content() == b"\x89PNG\r\n\x1a\n"
    assert f'<p>Zoë <img src="cid:{image["Content-ID"].strip("<>")}"></p>' in html.get_content()
    (file,) = list(mail.iter_attachments())
    assert (file.get_filename(), file.get_content()) == ("Rechnung.pdf", b"%PDF-1.4")


def test_a_mail_of_phpmailer_arrives_whole(stage: Stage) -> None:
    (stage.folder / "send.php").write_text(f"<?php {PHP}")
    address = "php@example.com"
    stage.run("php", stage.folder / "send.php", stage.port, stage.authority, TOKEN, address)
    check_whole(stage.arrived(address), address)
    assert stage.group("PHP")["sent"] == 1


def test_a_mail_of_nodemailer_arrives_whole(stage: Stage) -> None:
    (stage.folder / "send.js").write_text(NODE)
    address = "node@example.com"
    answer = stage.run("node", stage.folder / "send.js", stage.port, stage.authority, TOKEN, address)
    check_whole(stage.arrived(address), address)
    uuid = answer.split()[-1]
    assert stage.wait_for_state(uuid, "delivered")["uuid"] == uuid


def swaks(stage: Stage, *options: str, token: str = TOKEN) -> str:
    """What swaks prints about a session that succeeds."""
    login = ["--auth-user", "apikey", "--auth-password", token, "--tls", "--tls-ca-path", str(stage.authority)]
    sender = ["--from", "hello@acme.example", "--server", f"localhost:{stage.port}"]
    return stage.run("swaks", *sender, *login, *options)


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
def test_swaks_logs_in_by_each_mechanism_and_attaches_files(stage: Stage, mechanism: str) -> None:
    address = f"swaks-{mechanism.lower()}@example.com"
    file = stage.folder / "a b.txt"
    file.write_text("attached")
    output = swaks(stage, "--to", address, "--auth", mechanism, "--attach", f"@{file}")
    assert "250 2.0.0 " in output
    (attached,) = list(stage.arrived(address).iter_attachments())
    assert (attached.get_filename(), attached.get_content()) == ("a b.txt", b"attached")


def test_swaks_is_told_what_is_wrong(stage: Stage) -> None:
    with pytest.raises(AssertionError, match=r"535 5\.7\.8 The password must be a key of the API"):
        swaks(stage, "--to", "ann@example.com", token="tms_wrong")
    with pytest.raises(AssertionError, match=r"550 5\.7\.1 MAIL FROM: the domain elsewhere\.example is not"):
        swaks(stage, "--to", "ann@example.com", "--from", "a@elsewhere.example")


def test_the_library_of_python_sends(stage: Stage) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = SENDER, "Zoë <python@example.com>", "Grüße %%first_name%%"
    mail.set_content("Zoë")
    mail.add_alternative('<p>Zoë <img src="cid:logo"></p>', subtype="html")
    mail.get_payload()[1].add_related(b"\x89PNG\r\n\x1a\n", "image", "png", cid="<logo>")  # type: ignore[index,union-attr]
    mail.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="Rechnung.pdf")
    with smtplib.SMTP("localhost", stage.port, timeout=PATIENCE) as client:
        client.starttls(context=stage.trust)
        client.login("apikey", TOKEN)
        assert client.send_message(mail) == {}
    check_whole(stage.arrived("python@example.com"), "python@example.com")


@pytest.fixture(scope="module")
def smarthost(stage: Stage) -> Iterator[Postfix]:
    """A Postfix that hands all mail of its machine to the service."""
    folder = stage.folder / "postfix"
    folder.mkdir()
    further = SMARTHOST.format(port=stage.port, authority=stage.authority, folder=folder)
    (folder / "sasl").write_text(f"[localhost]:{stage.port} apikey:{TOKEN}\n")
    postfix = Postfix(folder, stage.folder / "localhost.pem", Routes({}, {}), further)
    postfix.start({})
    yield postfix
    postfix.stop()


def hand_over(postfix: Postfix, mail: EmailMessage, to: Sequence[str], sender: str = "hello@acme.example") -> None:
    """Hands a mail to Postfix."""
    with smtplib.SMTP("127.0.0.1", postfix.port, timeout=PATIENCE) as client:
        client.sendmail(sender, list(to), mail.as_bytes())


def letter(subject: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = SENDER, "team@acme.example", subject
    mail["Message-ID"] = f"<{subject.lower()}@acme.example>"
    mail["X-TMS-Group"] = subject
    mail.set_content("Hello %%first_name%%")
    return mail


def test_a_mail_that_postfix_splits_is_accepted_whole_and_once(stage: Stage, smarthost: Postfix) -> None:
    """It takes two transactions. The same mail is handed over again, as after a lost answer."""
    addresses = [f"postfix-{number}@example.com" for number in range(150)]
    for _ in range(2):
        hand_over(smarthost, letter("Newsletter"), addresses)
        wait_until(lambda: is_empty(smarthost), f"the queue of Postfix is empty: {smarthost.log()[-2000:]}", 60)
    for address in addresses:
        assert stage.arrived(address)["To"] == "team@acme.example"
    assert stage.group("Newsletter")["sent"] == 150


def is_empty(postfix: Postfix) -> bool:
    folders = ("incoming", "active", "deferred", "maildrop")
    return not [path for name in folders for path in (postfix.folder / "queue" / name).rglob("*") if path.is_file()]


def test_a_refusal_comes_back_by_postfix(stage: Stage, smarthost: Postfix) -> None:
    """Its report has the empty sender, which the service refuses, and so it ends there."""
    mail = letter("Refused")
    mail["X-TMS-Transport"] = "fast"
    hand_over(smarthost, mail, ["refused@example.com"])
    wait_until(lambda: "the account cannot use the transport" in smarthost.log(), "it is refused", 60)
    assert "550 5.6.0 transport:" in smarthost.log()
    assert stage.inboxes.of("refused@example.com") == []
