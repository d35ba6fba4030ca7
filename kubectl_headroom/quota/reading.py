"""Reads quotas, pods and nodes of the cluster into the ledger of the extender's admission."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from headroom import kube
from headroom.cluster.typed_pod import typed_pod
from kubectl_headroom import live
from kubectl_headroom.errors import CommandError
from kubectl_headroom.simulate import profile as profiles
from scheduler_plugins.api import CAPACITY_SCHEDULING as NAME
from scheduler_plugins.api import LIVE_PODS, CapacityScheduling, MaxMissing, QuotaCluster

_UNKNOWN: Final = (
    "This cluster does not know ElasticQuotas, so it has none, and no namespace is limited: "
    "kubectl apply --server-side -f charts/headroom/crds/elastic_quota.yaml"
)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the profile that configures quotas."""

    chosen: profiles.SelectedProfile | None  # the profile of a file; None: the cluster's
    headroom_namespace: str  # where the scheduler's ConfigMap is
    scheduler_name: str | None  # which profile of a KubeSchedulerConfiguration


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """The cluster at one moment."""

    cluster: QuotaCluster  # quotas with their charges, pods, nodes, disruption budgets
    plugin: CapacityScheduling  # how the profile enforces them
    origin: str  # where the profile comes from
    enforced: bool  # whether the profile enforces them at all
    now: float  # when it was read [unix s]
    scheduler_names: tuple[str, ...]  # the schedulers that use the extender
    unreadable: list[str] = field(default_factory=list)  # objects that could not be understood, each with the reason

    @classmethod
    def empty(cls, chosen: profiles.SelectedProfile, now: float) -> "QuotaSnapshot":
        """A cluster without anything."""
        listed = {part.name: part.plugin for part in chosen.profile.enabled}
        plugin = listed.get(NAME)
        if isinstance(plugin, CapacityScheduling):
            return cls(plugin.new_state(), plugin, chosen.origin, True, now, chosen.scheduler_names)
        stand_in = CapacityScheduling(max_missing=MaxMissing.INFINITE)
        return cls(stand_in.new_state(), stand_in, chosen.origin, False, now, chosen.scheduler_names)

    @property
    def notes(self) -> list[str]:
        result = []
        if not self.enforced:
            result.append(f"No quota is enforced: the scheduler's profile ({self.origin}) does not list {NAME}.")
        for quota in self.cluster.ledger.in_force:
            result += [
                f"ElasticQuota {younger.key} is not in force: {quota.key} is older, and a namespace has one."
                for younger in self.cluster.ledger.passed_over(quota.namespace)
            ]
        return [*result, *self.unreadable]

    def take(self, kind: str, put: Callable[[Json], None], item: Json) -> None:
        """Take one object."""
        metadata = item.get("metadata") or {}
        try:
            put(item)
        except Exception as error:  # noqa: BLE001 - objects of any shape
            name = "/".join(str(metadata[part]) for part in ("namespace", "name") if part in metadata)
            self.unreadable.append(f"{kind} {name} cannot be understood and is left out: {error}")


async def read(api: kube.ApiServer, place: Place, clock: live.Clock | None) -> QuotaSnapshot:
    """Read the cluster.

    Args:
        api: the cluster.
        place: where the profile is.
        clock: the present time; None: the API server's.

    Raises:
        CommandError: the cluster does not know quotas, or its profile cannot be used.
    """
    chosen = place.chosen or await profiles.of_cluster(api, place.headroom_namespace, place.scheduler_name)
    snapshot = QuotaSnapshot.empty(chosen, (clock or await live.server_time(api))())
    cluster = snapshot.cluster

    def put_pod(pod: Json) -> None:
        cluster.put_pod(typed_pod(pod))

    requests: list[Coroutine[Any, Any, object]] = [
        api.list(kube.paths.NODES, keep=partial(snapshot.take, "Node", cluster.put_node)),
        # Each pod becomes numbers as its page arrives: the JSON of 150,000 does not fit into memory.
        api.list(
            kube.paths.PODS,
            {"fieldSelector": LIVE_PODS},
            partial(snapshot.take, "Pod", lambda pod: cluster.put_pod(typed_pod(pod))),
        ),
    ]
    for source in cluster.sources():
        listed = api.list(source.path, keep=partial(snapshot.take, source.kind.removesuffix("s"), source.put))
        # Clusters without Dynamic Resource Allocation have no claims.
        requests.append(kube.optional(listed) if source.kind.startswith("ResourceClaim") else listed)
    try:
        await live.together(*requests)
    except kube.ApiError as error:
        if error.not_found:
            raise CommandError(_UNKNOWN) from error
        raise
    return snapshot
