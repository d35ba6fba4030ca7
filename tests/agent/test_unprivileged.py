"""The whole agent as a user without rights, on file systems of which it may write to one folder only."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.samples import MEMORY, NODE
from agent.tsdb.tsdb import Tsdb
from tests.agent.process import QUICK, ROOT, clean_environment, get, running
from tests.agent.recorded import Make
from tests.support.waiting import eventually

pytestmark = pytest.mark.alone

USER = 65532

# In a mount namespace of its own: python, the libraries and the source where every user may read them, everything
# read-only but the data, and no way to any right.
CONFINE = f"""
set -e
cd "$1"
mount --bind "{sys.base_prefix}" python
mount --bind "{sysconfig.get_path("purelib")}" libraries
mount --bind "{ROOT}" source
mount --bind data data
mount -o remount,bind,ro /
for place in python libraries source; do mount -o remount,bind,ro "$place"; done
[ ! -e host ] || {{ mount --bind host host && mount -o remount,bind,ro host; }}
export LD_LIBRARY_PATH="$1/python/lib" PYTHONHOME="$1/python" PYTHONPATH="$1/source:$1/libraries"
export PYTHONDONTWRITEBYTECODE=1 HOME="$1/home" TMPDIR="$1/home"
shift
exec setpriv --reuid={USER} --regid={USER} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \\
  "$PYTHONHOME/bin/python{sys.version_info.major}.{sys.version_info.minor}" "$@"
"""


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that the user may enter (pytest's own are closed to others), with a folder `data` that is theirs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in ("python", "libraries", "source", "home", "data"):
            (folder / part).mkdir()
        os.chown(folder / "data", USER, USER) if os.getuid() == 0 else None
        yield folder


def _confined(ground: Path) -> list[str]:
    """A command that runs Python without rights; skips the test where rights cannot be dropped."""
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", CONFINE, "sh", str(ground)]
    if os.getuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("only root, with unshare and setpriv, can run a program as another user")
    probe = "import os; os.open('probe', os.O_CREAT)"
    tried = subprocess.run([*command, "-c", probe], capture_output=True, text=True, check=False)
    if "Read-only file system" not in tried.stderr:
        pytest.skip(f"this machine lets no namespace be made: {tried.stderr.strip()[-200:]}")
    return [*command, "-m", "agent"]


def test_runs_without_rights(recorded: Make, ground: Path) -> None:
    shutil.copytree(recorded("v2-systemd").live, ground / "host", symlinks=True)
    data = ground / "data"
    flags = ("--standalone", f"--host-root={ground / 'host'}", f"--data-dir={data}", *QUICK)
    with running(*flags, environment=clean_environment(), command=_confined(ground)) as agent:
        address = agent.address()
        eventually(lambda: get(f"{address}/readyz")[0] == 200, "the agent is ready")
        status = json.loads(get(f"{address}/nodemetric")[1])["status"]
        assert status["nodeMetric"]["nodeUsage"]["resources"]["memory"]
        assert status["podsMetric"]
        assert get(f"{address}/healthz")[0] == 200
        facts = Path(f"/proc/{agent.process.pid}/status").read_text().splitlines()
        assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in facts
        assert "CapBnd:\t0000000000000000" in facts
        assert agent.stop() == 0
    assert [event for event in agent.log if event["level"] in ("error", "critical")] == []
    assert agent.log[-1]["message"] == "stopped"
    assert {path.stat().st_uid for path in data.iterdir()} == {USER}
    with Tsdb.open(data / "agent.db") as store:
        assert len(store.window(MEMORY, NODE, 0.0, 4e9))
        assert store.load_checkpoints()


def test_looks_at_this_machine(ground: Path) -> None:
    """A view of the machine needs no rights and no folder: unsaved data stays in memory, and the output says so."""
    flags = ("--standalone", "--once", "--collect-interval=100ms", "--training-interval=200ms", "--report-after=1s")
    done = subprocess.run(
        [*_confined(ground), *flags], env=clean_environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (node,) = [line for line in done.stdout.splitlines() if line.startswith("node ")]
    assert node.split()[1] != "-"
    assert f"{ground}/home/.local/state/headroom" in done.stderr
    assert "--data-dir" in done.stderr
    assert "Traceback" not in done.stderr
