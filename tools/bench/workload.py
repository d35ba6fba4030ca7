"""Usage of 110 pods, second by second: levels of the real traces in the repository, with noise of a second on top.

The traces have a value every five minutes. Between two of them the level moves in a straight line; around it CPU jumps
(gamma noise, as of requests that come and go) and the memory of some pods wanders by pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agent.collectors.base import Tick
from agent.numerics.arrays import FloatArray, SingleArray
from agent.pods import PodRef
from agent.samples import CPU, CPU_THROTTLED, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, CollectionResult, Sample
from crds.priority import PriorityBand, QoS
from tools.devcluster import traces

PODS = 110
CPUS = 32
MEMORY_BYTES = 128 << 30
PAGE = 4096
NOISE_SHAPE = 8.0
SHARE_THAT_MOVES = 0.2  # share of the pods, whose memory changes in a second
THROTTLED_EVERY = 4  # one pod in so many has a CPU quota
PRESSURE_EVERY = 10  # the pressure of each pod is read every so many ticks
PRESSURES = ("cpu_some", "cpu_full", "memory_some", "memory_full", "io_some", "io_full")
DAY_SECONDS = 86_400.0
JOB_SECONDS = 90.0  # how long the pod of a job runs
JOB_CPU, JOB_MEMORY = 0.2, float(48 << 20)  # its usage [cores, bytes]
BANDS = (*[PriorityBand.PROD] * 5, PriorityBand.MID, PriorityBand.MID, PriorityBand.BATCH, *[PriorityBand.NONE] * 2)


@dataclass(slots=True)
class Workload:
    """Pods of 30 workloads on one node, that come and go."""

    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))  # where the noise comes from
    count: int = PODS  # how many pods there are at a time
    present: list[PodRef] = field(default_factory=list)  # the pods of this moment that stay for days
    short: list[PodRef] = field(default_factory=list)  # those of jobs, which end after a minute or two
    synced: bool = True  # the list is complete, as for any source of pods
    problem: str = ""  # the list is current
    _born: int = 0
    _jobs: int = 0
    _cpu: SingleArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    _memory: SingleArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    _wander: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        series = [one for name, one in sorted(traces.load().items()) if name.startswith("bitbrains-")]
        chosen = [series[number % len(series)] for number in range(self.count)]
        starts = self.random.integers(0, len(series[0].cpu), self.count)
        cores, sizes = (
            self.random.choice((0.25, 0.5, 1.0, 2.0), self.count),
            self.random.choice((0.25, 1, 2), self.count),
        )
        traces.load.cache_clear()  # months of many machines, which would count as the agent's memory
        rows = zip(chosen, starts, cores, sizes, strict=True)
        turned = [(np.roll(one.cpu, -at) * core, np.roll(one.memory, -at) * size) for one, at, core, size in rows]
        # Four bytes each: the load's memory counts as the agent's, too.
        self._cpu = np.array([cpu for cpu, _ in turned], dtype=np.float32)
        self._memory = np.array([memory * (1 << 30) for _, memory in turned], dtype=np.float32)
        del chosen, rows, turned, series
        self._wander = np.zeros(self.count)
        self.present = [self._new(number, float(cores[number]), float(sizes[number])) for number in range(self.count)]

    def pods(self) -> Sequence[PodRef]:
        """The pods of this moment, as any source of pods answers."""
        return [*self.present, *self.short]

    async def run(self) -> None:
        """Nothing to follow."""

    def replace_some(self, count: int) -> None:
        """Let the oldest pods end, each followed by another of its workload."""
        for _ in range(count):
            place = self._born % self.count
            old = self.present[place]
            self.present[place] = replace(old, uid=self._uid(), name=f"{old.name[:-5]}{self._born:05d}")

    def run_jobs(self, seconds: float, a_day: int) -> None:
        """Begin the pods of jobs that are due, and end those that have had their time.

        Args:
            seconds: Time since the workload began.
            a_day: How many of them begin in a day.
        """
        due = int(seconds * a_day / DAY_SECONDS)
        ended = int(max(seconds - JOB_SECONDS, 0.0) * a_day / DAY_SECONDS)
        self.short = [_job(number) for number in range(min(ended, self._jobs), due)]
        self._jobs = due

    def samples(self, now: float, seconds: float) -> list[Sample]:
        """A tick: everything that the agent measures of the node and every pod.

        Args:
            now: The tick's time. [seconds since 1970]
            seconds: Time since the workload began: where in the traces it is.
        """
        cpu, memory = self._at(self._cpu, seconds), self._at(self._memory, seconds)
        cpu = cpu * self.random.gamma(NOISE_SHAPE, 1 / NOISE_SHAPE, self.count)
        moves = self.random.random(self.count) < SHARE_THAT_MOVES
        self._wander += self.random.integers(-30, 31, self.count) * moves
        memory = (memory // PAGE + np.abs(self._wander)) * PAGE
        total = memory + 50 * (1 << 20)
        system_cpu, system_memory = 0.3 * self.random.gamma(NOISE_SHAPE, 1 / NOISE_SHAPE), 2.0 * (1 << 30)
        jobs = len(self.short)
        totals = {
            CPU: (float(cpu.sum()) + jobs * JOB_CPU, system_cpu),
            MEMORY: (float(memory.sum()) + jobs * JOB_MEMORY, system_memory),
        }
        result = [Sample(metric, NODE, now, pods + system) for metric, (pods, system) in totals.items()]
        result.append(Sample(MEMORY_WITH_PAGE_CACHE, NODE, now, float(total.sum()) + jobs * JOB_MEMORY + system_memory))
        result += [Sample(f"psi_{name}", NODE, now, 0.0) for name in PRESSURES]
        turn = int(seconds) % PRESSURE_EVERY
        read = self.present[turn::PRESSURE_EVERY]
        result += [Sample(f"psi_{name}_some", pod.uid, now, 0.0) for name in ("cpu", "memory", "io") for pod in read]
        limited = self.present[::THROTTLED_EVERY]
        result += [Sample(CPU_THROTTLED, pod.uid, now, 0.0) for pod in limited]
        for metric, values in ((CPU, cpu), (MEMORY, memory), (MEMORY_WITH_PAGE_CACHE, total)):
            result += [
                Sample(metric, pod.uid, now, value) for pod, value in zip(self.present, values.tolist(), strict=True)
            ]
            result += [Sample(metric, pod.uid, now, JOB_CPU if metric == CPU else JOB_MEMORY) for pod in self.short]
        return result

    def _at(self, levels: SingleArray, seconds: float) -> FloatArray:
        at, part = divmod(seconds / traces.STEP_SECONDS, 1.0)
        left, right = int(at) % levels.shape[1], (int(at) + 1) % levels.shape[1]
        level: FloatArray = (levels[:, left] * (1 - part) + levels[:, right] * part).astype(np.float64)
        return level

    def _new(self, number: int, cores: float, gib: float) -> PodRef:
        workload = f"shop/Deployment/service-{number % 30}"
        requests = {"cpu": round(cores * 1000), "memory": round(gib * (1 << 30))}
        uid, band = self._uid(), BANDS[number % len(BANDS)]
        name = f"service-{number % 30}-{self._born:05d}"
        return PodRef(uid, "shop", name, band, QoS.LS, requests, requests, str(band), uid, workload=workload)

    def _uid(self) -> str:
        self._born += 1
        return f"00000000-0000-4000-8000-{self._born:012d}"


def _job(number: int) -> PodRef:
    """The pod of a job; every job of a workload begins one after the other."""
    requests, workload = {"cpu": 100, "memory": 64 << 20}, f"batch/CronJob/job-{number % 3}"
    uid, name = f"00000000-0000-4000-9000-{number:012d}", f"job-{number % 3}-{number:08d}"
    return PodRef(uid, "batch", name, PriorityBand.NONE, QoS.NONE, requests, requests, "", uid, workload=workload)


@dataclass(frozen=True, slots=True)
class Collected:
    """A collector that measures the workload instead of a machine."""

    workload: Workload  # the workload
    start: float  # when the workload began [seconds since 1970]

    def collect(self, tick: Tick) -> CollectionResult:
        """A tick of it."""
        return CollectionResult(self.workload.samples(tick.now, tick.now - self.start), pods_listed=True)
