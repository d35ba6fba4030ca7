import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[2] / "charts/headroom/dashboards"
Json = dict[str, Any]
DASHBOARDS: Final[dict[str, Json]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
"""Name of the file without its suffix -> the dashboard."""


def panels(dashboard: Json) -> list[Json]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: Json) -> Iterator[tuple[Json, Json]]:
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel, target
