"""Signs what is posted to a webhook, as Standard Webhooks says, so that receivers can check it with
a library (https://www.standardwebhooks.com). Pure."""

import base64
import hmac


def signed(key: bytes, delivery: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent a body, and when (s UTC). `delivery` is the
    same whenever the same is sent again."""
    told = f"{delivery}.{timestamp}.".encode() + body
    proof = hmac.digest(key, told, "sha256")
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(proof).decode()}",
    }
