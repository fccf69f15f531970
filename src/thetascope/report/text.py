"""Numbers and foreign text as HTML: everything that comes from data passes through here."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
MINUS, DASH, ABSENT = "−", "–", "—"


def esc(value: object) -> str:
    """A value as text of HTML, attribute or SVG; characters that none of them may hold go."""
    return html.escape(_FORBIDDEN.sub("\ufffd", str(value)), quote=True)


def name(value: object) -> str:
    """A foreign name: escaped, and isolated so that its writing direction stays inside."""
    return f"<bdi>{esc(value)}</bdi>"


def names(values: Sequence[object], limit: int = 12) -> str:
    """Foreign names as a list in a sentence."""
    listed = ", ".join(name(v) for v in values[:limit])
    return listed + (f" and {len(values) - limit:,} more" if len(values) > limit else "")


def shorten(value: str, limit: int) -> str:
    """White space made single and the end cut off, not yet escaped."""
    flat = " ".join(value.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def known(value: float | None) -> bool:
    """Whether there is a number."""
    return value is not None and math.isfinite(value)


def num(value: float | None, digits: int = 1, *, scale: float = 1.0, sign: bool = False) -> str:
    """A number with fixed digits and a true minus; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    shown = f"{value * scale:{'+' if sign else ''},.{digits}f}"
    if float(shown.replace(",", "")) == 0:
        shown = shown.lstrip("+-")
    return shown.replace("-", MINUS)


def interval(low: float | None, high: float | None, digits: int = 1, scale: float = 1.0) -> str:
    """'[low, high]', or that there is none."""
    if not (known(low) and known(high)):
        return "no interval"
    return f"[{num(low, digits, scale=scale)}, {num(high, digits, scale=scale)}]"


def estimate(
    value: float | None,
    low: float | None,
    high: float | None,
    digits: int = 1,
    *,
    scale: float = 1.0,
    sign: bool = False,
) -> str:
    """A value and its interval for a sentence."""
    shown = num(value, digits, scale=scale, sign=sign)
    return f'<b class="n">{shown}</b> <span class="i">{interval(low, high, digits, scale)}</span>'


def ends(values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """(value, low, high) as it stands in a kept result."""
    value, low, high = values
    return value, low, high


def q_value(value: float | None) -> str:
    """A p or q as HTML: 0.02, 0.004 or '< 0.001'."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return "&lt;&#8239;0.001" if value < 0.001 else num(value, 3 if value < 0.1 else 2)


def plural(n: int, one: str, many: str | None = None) -> str:
    """'1 item', '2 items'."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
