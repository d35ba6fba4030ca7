"""Entry point of `kubectl-headroom`: one command, one exit code, never a traceback for what the user can mend."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from cli import arguments
from cli.errors import FAILED, INTERRUPTED, CommandError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments; those of the process by default.

    Returns:
        The exit code, see `cli.errors`.
    """
    options = arguments.parser().parse_args(argv)
    code = 0
    try:
        if options.command == "version":
            _print_version(options.output)
        elif options.command == "config" and options.action == "check":
            code = _check(options)
        else:
            code = asyncio.run(_run(options))
        sys.stdout.flush()
    except CommandError as error:
        print(f"kubectl headroom: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; nothing may be written when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _check(options: argparse.Namespace) -> int:
    from cli import config_check  # noqa: PLC0415 - `version` does not pay for the validator

    return config_check.run(options.file, options.output)


async def _run(options: argparse.Namespace) -> int:
    """Run a command that needs the cluster; its exit code."""
    from cli import config_diff, config_file, live  # noqa: PLC0415 - `--help` and `version` do not pay for the HTTP client
    from cli.explain import command as explain  # noqa: PLC0415 - `--help` and `version` do not pay for the HTTP client
    from cli.shadow import command as shadow  # noqa: PLC0415 - `--help` and `version` do not pay for the HTTP client
    from cli.top import command as top  # noqa: PLC0415 - `--help` and `version` do not pay for the HTTP client
    from cli.uninstall import command as uninstall  # noqa: PLC0415 - `--help` and `version` do not pay for the HTTP client

    # What is wrong on the command line is said before the cluster is asked.
    tried = explain.trial(options.set, options.config) if options.command == "explain" else None
    file = config_file.read(options.file) if options.command == "config" else None
    async with live.cluster(options.kubeconfig, options.context) as api:
        if options.command == "explain":
            await explain.node(api, options.name, options.namespace, options.config_name, options.output, tried)
        elif file is not None:
            return await config_diff.run(api, file, options.namespace, options.config_name, options.output)
        elif options.command == "shadow":
            await shadow.nodes(api, options.selector, options.output)
        elif options.command == "uninstall":
            return await uninstall.run(
                api,
                options.namespace,
                options.config_name,
                dry_run=options.dry_run,
                force=options.force,
                output=options.output,
            )
        elif options.what.startswith("pod"):
            await top.pods(api, options.namespace, options.node, options.output)
        else:
            await top.nodes(api, options.node, options.output)
    return 0


def _print_version(output: str) -> None:
    version = metadata.version("headroom")
    print(json.dumps({"version": version}) if output == "json" else f"kubectl headroom {version}")


if __name__ == "__main__":
    sys.exit(main())
