"""What health pages answer: what holds, and in words what does not. Knows names and texts only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Check = Callable[[], str]  # answers with what is wrong, or an empty text


@dataclass(frozen=True, slots=True)
class Health:
    """What the health pages answer from."""

    healthy: Mapping[str, Check] = field(default_factory=dict)
    """Must hold for /healthz, by name: whether the program does its work."""
    ready: Mapping[str, Check] = field(default_factory=dict)
    """Must hold for /readyz as well: whether what it says can be relied upon."""
    facts: Mapping[str, Callable[[], str]] = field(default_factory=dict)  # by name: one line for ``?verbose``

    def answer(self, *, ready: bool, verbose: bool) -> tuple[bool, str]:
        """Return whether all is well, and the answer's body."""
        checks = {**self.healthy, **self.ready} if ready else self.healthy
        found = {name: check() for name, check in checks.items()}
        lines = [f"[-] {name}: {problem}" for name, problem in found.items() if problem]
        well = not lines
        if verbose:
            lines += [f"[+] {name}" for name, problem in found.items() if not problem]
            told = {name: check() for name, check in self.ready.items() if name not in checks}
            lines += [f"    ready, {name}: {problem or 'yes'}" for name, problem in told.items()]
            lines += [f"    {name}: {fact()}" for name, fact in self.facts.items()]
        ends = ("ready", "not ready") if ready else ("ok", "unhealthy")
        return well, "\n".join([*lines, ends[0] if well else ends[1]]) + "\n"
