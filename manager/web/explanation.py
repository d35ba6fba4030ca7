"""The explanation of a node's Mid resources, from the manager's state and the present NodeMetric."""

import asyncio
import concurrent.futures
import threading
import time
from typing import Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from headroom.runtime.token_bucket import TokenBucket
from manager import node_metric
from manager.context import Context
from manager.inputs import ObservedAt
from manager.mid.explanation.explanation import ConfigState, Explanation, ObservedNode, explain
from manager.reconcile.steps.shadow import ShadowState

_ANSWER_SECONDS: Final = 5.0  # how long a page waits for the API server [s]
_READS_AT_ONCE: Final = 20
_READ_AGAIN_SECONDS: Final = 0.2
"""For any number of readers, the API server gets at most five requests a second. [s]"""

Json = dict[str, Any]


class NotRead(Exception):  # noqa: N818 - a state of the world
    """The NodeMetric could not be read now; one line with the reason."""


class NodeMetrics:
    """Reads single NodeMetrics for other threads than that of the event loop."""

    def __init__(self) -> None:
        self._session: tuple[ApiServer, asyncio.AbstractEventLoop] | None = None
        self._turn = threading.Lock()
        self._bucket = TokenBucket()

    def attach(self, api: ApiServer, loop: asyncio.AbstractEventLoop) -> None:
        self._session = api, loop

    def read(self, name: str) -> Json | None:
        """The NodeMetric of a node; `None` where there is none.

        Raises:
            NotRead: the API server does not answer.
        """
        if self._session is None or self._session[1].is_closed():
            raise NotRead("there is no session with the API server")
        api, loop = self._session
        with self._turn:
            time.sleep(self._bucket.wait(_READS_AT_ONCE, _READ_AGAIN_SECONDS, time.monotonic()))
            self._bucket.take(_READ_AGAIN_SECONDS, time.monotonic())
        reading = api.get(node_metric.path(name))
        try:
            answer = asyncio.run_coroutine_threadsafe(reading, loop)
        except RuntimeError:  # the manager ends
            reading.close()
            raise NotRead("there is no session with the API server") from None
        try:
            return answer.result(_ANSWER_SECONDS)
        except (ApiError, ApiUnavailable) as error:
            if isinstance(error, ApiError) and error.not_found:
                return None
            raise NotRead(str(error)) from None
        except (TimeoutError, concurrent.futures.CancelledError, RuntimeError):  # the last: the session is closed
            answer.cancel()
            raise NotRead("the API server does not answer") from None


def of_node(context: Context, metrics: NodeMetrics, name: str) -> tuple[Explanation, str] | None:
    """Explain a node, as the command does; None where there is none of that name.

    The second is why the explanation lacks the NodeMetric; empty where it does not.
    """
    cluster = context.cluster
    node = cluster.nodes.get(name)
    if node is None:
        return None
    problem, metric = "", None
    try:
        metric = metrics.read(name)
    except NotRead as error:
        problem = str(error)
    known, memory = cluster.node_metrics.get(name), context.node_states.get(name)
    now = context.wall()
    ahead = now - context.steady()
    written_at = memory.publish_state.written_at if memory else None
    simulation = memory.state_of(ShadowState).simulation if memory else None
    observed = ObservedNode(
        node,
        metric,
        list(cluster.pods_on(name)),
        now,
        observed_at=known.observed_at.shifted(ahead) if known else ObservedAt(),
        written_at=None if written_at is None else written_at + ahead,
        exclusion=context.settings.exclude_nodes,
        shadow=simulation.to_status(now) if simulation else None,
    )
    state, settings = context.in_force, context.settings
    config = ConfigState(
        f"ConfigMap {settings.namespace}/{settings.config_name}", now - state.since if state.since else None, state
    )
    return explain(observed, config), problem
