"""Signs requests to webhooks as Standard Webhooks defines, so that receivers can check them with a
library (https://www.standardwebhooks.com). Pure."""

import base64
import hmac


def signed(key: bytes, delivery: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver checks who sent a body, and when (s UTC). `delivery` is the
    same in every repeat."""
    told = f"{delivery}.{timestamp}.".encode() + body
    proof = hmac.digest(key, told, "sha256")
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(proof).decode()}",
    }
