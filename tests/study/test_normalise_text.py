"""The normal form of texts by its definition."""

from __future__ import annotations

import re
import sys
import unicodedata

from thetascope.study import normalise_text


def test_every_character_that_may_be_white_space() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if character.isspace() or re.match(r"\s", character):
            assert normalise_text(f" a{character}{character}b{character}") == "a b", hex(code)


def test_composed_and_decomposed_are_equal() -> None:
    assert normalise_text("Cafe\u0301") == normalise_text("Caf\u00e9") == "Caf\u00e9"
    assert unicodedata.is_normalized("NFC", normalise_text("A\u030a"))
