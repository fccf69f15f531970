"""Section Calibration: does 70 % mean 70 %?"""

from __future__ import annotations

import numpy as np

from thetascope.evaluation.columns import means
from thetascope.evaluation.metrics import N_ECE_BINS, calibration_bins
from thetascope.report import figures
from thetascope.report.gather import Material
from thetascope.report.page import Section, absent, figure
from thetascope.report.tested import Tested
from thetascope.report.text import esc, estimate, plural

_RIVALS = ("knn", "model_benchmark", "knn_weighted", "model_subject", "ridge", "model_mean")


def render(material: Material, cells: Tested | None) -> Section:
    """Three reliability diagrams with their ECE."""
    if cells is None:
        lack = material.missing["comparison"]
        what = f"{lack.why} Calibration is read off its predictions."
        return Section("calibration", "Calibration", absent(what, lack.command))
    chosen = [cells.variant] if cells.variant else []
    chosen += [r for r in _RIVALS if r in cells.p][: 3 - len(chosen)]
    chosen = chosen or cells.predictors[:3]
    parts = "".join(_diagram(cells, name, k) for k, name in enumerate(chosen))
    why = ""
    if cells.variant:
        why = f" JE-IRT is shown as {esc(cells.variant)}"
        why += ", the default." if cells.variant == "blend" else "."
    html = (
        f"<p>Predicted against observed mean score in {N_ECE_BINS} bins of equal size on"
        f" {plural(len(cells.score), 'unseen response')}; a dot on the dashed line is right."
        f" Vertical lines are 95&#8239;% intervals over groups of items, bars below show each"
        f" bin's n.{why}</p>\n"
        f'<div class="row">{parts}</div>\n'
    )
    return Section("calibration", "Calibration", html)


def _diagram(cells: Tested, name: str, colour: int) -> str:
    p, s = cells.p[name], cells.score
    bins = calibration_bins(p)
    inside = bins[:, None] == np.arange(N_ECE_BINS)
    used = np.flatnonzero(inside.any(axis=0))
    inside = inside[:, used]
    wide = np.broadcast_to(s[:, None], inside.shape)
    found = means(wide, inside, cells.group, cells.weights)
    mean_p = np.array([p[inside[:, k]].mean() for k in range(len(used))])
    row = cells.rows()[name]
    caption = (
        f"<b>{esc(name)}</b><br>ECE {estimate(row['ece'], row['ece_low'], row['ece_high'], 3)}"
    )
    svg = figures.reliability(
        mean_p, found.value, found.low, found.high, found.n, name, colour=colour, width=300
    )
    return figure(svg, caption)
