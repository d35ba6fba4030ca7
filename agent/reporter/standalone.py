"""The same NodeMetric without a cluster: printed as YAML on every report, and served on request."""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

import yaml

from agent.reporter import spec as specs
from agent.reporter.report import Json, ReportSource
from agent.reporter.spec import SpecInForce
from agent.settings import ReportSettings
from crds.codec import to_json
from crds.node_metric import NodeMetric


@dataclass(slots=True)
class Printer:
    """Reports to a stream."""

    node_name: str
    """Name of the NodeMetric."""
    reports: ReportSource
    """Makes the reports."""
    settings: ReportSettings
    """When the first one is made."""
    out: TextIO = field(default_factory=lambda: sys.stdout)
    """Where it is printed."""
    wall: Callable[[], float] = time.time
    """The time that reports bear. [seconds since 1970]"""
    spec: SpecInForce = field(default_factory=specs.default)
    """What is reported, and how often."""

    async def run(self, *, once: bool = False) -> None:
        """Print for ever, or once."""
        await asyncio.sleep(self.settings.first_after_seconds)
        while True:
            self.out.write("---\n" + self.text())
            self.out.flush()
            if once:
                return
            await asyncio.sleep(self.spec.report_interval_seconds)

    def text(self) -> str:
        """The NodeMetric of this moment as YAML."""
        return yaml.safe_dump(self.node_metric(), sort_keys=False, allow_unicode=True, width=120)

    def node_metric(self) -> Json:
        """The NodeMetric of this moment."""
        report = self.reports.full(self.wall(), self.spec)
        return {
            "apiVersion": NodeMetric.API_VERSION,
            "kind": NodeMetric.KIND,
            "metadata": {"name": self.node_name},
            "spec": to_json(self.spec.spec),
            "status": report.status,
        }
