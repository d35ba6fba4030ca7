"""We speak load-watcher's protocol as a server, so that Trimaran's schedulers need no Prometheus to use Headroom."""
