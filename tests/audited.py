"""The API server's audit log, read while it is written."""

import json
from collections.abc import Iterator
from typing import Any

from tools.devcluster import Cluster


def audited(cluster: Cluster, *marks: str) -> Iterator[dict[str, Any]]:
    """What the API server has written down so far of the requests that it answered, in order.

    It writes down a request after it has answered it, so that what is expected has to be waited for. The last line may
    be half written, and counts once it is whole.

    Args:
        cluster: whose API server.
        marks: only lines that have all of these texts: to parse them all takes long.
    """
    needed = [mark.encode() for mark in marks]
    text = cluster.control_plane.audit_log.read_bytes()
    for line in text[: text.rfind(b"\n") + 1].split(b"\n"):
        if line and all(mark in line for mark in needed):
            yield json.loads(line)
