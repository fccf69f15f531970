"""What routing is worth, as the page shows it: sentences, and a row a policy."""

from __future__ import annotations

from typing import Any

from thetascope.decisions.routing.wording import (
    POLICIES,
    bases_of,
    policy_name,
    rows_of,
    sentences,
    tested_sentence,
)
from thetascope.explorer.tables import short


def routing_json(found: dict[str, Any]) -> dict[str, Any]:
    """routing.json.

    Args:
        found: `SavedRouting.table`.

    Returns:
        told: Sentences, the first of what was tested.
        unit: Of costs, or None.
        bases: Names of the policies that others are compared with.
        policies: A row a policy over all benchmarks, the best first, the oracle at the head:
            name, score, minus (one a base) and cost, each [value, low, high] or None; and
            left_default, the share of items that it does not give to the default.
    """
    rows = rows_of(found, "all")[::-1]
    bases = bases_of(found)

    def ends(row: dict[str, Any], key: str, digits: int = 4) -> list[float | None] | None:
        if row.get(key) is None:
            return None
        return [short(row.get(k), digits) for k in (key, f"{key}_low", f"{key}_high")]

    return {
        "told": [f"{tested_sentence(found)}.", *sentences(found)],
        "unit": found["costs"]["unit"], "bases": [POLICIES[b] for b in bases],
        "policies": [
            {
                "name": policy_name(row["policy"], found["router"]), "score": ends(row, "score"),
                "minus": [ends(row, f"minus_{b}") for b in bases], "cost": ends(row, "cost", 8),
                "left_default": short(row["left_default"], 4),
            }
            for row in rows
        ],
    }  # fmt: skip
