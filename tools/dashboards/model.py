"""What a dashboard is made of, and its JSON as Grafana 10 and later read it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

_SCHEMA: Final = 39
_COLUMNS: Final = 24
_SOURCE: Final = MappingProxyType({"type": "prometheus", "uid": "${datasource}"})
_TAG: Final = "headroom"

CORES: Final = "suffix: cores"
"""Unit of CPU."""
BYTES: Final = "bytes"
"""Unit of memory."""
SECONDS: Final = "s"
"""Unit of time."""
RATIO: Final = "percentunit"
"""Unit of shares: 0.01 is shown as 1 %."""
NUMBER: Final = "short"
"""Unit of counts."""
PER_SECOND: Final = "cps"
"""Unit of rates."""

COLOURS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Allocatable": "#8e8e8e",
        "Used": "#3274d9",
        "Predicted peak": "#e0752d",
        "Mid published": "#37872d",
        "Mid requested": "#8f3bb8",
        "Deficit": "#c4162a",
        "Guaranteed": "#37872d",
        "At most": "#c4162a",
    }
)
"""The same thing has the same colour everywhere."""

Json = dict[str, Any]


class Kind(StrEnum):
    """How a panel shows its numbers."""

    TIME = "timeseries"
    """Lines over time."""
    STAT = "stat"
    """The last value, large."""
    BARS = "bargauge"
    """The last value of several series, as bars."""
    TABLE = "table"
    """The last value of several series, a column for each query."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question to Prometheus."""

    expression: str
    """PromQL."""
    legend: str = ""
    """The name of its series, with `{{label}}` for a label's value; in a table the column's title."""
    unit: str = ""
    """Unit of a table's column."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture."""

    title: str
    """Its title."""
    what: str
    """What a reader learns from it, and what to do then."""
    queries: Sequence[Query]
    """What it queries."""
    unit: str = NUMBER
    """Unit of its values."""
    kind: Kind = Kind.TIME
    """How it shows them."""
    width: int = 12
    """Of 24 columns."""
    height: int = 8
    """In rows of 30 pixels."""
    stacked: bool = False
    """Whether lines are put on top of each other."""
    bad_from: float | None = None
    """From this value on it is red; None: no value is bad."""
    bad_below: float | None = None
    """Below this value it is red."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    """The heading."""
    panels: Sequence[Panel]
    """From left to right, then the next line."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What the reader chooses."""

    name: str
    """As in `$name`."""
    label: str
    """What stands before the choice."""
    query: str
    """`label_values(METRIC, LABEL)`."""
    everything: bool = False
    """Whether several may be chosen, and all are at first."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard."""

    uid: str
    """By which others link to it."""
    title: str
    """Its title."""
    what: str
    """What it answers."""
    rows: Sequence[Row]
    """Its panels."""
    variables: Sequence[Variable] = ()
    """What the reader chooses, besides where the data comes from."""
    hours: int = 6
    """The time that is shown at first. [h]"""
    panels: Sequence[Panel] = field(init=False)
    """All of them."""

    def __post_init__(self) -> None:
        """Collect the panels."""
        object.__setattr__(self, "panels", tuple(panel for row in self.rows for panel in row.panels))

    def text(self) -> str:
        """The file."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"

    def to_json(self) -> Json:
        """As Grafana reads it."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.what,
            "tags": [_TAG],
            "schemaVersion": _SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "1m",
            "timezone": "",
            "time": {"from": f"now-{self.hours}h", "to": "now"},
            "annotations": {"list": [_ALERTS]},
            "links": [_LINKS],
            "templating": {"list": [_DATA_SOURCE, *map(_variable, self.variables)]},
            "panels": list(_laid_out(self.rows)),
        }


