"""kube-scheduler's own configuration files as profiles: known parts are used, in-tree parts ignored, others refused."""

import pytest

from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.profile import Profile, ProfileError, parse_profile

TRIMARAN = """
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: trimaran
  plugins:
    score:
      enabled: [{name: LowRiskOverCommitment, weight: 10}]
      disabled: [{name: '*'}]
  pluginConfig:
  - name: LowRiskOverCommitment
    args:
      metricProvider: {type: Prometheus, address: http://prometheus-k8s.monitoring.svc.cluster.local:9090}
      smoothingWindowSize: 5
      riskLimitWeight: 0.5
"""
KOORDINATOR = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceLock: leases, resourceName: s, resourceNamespace: n}
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy: {type: LeastAllocated}
  - name: LoadAwareScheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LoadAwareSchedulingArgs
      filterExpiredNodeMetrics: false
      nodeMetricExpirationSeconds: 300
      resourceWeights: {cpu: 1, memory: 1}
      usageThresholds: {cpu: 65, memory: 95}
      estimatedScalingFactors: {cpu: 85, memory: 70}
  plugins:
    multiPoint:
      enabled: []
    filter:
      enabled: [{name: LoadAwareScheduling}, {name: NodeResourcesFit}]
    score:
      enabled: [{name: LoadAwareScheduling, weight: 1}, {name: NodeResourcesFit, weight: 1}]
    reserve:
      enabled: [{name: LoadAwareScheduling}]
"""
ALLOCATABLE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: NodeResourcesAllocatable}]
      disabled: [{name: NodeResourcesFit}]
  pluginConfig:
  - name: NodeResourcesAllocatable
    args:
      mode: Least
      resources: [{name: cpu, weight: 1000000}, {name: memory, weight: 1}]
"""
SCORED_5 = "score: {enabled: [{name: NodeResourcesAllocatable, weight: 5}]}}"
ALLOCATABLE_SCORES = "plugins: {score: {enabled: [{name: NodeResourcesAllocatable}]}}"
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _parsed(text: str, name: str | None = None) -> Profile:
    return parse_profile(text, "It", scheduler_name=name)


def _with(plugins: str, config: str = "[]") -> str:
    return f"{HEAD}profiles: [{{plugins: {plugins}, pluginConfig: {config}}}]\n"


def _refused(text: str, name: str | None = None) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        _parsed(text, name)
    return [line.strip() for line in str(caught.value).splitlines()]


def test_overcommitment_sample_is_taken() -> None:
    profile = _parsed(TRIMARAN)
    (part,) = profile.enabled
    assert (part.name, part.weight, part.points) == ("LowRiskOverCommitment", 10, frozenset({"score"}))
    provider = part.plugin.provider()  # type: ignore[attr-defined]
    assert provider.metric_provider.address == "http://prometheus-k8s.monitoring.svc.cluster.local:9090"
    assert profile.notes == ()


def test_load_aware_sample_is_taken() -> None:
    profile = _parsed(KOORDINATOR)
    (part,) = profile.enabled
    assert (part.name, part.weight, part.points) == ("LoadAwareScheduling", 1, frozenset({"filter", "score"}))
    assert part.plugin.node_metric_expiration_seconds == 300  # type: ignore[attr-defined]
    assert part.plugin.filter_expired_node_metrics is False  # type: ignore[attr-defined]
    assert [note.partition(": ")[0] for note in profile.notes] == [
        "profiles[0].plugins.filter.enabled[1]",
        "profiles[0].plugins.score.enabled[1]",
        "profiles[0].pluginConfig[0]",
    ]
    assert all("NodeResourcesFit is kube-scheduler's own" in note for note in profile.notes)


