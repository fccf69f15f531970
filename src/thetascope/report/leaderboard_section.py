"""Section The leaderboard without holes: what models would score on what they did not run."""

from __future__ import annotations

import math

from thetascope.decisions import leaderboard
from thetascope.decisions.leaderboard import Standing
from thetascope.report.gather import Material
from thetascope.report.page import Row, Section, absent, measured, number, table, word
from thetascope.report.text import esc, plural

TITLE = "The leaderboard without holes"


def render(material: Material) -> Section:
    """Completed scores, intervals of scores and ranks, beside the mean of what was run."""
    if material.bank is None:
        lack = material.missing["bank"]
        what = (
            f"{lack.why} It completes the scores of models that did not run everything, with"
            " intervals, and says how sure every rank is."
        )
        return Section("leaderboard", TITLE, absent(what, lack.command))
    standings = leaderboard(material.bank)
    holes = [s for s in standings if any(e.n_answered < e.n_items for e in s.scores)]
    html = _told(standings, holes) + _table(standings)
    return Section("leaderboard", TITLE, html)


def _told(standings: list[Standing], holes: list[Standing]) -> str:
    moved = [s for s in standings if s.raw_rank and abs(s.rank - s.raw_rank) >= 3]
    benchmarks = len(standings[0].scores)
    mean = "the equal mean of the benchmarks" if benchmarks > 1 else "the benchmark's mean"
    text = (
        f"{plural(len(holes), 'model')} of {len(standings)} left responses out. Each model's"
        " ability, learnt from what it ran, completes the rest; the score is"
        f" {mean}, its interval 90 %, and covers what was not run, not another run of what was."
        f" {plural(len(moved), 'model')} stand three places or more from where the plain mean"
        " of what they ran puts them."
    )
    return f"<p>{esc(text)}</p>\n"


def _table(standings: list[Standing]) -> str:
    head = ["model", "rank", "completed score", "responses", "mean of what it ran", "its rank"]
    rows = []
    for s in standings:
        done, of = sum(e.n_answered for e in s.scores), sum(e.n_items for e in s.scores)
        raw = None if math.isnan(s.raw_mean) else s.raw_mean
        rows.append(
            Row(
                [
                    word(s.model),
                    measured(s.rank, s.rank_low, s.rank_high, 0),
                    measured(s.mean.value, s.mean.low, s.mean.high, 1, scale=100.0),
                    number(100 * done / of, 0),
                    number(raw, 1, scale=100.0),
                    number(s.raw_rank if raw is not None else None),
                ]
            )
        )
    caption = "Responses: per cent of all items that the model ran."
    return table(head, rows, caption, tall=len(rows) > 20)
