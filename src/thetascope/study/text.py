"""Texts and their hashes.

A text is compared and cached by the hash of its normalised form (Unicode NFC, every run of
white space one space, ends stripped, case kept: `'ab'` and `'AB'` are different code), so
that a study without texts can still tell equal items.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable


def normalise_text(text: str) -> str:
    """Returns `text` in Unicode NFC with every run of white space as one space, stripped."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())  # much faster than a regular expression, and the same


def text_hash(text: str) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of the normalised text.

    Lone surrogates (half of a broken emoji) are hashed as they are instead of failing.
    """
    data = normalise_text(text).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:16]


def text_hashes(texts: Iterable[str | None]) -> list[str | None]:
    """Returns the hash of every text, None where there is none."""
    return [None if text is None else text_hash(text) for text in texts]
