"""`python -m manager.cleanup`: removes what Headroom has written, before `helm uninstall` removes Headroom itself.

The chart runs it as the Job headroom-uninstall. Exit codes: 0 done, 1 refused or something is left, 2 a wrong flag,
3 the API server does not answer.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from crds import shadow_accounts
from crds.names import ANNOTATION_CONFIG_STATE, CONFIG_MAP_NAME, LAST_GOOD_NAME, TAINT_HOT
from crds.priority import PriorityBand
from headroom.kube import ApiError, ApiServer, ApiUnavailable, LoginError, connect, optional, paths
from headroom.runtime import options
from headroom.runtime.backoff import Backoff
from headroom.runtime.option_types import FILE, NAME, SWITCH
from headroom.runtime.options import WrongSetting, setting
from manager import node_metric
from manager.config.state import parse_timestamp
from manager.hot_nodes import taint
from manager.hot_nodes.load import effects_on
from manager.inputs import PodInputs
from manager.mid.explanation.managed_fields import published_by_koordinator
from manager.mid.publish import published_amounts, status_patch
from manager.settings import DEFAULT_NAMESPACE, LEASE_NAME, WebhookSettings

PROG: Final = "headroom-uninstall"
MANAGER: Final = "headroom-manager"
SCHEDULER: Final = "headroom-scheduler"
TEST_POD: Final = "headroom-doctor"
"""The pod of `helm test`, which stays when it fails."""
PRIORITY_CLASSES: Final = tuple(band.value for band in PriorityBand if band.value)
"""The PriorityClasses that the chart creates where there are none."""
_LONGEST_SECONDS: Final = 240.0
"""The time limit of the cleanup, less than the Job's, so that the remaining objects are printed. [s]"""
_HOOK_SECONDS: Final = 300.0
"""The time after helm's last write within which its hook may run: a little more than the Job's deadline. [s]"""
_STOP_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.5
_STANDBY_SECONDS: Final = 5.0
_LEASE_SECONDS: Final = 15
_AT_ONCE: Final = 16
_ATTEMPTS: Final = 6
_MOST_NAMES: Final = 20
_BOUND: Final = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
_CREATORS: Final = (
    paths.PODS,
    *(f"/apis/apps/v1/{kind}" for kind in ("deployments", "statefulsets", "daemonsets", "replicasets")),
    *(f"/apis/batch/v1/{kind}" for kind in ("jobs", "cronjobs")),
)
_FORCE: Final = "headroom.dev/uninstall"  # annotation of the manager's Deployment; force: as --force
_REFUSED: Final = """\
Refused: Mid pods run, and nothing was changed.{pods}
Choose one of these, and then {again} again:
1. Let the pods end. Set "enable": false, so that no others are placed:
  kubectl --namespace {namespace} edit configmap {name}
2. Delete the pods, or scale down the workloads that own them.
3. Remove Headroom although they run. A kubelet that restarts then fails these pods:
  kubectl --namespace {namespace} annotate deployment headroom-manager {annotation}=force{rollback}"""
_ROLLBACK: Final = """
To keep Headroom, which helm shows as uninstalling:
  helm rollback {release} {revision} --namespace {namespace}"""
_INSTALLED: Final = """\
Nothing was removed: Helm does not delete release {release} in namespace {namespace}.
This Job is a pre-delete hook. `kubectl apply` and other tools that only render the chart create it like other objects.
To remove what Headroom wrote without helm, render the Job with --set uninstall.withoutHelm=true."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """The objects to remove."""

    kubeconfig: str | None = setting(None, flag="kubeconfig", kind=FILE, shown="the pod's service account")
    """Login to the API server."""
    namespace: str = setting(DEFAULT_NAMESPACE, flag="namespace", kind=NAME)
    """Namespace of Headroom."""
    release: str = setting("headroom", flag="release", kind=NAME)
    """Name of the helm release."""
    without_helm: bool = setting(False, flag="without-helm", kind=SWITCH)
    """Remove although helm does not delete the release."""
    config_name: str = setting(CONFIG_MAP_NAME, flag="config-name", kind=NAME)
    """Name of the colocation ConfigMap."""
    scheduler_name: str = setting(SCHEDULER, flag="scheduler-name", kind=NAME)
    """Name of the scheduler, which is that of its Lease."""
    force: bool = setting(False, flag="force", kind=SWITCH)
    """Remove Mid resources although Mid pods run."""
    delete_config: bool = setting(False, flag="delete-config", kind=SWITCH)
    """Delete the colocation ConfigMap, if Headroom created it."""
    delete_priority_classes: bool = setting(False, flag="delete-priority-classes", kind=SWITCH)
    """Delete the PriorityClasses that Headroom created and that no pod or workload names."""


class Refused(Exception):  # noqa: N818 - users see only the message
    """Nothing is removed, for this reason."""


class Published(NamedTuple):
    """Mid resources on Nodes, and running Mid pods."""

    patches: Mapping[str, Json]
    """Node -> the patch that removes its Mid resources; without those that Koordinator's manager wrote."""
    pods: Mapping[str, str]
    """Mid pod, namespace/name -> its Node."""
    foreign: int
    """Nodes with Mid resources of Koordinator's manager; they stay."""

    def on(self, nodes: Iterable[str]) -> str:
        wanted = set(nodes)
        return "".join(f"\n  {pod} on Node {node}" for pod, node in sorted(self.pods.items()) if node in wanted)


