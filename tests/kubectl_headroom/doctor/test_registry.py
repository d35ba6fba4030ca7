"""The rows of the checks."""

import re

from kubectl_headroom.doctor.registry import CHECKS
from tests.architecture.sources import ROOT


def test_every_check_is_registered() -> None:
    """Each file of checks has a row, and each row leads to a function."""
    files = {path.stem for path in (ROOT / "kubectl_headroom/doctor/checks").glob("*.py")} - {"__init__"}
    assert {check.where.partition(":")[0] for check in CHECKS} == files
    assert all(callable(check.load()) for check in CHECKS)


def test_pages_exist() -> None:
    """Every page that a finding names is in docs, and every check is explained there."""
    sources = [path.read_text() for path in (ROOT / "kubectl_headroom/doctor").rglob("*.py")]
    pages = {page for source in sources for page in re.findall(r'"([\w-]+\.md)[#"]', source)}
    assert len(pages) >= 8
    assert sorted(page for page in pages if not (ROOT / "docs" / page).is_file()) == []
    explained = (ROOT / "docs/kubectl.md").read_text()
    assert [check.name for check in CHECKS if f"\n| `{check.name}` | " not in explained] == []
