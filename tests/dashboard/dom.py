"""Pages taken apart: enough of a document to say what is on it."""

from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Element:
    """One element: its name, attributes, and what is in it."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.inside: list[Element | str] = []

    def __getitem__(self, attribute: str) -> str:
        return self.attributes[attribute]

    @property
    def text(self) -> str:
        """All text in it, with single spaces."""
        parts = [one if isinstance(one, str) else one.text for one in self.inside]
        return " ".join(" ".join(parts).split())

    @property
    def raw(self) -> str:
        """All text in it, as it is."""
        return "".join(one if isinstance(one, str) else one.raw for one in self.inside)

    def every(self, name: str = "", **wanted: str) -> "Iterator[Element]":
        """The elements in it, at any depth, of a name and with these attributes."""
        for one in self.inside:
            if isinstance(one, str):
                continue
            if (not name or one.name == name) and all(
                one.attributes.get(key.strip("_").replace("_", "-")) == value
                for key, value in wanted.items()
            ):
                yield one
            yield from one.every(name, **wanted)

    def one(self, name: str = "", **wanted: str) -> "Element":
        """The only one of them."""
        found = list(self.every(name, **wanted))
        assert len(found) == 1, f"{len(found)} of {name} {wanted}"
        return found[0]

    def has(self, name: str = "", **wanted: str) -> bool:
        return next(self.every(name, **wanted), None) is not None


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inside.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> ends a {self._open[-1].name}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)

    @property
    def is_whole(self) -> bool:
        return self._open == [self.root]


def parsed(page: str) -> Element:
    """The document. Every element must be closed where it should be, and no id be there twice."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert builder.is_whole
    ids = [element["id"] for element in builder.root.every() if "id" in element.attributes]
    assert len(ids) == len(set(ids)), "an id is there twice"
    return builder.root
