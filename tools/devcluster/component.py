"""A program of the control plane that can be stopped and started again on the same port."""

import os
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.commands import DevClusterError
from tools.devcluster.process import Process, Supervisor, wait_until

START_SECONDS = 120.0
"""A program of the control plane is ready in a few seconds; this is for a machine that is busy with other things."""
PORT_ATTEMPTS = 5
PORTS = range(10_000, 30_000)
"""Where free ports are looked for: below those that Linux gives outgoing connections (ip_local_port_range, from 32768),
so that none of these takes a port between its choice and its use, or while its program is restarted."""
PORT_GUESSES = 100
LANES = 16  # test processes beside each other choose from different ports, so that none takes another's before its use
PORT_TAKEN = ("address already in use", "bind: address already in use")


def free_port() -> int:
    """A free port of 127.0.0.1. Another process may take it first: be ready to retry."""
    for port in random.sample(PORTS[os.getpid() % LANES :: LANES], PORT_GUESSES):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Component:
    """A program that can be stopped and started again. `ready` decides when its start is complete."""

    supervisor: Supervisor
    name: str
    command: Callable[[int], Sequence[str | Path]]  # makes the command line for a port
    ready: Callable[[int], bool] = lambda _: True  # polled after the start, with the port
    port: int = 0  # the port it listens on; 0: a free one is chosen at the first start, and kept
    cwd: Path | None = None  # its working directory
    namespaces: Sequence[Path] = ()  # namespaces that it runs in
    grace_seconds: float = 5.0  # how long it gets to end in order
    needs: Sequence["Component"] = ()
    """Without these it cannot become ready: when one of them has ended, that is the error."""
    process: Process | None = None  # the running program; None before the first start

    def launch(self) -> None:
        """Start it and do not wait."""
        self.process = self.supervisor.start(
            self.name,
            self.command(self.port),
            namespaces=self.namespaces,
            cwd=self.cwd,
            grace_seconds=self.grace_seconds,
        )

    def start(self) -> None:
        """Start it and wait until it is ready."""
        chosen = self.port
        for attempt in range(PORT_ATTEMPTS):
            self.port = chosen or free_port()
            self.launch()
            try:
                self.wait_ready()
            except DevClusterError as error:
                last = attempt == PORT_ATTEMPTS - 1
                if last or not any(sign in str(error).lower() for sign in PORT_TAKEN):
                    raise
            else:
                return

    def wait_ready(self) -> None:
        """Wait until it is ready."""
        processes = [component._started() for component in (*self.needs, self)]  # noqa: SLF001 - of this class
        wait_until(lambda: self.ready(self.port), f"{self.name} being ready", START_SECONDS, processes)

    def stop(self) -> None:
        """End it in order; killed when it takes too long."""
        self._started().stop()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self._started().kill()

    def restart(self) -> None:
        """Stop it and start it again; returns when it is ready."""
        self.stop()
        self.start()

    @property
    def running(self) -> bool:
        """Return whether it runs now."""
        return self.process is not None and self.process.running

    def _started(self) -> Process:
        if self.process is None:
            raise DevClusterError(f"{self.name} was never started")
        return self.process
