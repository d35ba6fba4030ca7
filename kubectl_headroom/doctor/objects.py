"""The properties of objects for the checks: names, ages, replicas, and why a pod is not ready. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crds.mid_amounts import implausible_amounts
from crds.priority import priority_class_raw, requests_mid
from headroom.cluster.pod import is_mirror_pod, is_terminal, pod_key
from manager.api import PodInputs, age

Json = Mapping[str, Any]

COMPONENT: Final = "app.kubernetes.io/name"  # label of everything of ours: which component it belongs to
AGENT: Final = "headroom-agent"  # name of the agent's DaemonSet, its account and its label
MANAGER: Final = "headroom-manager"  # the same of the manager's Deployment
SCHEDULER: Final = "headroom-scheduler"  # the same of the scheduler's, and of the ConfigMap with its configurations
COMPONENTS: Final = (AGENT, MANAGER, SCHEDULER)  # all components
_YOUNG_SECONDS: Final = 60.0


def name(obj: Json) -> str:
    return str(obj["metadata"]["name"])


def labels(obj: Json) -> Mapping[str, str]:
    result: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return result


def node_info(node: Json) -> Mapping[str, str]:
    result: Mapping[str, str] = (node.get("status") or {}).get("nodeInfo") or {}
    return result


def is_linux(node: Json) -> bool:
    return (labels(node).get("kubernetes.io/os") or node_info(node).get("operatingSystem") or "linux") == "linux"


def is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def pod_template(workload: Json) -> Json:
    """The pod template of a workload, empty where there is none."""
    result: Json = (workload.get("spec") or {}).get("template") or {}
    return result


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container."""

    name: str  # its name
    ready: bool  # whether it answers; of an init container, whether it has completed
    restarts: int  # how often it was restarted
    why: str  # why it is not ready, in Kubernetes' words; empty when it is

    @classmethod
    def of(cls, status: Json, *, is_init: bool) -> "ContainerState":
        """The state of an entry of `containerStatuses` or `initContainerStatuses`."""
        state = status.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        completed = ended is not None and ended.get("exitCode") == 0
        ready = completed if is_init else bool(status.get("ready"))
        last = (status.get("lastState") or {}).get("terminated") or {}
        why = "" if ready else _reason(waiting or ended, last)
        return cls(str(status.get("name")), ready, int(status.get("restartCount") or 0), why)


def _reason(current: Json | None, last: Json) -> str:
    """Return why a container does not work, with the message of its last run where there is one."""
    if current is None:
        return ""
    messages = [str(state["message"]).strip() for state in (current, last) if state.get("message")]
    return ", ".join(dict.fromkeys([str(current.get("reason") or "waiting"), *messages]))


@dataclass(frozen=True, slots=True)
class Pod:
    """The reduced form of a pod of ours: the JSON of 5,000 is not needed."""

    name: str  # its name
    component: str  # which component it is of
    node: str  # where it runs; empty for nowhere yet
    ready: bool  # whether all of it answers
    ending: bool  # whether it is being deleted, or has ended
    started: str | None  # when kubelet took it on
    states: tuple[ContainerState, ...]  # its containers, init containers first
    unschedulable: str  # why it has no node yet; empty when it has one, or unknown

    @classmethod
    def of(cls, obj: Json) -> "Pod":
        """Reduce a pod."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
        scheduled = conditions.get("PodScheduled") or {}
        inits, running = status.get("initContainerStatuses") or (), status.get("containerStatuses") or ()
        return cls(
            name=name(obj),
            component=labels(obj).get(COMPONENT, ""),
            node=str(spec.get("nodeName") or ""),
            ready=(conditions.get("Ready") or {}).get("status") == "True",
            ending=status.get("phase") in {"Succeeded", "Failed"} or bool(obj["metadata"].get("deletionTimestamp")),
            started=status.get("startTime"),
            states=(
                *(ContainerState.of(init, is_init=True) for init in inits),
                *(ContainerState.of(status, is_init=False) for status in running),
            ),
            unschedulable=str(scheduled.get("message") or "") if scheduled.get("status") == "False" else "",
        )

    @property
    def why(self) -> str:
        """Return why it is not ready, in Kubernetes' words; empty when it is, or unknown."""
        if self.ready:
            return ""
        reasons = [f"{state.name}: {state.why}" for state in self.states if not state.ready and state.why]
        return reasons[0] if reasons else self.unschedulable

    def age(self, now: float) -> float:
        """Time since kubelet took it on; 0 where that is not known. [s]"""
        return (age(self.started, now) or 0.0) if self.started else 0.0


@dataclass(frozen=True, slots=True)
class UnbandedPod:
    """The reduced form of a pod of no band, which a namespace label or a profile could make Mid."""

    key: str  # "namespace/name"
    labels: Mapping[str, str]  # its labels

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class MidPod:
    """The reduced form of a pod that requests Mid resources."""

    inputs: PodInputs  # as the manager reads it
    implausible_amounts: tuple[str, ...]  # amounts that are probably meant in another unit

    @classmethod
    def of(cls, obj: Json) -> "MidPod | UnbandedPod | None":
        """Reduce a pod; `None` for one that has ended, is static, or is of another band."""
        if is_terminal(obj):
            return None
        if not requests_mid(obj):
            return None if priority_class_raw(obj) or is_mirror_pod(obj) else UnbandedPod(pod_key(obj), labels(obj))
        return cls(PodInputs.from_object(obj), tuple(implausible_amounts(obj)))

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return self.inputs.key


def just_started(pods: Sequence[Pod], now: float) -> bool:
    """Return whether all of some pods are so young at a time that there is no result yet. [unix s]"""
    return all(pod.age(now) < _YOUNG_SECONDS for pod in pods)
