"""Dictionaries in the formats that people publish, read natively and without running anything."""

from thetascope.concepts.formats.build import Overrides
from thetascope.concepts.formats.registry import FORMATS, read_dictionary

__all__ = ["FORMATS", "Overrides", "read_dictionary"]
