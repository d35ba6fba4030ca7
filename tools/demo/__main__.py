"""`python -m tools.demo`: show the loop on a real node, then stay up until Ctrl-C; with --once check it and end."""

import argparse
import os
import signal
import sys

from tools.demo.stage import stage
from tools.demo.steps import STEPS
from tools.demo.story import ROOT, Narrator, StepFailed, Story
from tools.devcluster import CommandError, DevClusterError
from tools.devcluster.packages import real_node_refusal


def run(story: Story) -> list[str]:
    """Run all steps. Return the step that failed, if any; later steps do not run."""
    for step in STEPS:
        story.narrator.heading(step.title)
        try:
            step.run(story)
        except (StepFailed, CommandError) as error:
            story.narrator.failed(f"{step.title}: {error}")
            story.show("get", "pods", "-A", "-o", "wide")
            story.show("get", "events", "-A", "--sort-by=.lastTimestamp")
            story.cluster.keep_logs()
            return [step.title]
    return []


def stay(story: Story) -> None:
    """Say what to try next, and wait for Ctrl-C."""
    program = story.cluster.binaries.path("kubectl").parent
    story.narrator.heading("Now you")
    for line in (
        f"export KUBECONFIG={story.cluster.kubeconfig}",
        f"export PATH={ROOT / '.venv/bin'}:{program}:$PATH",
        "kubectl get nodemetrics --watch",
        f"kubectl headroom explain node {story.node}",
        "kubectl headroom top pods -A",
        "kubectl -n headroom-system edit configmap slo-controller-config",
        "kubectl -n headroom-system logs daemonset/headroom-agent",
    ):
        story.narrator.say(f"  {line}", "bold green")
    story.narrator.say("The cluster stays up until you press Ctrl-C, which leaves nothing behind.")
    signal.pause()


def main() -> int:
    """Run the demo. Returns the exit code: 1 if a step failed or the cluster did not start."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the last step; exit code 1 if one failed")
    once = parser.parse_args().once
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: in order
    narrator = Narrator()
    try:
        refusal = real_node_refusal()
        if refusal:
            narrator.skipped(refusal)
        name = f"demo-{os.getpid()}" if once else "demo"
        with stage(name, narrator, real_node=not refusal) as story:
            failed = run(story)
            if not once:
                stay(story)
    except KeyboardInterrupt:
        narrator.say("Stopped; nothing stays behind.")
        return 0 if not once else 130
    except DevClusterError as error:
        narrator.failed(str(error))
        return 1
    if failed:
        narrator.failed(f"The step {failed[0]!r} did not hold.")
        return 1
    narrator.seen(f"All {len(STEPS)} steps hold.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
