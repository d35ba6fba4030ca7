"""Settings from the command line and the environment, generated from the fields of dataclasses.

A field that is made with `setting` has a flag, a variable ``HEADROOM_AGENT_<FLAG>``, a check, and the docstring under
it as help. A field whose default is another dataclass is a stage of its own: its fields are read in the same way.
"""

import argparse
import ast
import contextlib
import dataclasses
import difflib
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from headroom.runtime.option_types import Kind
from headroom.runtime.text import joined

ENV_PREFIX: Final = "HEADROOM_AGENT_"
_KEY: Final = "headroom-setting"
_SIMILAR: Final = 0.85

T = TypeVar("T")


class WrongSetting(ValueError):  # noqa: N818 - what the user sees is the message
    """A flag, variable or command that cannot be used; one line that names it and the way out."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a field is set from outside."""

    flag: str
    """Name of the flag, without dashes in front."""
    kind: Kind
    """What it accepts."""
    shown: str
    """Its default, as the help says it; empty when there is none to tell."""
    variables: tuple[str, ...] = ()
    """Further environment variables that are asked, after its own."""
    letter: str = ""
    """Its short form, without the dash; empty when it has none."""

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return ENV_PREFIX + self.flag.replace("-", "_").upper()

    @property
    def name(self) -> str:
        """What a message calls it."""
        return f"--{self.flag} (or {self.variable})"


def setting(
    default: Any = dataclasses.MISSING,  # noqa: ANN401 - what the field holds
    *,
    flag: str,
    kind: Kind,
    factory: Callable[[], Any] | None = None,
    shown: str | None = None,
    variables: tuple[str, ...] = (),
    letter: str = "",
) -> Any:  # noqa: ANN401 - the type of the field that it stands for
    """A dataclass field that the user can set.

    Args:
        default: Its value when nobody sets it.
        flag: Name of its flag; the variable follows from it.
        kind: What it accepts.
        factory: Makes the default, where it depends on the machine.
        shown: How the help says the default, where its value does not say it.
        variables: Further environment variables that are asked, after its own.
        letter: Its short form, without the dash.
    """
    if shown is None:
        shown = "" if factory is not None or default is None else kind.show(default)
    metadata = {_KEY: Setting(flag, kind, shown, variables, letter)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Parser(argparse.ArgumentParser):
    """A parser that complains in one line, by raising `WrongSetting`."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to look."""
        raise WrongSetting(f"{message}; {self.prog} --help lists all flags")


@dataclass(frozen=True, slots=True)
class Given:
    """What the user gave; a flag wins over a variable."""

    flags: Mapping[str, str | None]
    """Texts by flag."""
    environment: Mapping[str, str]
    """All variables."""

    def text(self, one: Setting) -> str | None:
        """What was given for a setting; an empty variable is the same as none.

        Raises:
            WrongSetting: The flag was given with an empty value.
        """
        flag = self.flags.get(one.flag)
        if flag == "":
            raise WrongSetting(f"{one.name} must not be empty")
        texts = (flag, *(self.environment.get(name) for name in (one.variable, *one.variables)))
        return next((text for text in texts if text), None)


def parser(prog: str, usage: str, description: str, epilog: str, settings: type) -> Parser:
    """The command line of a settings class.

    The docstrings are read from its source, so this costs more than `given` needs: for ``--help``.
    """
    result = Parser(
        prog=prog,
        usage=usage,
        description=description,
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for stage in stages(settings):
        group = result.add_argument_group((inspect.getdoc(stage) or "").partition("\n")[0].rstrip("."))
        told = docstrings(stage)
        for name, one in flags_of(stage).items():
            _add(group, one, told.get(name, ""))
    return result


def given(prog: str, settings: type, arguments: Sequence[str] | None, environment: Mapping[str, str]) -> Given:
    """Split the command line, which holds no ``--help``, into texts.

    Raises:
        WrongSetting: There is a flag that does not exist, or one without its value.
    """
    result = Parser(prog=prog, allow_abbrev=False, add_help=False)
    for stage in stages(settings):
        for one in flags_of(stage).values():
            _add(result, one, "")
    found = vars(result.parse_args(joined(sys.argv[1:] if arguments is None else arguments)))
    return Given({name.replace("_", "-"): text for name, text in found.items()}, environment)


def read(settings: type[T], user: Given) -> T:
    """Make a settings object of what was given, and defaults.

    Raises:
        WrongSetting: A value cannot be used.
    """
    values: dict[str, Any] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type] # a dataclass, as everything here
        inner, one = _stage(field), field.metadata.get(_KEY)
        if inner is not None:
            values[field.name] = read(inner, user)
        elif one is not None and (text := user.text(one)) is not None:
            try:
                values[field.name] = one.kind.parse(text)
            except ValueError as error:
                raise WrongSetting(f"{one.name} {error}, got: {text!r}") from None
    try:
        return settings(**values)
    except ValueError as error:
        names = ", ".join(f"--{one.flag}" for one in flags_of(settings).values())
        raise WrongSetting(f"{error} (one of {names})") from error


def stages(settings: type) -> Iterator[type]:
    """A settings class and, after it, every stage in it."""
    yield settings
    for field in dataclasses.fields(settings):
        inner = _stage(field)
        if inner is not None:
            yield from stages(inner)


def flags_of(stage: type) -> dict[str, Setting]:
    """The fields of one stage that can be set, by name of the field."""
    return {field.name: field.metadata[_KEY] for field in dataclasses.fields(stage) if _KEY in field.metadata}


def docstrings(stage: type) -> dict[str, str]:
    """The docstring under each field, on one line; nothing when the source is not at hand."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        body = ast.parse(textwrap.dedent(inspect.getsource(stage))).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for statement, following in itertools.pairwise(statements):
            told = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if told and isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = " ".join(str(following.value.value).split())  # type: ignore[attr-defined]
    return found


def misspelled(settings: type, environment: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each variable that looks like a setting and is none.

    Variables that Kubernetes makes of a Service's name (``HEADROOM_AGENT_PORT`` and so on) resemble none of ours.
    """
    known = [one.variable.removeprefix(ENV_PREFIX) for stage in stages(settings) for one in flags_of(stage).values()]
    given = [name.removeprefix(ENV_PREFIX) for name in environment if name.startswith(ENV_PREFIX)]
    for name in sorted(set(given) - set(known)):
        for close in difflib.get_close_matches(name, known, 1, _SIMILAR):
            yield f"the variable {ENV_PREFIX}{name} is no setting; did you mean {ENV_PREFIX}{close}?"


def _add(to: argparse._ActionsContainer, one: Setting, told: str) -> None:
    text = told.replace("``", "").replace("%", "%%") + (f" (default: {one.shown})" if one.shown else "")
    names = [f"-{one.letter}", f"--{one.flag}"] if one.letter else [f"--{one.flag}"]
    if one.kind.switch:
        to.add_argument(*names, action="store_const", const="true", help=told.replace("``", ""))
    else:
        to.add_argument(*names, metavar=one.kind.metavar, help=text)


def _stage(field: "dataclasses.Field[Any]") -> type | None:
    """The settings class that is a field's default, if it is one."""
    factory: object = field.default_factory
    return factory if isinstance(factory, type) and dataclasses.is_dataclass(factory) else None
