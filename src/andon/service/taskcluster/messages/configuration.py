"""Reads the operator's file (TOML) that says where messages are delivered.

    [webhook.ci]
    url = "https://ci.example.org/tasks"
    secret_env = "CI_SECRET"
    bindings = [{ exchange = "task-completed", pattern = "route.index.#" }]

    [amqp.pulse]
    url_env = "PULSE_URL"

Secrets are in the environment or in a file of their own, never in this one.
"""

import base64
import binascii
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from andon.model.errors import ConfigurationError
from andon.service.taskcluster.messages.exchanges import ALL, exchange_named
from andon.service.taskcluster.messages.patterns import Binding, check_pattern

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z", re.ASCII)
_MOST_SINKS = 100
_EVERYTHING = tuple(Binding(exchange) for exchange in sorted(ALL))
_SECRET_BYTES = range(24, 65)


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that messages are sent to, signed."""

    name: str
    url: str
    secret: bytes
    bindings: tuple[Binding, ...] = _EVERYTHING
    timeout: float = 15.0  #: seconds until an answer must have come
    at_once: int = 8  #: messages of different tasks under way at once


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that messages are published to."""

    name: str
    url: str
    bindings: tuple[Binding, ...] = _EVERYTHING
    timeout: float = 15.0  #: seconds until the broker must have confirmed


class MessageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of messages."""

    webhooks: tuple[WebhookSettings, ...] = ()
    brokers: tuple[BrokerSettings, ...] = ()
    retries_as_exceptions: bool = False
    """Whether a run that ended as an exception makes a message also if another run follows by
    itself (docs/rulings.md, R40)."""


class _Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    exchange: str
    pattern: str = "#"


class _Sink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str = ""
    url_env: str = ""
    url_file: str = ""
    bindings: tuple[_Binding, ...] = ()
    timeout: float = 15.0


class _Webhook(_Sink, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secret_env: str = ""
    secret_file: str = ""
    at_once: int = 8


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    webhook: dict[str, _Webhook] = {}
    amqp: dict[str, _Sink] = {}
    retries_as_exceptions: bool = False


def read_message_settings(path: str | Path) -> MessageSettings:
    """The settings in a file. Raises `ConfigurationError`, which never contains a secret."""
    path = Path(path)
    try:
        given = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), type=_File)
    except OSError as error:
        raise _wrong(path, f"it cannot be read: {error.strerror}") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise _wrong(path, str(error)) from None
    read = _Reader(path, os.environ)
    if len(given.webhook) + len(given.amqp) > _MOST_SINKS:
        raise _wrong(path, f"it has more than {_MOST_SINKS} webhooks and brokers")
    return MessageSettings(
        webhooks=tuple(read.webhook(name, one) for name, one in given.webhook.items()),
        brokers=tuple(read.broker(name, one) for name, one in given.amqp.items()),
        retries_as_exceptions=given.retries_as_exceptions,
    )


def _wrong(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"The file of messages {path} cannot be used: {why}.")


class _Reader:
    """Reads one file, and the secrets that it names."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = environment

    def webhook(self, name: str, given: _Webhook) -> WebhookSettings:
        url = self._url(f"webhook.{name}", given, ("http", "https"))
        if not 1 <= given.at_once <= 100:
            raise self._refused(f"webhook.{name}", "at_once is 1 to 100")
        return WebhookSettings(
            name=self._checked(f"webhook.{name}", name),
            url=url,
            secret=self._secret(f"webhook.{name}", given),
            bindings=self._bindings(f"webhook.{name}", given.bindings),
            timeout=self._timeout(f"webhook.{name}", given.timeout),
            at_once=given.at_once,
        )

    def broker(self, name: str, given: _Sink) -> BrokerSettings:
        return BrokerSettings(
            name=self._checked(f"amqp.{name}", name),
            url=self._url(f"amqp.{name}", given, ("amqp", "amqps")),
            bindings=self._bindings(f"amqp.{name}", given.bindings),
            timeout=self._timeout(f"amqp.{name}", given.timeout),
        )

    def _refused(self, where: str, why: str) -> ConfigurationError:
        return _wrong(self._path, f"[{where}]: {why}")

    def _checked(self, where: str, name: str) -> str:
        if not _NAME.match(name):
            raise self._refused(where[:80], "a name has 1 to 64 letters, digits, - and _")
        return name

    def _timeout(self, where: str, seconds: float) -> float:
        if not 0.1 <= seconds <= 300:
            raise self._refused(where, "timeout is 0.1 s to 300 s")
        return seconds

    def _url(self, where: str, given: _Sink, schemes: Sequence[str]) -> str:
        ways = {"url": given.url, "url_env": given.url_env, "url_file": given.url_file}
        url = self._one_of(where, ways)
        try:
            parts = urlsplit(url)
            is_one = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one:
            raise self._refused(where, f"the URL begins {schemes[0]}:// or {schemes[1]}://")
        return url

    def _secret(self, where: str, given: _Webhook) -> bytes:
        ways = {"secret_env": given.secret_env, "secret_file": given.secret_file}
        text = self._one_of(where, ways).removeprefix("whsec_")
        try:
            secret = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if len(secret) not in _SECRET_BYTES:
            raise self._refused(
                where, "the secret is 24 to 64 bytes in base64; make one: openssl rand -base64 32"
            )
        return secret

    def _one_of(self, where: str, ways: Mapping[str, str]) -> str:
        """The value that is given in one of some ways: as it is, by the name of a variable of the
        environment, or by that of a file."""
        said = {way: value for way, value in ways.items() if value}
        if len(said) != 1:
            raise self._refused(where, f"give one of {', '.join(ways)}")
        [(way, value)] = said.items()
        if way.endswith("_env"):
            found = self._environment.get(value, "").strip()
            if not found:
                raise self._refused(where, f"the environment has no {value}")
            return found
        if way.endswith("_file"):
            file = self._path.parent / value
            try:
                return file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise self._refused(where, f"{file} cannot be read: {error}") from None
        return value

    def _bindings(self, where: str, given: Sequence[_Binding]) -> tuple[Binding, ...]:
        found: list[Binding] = []
        for one in given:
            try:
                exchange = exchange_named(one.exchange)
            except ValueError:
                known = ", ".join(sorted(ALL))
                raise self._refused(
                    where, f"there is no exchange {one.exchange!r}; there are {known}"
                ) from None
            try:
                check_pattern(one.pattern)
            except ValueError as error:
                raise self._refused(where, str(error)) from None
            found.append(Binding(exchange, one.pattern))
        return tuple(found) or _EVERYTHING
