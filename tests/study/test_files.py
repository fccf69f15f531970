"""JSON files: what JSON cannot hold."""

from __future__ import annotations

import json
import math

from thetascope.study.files import finite


def test_numbers_that_json_cannot_hold_become_null() -> None:
    value = {"a": (1.0, math.nan), 2: [math.inf, {"b": -math.inf}], "c": "nan", "d": 0, "e": None}
    assert finite(value) == {"a": [1.0, None], "2": [None, {"b": None}], "c": "nan", "d": 0,
                             "e": None}  # fmt: skip
    json.dumps(finite(value), allow_nan=False)
