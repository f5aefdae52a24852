"""Storage options of warehouses and secrets of access keys, encrypted by keys of the operator's.

The options of a warehouse hold credentials. With a key they are in the database as one sealed text
(AES-256-GCM), which is bound to the warehouse's name: neither can a reader of the database, or of a
backup of it, use them, nor can a writer give one warehouse another's. The same holds for the secret
of an access key, which is bound to its id and never stored without a key. What a temporary key may
do is not stored, but sealed in likewise, and handed to its holder. A key has an id, so that it can
be replaced while servers run.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.storage.errors import CorruptData, Invalid, Unsupported

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["KEYS", "KEYS_FILE", "OptionKeys", "option_keys"]

KEYS = "HEADWATER_SECRET_KEYS"
"""The variable with the keys: ``ID:BASE64``, several with commas between; the first encrypts."""

KEYS_FILE = "HEADWATER_SECRET_KEYS_FILE"
"""The variable that names a file with the same, where commas may be line ends."""

_SEALED = "$sealed"
_KEY_BYTES = 32
_NONCE_BYTES = 12


@dataclass(frozen=True)
class _Kind:
    """A kind of thing that is sealed; one of a kind does not open as one of another."""

    purpose: str
    words: str
    verb: str

    def bound(self, owner: str, key_id: str) -> bytes:
        """The text that a sealed one is bound to."""
        return f"{self.purpose}\0{key_id}\0{owner}".encode()


_OPTIONS = _Kind("headwater warehouse options", "the options of warehouse", "are")
_SECRET = _Kind("headwater access key", "the secret of access key", "is")
_TEMPORARY = _Kind("headwater temporary key", "temporary key", "is")


@dataclass(frozen=True)
class OptionKeys:
    """The keys by which options are encrypted.

    Attributes:
        keys: The keys by their ids, 32 bytes each. The first one encrypts, all of them decrypt;
            without any, options are stored as they are.
    """

    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def current(self) -> str | None:
        """The id of the key that encrypts."""
        return next(iter(self.keys), None)

    def seal(self, warehouse: str, options: Mapping[str, str]) -> str:
        """The text that the database stores."""
        plain = json.dumps(dict(options))
        current = self.current
        if current is None:
            return plain
        return json.dumps({_SEALED: self._encrypt(_OPTIONS, warehouse, plain, current)})

    def seal_secret(self, access_key_id: str, secret: str) -> str:
        """The text that the database stores of an access key; raises Invalid without keys."""
        if self.current is None:
            raise Invalid(
                "an access key's secret is stored encrypted, and there is no key to encrypt it "
                f"with: give one in {KEYS} or {KEYS_FILE}, here and to every server"
            )
        return json.dumps({_SEALED: self._encrypt(_SECRET, access_key_id, secret, self.current)})

    def open_secret(self, access_key_id: str, text: str) -> str:
        """The secret of an access key.

        Raises:
            Invalid: It was sealed with a key that is not given.
            CorruptData: It was changed, or is another access key's, or the key is another.
        """
        content = json.loads(text).get(_SEALED)
        if not isinstance(content, dict):
            raise CorruptData(
                f"the secret of access key '{access_key_id}' is not encrypted in the database"
            )
        return self._decrypt(_SECRET, access_key_id, content)

    def seal_temporary(self, access_key_id: str, text: str) -> str:
        """The security token of a temporary key: letters, digits, ``-``, ``_`` and dots.

        Raises:
            Unsupported: There are no keys.
        """
        if self.current is None:
            raise Unsupported(
                f"a temporary key is sealed, and there is no key to seal it with: give one in "
                f"{KEYS} or {KEYS_FILE} to every server"
            )
        content = self._encrypt(_TEMPORARY, access_key_id, text, self.current)
        parts = (
            content["key"].encode(),
            *map(base64.b64decode, (content["nonce"], content["data"])),
        )
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)

    def open_temporary(self, access_key_id: str, token: str) -> str:
        """The text in the security token of a temporary key.

        Raises:
            Invalid: It is sealed with a key that is not given, or is none at all.
            CorruptData: It was changed, or is another temporary key's.
        """
        try:
            key_id, nonce, sealed = (
                base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
                for part in token.split(".")
            )
            content = {"key": key_id.decode(), "nonce": _text(nonce), "data": _text(sealed)}
        except ValueError:
            raise Invalid("the text is not the security token of a temporary key") from None
        return self._decrypt(_TEMPORARY, access_key_id, content)

    def open(self, warehouse: str, text: str) -> dict[str, str]:
        """The options in a text of the database, be it sealed or not.

        Raises:
            Invalid: It was sealed with a key that is not given.
            CorruptData: It was changed, or is another warehouse's, or the key is another of its id.
        """
        document = json.loads(text)
        content = document.get(_SEALED)
        if not isinstance(content, dict):
            return {str(key): str(value) for key, value in document.items()}
        plain = self._decrypt(_OPTIONS, warehouse, content)
        return {str(name): str(value) for name, value in json.loads(plain).items()}

    def is_current(self, text: str) -> bool:
        """True if a text of the database is as `seal` would make it now."""
        content = json.loads(text).get(_SEALED)
        sealed_with = content["key"] if isinstance(content, dict) else None
        return bool(sealed_with == self.current)

    def _encrypt(self, kind: _Kind, owner: str, plain: str, key_id: str) -> dict[str, str]:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _cipher(self.keys[key_id]).encrypt(
            nonce, plain.encode(), kind.bound(owner, key_id)
        )
        return {"key": key_id, "nonce": _text(nonce), "data": _text(sealed)}

    def _decrypt(self, kind: _Kind, owner: str, content: Mapping[str, object]) -> str:
        key_id = str(content.get("key"))
        key = self.keys.get(key_id)
        if key is None:
            raise Invalid(
                f"{kind.words} '{owner}' {kind.verb} encrypted with key '{key_id}': give it in "
                f"{KEYS} or {KEYS_FILE}"
            )
        cipher = _cipher(key)
        from cryptography.exceptions import InvalidTag

        try:
            nonce, sealed = (base64.b64decode(str(content[name])) for name in ("nonce", "data"))
            return cipher.decrypt(nonce, sealed, kind.bound(owner, key_id)).decode()
        except (InvalidTag, KeyError, TypeError, ValueError) as error:
            raise CorruptData(
                f"{kind.words} '{owner}' cannot be decrypted with key '{key_id}': it is another "
                "key of that id, or the database was tampered with"
            ) from error


def option_keys(environment: Mapping[str, str]) -> OptionKeys:
    """The keys that the environment gives; none without its variables.

    Raises:
        Invalid: They are malformed, both variables are set, or the file cannot be read. No message
            quotes a key.
    """
    text, path = environment.get(KEYS), environment.get(KEYS_FILE)
    if text and path:
        raise Invalid(f"{KEYS} and {KEYS_FILE} are both set; give the keys once")
    if path:
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            kind = type(error).__name__
            raise Invalid(f"the file of {KEYS_FILE} cannot be read: {kind}") from None
    keys: dict[str, bytes] = {}
    for item in (each.strip() for each in (text or "").replace("\n", ",").split(",")):
        if not item:
            continue
        key_id, _, encoded = item.partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except ValueError:
            key = b""
        if not key_id.isidentifier() or len(key) != _KEY_BYTES:
            raise Invalid(
                f"{KEYS}: write a key as ID:BASE64, an id of letters, digits and underscores and "
                f"{_KEY_BYTES} bytes, such as k1:$(openssl rand -base64 {_KEY_BYTES})"
            )
        if key_id in keys:
            raise Invalid(f"{KEYS}: there are two keys of the id '{key_id}'")
        keys[key_id] = key
    return OptionKeys(keys)


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        raise Unsupported(
            "encrypted options need the server's packages: pip install 'headwater[server]'"
        ) from error
    return AESGCM(key)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
