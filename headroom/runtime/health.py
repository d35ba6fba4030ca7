"""The health pages: checks that must pass, and the reasons of those that fail. Knows names and texts only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Check = Callable[[], str]  # returns a problem, or an empty text


@dataclass(frozen=True, slots=True)
class Health:
    """The checks behind the health pages."""

    healthy: Mapping[str, Check] = field(default_factory=dict)
    """Must hold for /healthz, by name: whether the program does its work."""
    ready: Mapping[str, Check] = field(default_factory=dict)
    """Must hold for /readyz as well: whether the program's results are reliable."""
    facts: Mapping[str, Callable[[], str]] = field(default_factory=dict)  # by name: one line for ``?verbose``

    def reply(self, *, ready: bool, verbose: bool) -> tuple[bool, str]:
        """Return whether all is well, and the reply's body."""
        checks = {**self.healthy, **self.ready} if ready else self.healthy
        problems = {name: check() for name, check in checks.items()}
        lines = [f"[-] {name}: {problem}" for name, problem in problems.items() if problem]
        well = not lines
        if verbose:
            lines += [f"[+] {name}" for name, problem in problems.items() if not problem]
            results = {name: check() for name, check in self.ready.items() if name not in checks}
            lines += [f"    ready, {name}: {problem or 'yes'}" for name, problem in results.items()]
            lines += [f"    {name}: {fact()}" for name, fact in self.facts.items()]
        ends = ("ready", "not ready") if ready else ("ok", "unhealthy")
        return well, "\n".join([*lines, ends[0] if well else ends[1]]) + "\n"
