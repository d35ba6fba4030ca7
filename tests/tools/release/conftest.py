import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """The installation for this Python, with our own packages alone: libraries take minutes to download."""
    folder = tmp_path / "filled"
    for name in ("crds", "headroom"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / "lib" / HERE / name, ignore=ignored)
    info = folder / "lib" / HERE / "kube_headroom-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kube-headroom\nVersion: 9.9\n")
    return folder
