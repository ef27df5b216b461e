"""docs/reference/ has every public name, each told and shown, as the code has them now."""

import re
import subprocess
import sys

import pytest
from scripts.reference import INNER, PAGES, ROOT, UNNAMED, Reference, example_of, text_of

NAMES = [name for page in PAGES for name in page.names]
HOW = "CONTRIBUTING.md, 'Public names', has the rule."


@pytest.fixture(scope="module")
def reference() -> Reference:
    """What the code says, read when it is first asked for: that takes a second."""
    return Reference()


def docstring_of(reference: Reference, name: str) -> str:
    docstring = reference.find(name).docstring
    return "" if docstring is None else docstring.value


def imported_in_docs() -> set[str]:
    """Names that pages and examples import from Andon, below the package."""
    statement = re.compile(r"^\s*from andon([\w.]*) import (\([\w,\s]+\)|[\w, ]+)", re.MULTILINE)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    found: set[str] = set()
    for page in pages:
        if "decisions" in page.parts or "reference" in page.parts:
            continue
        for module, names in statement.findall(page.read_text(encoding="utf-8")):
            found |= {f"{module}.{name}".lstrip(".") for name in re.findall(r"\w+", names)}
    return found


def test_the_pages_are_fresh() -> None:
    script = ROOT / "scripts" / "reference_docs.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_in_the_reference(reference: Reference) -> None:
    public = {*reference.exported(), *imported_in_docs()}
    absent = [
        name
        for name in sorted(public)
        if not reference.find(name).is_module
        and reference.find(name).canonical_path not in reference.documented
    ]
    assert not absent, (
        f"public, and on no page of docs/reference: {', '.join(absent)}. Put each into PAGES of "
        "scripts/reference/names.py, then run: python scripts/reference_docs.py"
    )


def test_every_class_that_a_public_signature_names_is_in_the_reference(
    reference: Reference,
) -> None:
    absent = [
        f"{path} (named by {by})"
        for path, by in sorted(reference.named_types().items())
        if reference.is_class(path) and path not in reference.documented and path not in UNNAMED
    ]
    assert not absent, (
        f"named in public signatures, and on no page: {', '.join(absent)}. Put each into PAGES of "
        "scripts/reference/names.py; or, if the member that names it is none of the users' "
        "business, that member into INNER."
    )


def test_every_public_name_has_a_docstring_and_an_example(reference: Reference) -> None:
    wrong = []
    for name in NAMES:
        found, docstring = reference.find(name), docstring_of(reference, name)
        if not text_of(docstring):
            wrong.append(f"{found.filepath}:{found.lineno}: {name} has no docstring")
        elif (found.is_class or found.is_function) and not example_of(docstring):
            wrong.append(f"{found.filepath}:{found.lineno}: {name} has no 'Example:' at the end")
    assert not wrong, "\n".join([*wrong, HOW])


def test_every_public_member_is_told_and_every_method_shown(reference: Reference) -> None:
    wrong = []
    for name in NAMES:
        shown = example_of(docstring_of(reference, name))
        for member in reference.members(name):
            if not member.text:
                what = "docstring" if member.kind in ("method", "property") else "'#:' comment"
                wrong.append(f"{member.place}: {member.path} has no {what}")
            used = re.search(rf"(\.|def ){member.name}\(", shown)
            if member.kind == "method" and not (member.example or used):
                wrong.append(
                    f"{member.place}: {member.path} has no 'Example:', and that of its class "
                    "does not call it"
                )
    assert not wrong, "\n".join([*wrong, HOW])


def test_what_is_left_out_is_there(reference: Reference) -> None:
    for path, members in INNER.items():
        found = reference.find(path)
        gone = [name for name in members.split() if name not in found.all_members]
        assert not gone, f"{path} of INNER in scripts/reference/names.py has no {', '.join(gone)}"
    gone = [path for path in UNNAMED if not reference.is_class(path)]
    assert not gone, f"UNNAMED in scripts/reference/names.py has what is no class: {gone}"
