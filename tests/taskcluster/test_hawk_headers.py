"""How the header of a signed request may be written: clients do not agree on it."""

import random

import pytest

from andon.model.errors import AuthenticationFailed
from andon.service.taskcluster.trust import hawk

GIVEN = {"id": "ann/1 x", "ts": "1764108000", "nonce": "n=,1", "mac": "bWFj=", "ext": "e30="}
USUAL = ", ".join(f'{name}="{value}"' for name, value in GIVEN.items())


def outcome(value: str) -> object:
    try:
        return hawk.parse_header(value)
    except AuthenticationFailed as error:
        return str(error)


@pytest.mark.parametrize(
    "rest",
    [
        USUAL,
        USUAL.replace(", ", ","),
        USUAL.replace(", ", " ,  "),
        USUAL.replace(", ", "\t,\t"),
        f"{USUAL},",
        f" {USUAL} ",
        ", ".join(f'{name}="{value}"' for name, value in reversed(GIVEN.items())),
    ],
)
def test_blanks_and_the_order_say_nothing(rest: str) -> None:
    header = hawk.parse_header(f"Hawk {rest}")
    assert (header.id, header.ts, header.nonce) == ("ann/1 x", 1764108000, "n=,1")
    assert (header.mac, header.hash, header.ext) == ("bWFj=", "", "e30=")


@pytest.mark.parametrize(
    "rest",
    [
        USUAL.replace(", ", " "),
        USUAL.replace('id="', "id='"),
        USUAL.replace("mac=", "Mac="),
        USUAL.replace("ext=", "dlg="),
        f'{USUAL}, id="other"',
        f'{USUAL}, hash="',
        f'{USUAL}, hash="a\\b"',
        f'{USUAL}, hash="\u00e9"',
        f'{USUAL}, hash="\t"',
        f'{USUAL}"',
        f"{USUAL}, x",
        f", {USUAL}",
        f'"{USUAL}',
        '""',
    ],
)
def test_what_is_no_list_of_attributes_is_refused(rest: str) -> None:
    with pytest.raises(AuthenticationFailed, match="is no list of"):
        hawk.parse_header(f"Hawk {rest}")


def test_the_quick_way_to_read_a_header_takes_what_the_other_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(7)
    headers = [f"Hawk {USUAL}"]
    for _ in range(5_000):
        text = list(f'Hawk {USUAL}, hash="aGFzaA=="')
        for _ in range(rng.randrange(3)):
            text[rng.randrange(len(text))] = rng.choice(['"', ",", " ", "\t", "\\", "x", "=", ""])
        headers.append("".join(text))
    quick = [outcome(header) for header in headers]
    assert {type(one) for one in quick} == {str, hawk.Header}
    monkeypatch.setattr(hawk, "_usual", lambda _: {})
    assert [outcome(header) for header in headers] == quick
