"""A plugin that somebody else wrote, packaged, and installed beside the scheduler."""

import hashlib
import os
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
MODULE = '''
"""Nodes by their names."""
from dataclasses import dataclass

import numpy as np

from scheduler_plugins.framework.plugin import Problem, ProblemKind
from scheduler_plugins.framework.verdict import Refusal, Verdict


@dataclass(frozen=True, slots=True)
class Alphabet:
    """Refuses nodes by their first letter, and scores by the length of the name."""

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
    """Fails whatever it is given."""

    mood: int = 0

    def __post_init__(self):
        raise RuntimeError("not today")

    def score(self, pod, nodes):
        return 0


@dataclass(frozen=True, slots=True)
class Idle:
    """Takes part in nothing."""


class Loose:
    """Not what a plugin is."""
'''
FILES = {
    "alphabet.py": MODULE,
    "alphabet-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: alphabet\nVersion: 1.0\n",
    "alphabet-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "alphabet-1.0.dist-info/entry_points.txt": (
        "[headroom.scheduler_plugins]\n"
        "Alphabet = alphabet:Alphabet\n"
        "Choleric = alphabet:Choleric\n"
        "Idle = alphabet:Idle\n"
        "Loose = alphabet:Loose\n"
        "Missing = alphabet:Nothing\n"
        "Absent = no_such_module:Nothing\n"
        # A name of ours stays ours.
        "NodeResourcesAllocatable = alphabet:Loose\n"
    ),
}
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
asked = cache.read(pod())
print(cycle.filter(asked, nodes).passes.tolist(), cycle.score(asked, nodes).tolist())
"""
HEAD = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\nplugins:\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package, without any network."""
    folder = tmp_path_factory.mktemp("third-party")
    wheel = folder / "alphabet-1.0-py3-none-any.whl"
    record = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in FILES.items()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**FILES, "alphabet-1.0.dist-info/RECORD": "\n".join([*record, ""])}.items():
            archive.writestr(name, text)
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), str(wheel)]
    subprocess.run(command, check=True, timeout=120)
    return folder / "site"


def _digest(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _python(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_installed_plugin_takes_part(installed: Path, tmp_path: Path) -> None:
    """A profile selects the installed plugin by name, with its arguments and weight, beside ours."""
    path = tmp_path / "profile.yaml"
    path.write_text(
        f"{HEAD}- {{name: NodeResourcesAllocatable, weight: 1}}\n"
        "- {name: Alphabet, weight: 3, args: {refusedLetters: [a], pointsPerLetter: 10}}\n"
    )
    done = _python(installed, "-c", RUN, str(path))
    assert done.stdout == "[False, True] [15.0, 30.0]\n", done.stderr
    checked = _python(installed, "-m", "scheduler_plugins", "--check", "--profile", str(path))
    assert 'Plugin Alphabet, weight 3, {"refusedLetters": ["a"], "pointsPerLetter": 10.0}' in checked.stdout


def test_broken_plugin_is_told_by_name(installed: Path, tmp_path: Path) -> None:
    """Each plugin that cannot be used, and each wrong argument, is told with who announces it; nothing starts."""
    path = tmp_path / "profile.yaml"
    names = ("Choleric", "Idle", "Loose", "Missing", "Absent", "Alphabets")
    wrong = "- {name: Alphabet, args: {pointsPerLetter: -1, refusedLetter: [b]}}\n- {name: LoadAwareScheduling}\n"
    path.write_text(f"{HEAD}{wrong}" + "".join(f"- {{name: {name}}}\n" for name in names))
    done = _python(installed, "-m", "scheduler_plugins", "--profile", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    told = done.stderr.splitlines()[1:]
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
    assert len(told) == len(expected), done.stderr
    for line, start in zip(told, expected, strict=True):
        assert line.strip().startswith(start)
