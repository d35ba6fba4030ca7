"""`python -m tools.bench.scheduler_noop PORT NAMES`: an extender that decides nothing, on the HTTP server of ours.

Its cost is the minimum of any extender. It answers filters with the first NAMES names (0: all);
`/counts` has how many names came in how many calls.
"""

import asyncio
import json
import sys
from collections import Counter

from headroom.runtime.http import Page, Reply, Request, serve

KEY = b'"NodeNames":['  # the names come last in a request, and no text of a pod can hold this unescaped
TAIL = b',"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'


async def run(port: int, short: int) -> None:
    """Serve until the process ends."""
    counts: Counter[str] = Counter()

    def names(request: Request, verb: str) -> list[bytes]:
        """Return the quoted names of a request, unchanged."""
        start = request.body.rfind(KEY) + len(KEY)
        quoted = request.body[start : request.body.index(b"]", start)].split(b",")
        counts[f"{verb} calls"] += 1
        counts[f"{verb} names"] += len(quoted)
        return quoted

    def filter_nodes(request: Request) -> Reply:
        joined = b",".join(names(request, "filter")[: short or None])
        return Reply(b'{"Nodes":null,"NodeNames":[' + joined + b"]" + TAIL)

    def prioritize(request: Request) -> Reply:
        quoted = names(request, "prioritize")
        return Reply(b'[{"Host":' + b',"Score":0},{"Host":'.join(quoted) + b',"Score":0}]')

    pages: dict[tuple[str, str], Page] = {
        ("POST", "/filter"): filter_nodes,
        ("POST", "/prioritize"): prioritize,
        ("GET", "/healthz"): lambda _: Reply.text("ok\n"),
        ("GET", "/counts"): lambda _: Reply(json.dumps(counts).encode()),
    }
    await serve(pages, "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))
