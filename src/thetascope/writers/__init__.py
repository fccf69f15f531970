"""A Study into the files of other tools; one module a format, one function."""

from thetascope.writers.export import FORMATS, Writer, export_study, left_out

__all__ = ["FORMATS", "Writer", "export_study", "left_out"]
