"""The node's namespaces alone, without Kubernetes: what a program in them sees, on a v1 host and on a v2 host."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.host import procfs
from tests.architecture.sources import ROOT

pytestmark = pytest.mark.node

SECONDS = 120.0
NAME = "hr-sandbox-test"
AS_IT_IS = "true"
UNIFIED = "umount --lazy /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup"
"""In a mount namespace of its own, makes a host of any kind look like one that has only v2."""

PROGRAM = """
import json, os, sys, tempfile
from pathlib import Path
from tools.devcluster import cgroups, sandbox
from tools.devcluster.binaries import Binaries
from tools.devcluster.node_init import View
from tools.devcluster.process import wait_until

LOOK = '''
import json, os
top = [line.split(":", 2)[2].strip() for line in open("/proc/self/cgroup")]
mounts = [line.split(" - ")[0].split(" ")[3:5] for line in open("/proc/self/mountinfo") if " - cgroup" in line]
own = {name: os.listdir(name) for name in ("/var/lib", "/run/netns") if os.path.isdir(name)}
settings = {name: open("/proc/sys/" + name).read().strip() for name in ("vm/overcommit_memory", "kernel/panic")}
print(json.dumps({"top": top, "mounts": mounts, "own": own, "settings": settings, "pid": os.getpid(),
                  "links": os.listdir("/sys/class/net"), "kept": os.path.exists(KEPT),
                  "stat": open("/proc/stat").read()}))
'''

name = sys.argv[1]
trees = cgroups.mounted()
with tempfile.TemporaryDirectory() as folder:
    cgroups.create(name, trees)
    try:
        logs = Path(folder, "logs")
        Path(folder, "kept").touch()
        view = View(name, (folder, *sandbox.program_folders(Binaries())), {"/var/log/pods": folder})
        with sandbox.open_sandbox(view, logs) as node:
            look = node.start("look", [sys.executable, "-c", f"KEPT = {folder + '/kept'!r}\\n{LOOK}"])
            wait_until(lambda: not look.running, "looking around", 30)
            print(look.log.read_text())
    finally:
        left = cgroups.remove(name, trees)
    assert not left, left
"""


@pytest.mark.parametrize("host", [AS_IT_IS, UNIFIED], ids=["this host", "v2 only"])
def test_node_sees_its_own(real_node_requirements: None, host: str) -> None:  # noqa: ARG001 - it skips
    """The node is at the top of every hierarchy, with the kubelet's settings, a bare network and its own usage."""
    command = ["unshare", "--mount", "sh", "-c", f'{host} && exec "$@"', "sh", sys.executable, "-c", PROGRAM, NAME]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert set(seen["top"]) <= {"/", "/init"}
    assert {root for root, _ in seen["mounts"]} == {"/"}
    paths = [path for _, path in seen["mounts"]]
    assert len(paths) == len(set(paths))
    assert (paths == ["/sys/fs/cgroup"]) == (host == UNIFIED)
    assert seen["own"] == {"/var/lib": []}
    assert seen["settings"] == {"vm/overcommit_memory": "1", "kernel/panic": "10"}
    assert seen["links"] == ["lo"]
    assert seen["pid"] < 100
    assert seen["kept"]
    assert procfs.busy_ticks(seen["stat"]) < procfs.busy_ticks(Path("/proc/stat").read_text()) / 2
