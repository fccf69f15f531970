"""Item parameters by girth (twopl_mml), as golden figures: run by `make parity`.

    python tools/make_parity_girth.py OUT.json

Responses are simulated from a seed; the file holds the seed, the sizes and what girth says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

CASES = ((30, 2000, 1.0, 11), (60, 500, 1.0, 12), (40, 1000, 0.7, 13))
"""Items, models, share observed, seed."""


def simulate(n: int, m: int, share: float, seed: int) -> Any:
    """(n, m) responses of a 2PL, -1 where there is none."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(m)
    a, b = np.exp(0.4 * rng.standard_normal(n)), 1.2 * rng.standard_normal(n)
    p = 1 / (1 + np.exp(-(a[:, None] * theta + b[:, None])))
    right = (rng.random((n, m)) < p).astype(int)
    return np.where(rng.random((n, m)) < share, right, -1)


def main() -> None:
    """Writes the golden figures."""
    import girth

    out = []
    for n, m, share, seed in CASES:
        given = simulate(n, m, share, seed)
        found = girth.twopl_mml(np.where(given < 0, girth.INVALID_RESPONSE, given))
        a, difficulty = found["Discrimination"], found["Difficulty"]
        out.append(
            {
                "n": n, "m": m, "share": share, "seed": seed,
                "a": np.round(a, 6).tolist(),
                "b": np.round(-a * difficulty, 6).tolist(),
            }
        )  # fmt: skip
    Path(sys.argv[1]).write_text(json.dumps(out, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
