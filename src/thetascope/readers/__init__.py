"""Foreign result files into a Study; one module a format, one registry, one ImportReport."""

from thetascope.readers.options import ReadOptions
from thetascope.readers.registry import read, readers
from thetascope.readers.report import ImportReport
from thetascope.readers.side_tables import read_crosswalk, read_texts

__all__ = ["ImportReport", "ReadOptions", "read", "read_crosswalk", "read_texts", "readers"]
