"""What is public, as it stands in the source: read by griffe, nothing is imported."""

from .names import FOLDER, INNER, PAGES, ROOT, SETTING, UNNAMED, Page
from .reading import Member, Reference, example_of, text_of

__all__ = [
    "FOLDER",
    "INNER",
    "PAGES",
    "ROOT",
    "SETTING",
    "UNNAMED",
    "Member",
    "Page",
    "Reference",
    "example_of",
    "text_of",
]
