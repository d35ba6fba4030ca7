from pathlib import Path
from typing import Any, Final

import yaml

SOUND: Final[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("sound.yaml").read_text(encoding="utf-8"))
STAT, MEMINFO, PRESSURE = SOUND["stat"], SOUND["meminfo"], SOUND["pressure"]
V1_USAGE, V1_CPU_STAT = SOUND["v1_usage"], SOUND["v1_cpu_stat"]
V2_CPU_STAT, V2_MEMORY_STAT = SOUND["v2_cpu_stat"], SOUND["v2_memory_stat"]
V1_MEMORY_STAT: Final = "cache 4096\nrss 8192\n" + "".join(f"total_{line}\n" for line in V2_MEMORY_STAT.splitlines())
POD, NODE, SPEC, REPORT = SOUND["pod"], SOUND["node"], SOUND["spec"], SOUND["report"]
CONFIG: Final = SOUND["config"] | {"nodePredictPolicy": SPEC["predictPolicy"]}
