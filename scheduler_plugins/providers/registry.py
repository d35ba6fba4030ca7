"""The providers by the name that `metricProvider.type` calls them; each is one file."""

from collections.abc import Mapping
from typing import Final

NODE_METRIC: Final = "NodeMetric"
"""No provider of its own: what our agents report is in the snapshot. The same as an empty type."""
LOAD_WATCHER: Final = "LoadWatcher"
"""The load-watcher service; `watcherAddress` selects it, `metricProvider.type` cannot."""

PROVIDERS: Final[Mapping[str, str]] = {
    LOAD_WATCHER: "scheduler_plugins.providers.load_watcher:make",
    "Prometheus": "scheduler_plugins.providers.prometheus:make",
    "KubernetesMetricsServer": "scheduler_plugins.providers.metrics_server:make",
    "SignalFx": "scheduler_plugins.providers.signal_fx:make",
}
"""Where the maker of each provider is."""

TYPES: Final = (NODE_METRIC, *(name for name in PROVIDERS if name != LOAD_WATCHER))
"""What `metricProvider.type` may say, beside nothing. Case matters, as it does upstream."""
