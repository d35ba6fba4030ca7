"""The texts of findings."""

from kubectl_headroom.doctor.finding import about, named, warning
from tests.kubectl_headroom.doctor.world import ERROR


def test_messages_are_one_line() -> None:
    """A message of several lines becomes one line."""
    assert warning("It says:\n  no\n", "kubectl get pods").message == "It says: no"


def test_many_names() -> None:
    """Of many names the first are in the message, and the number of the rest; without names there is no finding."""
    assert named([str(number) for number in range(7)]) == "0, 1, 2, 3, 4 and 2 more"
    assert named(["a"]) == "a"
    (result,) = about(ERROR, ["a", "b"], "{count} gone: {names}.", "find {first}", noun="pod")
    assert (result.message, result.fix, result.objects) == ("2 pods gone: a, b.", "find a", ("a", "b"))
    assert list(about(ERROR, [], "{count}", "{first}")) == []
