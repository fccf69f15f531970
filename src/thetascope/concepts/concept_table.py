"""What is said of each concept: where it fires, its label, and what is to be known about it.

`dictionary.parquet` has a row for each concept:

    concept        its number
    label          words for it, null where there are none
    label_source   where the label is from: tokens, neuronpedia, file, dictionary, llm
    label_score    how well the label predicts where it fires on held-out contexts, or null
    tokens         its up to 8 tokens with the most activation mass in the reference
    token_share    token purity: the share of its mass that is on the first of them
    density        share of the reference's tokens on which it is active
    act_max        its maximum over the reference; null where there is no reference
    n_items        items of this study on which it is active
    item_share     their share of the items that were read
    token_density  share of this study's counted tokens on which it is active
    flags          see `FLAGS`

The manifest names the reference corpus and how many tokens it has: a maximum grows with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

NEAR_UNIVERSAL_ITEMS, NEAR_UNIVERSAL_TOKENS = 0.9, 0.2
FORMAT_SHARE = 0.5
FLAGS: Mapping[str, str] = {
    "near-universal": f"active on {NEAR_UNIVERSAL_ITEMS:.0%} of the items or"
    f" {NEAR_UNIVERSAL_TOKENS:.0%} of the tokens",
    "format": f"{FORMAT_SHARE:.0%} of its mass is on tokens without a letter or digit, or on a"
    " special or template token",
    "dead": "active on no token of the reference and no item of the study",
}
"""Each flag and what it means."""
_LABEL_TOKENS = 4


def concept_table(
    n_items: NDArray[np.int64],
    fired: NDArray[np.int64],
    *,
    n_read: int,
    n_tokens: int,
    reference: pl.DataFrame | None,
    special: Sequence[str] = (),
) -> pl.DataFrame:
    """Returns the table of concepts.

    Args:
        n_items: (C,) items of the study on which each concept is active.
        fired: (C,) counted tokens of the study on which it is.
        n_read, n_tokens: Items and counted tokens of the study that were read.
        reference: What each concept does on a reference corpus, see `reference`; None for none.
        special: Texts of the model's special tokens.
    """
    n = len(n_items)
    table = pl.DataFrame(
        {
            "concept": np.arange(n, dtype=np.int32),
            "n_items": n_items.astype(np.int32),
            "item_share": (n_items / max(1, n_read)).astype(np.float32),
            "token_density": (fired / max(1, n_tokens)).astype(np.float32),
        }
    )
    if reference is None:
        table = table.with_columns(
            tokens=pl.lit(None, pl.List(pl.String)),
            token_shares=pl.lit(None, pl.List(pl.Float32)),
            density=pl.lit(None, pl.Float32),
            act_max=pl.lit(None, pl.Float32),
            n_fired=pl.lit(None, pl.Int64),
        )
    else:
        table = table.with_columns(
            reference["tokens"],
            reference["token_share"].alias("token_shares"),
            *(reference[name] for name in ("density", "act_max", "n_fired")),
        )
    flags = [
        _flags(row, frozenset(special), reference is not None)
        for row in table.iter_rows(named=True)
    ]
    labels = [token_label(tokens) for tokens in table["tokens"].to_list()]
    return table.with_columns(
        pl.Series("label", labels, pl.String),
        pl.Series("label_source", [None if x is None else "tokens" for x in labels], pl.String),
        pl.lit(None, pl.Float32).alias("label_score"),
        pl.col("token_shares").list.first().alias("token_share"),
        pl.Series("flags", flags, pl.List(pl.String)),
    ).select(
        "concept", "label", "label_source", "label_score", "tokens", "token_share", "density",
        "act_max", "n_items", "item_share", "token_density", "flags",
    )  # fmt: skip


def token_label(tokens: Sequence[str] | None) -> str | None:
    """A label made of a concept's heaviest tokens, as JSON strings: white space is to be seen."""
    if not tokens:
        return None
    return ", ".join(json.dumps(t, ensure_ascii=False) for t in tokens[:_LABEL_TOKENS])


def is_format(token: str, special: frozenset[str] = frozenset()) -> bool:
    """Whether a token says nothing but form: no letter or digit in it, or a special token."""
    return token.strip() in special or not any(c.isalnum() for c in token)


def _flags(row: dict, special: frozenset[str], has_reference: bool) -> list[str]:
    found: list[str] = []
    density = row["density"] if has_reference else row["token_density"]
    if row["item_share"] >= NEAR_UNIVERSAL_ITEMS or density >= NEAR_UNIVERSAL_TOKENS:
        found.append("near-universal")
    shares = zip(row["tokens"] or (), row["token_shares"] or (), strict=True)
    if sum(share for token, share in shares if is_format(token, special)) >= FORMAT_SHARE:
        found.append("format")
    if has_reference and not row["n_fired"] and not row["n_items"]:
        found.append("dead")
    return found
