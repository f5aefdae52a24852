"""Encryption of a connection to MySQL or MariaDB, by the names that their clients have for it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headwater.cdc.source.options import url_options
from headwater.storage.errors import Invalid

__all__ = ["Encryption", "unverified_context"]

_MODE, _CA, _CERTIFICATE, _KEY = "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key"


class EncryptionMode(StrEnum):
    """How much of TLS is required (``--ssl-mode`` of MySQL's clients)."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify-ca"
    VERIFY_IDENTITY = "verify-identity"


@dataclass(frozen=True)
class Encryption:
    """How connections to a server are encrypted.

    Attributes:
        mode: What is required. ``preferred`` encrypts if the server can, and verifies nothing.
        ca: The file with the certificates of authorities; the system's unless named.
        certificate, key: The files with the client's certificate and its key.
    """

    mode: EncryptionMode = EncryptionMode.PREFERRED
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @staticmethod
    def from_options(options: Mapping[str, str | tuple[str, ...]]) -> Encryption:
        """Read the options ``ssl-mode``, ``ssl-ca``, ``ssl-cert`` and ``ssl-key``.

        Args:
            options: The options of a URL; one that it has twice has several values.

        Raises:
            Invalid: An option is not known or has a wrong value.
        """
        return Encryption._from_texts(url_options(options, (_MODE, _CA, _CERTIFICATE, _KEY)))

    @staticmethod
    def _from_texts(options: Mapping[str, str]) -> Encryption:
        ca, certificate, key = map(options.get, (_CA, _CERTIFICATE, _KEY))
        # As MySQL's clients do.
        text = options.get(_MODE, EncryptionMode.VERIFY_CA if ca else EncryptionMode.PREFERRED)
        try:
            mode = EncryptionMode(text.lower().replace("_", "-"))
        except ValueError:
            modes = ", ".join(EncryptionMode)
            raise Invalid(f"{_MODE} is '{text}', and not one of {modes}") from None
        if (certificate is None) != (key is None):
            raise Invalid(f"{_CERTIFICATE} and {_KEY} are needed together; name both or neither")
        needs = (EncryptionMode.VERIFY_CA, EncryptionMode.VERIFY_IDENTITY)
        if ca is not None and mode not in needs:
            raise Invalid(
                f"{_CA} is named, and {_MODE} {mode} verifies nothing; set {_MODE} to verify-ca or "
                f"verify-identity, or leave {_CA} out"
            )
        if certificate is not None and mode in (EncryptionMode.DISABLED, EncryptionMode.PREFERRED):
            raise Invalid(
                f"{_CERTIFICATE} is named, and {_MODE} {mode} does not require encryption; set "
                f"{_MODE} to required, or leave {_CERTIFICATE} out"
            )
        return Encryption(mode, ca, certificate, key)

    def connection_options(self) -> Mapping[str, object]:
        """The options of PyMySQL's connections.

        Raises:
            Invalid: A file cannot be read, or has no certificate.
        """
        if self.mode is EncryptionMode.PREFERRED:
            return {}
        if self.mode is EncryptionMode.DISABLED:
            return {"ssl_disabled": True}
        context = unverified_context()
        if self.mode is not EncryptionMode.REQUIRED:
            try:
                context = ssl.create_default_context(cafile=self.ca)
            except OSError as error:
                raise Invalid(f"cannot use {_CA} {self.ca}: {error}; name a PEM file") from error
            context.check_hostname = self.mode is EncryptionMode.VERIFY_IDENTITY
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except OSError as error:
                raise Invalid(
                    f"cannot use {_CERTIFICATE} {self.certificate} with {_KEY} {self.key}: "
                    f"{error}; name PEM files that belong together"
                ) from error
        # Servers make certificates of version 1 and without key usages for themselves.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return {"ssl": context}


def unverified_context() -> ssl.SSLContext:
    """A TLS context that verifies nothing, without the authorities that take 25 ms to read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