async def _published(api: ApiServer) -> Published:
    def patch(node: Json) -> tuple[str, Json | None] | None:
        amounts = {resource: None for resource, each in published_amounts(node).items() if each.amount is not None}
        if not amounts:
            return None
        return node["metadata"]["name"], None if published_by_koordinator(node) else status_patch(amounts)

    def mid_pod(pod: Json) -> tuple[str, str] | None:
        inputs = PodInputs.from_object(pod)
        return (inputs.key, inputs.node) if inputs.holds_mid else None

    nodes, _ = await api.list(paths.NODES, None, patch)
    pods, _ = await api.list(paths.PODS, _BOUND, mid_pod)
    result = dict(filter(None, nodes))
    patches = {name: each for name, each in result.items() if each is not None}
    return Published(patches, dict(filter(None, pods)), len(result) - len(patches))


@dataclass(slots=True)
class Cleanup:
    """A run: it stops manager and scheduler, and then removes the objects that they have written."""

    api: ApiServer
    options: Options
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    left: list[str] = field(default_factory=list)
    """The remaining objects, and the reasons."""

    async def run(self) -> list[str]:
        """Remove everything, if helm deletes the release; one failure stops no other. Return the objects left, and why.

        Raises:
            Refused: Mid pods run, or a manager or scheduler does not end; nothing was removed.
            ApiError, ApiUnavailable: the cluster cannot be read.
        """
        revision = await self._revision()
        if revision is None and not self.options.without_helm:
            _say(_INSTALLED.format(release=self.options.release, namespace=self.options.namespace))
            return []
        result = await _published(self.api)
        forced = self.options.force or await self._forced()
        if not forced and (pods := result.on(result.patches)):
            where = {"namespace": self.options.namespace, "name": self.options.config_name}
            fields = {"release": self.options.release, "revision": revision, **where}
            rollback = _ROLLBACK.format(**fields) if revision is not None else ""
            command = "run this Job" if revision is None else "run `helm uninstall`"
            raise Refused(_REFUSED.format(pods=pods, annotation=_FORCE, again=command, rollback=rollback, **where))
        await self._stop(MANAGER, LEASE_NAME)
        await self._stop(SCHEDULER, self.options.scheduler_name)
        # They published and scheduled until they ended: only the objects that exist now count.
        result = await _published(self.api)
        busy = set() if forced else set(result.pods.values())
        cleared = {node: patch for node, patch in result.patches.items() if node not in busy}
        nodes = {node: partial(self.api.patch, paths.status(paths.node(node)), cleared[node]) for node in cleared}
        await self._all("Mid resources of Node", nodes)
        if result.foreign:
            _say(f"Mid resources of {result.foreign} Nodes stay: Koordinator's manager wrote them.")
        if pods := result.on(result.patches):
            if not forced:
                self.left.append(f"Nodes keep their Mid resources, because Mid pods came meanwhile:{pods}")
                return self.left
            _say(f"Nodes lost the resources of Mid pods that still run:{pods}")
        for part in (self._taints, self._node_metrics, self._of_namespace, self._priority_classes):
            try:
                await part()
            except (ApiError, ApiUnavailable) as error:
                self.left.append(str(error))
        again = await _published(self.api)
        if back := cleared.keys() & again.patches.keys():
            self.left.append(f"Mid resources are back, does another manager run? Node {_some(back)}")
        return self.left

    async def _revision(self) -> str | None:
        """The revision of the release that helm deletes; None: it deletes none.

        Helm gives the Secret of a release this status before it runs the hook. Its name has the revision, which the
        templates do not know after a rollback: that installs the objects of an earlier revision as they were rendered.
        A revision with a failed hook keeps the status, also after a rollback.
        """
        wanted = {"owner": "helm", "name": self.options.release}
        selector = {"labelSelector": ",".join(f"{label}={value}" for label, value in wanted.items())}
        path = f"/api/v1/namespaces/{self.options.namespace}/secrets"
        result, _ = await self.api.list(path, selector, lambda item: item["metadata"])
        ours = [config_map for config_map in result if wanted.items() <= (config_map.get("labels") or {}).items()]
        last = max(ours, key=lambda each: int(each["labels"]["version"]), default=None)
        if last is None or last["labels"]["status"] != "uninstalling":
            return None
        times = (parse_timestamp(entry.get("time")) or 0.0 for entry in last.get("managedFields") or ())
        is_recent = self.api.server_time() - max(times, default=0.0) <= _HOOK_SECONDS
        return str(last["labels"]["version"]) if is_recent else None

    async def _forced(self) -> bool:
        path = f"/apis/apps/v1/namespaces/{self.options.namespace}/deployments/{MANAGER}"
        result = await optional(self.api.get(path)) or {}
        return ((result.get("metadata") or {}).get("annotations") or {}).get(_FORCE) == "force"

    async def _stop(self, name: str, lease: str) -> None:
        """Scale a Deployment to 0, and wait until its pods are gone and its Lease has no holder, by our own clock."""
        namespace = self.options.namespace
        deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        await optional(self.api.patch(f"{deployment}/scale", {"spec": {"replicas": 0}}))
        end = self.now() + _STOP_SECONDS
        record, since, alone = None, self.now(), False
        while True:
            pods, _ = await self.api.list(paths.pods(namespace), {"labelSelector": f"app.kubernetes.io/name={name}"})
            spec = (await optional(self.api.get(paths.lease(namespace, lease))) or {}).get("spec") or {}
            holder, now = spec.get("holderIdentity") or "", self.now()
            if (holder, spec.get("renewTime")) != record:
                if alone and holder:
                    why = f"runs that Deployment {namespace}/{name} does not control: {holder} renews the Lease {lease}"
                    raise Refused(f"Refused: a replica {why}. Stop it, and uninstall again.")
                record, since = (holder, spec.get("renewTime")), now
            held = (spec.get("leaseDurationSeconds") or _LEASE_SECONDS) if holder else 0
            # Pods of a node that is gone never end: then no standby has taken the Lease for some seconds.
            if now - since >= held + (_STANDBY_SECONDS if pods else 0):
                return
            if now > end:
                why = f"does not end within {_STOP_SECONDS:.0f} s: {len(pods)} pods are left, the Lease's holder is"
                raise Refused(f"Refused: Deployment {namespace}/{name} {why} {holder!r}. Nothing was removed.")
            alone = not pods
            await self.sleep(_POLL_SECONDS)

    async def _taints(self) -> None:
        """Remove the taint of hot nodes; other taints stay."""

        def name(node: Json) -> str:
            return str(node["metadata"]["name"]) if effects_on(node) else ""

        nodes = filter(None, (await self.api.list(paths.NODES, None, name))[0])
        await self._all(
            f"taint {TAINT_HOT} of Node", {node: partial(taint.write, self.api, node, "", "") for node in nodes}
        )

    async def _node_metrics(self) -> None:
        def uid(metric: Json) -> tuple[str, str | None]:
            ours = node_metric.ManagedFields.from_object(metric).written_by_manager
            return metric["metadata"]["name"], metric["metadata"].get("uid", "") if ours else None

        try:
            result, _ = await self.api.list(node_metric.COLLECTION, None, uid)
        except ApiError as error:
            if error.not_found:  # the definition is gone, and every NodeMetric with it
                return
            raise
        ours = {name: each for name, each in result if each is not None}
        await self._all("NodeMetric", {name: self._deletion(node_metric.path(name), ours[name]) for name in ours})
        if len(result) > len(ours):
            _say(f"{len(result) - len(ours)} NodeMetrics that the manager did not write stay.")

    async def _of_namespace(self) -> None:
        api, namespace, config = self.api, self.options.namespace, self.options.config_name
        path = paths.config_map(namespace, config)
        result = await optional(api.get(path))
        if result and self.options.delete_config and is_headrooms(result):
            await self._all("ConfigMap", {config: self._deletion(path, result["metadata"].get("uid"))})
        elif result and ANNOTATION_CONFIG_STATE in (result["metadata"].get("annotations") or {}):
            patch = {"metadata": {"annotations": {ANNOTATION_CONFIG_STATE: None}}}
            await self._all(
                f"annotation {ANNOTATION_CONFIG_STATE} of ConfigMap", {config: partial(api.patch, path, patch)}
            )
        secret = WebhookSettings().secret_name
        for kind, named in {
            "ConfigMap": {name: paths.config_map(namespace, name) for name in (LAST_GOOD_NAME, *shadow_accounts.NAMES)},
            "Secret": {secret: f"/api/v1/namespaces/{namespace}/secrets/{secret}"},
            "Pod": {TEST_POD: paths.pod(namespace, TEST_POD)},
            "Lease": {name: paths.lease(namespace, name) for name in (LEASE_NAME, self.options.scheduler_name)},
        }.items():
            await self._all(kind, {name: self._deletion(path) for name, path in named.items()})

    async def _priority_classes(self) -> None:
        """Delete those of the chart that neither a pod nor a workload names."""
        if not self.options.delete_priority_classes:
            return
        ours = {}
        for name in PRIORITY_CLASSES:
            path = paths.priority_class(name)
            result = await optional(self.api.get(path))
            if result and is_headrooms(result):
                ours[name] = self._deletion(path, result["metadata"].get("uid"))
        named = set[str]()
        for path in _CREATORS if ours else ():
            named.update((await self.api.list(path, None, _priority_class))[0])
        if kept := ours.keys() & named:
            _say(f"PriorityClasses that pods or workloads name stay: {_some(kept)}.")
        await self._all("PriorityClass", {name: ours[name] for name in ours.keys() - named})

    def _deletion(self, path: str, uid: str | None = None) -> Callable[[], Awaitable[Any]]:
        return partial(self.api.delete, path, {"preconditions": {"uid": uid}} if uid else None)

    async def _all(self, kind: str, changes: Mapping[str, Callable[[], Awaitable[Any]]]) -> None:
        """Make changes by name, several at a time; an object that is already gone counts as done."""
        turn, done = asyncio.Semaphore(_AT_ONCE), list[str]()

        async def one(name: str, change: Callable[[], Awaitable[Any]]) -> None:
            async with turn:
                try:
                    if await self._attempts(change):
                        done.append(name)
                except (ApiError, ApiUnavailable) as error:
                    self.left.append(f"{kind} {name}: {error}")

        await asyncio.gather(*(one(name, change) for name, change in changes.items()))
        if done:
            _say(f"Removed {kind} {_some(done)}")

    async def _attempts(self, change: Callable[[], Awaitable[Any]]) -> bool:
        """Make a change, again where the API server is busy or away; whether there was anything to change."""
        backoff = Backoff(0.5, 10.0, jitter=(0.5, 1.0))
        while True:
            try:
                return await optional(change()) is not None
            except (ApiError, ApiUnavailable) as error:
                if isinstance(error, ApiError) and not error.conflict:
                    raise
                pause = backoff.failed(error.retry_after if isinstance(error, ApiUnavailable) else None)
                if backoff.failures == _ATTEMPTS:
                    raise
            await self.sleep(pause)


