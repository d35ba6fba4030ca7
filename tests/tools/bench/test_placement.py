"""The placement benchmark: the same pods for every policy, a model of the default scores, and a table."""

import numpy as np
import pytest

from tools.bench.placement import HEADER, POLICIES, Outcome, lines, main, simulate
from tools.bench.placement_agents import STEP_SECONDS, Agent
from tools.bench.placement_pods import CORES, DAILY, FULL, STEPS, Pod, population
from tools.bench.placement_policies import Policy, Scheduler, default_scores

NOW = 1_735_689_600.0


def _pod(cpu: float = 4.0, memory: float = 16.0, number: int = 0) -> Pod:
    return Pod(number, 0, STEPS, cpu, memory, np.full(STEPS, 2.0), np.full(STEPS, 8.0))


def test_population_is_seeded() -> None:
    """The same seed gives the same pods, another one others; they come in order and go after they came."""
    first, again, other = population(2, 1), population(2, 1), population(2, 2)
    assert [(pod.begins, pod.ends, pod.cpu_request) for pod in first] == [
        (pod.begins, pod.ends, pod.cpu_request) for pod in again
    ]
    assert [pod.cpu_request for pod in first] != [pod.cpu_request for pod in other]
    assert [pod.begins for pod in first] == sorted(pod.begins for pod in first)
    assert all(pod.begins < pod.ends for pod in first)


def test_population_fills_the_nodes() -> None:
    """What is planned is requested at the end; no pod uses more than 8 cores, and each has a value for every step."""
    pods = population(8, 3)
    at_end = sum(pod.cpu_request for pod in pods if pod.begins < STEPS - 1 <= pod.ends)
    assert at_end / (8 * CORES) == pytest.approx(FULL, abs=0.1)
    assert 0 < DAILY < 1
    assert all(len(pod.cpu) == STEPS and pod.cpu.max() <= 8.0 for pod in pods)


def test_default_scores() -> None:
    """With the pod an empty node has 87 and 87 % free, in balance; one with 16 of 32 cores requested 37 and 87 %."""
    scores = default_scores(np.array([[0.0, 0.0], [16.0, 0.0]]), _pod())
    assert scores.tolist() == [87 + 100, (37 + 87) // 2 + 75]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.title)
def test_policy_places_pods(policy: Policy) -> None:
    """Under every policy pods find nodes, the same way for the same seed, and none is lost."""
    first, again = (simulate(policy, 2, 5, 4) for _ in range(2))
    assert np.array_equal(first.utilisation, again.utilisation)
    assert first.utilisation.shape == (2, 2)
    assert first.utilisation.sum() > 0
    assert first.waiting == 0


def test_hot_node_is_left_out() -> None:
    """A node whose report is above the threshold gets no pod from our plugin, and gets one from the model."""
    names = ["a", "b"]
    ours, plain = (Scheduler(Policy("", load_aware=flag), names, 1) for flag in (True, False))
    busy = [Pod(each, 0, STEPS, 1.0, 1.0, np.full(STEPS, 8.0), np.full(STEPS, 1.0)) for each in range(3)]
    for agent, pods in ((Agent("a", predicts=False), busy), (Agent("b", predicts=False), [])):
        ours.cache.put_node_metric(agent.report(0, NOW, pods))
    plain.requested[1] = ours.requested[1] = (8.0, 8.0)
    assert plain.place(_pod(), NOW + 30) == 0
    assert ours.place(_pod(), NOW + 30) == 1


def test_full_node_gets_nothing() -> None:
    """Requests always have to fit; without room a pod waits, and has it when another leaves."""
    scheduler = Scheduler(POLICIES[0], ["a"], 1)
    assert scheduler.place(_pod(30.0), NOW) == 0
    assert scheduler.place(_pod(4.0), NOW) is None
    scheduler.leave(_pod(30.0), 0)
    assert scheduler.place(_pod(4.0), NOW) == 0


def test_agent_remembers_the_peak() -> None:
    """The prediction stays at the highest hour of a pod when it is idle again; the report itself shows it idle."""
    cpu = np.full(STEPS, 0.5)
    cpu[40:52] = 6.0
    pod, agent = Pod(0, 0, STEPS, 1.0, 1.0, cpu, np.full(STEPS, 1.0)), Agent("a", predicts=True)
    for step in range(61):
        report = agent.report(step, NOW + step * STEP_SECONDS, [pod])
    peaks = {part["name"]: part["peak"]["cpu"] for part in report["status"]["prediction"]["classes"]}
    assert 6200 * 1.05 < int(peaks["node"].removesuffix("m")) < 6200 * 1.15
    assert report["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] == "700m"


def test_table_has_mean_and_spread() -> None:
    """Each policy has a line with the mean and the deviation over the seeds."""
    one = Outcome(np.array([[0.1, 0.7], [0.2, 0.8]]), 0.0).figures()
    assert one[1] == 50.0
    header, row, other = lines({"x": [one, [value + 2.0 for value in one]], "y": [[value / 2 for value in one]]})
    assert len(header) == len(row) == len(HEADER) == len(one) + 2
    assert (row[-1], other[-1]) == ("100", f"{25 / 102 * 100:.0f}")
    assert row[2] == "51.0 ± 1.4"


@pytest.mark.parametrize("flag", ["--seeds=0", "--days=8", "--daily=1.5"])
def test_wrong_plan_is_refused(flag: str) -> None:
    """A benchmark of nothing, or of what there is not, is refused."""
    with pytest.raises(SystemExit):
        main([flag])
