"""What a text vector leaves out: the surface of a text, in sixteen numbers.

Encoders cut long texts and normalise length and notation away; how long a question is, how many
numbers and symbols it has, says much of how hard it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SURFACE = (
    "log characters",
    "log words",
    "digits per character",
    "capitals per character",
    "log lines",
    "log dollar signs",
    "log backslashes",
    "log operators",
    "log question marks",
    "log quotation marks",
    "log brackets",
    "characters per word",
    "log characters of the longest line",
    "log numbers",
    "log commas",
    "ends with a question mark",
)
_NUMBER = re.compile(r"\d+\.?\d*")


def surface(texts: Sequence[str]) -> NDArray[np.float32]:
    """(N, 16) surface features of N texts, in the order of `SURFACE`; logs are log(1 + count)."""
    return np.array([_one(t) for t in texts], np.float32).reshape(-1, len(SURFACE))


def _one(text: str) -> list[float]:
    n, words, log = max(len(text), 1), text.split(), math.log1p
    return [
        log(len(text)),
        log(len(words)),
        sum(c.isdigit() for c in text) / n,
        sum(c.isupper() for c in text) / n,
        log(text.count("\n")),
        log(text.count("$")),
        log(text.count("\\")),
        log(sum(text.count(c) for c in "=+-*/^<>")),
        log(text.count("?")),
        log(text.count('"')),
        log(text.count("(")),
        sum(map(len, words)) / max(len(words), 1),
        log(max(map(len, text.split("\n")))),
        log(len(_NUMBER.findall(text))),
        log(text.count(",")),
        float(text.rstrip().endswith("?")),
    ]