_ALERTS: Final = {
    "name": "Alerts of Headroom",
    "datasource": dict(_SOURCE),
    "enable": True,
    "iconColor": "#c4162a",
    "expr": 'max by (alertname) (ALERTS{alertname=~"Headroom.*", alertstate="firing"})',
    "titleFormat": "{{alertname}}",
    "step": "60s",
}
_LINKS: Final = {
    "title": "Headroom",
    "type": "dashboards",
    "tags": [_TAG],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
}
_DATA_SOURCE: Final = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "hide": 0,
    "current": {},
    "options": [],
    "refresh": 1,
}


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": dict(_SOURCE),
        "definition": variable.query,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "current": {"text": ["All"], "value": ["$__all"]} if variable.everything else {},
        "options": [],
        **({"multi": True, "includeAll": True, "allValue": ".*"} if variable.everything else {}),
    }


def _laid_out(rows: Sequence[Row]) -> Iterator[Json]:
    """Every row's heading and panels, with their numbers and places."""
    number = top = 0
    for row in rows:
        number += 1
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        top, left, tallest = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            number += 1
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest


def _panel(panel: Panel) -> Json:
    instant = panel.kind is not Kind.TIME
    return {
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.what,
        "datasource": dict(_SOURCE),
        "targets": [_target(query, chr(ord("A") + place), panel) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": _options(panel.kind),
        **({"transformations": _columns(panel)} if panel.kind is Kind.TABLE else {}),
        **({} if instant else {"interval": "30s"}),
    }


def _target(query: Query, letter: str, panel: Panel) -> Json:
    instant = panel.kind is not Kind.TIME
    return {
        "refId": letter,
        "datasource": dict(_SOURCE),
        "editorMode": "code",
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "instant": instant,
        "range": not instant,
        **({"format": "table"} if panel.kind is Kind.TABLE else {}),
    }


def _defaults(panel: Panel) -> Json:
    good, bad = "#37872d", "#c4162a"
    steps: list[Json] = [{"color": good, "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": bad, "value": panel.bad_from})
    if panel.bad_below is not None:
        steps = [{"color": bad, "value": None}, {"color": good, "value": panel.bad_below}]
    if len(steps) == 1:
        steps = [{"color": "#3274d9", "value": None}]
    defaults: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}, "noValue": "none"}
    if panel.kind is Kind.TIME:
        defaults |= {
            "min": 0,
            "color": {"mode": "palette-classic"},
            "custom": {
                "drawStyle": "line",
                "lineInterpolation": "linear",
                "lineWidth": 1,
                "fillOpacity": 40 if panel.stacked else 8,
                "showPoints": "never",
                "spanNulls": False,
                "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "line" if panel.bad_from is not None else "off"},
            },
        }
    elif panel.kind is Kind.BARS:
        defaults |= {"min": 0, "color": {"mode": "thresholds"}}
    return defaults


def _overrides(panel: Panel) -> Iterator[Json]:
    """Colours of series that are in several panels, and units of columns."""
    for query in panel.queries:
        if panel.kind is Kind.TIME and query.legend in COLOURS:
            colour = {"id": "color", "value": {"mode": "fixed", "fixedColor": COLOURS[query.legend]}}
            yield {"matcher": {"id": "byName", "options": query.legend}, "properties": [colour]}
        if panel.kind is Kind.TABLE and query.unit:
            unit = {"id": "unit", "value": query.unit}
            yield {"matcher": {"id": "byName", "options": query.legend}, "properties": [unit]}
    if panel.kind is Kind.TABLE and any("node" in query.expression for query in panel.queries):
        link = {"title": "Node ${__value.text}", "url": "/d/headroom-node?var-node=${__value.text}"}
        yield {
            "matcher": {"id": "byName", "options": "node"},
            "properties": [{"id": "links", "value": [link]}],
        }


def _options(kind: Kind) -> Json:
    if kind is Kind.TIME:
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if kind is Kind.TABLE:
        return {"showHeader": True, "cellHeight": "sm"}
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if kind is Kind.BARS:
        return {"reduceOptions": last, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": True}
    return {"reduceOptions": last, "colorMode": "value", "graphMode": "none", "textMode": "auto", "wideLayout": True}


def _columns(panel: Panel) -> list[Json]:
    """One table of all answers: a row for each set of labels, a column for each query."""
    if len(panel.queries) == 1:
        names = {"Value": panel.queries[0].legend}
    else:
        names = {f"Value #{chr(ord('A') + place)}": query.legend for place, query in enumerate(panel.queries)}
    return [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}},
    ]