def test_allocatable_sample_is_taken() -> None:
    (part,) = _parsed(ALLOCATABLE).enabled
    assert part.points == frozenset({"pre_filter", "filter", "score", "post_filter"})
    assert part.plugin.weights == {"cpu": 1000000, "memory": 1}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sections", "points", "weight"),
    [
        ("{multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 3}]}}", "filter post_filter pre_filter score", 3),
        # A point's own weight precedes multiPoint's, and 0 means "not given" as in kube-scheduler.
        (
            "{multiPoint: {enabled: [{name: NodeResourcesAllocatable, weight: 3}]}, " + SCORED_5,
            "filter post_filter pre_filter score",
            5,
        ),
        ("{score: {enabled: [{name: LoadAwareScheduling, weight: 0}]}}", "score", 1),
        # A point disables multiPoint's plugins by name or altogether, whatever the order in the file.
        (
            "{score: {disabled: [{name: LoadAwareScheduling}]}, multiPoint: {enabled: [{name: LoadAwareScheduling}]}}",
            "filter post_filter pre_filter",
            1,
        ),
        (
            "{multiPoint: {enabled: [{name: LoadAwareScheduling}]}, filter: {disabled: [{name: '*'}]}}",
            "post_filter pre_filter score",
            1,
        ),
        # A point's own `*` does not disable the plugins that the point enables.
        (
            "{filter: {enabled: [{name: LoadAwareScheduling}], disabled: [{name: '*'}]}}",
            "filter",
            1,
        ),
    ],
)
def test_points_and_weights(sections: str, points: str, weight: float) -> None:
    """A plugin runs where kube-scheduler calls it, with the same weight."""
    (part,) = _parsed(_with(sections)).enabled
    assert (" ".join(sorted(part.points or ())), part.weight) == (points, weight)


def test_profile_is_chosen_by_name() -> None:
    text = (
        f"{HEAD}profiles:\n- schedulerName: a\n  {ALLOCATABLE_SCORES}\n"
        "- plugins: {filter: {enabled: [{name: LoadAwareScheduling}]}}\n"
    )
    assert [part.name for part in _parsed(text, "a").enabled] == ["NodeResourcesAllocatable"]
    other = _parsed(text, "default-scheduler")
    assert [part.name for part in other.enabled] == ["LoadAwareScheduling"]
    assert other.notes == ("profiles a: ignored; --scheduler-name is default-scheduler",)
    assert _refused(text)[1] == "profiles: there are 2 (a, default-scheduler): choose one by --scheduler-name"
    assert _refused(text, "b")[1].startswith('profiles: none with schedulerName "b"')


def test_unused_arguments_are_reported() -> None:
    on = "{score: {enabled: [{name: NodeResourcesAllocatable}]}}"
    profile = _parsed(_with(on, "[{name: LoadAwareScheduling}]"))
    assert "LoadAwareScheduling is enabled nowhere" in profile.notes[0]
    assert "nosuch: unknown" in _refused(_with(on, "[{name: LoadAwareScheduling, args: {nosuch: 1}}]"))[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            _with("{score: {enabled: [{name: TargetLoadPacking}]}}"),
            'profiles[0].plugins.score.enabled[0].name: "TargetLoadPacking" is not a plugin of Headroom or',
        ),
        (
            _with("{score: {enabled: [{name: loadAwareScheduling}]}}"),
            'did you mean "LoadAwareScheduling"?',
        ),
        (_with("{scores: {}}"), 'profiles[0].plugins.scores: unknown; did you mean "score"?'),
        (_with("{score: {enable: []}}"), 'profiles[0].plugins.score.enable: unknown; did you mean "enabled"?'),
        (_with("{score: {enabled: {}}}"), "profiles[0].plugins.score.enabled: {} is not a list"),
        (
            _with("{score: {enabled: [{weight: 1}]}}"),
            "profiles[0].plugins.score.enabled[0].name: None: must be the name",
        ),
        (_with("{score: {enabled: [{name: NodeResourcesFit}]}}"), "profiles[0].plugins: enables no plugin of Headroom"),
        (
            _with("{score: {enabled: [{name: LoadAwareScheduling, weight: -1}]}}"),
            "profiles[0].plugins.score.enabled[0].weight: -1: must be a whole number",
        ),
        (
            _with("{score: {enabled: [{name: LoadAwareScheduling}, {name: LoadAwareScheduling}]}}"),
            "profiles[0].plugins.score.enabled: LoadAwareScheduling is listed twice",
        ),
        (
            _with(
                "{score: {enabled: [{name: NodeResourcesAllocatable}]}}",
                "[{name: NodeResourcesAllocatable, args: {mode: Least}}, "
                "{name: NodeResourcesAllocatable, args: {mode: Most}}]",
            ),
            "profiles[0].pluginConfig: NodeResourcesAllocatable is listed twice with mode Least and Most",
        ),
        (
            _with(
                "{score: {enabled: [{name: LoadAwareScheduling}]}}",
                "[{name: LoadAwareScheduling, args: {kind: LoadAwareArgs, apiVersion: v1}}]",
            ),
            "profiles[0].pluginConfig[0].args.kind: 'LoadAwareArgs': must be LoadAwareSchedulingArgs, or left out",
        ),
        (f"{HEAD}profiles: []", "profiles: must be a list of at least one profile"),
        (f"{HEAD}profile: []", 'profile: unknown; did you mean "profiles"?'),
        (HEAD.replace("/v1\n", "/v1alpha1\n") + "profiles: []", "apiVersion: 'kubescheduler.config.k8s.io/v1alpha1'"),
    ],
)
def test_mistake_prevents_start(text: str, says: str) -> None:
    assert any(says in line for line in _refused(text))


