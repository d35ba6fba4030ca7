"""The commands that read the cluster: arguments are checked first."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from headroom import kube
from kubectl_headroom import live, targets, watching
from kubectl_headroom.config import diff
from kubectl_headroom.config import file as config_file
from kubectl_headroom.doctor import command as doctor
from kubectl_headroom.errors import USAGE, CommandError
from kubectl_headroom.explain import command as explain
from kubectl_headroom.shadow import command as shadow
from kubectl_headroom.top import command as top

if TYPE_CHECKING:
    from kubectl_headroom.quota.reading import Place

Ask: TypeAlias = Callable[[kube.ApiServer], Awaitable[int | None]]
"""Reads the cluster, prints, and returns the exit code; `None` is 0."""


def run(options: argparse.Namespace) -> int:
    """Run a command of `COMMANDS`; its exit code.

    Raises:
        CommandError: it cannot be done; the message has the reason.
    """
    return asyncio.run(_ask(options, COMMANDS[options.command](options))) or 0


async def _ask(options: argparse.Namespace, ask: Ask) -> int | None:
    async with live.cluster(_login(options)) as api:
        if not getattr(options, "watch", False):
            return await ask(api)
        every = watching.INTERVAL_SECONDS if options.interval is None else options.interval
        await watching.watch_loop(api, ask, every, options.output)
        return None


def _login(options: argparse.Namespace) -> live.Login:
    timeout = options.request_timeout
    return live.Login(
        kubeconfig=options.kubeconfig,
        context=options.context,
        user=options.acts_as,
        groups=tuple(options.acts_as_groups or ()),
        timeout_seconds=live.TIMEOUT_SECONDS if timeout is None else timeout,
        overrides=kube.Overrides(
            server=options.server or "",
            cluster=options.cluster or "",
            user=options.user or "",
            token=options.token or "",
            insecure=bool(options.insecure),
        ),
        verbosity=options.verbosity or 0,
    )


def _top(options: argparse.Namespace) -> Ask:
    if options.what == targets.POD:
        everywhere = options.all_namespaces or (options.node is not None and options.namespace is None)
        return partial(
            top.pods,
            place=top.Place(options.namespace, everywhere),
            names=options.names,
            node=options.node,
            output=options.output,
            order=options.sort_by,
            labels=options.selector,
            headers=options.headers,
        )
    return partial(
        top.nodes,
        names=options.names,
        output=options.output,
        order=options.sort_by,
        labels=options.selector,
        headers=options.headers,
    )


def _explain(options: argparse.Namespace) -> Ask:
    if options.what != targets.NODE:
        return _explain_by_plugins(options)
    return partial(
        explain.node,
        name=options.name,
        namespace=options.namespace or options.headroom_namespace,
        config_name=options.config_name,
        output=options.output,
        tried=explain.trial(options.set, options.config),
    )


def _explain_by_plugins(options: argparse.Namespace) -> Ask:
    """Explain pods and quotas, with the scheduler's own code."""
    if options.set or options.config:
        raise CommandError(
            f"--set and --config try what a node would publish, not a {options.what}: explain node.", USAGE
        )
    from kubectl_headroom.pod import command as pod  # noqa: PLC0415 - imported late, for the plugins' cost
    from kubectl_headroom.quota import account_command as account  # noqa: PLC0415

    place = _place(options)
    target = {"place": place, "namespace": options.namespace, "output": options.output}
    if options.what == targets.QUOTA:
        return partial(account.quota, name=options.name, **target)
    if options.what == targets.POD:
        return partial(pod.pod, config_name=options.config_name, name=options.name, **target)
    workload = options.what, options.name
    return partial(pod.pods_of, config_name=options.config_name, workload=workload, **target)


def _place(options: argparse.Namespace) -> "Place":
    from kubectl_headroom.quota.reading import Place  # noqa: PLC0415 - as above
    from kubectl_headroom.simulate import profile  # noqa: PLC0415

    chosen = profile.of_file(options.profile, options.scheduler_name) if options.profile else None
    return Place(chosen, options.headroom_namespace, options.scheduler_name)


def _diff(options: argparse.Namespace) -> Ask:
    return partial(
        diff.run,
        file=config_file.read(options.file),
        namespace=options.namespace,
        config_name=options.config_name,
        output=options.output,
    )


def _shadow(options: argparse.Namespace) -> Ask:
    return partial(
        shadow.nodes,
        namespace=options.namespace,
        selector=options.selector,
        output=options.output,
        headers=options.headers,
    )


def _doctor(options: argparse.Namespace) -> Ask:
    return partial(
        doctor.run,
        namespace=options.namespace,
        config_name=options.config_name,
        preflight=options.preflight,
        output=options.output,
    )


def _profile(options: argparse.Namespace) -> Ask:
    from kubectl_headroom.profile import command as profile  # noqa: PLC0415 - imported late, for YAML's cost
    from kubectl_headroom.simulate import pod_file  # noqa: PLC0415

    if options.action == "list":
        return partial(profile.profiles, output=options.output, headers=options.headers)
    place = {"namespace": options.namespace, "headroom": options.headroom_namespace, "output": options.output}
    if options.pod:
        return partial(profile.explain_pod, name=options.pod, **place)
    return partial(profile.explain_file, file=pod_file.load(options.filename), **place)


def _simulate(options: argparse.Namespace) -> Ask:
    # Imported late: only simulations pay for the plugins and their libraries.
    from kubectl_headroom.simulate import command, pod_file, profile  # noqa: PLC0415

    chosen = profile.of_file(options.profile, options.scheduler_name) if options.profile else None
    is_file = options.what == targets.POD and pod_file.is_file(options.source)
    file = pod_file.load(options.source) if is_file else None
    if file is None:
        try:
            targets.name(options.source)
        except argparse.ArgumentTypeError as error:
            raise CommandError(f"simulate pod: {error}.", USAGE) from error
    else:
        file.pods(options.namespace or "")  # faults of the file are reported before any request
    request = command.PodRequest(
        name=options.source,
        given=file,
        chosen=chosen,
        namespace=options.namespace,
        headroom_namespace=options.headroom_namespace,
        scheduler_name=options.scheduler_name,
        node=options.node,
        limit=options.limit,
        output=options.output,
        kind=options.what,
    )
    return partial(command.pod, request=request)


def _quota(options: argparse.Namespace) -> Ask:
    from kubectl_headroom.quota import command  # noqa: PLC0415

    place = _place(options)
    if options.what == "verify":
        return partial(command.verify, place=place, output=options.output)
    target = {"namespace": options.namespace, "output": options.output, "headers": options.headers}
    return partial(command.quotas, place=place, **target)


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], Ask]]] = {
    "top": _top,
    "explain": _explain,
    "config": _diff,
    "shadow": _shadow,
    "simulate": _simulate,
    "quota": _quota,
    "profile": _profile,
    "doctor": _doctor,
}
"""Name of a command -> its request, after checks of its options."""
