"""The demo's clusters, each once for all end-to-end tests: on a real node, and on replayed nodes alone."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tools.demo.stage import stage
from tools.demo.steps import STEPS, Step
from tools.demo.story import Story


@dataclass
class StoryRunner:
    """Runs steps in order, each once; a failed step fails all later ones."""

    story: Story
    done: list[str] = field(default_factory=list)
    failed: str = ""

    def up_to(self, step: Step) -> Story:
        for earlier in STEPS[: STEPS.index(step) + 1]:
            if self.failed:
                pytest.fail(f"not reached: the step {self.failed!r} failed before")
            if earlier.title not in self.done:
                self.failed = earlier.title
                earlier.run(self.story)
                self.failed = ""
                self.done.append(earlier.title)
        return self.story

    def whole(self) -> Story:
        return self.up_to(STEPS[-1])


def _runner(name: str, request: pytest.FixtureRequest, *, real_node: bool) -> Iterator[StoryRunner]:
    with stage(f"{name}-{os.getpid()}", real_node=real_node) as story:  # two checkouts may be tested at once
        yield StoryRunner(story)
        if request.session.testsfailed:
            story.cluster.keep_logs()


@pytest.fixture(scope="module")
def on_real_node(request: pytest.FixtureRequest, real_node_requirements: None) -> Iterator[StoryRunner]:  # noqa: ARG001 - it skips
    """The story with the services as pods on a real node."""
    yield from _runner("e2e-node", request, real_node=True)


@pytest.fixture(scope="module")
def on_kwok(request: pytest.FixtureRequest) -> Iterator[StoryRunner]:
    """The story with the services as processes beside kwok nodes."""
    yield from _runner("e2e-kwok", request, real_node=False)
