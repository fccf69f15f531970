"""What a fitted space says: difficulty, taxonomy, probes, out-of-distribution, the map of models.

`difficulty`  how hard an item is, foreseen from its text; where one number fails
`taxonomy`    clusters of item directions at several granularities, named and tested
`probe`       an axis from two sets of items, and where items and models lie on it
`ood`         what is lost on a benchmark that the fit never saw, and whether that is foreseen
`model_map`   distances, kinship, redundant pairs and portfolios of models
"""

from thetascope.space.difficulty import Difficulty, difficulty
from thetascope.space.fitted import Space, space_of
from thetascope.space.model_map import ModelMap, model_map
from thetascope.space.ood import Ood, expected_drop, ood
from thetascope.space.probes import Probe, probe
from thetascope.space.taxonomy import Taxonomy, taxonomy

__all__ = [
    "Difficulty",
    "ModelMap",
    "Ood",
    "Probe",
    "Space",
    "Taxonomy",
    "difficulty",
    "expected_drop",
    "model_map",
    "ood",
    "probe",
    "space_of",
    "taxonomy",
]
