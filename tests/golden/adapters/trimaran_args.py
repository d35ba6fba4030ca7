import pkgutil
from collections.abc import Mapping
from typing import Any, Final

from scheduler_plugins.arguments import ArgumentError, decode, encode
from scheduler_plugins.plugins import PLUGINS
from tests.golden.adapters import Adapter
from tests.golden.results import UnsupportedVectorError


def _built(name: str, arguments: object) -> dict[str, Any]:
    """A plugin's arguments with their defaults, or their errors."""
    if name not in PLUGINS:
        raise UnsupportedVectorError(f"no plugin {name}")
    try:
        plugin = decode(pkgutil.resolve_name(PLUGINS[name]), arguments or {}, "args").defaulted()
    except ArgumentError as error:
        return {"valid": False, "error": str(error)}
    texts = [f"{problem.field}: {problem.message}" for problem in plugin.problems()]
    return {"valid": not texts, "error": "; ".join(texts) or None, "args": encode(plugin)}


def _defaults(vector: dict[str, Any]) -> dict[str, Any]:
    built = _built(vector["kind"].removesuffix("Args"), vector["args"])
    return {**built, **built.get("args", {})}


OPERATIONS: Final[Mapping[str, Adapter]] = {
    "decode_plugin_config": lambda vector: _built(vector["plugin"], vector["args"]),
    "collector_spec": lambda vector: _built("LowRiskOverCommitment", vector["trimaranSpec"]),
    "new_low_risk_plugin": lambda vector: _built("LowRiskOverCommitment", vector["args"]),
}
