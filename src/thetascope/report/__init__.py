"""One self-contained HTML page about a study."""

from thetascope.report.write import write_report

__all__ = ["write_report"]
