"""Draws one progress bar over all parts of a build. Times of finished parts correct the estimate of the others."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread

WIDTH = 24
MINUTE = 60.0
REFRESH_SECONDS = 1.0
ALMOST = 0.97  # a part that takes longer than estimated stays below its end

Say = Callable[[str], None]


class Progress:
    """Takes lines of progress, and adds the share of the work that is done and the time that is left.

    On a terminal the bar is the last line, and moves each second. Elsewhere it is part of each line. After the last
    part it has the time that the build took.
    """

    def __init__(
        self,
        parts: Mapping[str, float],
        say: Say,
        *,
        terminal: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The parts, with the estimated time of each [s]; `terminal` is whether standard output is one."""
        self._left, self._say, self._clock = dict(parts), say, clock
        self._terminal = sys.stdout.isatty() if terminal is None else terminal
        self._done, self._spent = 0.0, 0.0  # estimated and real time of the finished parts [s]
        self._part, self._began = "", 0.0
        self._started, self._is_estimated = clock(), bool(parts)

    def __call__(self, line: str) -> None:
        """Print a line."""
        has_bar_below = self._terminal and self._left
        text = f"{self.bar()}  {line}" if self._is_estimated and not has_bar_below else line
        self._say(f"\r\033[K{text}" if self._terminal else text)
        if self._terminal:
            self._draw()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure a part; one without an estimate takes no time."""
        self._part, self._began = name, self._clock()
        end = Event()
        ticker = Thread(target=self._tick, args=(end,), daemon=True)
        if self._terminal and name in self._left:
            ticker.start()
        try:
            yield
        finally:
            end.set()
            if ticker.is_alive():
                ticker.join()
        if name in self._left:
            self._done += self._left.pop(name)
            self._spent += self._clock() - self._began
        self._part = ""

    def bar(self) -> str:
        """Return the bar: "[######------] 42 %, about 3 min left"; at the end "[############] 100 %, took 5 min"."""
        if not self._left:
            took = self._clock() - self._started
            return f"[{'#' * WIDTH}] 100 %, took {f'{took:.0f} s' if took < MINUTE else _minutes(took)}"
        total = self._done + sum(self._left.values())
        pace = self._spent / self._done if self._done else 1.0  # real time for a second of the estimate
        estimate = self._left.get(self._part, 0.0)
        running = min((self._clock() - self._began) / pace, ALMOST * estimate) if self._part else 0.0
        share = (self._done + running) / total
        filled = round(WIDTH * share)
        left = pace * (total - self._done - running)
        percent = min(round(100 * share), 99)  # a part is left
        return f"[{'#' * filled}{'-' * (WIDTH - filled)}] {percent:3} %, about {_minutes(left)} left"

    def _draw(self) -> None:
        if self._left:
            sys.stdout.write(f"\r\033[K{self.bar()}: {self._part}")
            sys.stdout.flush()

    def _tick(self, end: Event) -> None:
        while not end.wait(REFRESH_SECONDS):
            self._draw()
        sys.stdout.write("\r\033[K")


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / MINUTE))} min"
