"""Times as the server writes them."""

from datetime import datetime


def ms_of(stamp: str) -> int:
    """Ms UTC of a time as the server writes it, with up to nine digits after the point."""
    whole, _, rest = stamp.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1000 + int(f"{rest[:3]:0<3}" or 0)
