"""The long description of the package: README.md, with links that work where there is no folder
around it, as on a package index."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+)(?=\))")
"""The target of a Markdown link or image that names neither a scheme nor a place in this page."""

_IMAGE = (".svg", ".png", ".jpg", ".gif")


def with_whole_links(text: str, source: str) -> str:
    """The Markdown with relative links led into the repository at `source`."""

    def whole(found: re.Match[str]) -> str:
        kind = "raw" if found[2].endswith(_IMAGE) else "blob"
        return f"{found[1]}{source}/{kind}/main/{found[2]}"

    return _LINK.sub(whole, text)


class ReadmeHook(MetadataHookInterface):
    """Fills in the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the other fields of the project."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        whole = with_whole_links(text, metadata["urls"]["Source"])
        metadata["readme"] = {"content-type": "text/markdown", "text": whole}
