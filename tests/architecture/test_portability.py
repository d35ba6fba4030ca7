"""The project is self-contained: no file names the machine or folder where it was written."""

import re
import subprocess

from tests.architecture.sources import ROOT

FOREIGN = re.compile(
    r"\.\./shared\b|/work/|/root/|\bfarm-(?:studio|bench)\b|shared/(?:vectors|traces|captures|reference)"
)


def _tracked() -> list[str]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listing.stdout.split("\0") if name]


def test_no_foreign_paths() -> None:
    """No tracked text file names a path outside the repository or a private tool."""
    wrong = []
    for name in _tracked():
        path = ROOT / name
        if path == ROOT / "tests/architecture/test_portability.py" or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        wrong += [f"{name}: {match.group()}" for match in FOREIGN.finditer(text)]
    assert not wrong, "\n".join(wrong)
