"""A provider of OpenID Connect in the process of the test: an honest one, until a test has it lie.

Its people are claims by their subject. A test mostly plays the browser: `authorize` answers what the browser brings,
with the address to which the provider sends it back.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import orjson
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from app.clock import now
from tests.support.servers import PATIENCE

CLIENT_ID = "tms-console"
CLIENT_SECRET = "s3cret:of/the+client%"
LIFETIME = 300
JsonAnswer = tuple[int, Any]


@cache
def rsa_key(name: str) -> RSAKey:
    """A key of the provider: making one takes a tenth of a second."""
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig"})


class Provider:
    """The provider. Everything that it says can be changed by a test."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.people: dict[str, dict[str, Any]] = {}
        self.key = rsa_key("first")
        self.client_has_secret, self.uses_form = True, False
        self.gives_refresh_tokens = True
        self.claims_in_id_token = True
        self.change_claims: Callable[[dict[str, Any]], None] = lambda _: None
        """Changes the claims of each ID token."""
        self.sign: Callable[[dict[str, Any]], str] = self._signed
        self.answers: dict[str, JsonAnswer | bytes] = {}
        """Path -> what it answers instead."""
        self.redirects = ""
        """Where all requests are sent instead, if anywhere."""
        self.silence = threading.Event()
        """While it is not set, nothing is answered."""
        self.silence.set()
        self.requests: list[tuple[str, str]] = []
        """Method and path of each request."""
        self._codes: dict[str, dict[str, str]] = {}
        self._tokens: dict[str, str] = {}
        """Refresh and access tokens, with the subject of each."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        # A later provider may get the same port, and its people are others.
        self._path = f"/{secrets.token_hex(8)}"
        self.issuer = f"http://{host}:{self._server.server_address[1]}{self._path}"

    # ------------------------------------------------------------------------------------------ people and browsers

    def settings(self, roles: str) -> dict[str, Any]:
        """The settings of a service that knows it, as an operator writes them."""
        return {
            **{"OIDC_ISSUER": self.issuer, "OIDC_CLIENT_ID": CLIENT_ID, "OIDC_CLIENT_SECRET": CLIENT_SECRET},
            **{"OIDC_NAME": "Staff", "OIDC_ROLES": roles},
        }

    def authorize(self, url: str, subject: str) -> str:
        """Where the browser of the person comes back to."""
        parts = urlsplit(url)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.issuer}/authorize"
        asked = dict(parse_qsl(parts.query))
        assert (asked["client_id"], asked["response_type"]) == (CLIENT_ID, "code")
        assert (asked["code_challenge_method"], len(asked["code_challenge"])) == ("S256", 43)
        code = secrets.token_urlsafe(16)
        self._codes[code] = {**asked, "sub": subject}
        answer = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def end_sessions(self) -> None:
        """No refresh token works any more."""
        self._tokens.clear()

    # ------------------------------------------------------------------------------------------ the server

    def __enter__(self) -> Provider:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, method: str, target: str, headers: Any, body: str) -> JsonAnswer | bytes | str:
        target = target.removeprefix(self._path)
        path = urlsplit(target).path
        self.requests.append((method, path))
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            return 200, self.description()
        if path == "/authorize":
            url = f"{self.issuer}{target}"
            return "".join(f'<p><a href="{escape(self.authorize(url, name))}">{name}</a>' for name in self.people)
        if path == "/jwks":
            return 200, KeySet([self.key]).as_dict(private=False)
        if path == "/userinfo":
            subject = self._tokens.get(headers.get("Authorization", "").removeprefix("Bearer "))
            return (200, {"sub": subject, **self.people[subject]}) if subject else (401, {})
        if (method, path) == ("POST", "/token"):
            return self._token(headers, dict(parse_qsl(body)))
        return 404, {}

    def description(self) -> dict[str, Any]:
        """What the provider says of itself."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            **({"token_endpoint_auth_methods_supported": ["client_secret_post"]} if self.uses_form else {}),
            "authorization_response_iss_parameter_supported": True,
        }

    def _token(self, headers: Any, form: dict[str, str]) -> JsonAnswer:
        if self._credentials(headers, form) != [CLIENT_ID, *([CLIENT_SECRET] if self.client_has_secret else [])]:
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            subject = self._tokens.pop(form["refresh_token"], None)
            return (200, self._given(subject, None)) if subject else (400, {"error": "invalid_grant"})
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, self._given(asked["sub"], asked["nonce"])

    def _credentials(self, headers: Any, form: dict[str, str]) -> list[str]:
        """How the client names itself, in a header or in the form."""
        if not self.uses_form:
            sent = base64.b64decode(headers.get("Authorization", "").removeprefix("Basic ")).decode()
            return [unquote(part) for part in sent.split(":")]
        return [form[name] for name in ("client_id", "client_secret") if name in form]

    def _given(self, subject: str, nonce: str | None) -> dict[str, Any]:
        access_token, refresh_token = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self._tokens |= {access_token: subject, refresh_token: subject}
        moment = int(now().timestamp())
        claims = {"iss": self.issuer, "sub": subject, "aud": CLIENT_ID, "iat": moment, "exp": moment + LIFETIME}
        claims |= {"nonce": nonce} if nonce else {}
        claims |= self.people[subject] if self.claims_in_id_token else {}
        self.change_claims(claims)
        given = {"access_token": access_token, "token_type": "Bearer", "id_token": self.sign(claims)}
        return given | ({"refresh_token": refresh_token} if self.gives_refresh_tokens else {})

    def _signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid or ""}, claims, self.key)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with suppress(OSError):  # the client may have given up
                    self._serve()

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                answer = provider._answer(self.command, self.path, self.headers, body)
                provider.silence.wait(PATIENCE)
                is_page = isinstance(answer, str)
                status, content = answer if isinstance(answer, tuple) else (200, answer)
                content = _written(content)
                self.send_response(307 if provider.redirects else status)
                if provider.redirects:
                    self.send_header("Location", f"{provider.redirects}{self.path.removeprefix(provider._path)}")
                self.send_header("Content-Type", "text/html" if is_page else "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _written(content: Any) -> bytes:
    """The body of an answer: a page, or what is no JSON because a test wants so, or JSON."""
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else orjson.dumps(content)


@contextmanager
def provider(host: str = "127.0.0.1") -> Iterator[Provider]:
    """A started provider. Its page for people has a link for each of them."""
    with Provider(host) as started:
        yield started


def parameters_of(url: str) -> dict[str, str]:
    """The parameters of a URL, each of which it has once."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
