from scheduler_plugins.steps.in_python import Evaluator as Evaluator
from scheduler_plugins.steps.in_python import NodeIndex as NodeIndex
from scheduler_plugins.steps.in_python import any_exceeds as any_exceeds
from scheduler_plugins.steps.in_python import best_of_groups as best_of_groups
from scheduler_plugins.steps.in_python import change_rows as change_rows
from scheduler_plugins.steps.in_python import groups_of as groups_of
from scheduler_plugins.steps.in_python import weighted_mean as weighted_mean
