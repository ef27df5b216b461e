"""Notices in words, as JSON, and sealed for the task that delivers them. Pure."""

import hashlib
import hmac
from typing import Any

import msgspec

from andon.lifecycle.faces.fields import iso
from andon.model.alerts import Notice

_SIGNS = {"firing": "🔴", "still-firing": "🔴", "cleared": "🟢", "test": "🔵"}
_WORDS = {
    "firing": "is firing",
    "still-firing": "is still firing",
    "cleared": "is cleared",
    "test": "is tested: nothing is wrong",
}


def text_of(notice: Notice) -> str:
    """The notice as a message of a few lines; the sign is never the only one to tell."""
    lines = [f"{_SIGNS[notice.happened]} Andon: {notice.rule} {_WORDS[notice.happened]}"]
    lines += [f"• {subject}: {seen}" for subject, seen in notice.subjects]
    if notice.more:
        lines.append(f"• and {notice.more:,} more")
    return "\n".join(lines)


def document_of(notice: Notice, delivery: str) -> dict[str, Any]:
    """The notice as a webhook gets it. `delivery` is the same in each try of one delivery."""
    return {
        "type": f"alert.{notice.happened}",
        "delivery": delivery,
        "rule": notice.rule,
        "when": notice.when,
        "at": iso(notice.at),
        "subjects": [{"name": name, "seen": seen} for name, seen in notice.subjects],
        "more": notice.more,
        "text": text_of(notice),
    }


def delivery_id(key: str, notice: Notice, target: str) -> str:
    """The id of the task that tells a target: always the same, and known to nobody before."""
    told = f"{notice.key}\n{target}".encode()
    return "alert-" + hmac.new(key.encode(), told, hashlib.sha256).hexdigest()[:40]


def seal_of(key: str, notice: Notice, target: str) -> str:
    """Proves that a notice is one of Andon's own."""
    told = msgspec.json.encode(["notice", target, msgspec.structs.replace(notice, targets=())])
    return hmac.new(key.encode(), told, hashlib.sha256).hexdigest()


def is_sealed(key: str, notice: Notice, target: str, seal: str) -> bool:
    """Whether the seal is that of this notice."""
    return bool(key) and hmac.compare_digest(seal_of(key, notice, target), seal)
