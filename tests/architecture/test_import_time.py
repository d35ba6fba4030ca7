"""A service's imports before it works are bounded, in modules and memory, which are steady where seconds are not."""

import json
import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT

PROBE = """
import importlib, json, re, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
peak = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])  # ru_maxrss is inherited across exec
print(json.dumps({"modules": len(sys.modules), "rss_mib": peak // 1024}))
"""

# service -> (modules, MiB of memory) that importing its entry point may load. On the machine where they were set,
# import took 0.3 s for the agent, 0.7 s for the manager, 0.3 s for the extender and 0.1 s for the CLI.
BUDGETS = {
    "agent.__main__": (1100, 70),
    "manager.__main__": (1500, 110),
    "scheduler_plugins.__main__": (1100, 70),
    "kubectl_headroom.__main__": (600, 45),
}


@pytest.mark.parametrize("service", BUDGETS)
def test_import_stays_in_budget(service: str) -> None:
    """The import of a service's entry point stays within its budget."""
    command = [sys.executable, "-c", PROBE, service]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    measured = json.loads(out)
    modules, rss_mib = BUDGETS[service]
    assert measured["modules"] <= modules, measured
    assert measured["rss_mib"] <= rss_mib, measured