def is_headrooms(obj: Json) -> bool:
    return (obj["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") == "headroom"


def _priority_class(obj: Json) -> str:
    """Return the PriorityClass of a pod, or of the template of a workload without a controller."""
    spec = obj.get("spec") or {}
    template = ((spec.get("jobTemplate") or {}).get("spec") or spec).get("template")
    if template is None:
        return str(spec.get("priorityClassName") or "")
    controlled = any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
    return "" if controlled else str((template.get("spec") or {}).get("priorityClassName") or "")


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MOST_NAMES} more" if len(ordered) > _MOST_NAMES else ""
    return ", ".join(ordered[:_MOST_NAMES]) + more


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _run(arguments: Options) -> int:
    async with ApiServer(connect(arguments.kubeconfig), PROG) as api:
        cleanup = Cleanup(api, arguments)
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                left = await cleanup.run()
        except TimeoutError:
            left = [*cleanup.left, f"Not done after {_LONGEST_SECONDS:.0f} s."]
    if left:
        _say("\n".join(["Not everything is removed. Uninstall again: it goes on where it stopped.", *left]))
    return 1 if left else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    try:
        settings, _ = options.load(Options, PROG, arguments, description="Removes Headroom's objects and fields.")
        return asyncio.run(_run(settings))
    except (WrongSetting, Refused, ApiError, ApiUnavailable, LoginError) as error:
        _say(str(error))
        return {WrongSetting: 2, ApiUnavailable: 3, LoginError: 3}.get(type(error), 1)


if __name__ == "__main__":
    sys.exit(main())
