"""`python -m tools.bench.scheduler_noop PORT SHORT`: an extender that decides nothing, on the HTTP server of ours.

What it costs is what any extender costs: the floor under ours. `/counts` says how many names came in how many calls.
"""

import asyncio
import json
import sys
from collections import Counter

from headroom.runtime.http import Page, Reply, Request, serve

KEY = b'"NodeNames":['  # the names come last in a request, and no text of a pod can hold this unescaped
TAIL = b',"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'


def names(body: bytes) -> list[bytes]:
    """The quoted names of a request, as they stand."""
    start = body.rfind(KEY) + len(KEY)
    return body[start : body.index(b"]", start)].split(b",")


class Nothing:
    """Answers that decide nothing.

    Args:
        short: with how many names filter answers; 0: with all of them.
    """

    def __init__(self, short: int) -> None:
        self._short = short
        self._counts: Counter[str] = Counter()

    def filter(self, request: Request) -> Reply:
        """The first few names that were sent, or all."""
        given = names(request.body)
        self._count("filter", given)
        kept = b",".join(given[: self._short or None])
        return Reply(b'{"Nodes":null,"NodeNames":[' + kept + b"]" + TAIL)

    def prioritize(self, request: Request) -> Reply:
        """The same score for every node."""
        given = names(request.body)
        self._count("prioritize", given)
        return Reply(b'[{"Host":' + b',"Score":0},{"Host":'.join(given) + b',"Score":0}]')

    def counts(self, _: Request) -> Reply:
        """How many calls and names came, by verb."""
        return Reply(json.dumps(self._counts).encode())

    def pages(self) -> dict[tuple[str, str], Page]:
        """All of them."""
        found: dict[tuple[str, str], Page] = {
            ("POST", "/filter"): self.filter,
            ("POST", "/prioritize"): self.prioritize,
            ("GET", "/healthz"): lambda _: Reply.text("ok\n"),
            ("GET", "/counts"): self.counts,
        }
        return found

    def _count(self, verb: str, given: list[bytes]) -> None:
        self._counts[f"{verb} calls"] += 1
        self._counts[f"{verb} names"] += len(given)


async def _run(port: int, short: int) -> None:
    await serve(Nothing(short).pages(), "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1]), int(sys.argv[2])))