@pytest.mark.parametrize("capable", ["", ", nodeCacheCapable: false"])
def test_full_nodes_are_refused(capable: str) -> None:
    """An extender at Headroom's port requires names; other extenders may receive anything."""
    ours = f'{{urlPrefix: "http://127.0.0.1:9820", filterVerb: filter{capable}}}'
    other = f'{{urlPrefix: "http://other:8080", filterVerb: filter{capable}}}'
    assert any(
        "extenders[0].nodeCacheCapable: nodeCacheCapable: false was removed: set nodeCacheCapable: true" in line
        for line in _refused(f"{TRIMARAN}extenders: [{ours}]")
    )
    assert parse_profile(f"{TRIMARAN}extenders: [{other}]", "the file")
    assert parse_profile(
        f"{TRIMARAN}extenders: [{ours[:-1].replace(capable, '')}, nodeCacheCapable: true}}]", "the file"
    )


def test_all_mistakes_are_reported_together() -> None:
    texts = _refused(
        _with(
            "{score: {enabled: [{name: Missing}, {name: LoadAwareScheduling, weight: x}]}, nowhere: {}}",
            "[{name: LoadAwareScheduling, args: {usageThresholds: {cpu: many}, oops: 1}}, {name: Nothing}]",
        )
    )
    assert len(texts) == 1 + 6  # Missing, weight, nowhere, cpu, oops, Nothing


def test_ignored_resources_are_read() -> None:
    """NodeResourcesFit's and other extenders' are added to the plugin's own; fields of another shape are ignored."""
    text = f"""{HEAD}
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: CapacityScheduling}}]}}}}
  pluginConfig:
  - name: CapacityScheduling
    args: {{ignoredResources: [own.io/a]}}
  - name: NodeResourcesFit
    args: {{ignoredResources: [fit.io/a, own.io/a], ignoredResourceGroups: [group.io]}}
extenders:
- urlPrefix: http://other
  managedResources: [{{name: other.io/a, ignoredByScheduler: true}}, {{name: other.io/b}}, 3]
- {{urlPrefix: http://third, managedResources: {{}}}}
"""
    plugin = _parsed(text).enabled[0].plugin
    assert isinstance(plugin, CapacityScheduling)
    assert plugin.ignored_resources == ("own.io/a", "fit.io/a", "other.io/a")
    assert plugin.ignored_resource_groups == ("group.io",)
    assert plugin.new_state().ignored == plugin.ignored


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("ignoredResources: [cpu]", "ignoredResources[0]: 'cpu' is not an extended resource"),
        ("ignoredResources: [kubernetes.io/mid-cpu]", "is not an extended resource"),
        ("ignoredResourceGroups: [a.io/b]", "ignoredResourceGroups[0]: 'a.io/b' is not a group"),
    ],
)
def test_ignored_resources_are_extended(args: str, says: str) -> None:
    config = f"[{{name: CapacityScheduling, args: {{{args}}}}}]"
    with pytest.raises(ProfileError) as error:
        _parsed(_with("{multiPoint: {enabled: [{name: CapacityScheduling}]}}", config))
    assert says in str(error.value)
