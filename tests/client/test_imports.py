"""`import andon` costs next to nothing, and yet has every public name."""

import subprocess
import sys

import pytest

import andon


def test_every_public_name_is_there():
    for name in andon.__all__:
        assert getattr(andon, name) is not None
    assert set(andon.__all__) <= set(dir(andon))


def test_a_name_that_is_none_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Celery'"):
        andon.Celery  # noqa: B018


def test_importing_andon_imports_nothing_heavy():
    heavy = ("asyncio", "msgspec", "sqlite3", "inspect", "typing_extensions", "andon.client")
    code = f"import andon, sys; print([m for m in {heavy!r} if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[]"


def test_importing_the_client_does_not_import_a_store():
    code = "from andon import Andon; import sys; print([m for m in sys.modules if 'sqlite' in m])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
