"""`python -m tools.bench.scheduler_profile ARGUMENTS`: the extender, with the CPU time of its steps at `/profile`.

Counting starts with the first filter request. A step does not include the steps inside it. The rest of a
callback of the event loop counts for the protocol or task that it belongs to.
"""

import asyncio
import functools
import gc
import pkgutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from headroom.runtime.http import Reply
from scheduler_plugins.__main__ import main
from scheduler_plugins.extender.server import Server
from scheduler_plugins.framework.cycle import Cycle

FILTER: Final = "request: metrics and dispatch"
STEPS: Final[Mapping[str, str]] = {
    "scheduler_plugins.extender.server:Server.filter": FILTER,
    "scheduler_plugins.extender.server:parse": "request: parse",
    "scheduler_plugins.extender.server:filter_reply": "request: encode the reply",
    "scheduler_plugins.extender.service:Extender.filter": "request: decide",
    "scheduler_plugins.extender.service:Extender._read": "request: read the pod",
    "scheduler_plugins.snapshot.rows:Rows.find": "request: select rows",
    "scheduler_plugins.snapshot.rows:Rows.view": "request: select rows",
    "scheduler_plugins.snapshot.cache:ClusterCache._write_records": "records of nodes",
    "scheduler_plugins.snapshot.arrays:Nodes.cautious": "request: pods in flight",
    "scheduler_plugins.framework.cycle:Cycle.filter": "request: join verdicts",
    "scheduler_plugins.framework.cycle:Cycle.score": "request: join scores",
    "scheduler_plugins.framework.cycle:Cycle.prepare": "request: evaluate formulas",
    "scheduler_plugins.snapshot.cache:ClusterCache.evaluate": "request: evaluate formulas",
    "scheduler_plugins.extender.service:Extender._best": "request: choose",
    "scheduler_plugins.framework.shortlist:Shortlist.choose": "request: choose",
    "scheduler_plugins.snapshot.cache:ClusterCache.charge": "charge of the pod in flight",
    "scheduler_plugins.snapshot.cache:ClusterCache.release": "charge of the pod in flight",
    "scheduler_plugins.snapshot.rows:Rows.charge": "charge of the pod in flight",
    "scheduler_plugins.snapshot.rows:Rows.discharge": "charge of the pod in flight",
    "scheduler_plugins.metrics:Telemetry.observe_plugin": "metrics of plugins",
    "headroom.kube.watch:_event": "event: head",
    "headroom.kube.watch:_version": "event: head",
    "headroom.cluster.typed_pod:decode_pod": "event: decode the pod",
    "scheduler_plugins.snapshot.cache:ClusterCache.put_pod": "event: put the pod",
    "scheduler_plugins.snapshot.cache:ClusterCache.read": "event: read the pod",
    "scheduler_plugins.snapshot.cache:ClusterCache.place": "event: load of the node",
    "scheduler_plugins.quota.cluster:QuotaCluster.reserve": "quota",
    "scheduler_plugins.quota.cluster:QuotaCluster.unreserve": "quota",
    "scheduler_plugins.quota.cluster:QuotaCluster.pod_changed": "quota",
    "scheduler_plugins.preemption.pending:Pending.put_pod": "event: followers",
    "scheduler_plugins.requeue.unschedulable:UnschedulablePods.put_pod": "event: followers",
}
"""Functions by their place, and the step that each is a part of."""


class Profile:
    """CPU time of the event loop's thread by step."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()  # [ns]
        self._inner: list[int] = []  # what steps inside of the running ones took [ns]
        self._pods = 0
        self._began = 0.0
        self._collecting = 0

    def call(self, step: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any function's
        """Call a function as a part of a step."""
        if step == FILTER:
            self._count()
        self._inner.append(0)
        began = time.thread_time_ns()
        try:
            return function(*arguments, **named)
        finally:
            spent = time.thread_time_ns() - began
            self._spent[step] += spent - self._inner.pop()
            if self._inner:
                self._inner[-1] += spent

    def _count(self) -> None:
        if not self._pods:
            self._spent.clear()
            self._began = time.process_time()
        self._pods += 1

    def page(self, _request: object) -> Reply:
        """Return milliseconds per filter request by step, the largest first."""
        steps = {step: spent / 1e6 for step, spent in self._spent.most_common()}
        whole = (time.process_time() - self._began) * 1000
        steps |= {"rest: selector, other threads": whole - sum(steps.values()), "all": whole}
        return Reply.json({step: spent / max(self._pods, 1) for step, spent in steps.items()})

    def install(self) -> None:
        """Time the steps, every plugin and the callbacks of the event loop."""
        for place, step in STEPS.items():
            kind, _, name = place.rpartition("." if "." in place.partition(":")[2] else ":")
            self._time(pkgutil.resolve_name(kind), name, lambda *_, step=step: step)
        self._time(Cycle, "_call", lambda _cycle, name, _plugin, method, *_: f"plugin: {name} {method}")
        self._time(asyncio.Handle, "_run", _loop_step)
        gc.callbacks.append(self._collect)
        pages = Server.pages
        setattr(Server, pages.__name__, lambda server: {**pages(server), ("GET", "/profile"): self.page})

    def _time(self, owner: Any, name: str, step: Callable[..., str]) -> None:  # noqa: ANN401 - a module or class
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function
            return self.call(step(*arguments), function, *arguments, **named)

        setattr(owner, name, timed)

    def _collect(self, phase: str, _info: Mapping[str, int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if phase == "start":
            self._inner.append(0)
            self._collecting = time.thread_time_ns()
            return
        spent = time.thread_time_ns() - self._collecting
        self._spent["garbage collection"] += spent
        self._inner.pop()
        if self._inner:
            self._inner[-1] += spent


def _loop_step(handle: Any) -> str:  # noqa: ANN401 - an asyncio.Handle
    """The protocol or task of a callback."""
    owner = getattr(handle._callback, "__self__", None)  # noqa: SLF001 - asyncio has no public name for it
    if isinstance(owner, asyncio.Task):
        return f"loop: task {owner.get_name()}"
    protocol = getattr(owner, "_protocol", None)
    return f"loop: {type(protocol or owner).__name__}"


if __name__ == "__main__":
    Profile().install()
    sys.exit(main())
