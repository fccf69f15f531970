"""Why one number is not enough: does one ability a model describe a study?"""

from thetascope.predictors.diagnosis.diagnose import Diagnosis, diagnose
from thetascope.predictors.diagnosis.saved import SavedDiagnosis, diagnose_study, load_diagnosis

__all__ = ["Diagnosis", "SavedDiagnosis", "diagnose", "diagnose_study", "load_diagnosis"]
