"""Profiles, pods and the schema of pods for tests."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from manager.profiles.pod_schema import PodSchema
from manager.profiles.profile import Profile, read
from manager.profiles.state import Profiles

Json = dict[str, Any]

CLASSES: Final = {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "reports": 7100, "important": 100}
SCHEMA_FILE: Final = Path(__file__).with_name("pod_schema.json")
"""The description of pods of Kubernetes 1.36, without texts; a test compares it with that of a server."""


@cache
def schema() -> PodSchema:
    return PodSchema(json.loads(SCHEMA_FILE.read_text()))


def made(name: str = "mid", **spec: Any) -> Json:  # noqa: ANN401 - JSON
    """Return a profile as an object."""
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": spec,
    }


def profile(**spec: Any) -> Profile:  # noqa: ANN401 - JSON
    return read(made(**spec), CLASSES, schema())


def known(*objects: Json) -> Profiles:
    """Return the state of a replica that has read everything."""
    profiles = Profiles()
    profiles.classes, profiles.schema = CLASSES, schema()
    profiles.replace(list(objects))
    return profiles


def pod(resources: Json | None = None, **more: Any) -> Json:  # noqa: ANN401 - JSON
    """Return a pod with one container, which by default requests 500m and 1Gi."""
    amounts = {"requests": {"cpu": "500m", "memory": "1Gi"}} if resources is None else resources
    metadata = {name: more.pop(name) for name in ("labels", "annotations") if name in more}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": amounts}], **more}}
