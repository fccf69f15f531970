"""Foreign result files into a Study; one module a format, one registry, one ImportReport."""

from thetascope.readers.options import ReadOptions
from thetascope.readers.registry import read, readers
from thetascope.readers.report import ImportReport

__all__ = ["ImportReport", "ReadOptions", "read", "readers"]
