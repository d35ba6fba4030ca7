"""What the checks read out of objects: names, ages, replicas, and why a pod is not ready. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headroom.cluster.selector import matches
from manager.mid.explanation.node_metric import age

Json = Mapping[str, Any]

PART: Final = "app.kubernetes.io/name"  # label of everything of ours: which part it belongs to
VERSION: Final = "app.kubernetes.io/version"  # label of everything of ours: the version of the chart's services
AGENT: Final = "headroom-agent"  # name of the agent's DaemonSet, its account and its label
MANAGER: Final = "headroom-manager"  # the same of the manager
SCHEDULER: Final = "headroom-scheduler"  # the same of the scheduler
_YOUNG_SECONDS: Final = 60.0
PARTS: Final = (AGENT, MANAGER, SCHEDULER)  # all parts


def name(obj: Json) -> str:
    """Name of an object."""
    return str(obj["metadata"]["name"])


def labels(obj: Json) -> Mapping[str, str]:
    """Labels of an object."""
    found: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return found


def machine(node: Json) -> Mapping[str, str]:
    """What a Node says of its machine."""
    found: Mapping[str, str] = (node.get("status") or {}).get("nodeInfo") or {}
    return found


def is_linux(node: Json) -> bool:
    """Whether the agent can run there."""
    return (labels(node).get("kubernetes.io/os") or machine(node).get("operatingSystem") or "linux") == "linux"


def replicas(workload: Json) -> tuple[int, int]:
    """How many replicas of a Deployment are ready, and how many there should be; the API's own default is one."""
    wanted = (workload.get("spec") or {}).get("replicas")
    return int((workload.get("status") or {}).get("readyReplicas") or 0), 1 if wanted is None else int(wanted)


def containers(workload: Json) -> Sequence[Json]:
    """The containers of a workload's pods."""
    template = (workload.get("spec") or {}).get("template") or {}
    found: Sequence[Json] = (template.get("spec") or {}).get("containers") or ()
    return found


def words(workload: Json) -> Iterator[str]:
    """What the commands of a workload's pods say, word by word."""
    for container in containers(workload):
        yield from (str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))


def selected(selector: Json | None, found: Mapping[str, str]) -> bool:
    """Whether a label selector (`matchLabels` and `matchExpressions`) selects something with these labels."""
    return not selector or matches(dict(selector), found)


@dataclass(frozen=True, slots=True)
class ContainerState:
    """How a container is."""

    name: str  # its name
    ready: bool  # whether it answers; of one that prepares a pod, whether it has done so
    restarts: int  # how often it was started again
    why: str  # why it is not ready, in Kubernetes' words; empty when it is


@dataclass(frozen=True, slots=True)
class Pod:
    """What is kept of a pod of ours: of 5,000 nobody needs the JSON."""

    name: str  # its name
    part: str  # which part it is of
    version: str  # version by its label
    node: str  # where it runs; empty for nowhere yet
    ready: bool  # whether all of it answers
    ending: bool  # whether it is being deleted, or has ended
    started: str | None  # when kubelet took it on
    images: tuple[str, ...]  # its images, without those that prepare it
    states: tuple[ContainerState, ...]  # its containers, those that prepare it first
    unplaced: str  # why it has no node yet; empty when it has, or nobody says
    ports: Mapping[str, int]  # its named ports

    @classmethod
    def of(cls, obj: Json) -> "Pod":
        """What is kept of it."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        conditions = {each.get("type"): each for each in status.get("conditions") or ()}
        placed = conditions.get("PodScheduled") or {}
        started = list(spec.get("containers") or ())
        prepared = [_state(each, prepares=True) for each in status.get("initContainerStatuses") or ()]
        running = [_state(each, prepares=False) for each in status.get("containerStatuses") or ()]
        ended = status.get("phase") in {"Succeeded", "Failed"}
        return cls(
            name=name(obj),
            part=labels(obj).get(PART, ""),
            version=labels(obj).get(VERSION, ""),
            node=str(spec.get("nodeName") or ""),
            ready=(conditions.get("Ready") or {}).get("status") == "True",
            ending=ended or bool(obj["metadata"].get("deletionTimestamp")),
            started=status.get("startTime"),
            images=tuple(str(each.get("image")) for each in started),
            states=(*prepared, *running),
            unplaced=str(placed.get("message") or "") if placed.get("status") == "False" else "",
            ports={
                str(port["name"]): int(port["containerPort"])
                for each in started
                for port in each.get("ports") or ()
                if port.get("name")
            },
        )

    @property
    def why(self) -> str:
        """Why it is not ready, in Kubernetes' words; empty when it is, or nobody says."""
        if self.ready:
            return ""
        said = next((f"{each.name}: {each.why}" for each in self.states if not each.ready and each.why), "")
        return said or self.unplaced

    def started_ago(self, now: float) -> float:
        """Time since kubelet took it on; 0 where that is not known. [s]"""
        return (age(self.started, now) or 0.0) if self.started else 0.0


def just_started(pods: Sequence[Pod], now: float) -> bool:
    """Whether the first of some pods has come up so lately that nothing can be said yet.

    Args:
        pods: of one part.
        now: the time. [unix s]
    """
    return all(pod.started_ago(now) < _YOUNG_SECONDS for pod in pods)


def _state(status: Json, *, prepares: bool) -> ContainerState:
    state = status.get("state") or {}
    ended, waiting = state.get("terminated"), state.get("waiting")
    done = prepares and ended is not None and ended.get("exitCode") == 0
    ready = done or (bool(status.get("ready")) and not prepares)
    last = (status.get("lastState") or {}).get("terminated")
    return ContainerState(
        name=str(status.get("name")),
        ready=ready,
        restarts=int(status.get("restartCount") or 0),
        why="" if ready else _reason(waiting, ended, last),
    )


def _reason(waiting: Json | None, ended: Json | None, last: Json | None) -> str:
    """Why a container does not work, with the last words of its last run where there are some."""
    now = waiting or ended
    if now is None:
        return ""
    said = [str(each["message"]).strip() for each in (now, last or {}) if each.get("message")]
    return ", ".join(dict.fromkeys([str(now.get("reason") or "waiting"), *said]))


def pod(obj: dict[str, Any]) -> Pod:
    """What is kept of a pod; as a function, so that all checks share one reading."""
    return Pod.of(obj)


def is_ready(node: Json) -> bool:
    """Whether kubelet says that all is well with a Node."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
