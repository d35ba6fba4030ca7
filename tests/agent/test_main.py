import json
import pkgutil
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from agent.__main__ import COMMANDS, main
from agent.pod_metadata import PodMetadataStore
from agent.tsdb import checkpoints
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.schema import StoreError
from agent.tsdb.tsdb import Tsdb
from crds.codec import from_json
from crds.node_metric import NodeMetric
from tests.agent.process import AGENT, QUICK, clean_environment, get, running
from tests.agent.recorded import Make
from tests.support.waiting import eventually


def _run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENT, *arguments], capture_output=True, text=True, timeout=120, check=False, env=clean_environment(**more)
    )


def test_standalone_reports_once(recorded: Make, tmp_path: Path) -> None:
    machine, data = recorded("v2-systemd"), tmp_path / "data"
    where = (f"--host-root={machine.live}", f"--data-dir={data}", "--node-name=worker")
    done = _run("--standalone", "--once", "--output=yaml", *where, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "cgroup v2; kubepods.slice (systemd driver)" in done.stderr
    content, node = yaml.safe_load_all(done.stdout)
    assert (node["kind"], node["metadata"]["name"]) == ("Node", "worker")
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["status"]["capacity"].keys() == {"cpu", "memory"}
    status = content["status"]
    assert from_json(NodeMetric, content).metadata.name == "worker"
    used = machine.expected["instants"]["t000"]["node"]["memory_used_bytes"]
    resources = status["nodeMetric"]["nodeUsage"]["resources"]
    assert (resources["cpu"], resources["memory"] in (str(used), f"{used // 1024}Ki")) == ("0", True)
    assert len(status["podsMetric"]) == 10
    assert {condition["type"]: condition["status"] for condition in status["conditions"]}["Collecting"] == "True"
    with DatabaseReader.open(data / "agent.db") as database:
        metadata = PodMetadataStore()
        metadata.restore(checkpoints.load(database.connection))
    assert (metadata.node, len(metadata.pods)) == ("worker", 10)


def test_stops_cleanly(recorded: Make, tmp_path: Path) -> None:
    """SIGTERM saves the histories, closes the database and exits with 0; health and the NodeMetric are served."""
    machine, data = recorded("v1-cgroupfs"), tmp_path / "data"
    with running("--standalone", f"--host-root={machine.live}", f"--data-dir={data}", *QUICK) as agent:
        address = agent.address()
        for path, expected in (("healthz", "ok"), ("livez", "ok"), ("metrics", "tick_seconds"), ("table", "node ")):
            status, text = get(f"{address}/{path}")
            assert status == 200
            assert expected in text
        eventually(lambda: get(f"{address}/readyz")[0] == 200, "the agent is ready")
        assert json.loads(get(f"{address}/nodemetric")[1])["kind"] == "NodeMetric"
        verbose = get(f"{address}/healthz?verbose")[1]
        assert "machine: cgroup v1" in verbose
        assert "driver: cgroupfs" in verbose
        assert agent.stop() == 0
    assert agent.log[-1]["message"] == "stopped"
    with Tsdb.open(data / "agent.db") as store:
        assert store.load_checkpoints()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--no-such-flag"], ["--no-such-flag", "--help"]),
        (["--collect-interval", "soon"], ["--collect-interval", "'soon'"]),
        (["dance"], ["'dance'", "capture, db, replay"]),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], named: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("headroom-agent: ")
    assert all(name in line for name in named)


def test_commands_are_functions_that_the_help_explains(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    output = capsys.readouterr().out
    for name, target in COMMANDS.items():
        assert callable(pkgutil.resolve_name(target))
        assert re.search(rf"headroom-agent {name} +\w", output)


def test_command_decides_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A command gets the words after its name; its exit code is the program's, its errors are one line."""
    commands: list[Sequence[str]] = []

    def command(arguments: Sequence[str]) -> int:
        commands.append(arguments)
        if not arguments:
            raise StoreError("there is no database at /x")
        return 3

    monkeypatch.setitem(COMMANDS, "db", "tests.agent.test_main:command")
    monkeypatch.setattr("tests.agent.test_main.command", command, raising=False)
    assert main(["db", "stats", "--data-dir", "/x"]) == 3
    assert commands == [["stats", "--data-dir", "/x"]]
    assert main(["db"]) == 1
    assert capsys.readouterr().err == "headroom-agent: there is no database at /x\n"


def test_start_error_is_one_line_with_the_way_out(tmp_path: Path, recorded: Make) -> None:
    """A root without /proc, then without cgroups, a port in use, and no login to a cluster."""
    live, none = recorded("v2-cgroupfs").live, tmp_path / "none"
    (tmp_path / "half/proc").mkdir(parents=True)
    (tmp_path / "half/proc/stat").write_text("cpu  1 2 3 4 5 6 7\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flags, named in (
            (("--standalone", f"--host-root={none}"), (f"{none}/proc/stat", "--host-root")),
            (("--standalone", f"--host-root={tmp_path}/half"), (f"{tmp_path}/half/sys/fs/cgroup", "--host-root")),
            (("--standalone", f"--host-root={live}", f"--listen={address}"), (address, "--listen")),
            ((), (str(none), "--kubeconfig", "--standalone")),
        ):
            done = _run(*flags, f"--data-dir={tmp_path / 'data'}", KUBECONFIG=str(none))
            last = done.stderr.strip().splitlines()[-1]
            assert done.returncode == 1
            assert last.startswith("headroom-agent: "), done.stderr
            assert "Traceback" not in done.stderr
            assert [name for name in named if name not in last] == []


HOLES = """
import numpy as np, psutil
from agent.process import set_mmap_threshold

set_mmap_threshold()
rss = psutil.Process().memory_info
freed = np.ones(3 << 20)  # 24 MiB
del freed  # glibc now keeps the memory of smaller allocations
before, held = rss().rss, []
for mebibytes in range(4, 12):
    table = np.ones(mebibytes << 17)
    held.append(bytearray(4000))  # lives on above the hole
    del table
print((rss().rss - before) >> 20)
"""


def test_freed_tables_leave_no_holes() -> None:
    """Tables that are made and freed between smaller things that stay cost nothing afterwards: not 10 MiB."""
    done = subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True)
    assert int(done.stdout) <= 1
