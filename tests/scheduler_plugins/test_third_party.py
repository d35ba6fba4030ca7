"""A third-party plugin, packaged, and installed beside the scheduler."""

from pathlib import Path

import pytest

from tests.packaged import install, python

pytestmark = pytest.mark.alone

MODULE = '''
"""Nodes by their names."""
from dataclasses import dataclass

import numpy as np

from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.framework.verdict import Refusal, Verdict


@dataclass(frozen=True, slots=True)
class Alphabet:
    """Rejects nodes by their first letter, and scores by the length of the name."""

    refused_letters: tuple[str, ...] = ()
    points_per_letter: float = 1.0

    def defaulted(self):
        return self

    def problems(self):
        if self.points_per_letter < 0:
            return [Problem("pointsPerLetter", ProblemKind.INVALID, "must not be negative")]
        return []

    def filter(self, pod, nodes):
        refused = [0 if name[0] in self.refused_letters else -1 for name in nodes.names]
        return Verdict(np.array(refused, np.int64), (Refusal("node(s) have a bad name"),))

    def score(self, pod, nodes):
        return np.array([len(name) * self.points_per_letter for name in nodes.names])


@dataclass(frozen=True, slots=True)
class Choleric:
    """Fails for all arguments."""

    mood: int = 0

    def __post_init__(self):
        raise RuntimeError("not today")

    def score(self, pod, nodes):
        return 0


@dataclass(frozen=True, slots=True)
class Idle:
    """Has no extension point."""


class Loose:
    """Is not a plugin."""
'''
ENTRY_POINTS = """[headroom.scheduler_plugins]
Alphabet = alphabet:Alphabet
Choleric = alphabet:Choleric
Idle = alphabet:Idle
Loose = alphabet:Loose
Missing = alphabet:Nothing
Absent = no_such_module:Nothing
NodeResourcesAllocatable = alphabet:Loose
"""
"""The last entry point has the name of a built-in plugin, which takes precedence."""
RUN = """
import sys
from pathlib import Path
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.profile import load_profile
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.scheduler_plugins.objects import NOW, node, pod
profile = load_profile(Path(sys.argv[1]))
cache = ClusterCache(profile.load_rules, {part.name: part.plugin for part in profile.enabled})
for name in ("aa", "bbbb"):
    cache.put_node(node(name))
nodes, cycle = cache.freeze(NOW), Cycle(profile.enabled)
pod_request = cache.read(pod())
print(cycle.filter(pod_request, nodes).passes.tolist(), cycle.score(pod_request, nodes).tolist())
"""
HEAD = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\nplugins:\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("third-party"), "alphabet", MODULE, ENTRY_POINTS)


def test_installed_plugin_takes_part(installed: Path, tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(
        f"{HEAD}- {{name: NodeResourcesAllocatable, weight: 1}}\n"
        "- {name: Alphabet, weight: 3, args: {refusedLetters: [a], pointsPerLetter: 10}}\n"
    )
    done = python(installed, "-c", RUN, str(path))
    assert done.stdout == "[False, True] [15.0, 30.0]\n", done.stderr
    checked = python(installed, "-m", "scheduler_plugins", "--check", "--profile", str(path))
    assert 'Plugin Alphabet, weight 3, {"refusedLetters": ["a"], "pointsPerLetter": 10.0}' in checked.stdout


def test_broken_plugin_is_reported_by_name(installed: Path, tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    names = ("Choleric", "Idle", "Loose", "Missing", "Absent", "Alphabets")
    wrong = "- {name: Alphabet, args: {pointsPerLetter: -1, refusedLetter: [b]}}\n- {name: LoadAwareScheduling}\n"
    path.write_text(f"{HEAD}{wrong}" + "".join(f"- {{name: {name}}}\n" for name in names))
    done = python(installed, "-m", "scheduler_plugins", "--profile", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    texts = done.stderr.splitlines()[1:]
    expected = [
        'plugins[0].args.refusedLetter: unknown; did you mean "refusedLetters"?',
        "plugins[0].args.pointsPerLetter: must not be negative",
        "plugins[2].args: plugin Choleric (alphabet:Choleric of alphabet) fails with these arguments: not today",
        "plugins[3].args: plugin Idle (alphabet:Idle of alphabet) has neither of filter, score,",
        "plugins[4].args: plugin Loose (alphabet:Loose of alphabet) is not a dataclass",
        "plugins[5].args: plugin Missing (alphabet:Nothing of alphabet) cannot be loaded: AttributeError:",
        "plugins[6].args: plugin Absent (no_such_module:Nothing of alphabet) cannot be loaded: ModuleNotFoundError:",
        'plugins[7].name: "Alphabets" is not a plugin; did you mean "Alphabet"?',
    ]
    assert len(texts) == len(expected), done.stderr
    for line, start in zip(texts, expected, strict=True):
        assert line.strip().startswith(start)
