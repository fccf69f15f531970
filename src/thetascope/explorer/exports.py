"""Every export format: those of `writers`, and those made of the explorer's files.

A table for embedding-atlas holds places on the map and the concepts of items, which `writers`
must not know: data passes through the rooms in one direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from thetascope import writers
from thetascope.explorer import embedding_atlas
from thetascope.study import Study
from thetascope.writers import Writer

FORMATS: Mapping[str, Writer] = {**writers.FORMATS, "embedding-atlas": embedding_atlas}
"""Every writer by its format's name."""


def export_study(study: Study, to: Path, format: str) -> list[Path]:
    """As `writers.export_study`, with 'embedding-atlas' beside its formats."""
    return writers.export_study(study, to, format, FORMATS)


def left_out(study: Study, format: str) -> list[str]:
    """As `writers.left_out`, with 'embedding-atlas' beside its formats."""
    return writers.left_out(study, format, FORMATS)
