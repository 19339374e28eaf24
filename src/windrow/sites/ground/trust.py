"""Trust: who may talk to a site. On loopback anybody on the machine; beyond it, TLS and a certificate or a token.

A certificate speaks for the site whose name it carries (a DNS name in subjectAltName). With `mutual` both ends show one
that the authority has signed. Without it only the one who is called does, and the caller shows the token.
"""

import hmac
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.errors import InputError, SpecError

FEWEST = 16  # characters of a token


@dataclass(frozen=True)
class Trust:
    """What a site shows, and what it wants to see."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = None
    mutual: bool = True

    @property
    def secure(self) -> bool:
        """Whether it talks TLS."""
        return self.authority is not None

    def check(self, site: str, host: str) -> None:
        """Refuse to listen where strangers could come by."""
        if self.secure and (self.certificate is None or self.key is None):
            raise SpecError(f"site {site!r} has an authority but no certificate and key: TLS needs all three")
        if self.secure and not self.mutual and self.token is None:
            raise SpecError("security: mutual = false lets callers come without a certificate: they need a token")
        if not self.secure and not is_loopback(host):
            raise SpecError(
                f"site {site!r} would listen on {host}, where strangers can reach it: give [security] an authority and "
                "the site a certificate and key, or listen on 127.0.0.1"
            )

    def server_context(self) -> ssl.SSLContext | None:
        """How callers are received."""
        if not self.secure:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        try:
            context.load_cert_chain(str(self.certificate), str(self.key))
            context.load_verify_locations(str(self.authority))
        except (OSError, ssl.SSLError) as error:
            files = f"certificate {self.certificate}, key {self.key}, authority {self.authority}"
            raise InputError(f"{files}: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED if self.mutual else ssl.CERT_NONE
        return context

    def client_options(self, site: str) -> dict[str, Any]:
        """How a Flight client calls a site: it must show a certificate of that name."""
        if not self.secure:
            return {}
        options: dict[str, Any] = {"tls_root_certs": read(self.authority), "override_hostname": site}
        if self.mutual:
            options |= {"cert_chain": read(self.certificate), "private_key": read(self.key)}
        return options

    def headers(self) -> list[tuple[bytes, bytes]]:
        """What every call carries."""
        return [] if self.token is None else [(b"authorization", f"Bearer {self.token}".encode())]

    def admits(self, headers: Any) -> bool:
        """Whether the headers of a call have the token."""
        if self.token is None:
            return True
        given = headers.get("authorization") or [""]
        shown = given[0] if isinstance(given[0], bytes) else str(given[0]).encode()
        return hmac.compare_digest(shown, f"Bearer {self.token}".encode())


def plain(error: BaseException) -> str:
    """What is wrong with a call, without what gRPC and Flight put around it."""
    text = " ".join(str(error).split(". gRPC client debug")[0].split(" Detail:")[0].split())
    text = text.partition(" error, with message: ")[2] or text
    return text.rpartition("last error: ")[2].removeprefix("UNKNOWN: ")[:300]


def read(path: Path | None) -> bytes:
    """A file of [security], or an error that names it."""
    if path is None:
        raise SpecError("security: an authority, a certificate and a key belong together")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def read_token(path: Path) -> str:
    """The token in a file."""
    token = read(path).decode("utf-8", "replace").strip()
    if len(token) < FEWEST or not token.isascii() or not token.isprintable():
        raise SpecError(f"{path}: a token must have at least {FEWEST} printable ASCII characters")
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
