"""Options of a program from the command line and the environment, generated from the fields of dataclasses.

A field that is made with `setting` has a flag, an environment variable (``HEADROOM_AGENT_<FLAG>`` of headroom-agent), a
check, and the docstring under it as help. A field whose default is another dataclass is a separate stage.
"""

import argparse
import ast
import contextlib
import dataclasses
import difflib
import inspect
import itertools
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from headroom.runtime.option_types import Kind
from headroom.runtime.removed import removed, removed_flag
from headroom.runtime.text import joined

_KEY: Final = "headroom-setting"
_SIMILAR: Final = 0.85

T = TypeVar("T")


class WrongSetting(ValueError):  # noqa: N818 - users see only the message
    """A flag, variable or command that cannot be used; one line that names it and the way out."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The flag and the variables of a field."""

    flag: str
    """Name of the flag, without dashes in front."""
    kind: Kind
    shown: str
    """The default as the help shows it; empty when there is none."""
    variables: tuple[str, ...] = ()
    """Further environment variables that are read, after its own."""
    letter: str = ""
    """Its short form, without the dash; empty when it has none."""


def setting(
    default: Any = dataclasses.MISSING,  # noqa: ANN401 - the type of the field
    *,
    flag: str,
    kind: Kind,
    factory: Callable[[], Any] | None = None,
    shown: str | None = None,
    variables: tuple[str, ...] = (),
    letter: str = "",
) -> Any:  # noqa: ANN401 - the type of the field
    """A dataclass field that the user can set.

    Args:
        default: Its value unless the user sets it.
        flag: Name of its flag; the variable follows from it.
        kind: The accepted values.
        factory: Makes the default, where it depends on the machine.
        shown: The default in the help, where its value does not show it.
        variables: Further environment variables that are read, after its own.
        letter: Its short form, without the dash.
    """
    if shown is None:
        shown = "" if factory is not None or default is None else kind.show(default)
    metadata = {_KEY: Setting(flag, kind, shown, variables, letter)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Parser(argparse.ArgumentParser):
    """A parser that reports an error as one line, by raising `WrongSetting`."""

    def error(self, message: str) -> NoReturn:
        raise WrongSetting(f"{message}; {self.prog} --help lists all flags")


def load(
    settings: type[T],
    prog: str,
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    description: str = "",
    usage: str | None = None,
    epilog: str = "",
) -> tuple[T, frozenset[str]]:
    """Read the settings of a program; a flag wins over a variable, a variable over the default.

    Args:
        settings: The dataclass.
        prog: Name of the program.
        arguments: The command line; None for the program's own.
        environment: The variables; None for the program's own.
        description: The first paragraph of the help.
        usage: The usage line, in place of a generated one.
        epilog: The last paragraph of the help.

    Returns:
        The settings, and the flags that were set by flag or variable.

    Raises:
        WrongSetting: One of them cannot be used.
        SystemExit: ``--help``.
    """
    words = joined(sys.argv[1:] if arguments is None else arguments)
    environment = os.environ if environment is None else environment
    if sentence := removed_flag(words):
        raise WrongSetting(sentence)
    helping = bool({"-h", "--help"} & set(words))  # the docstrings are read from the source, which costs much
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog=prog, usage=usage, description=description, epilog=epilog, allow_abbrev=False, formatter_class=form
    )
    for stage in stages(settings):
        group = parser.add_argument_group((inspect.getdoc(stage) or "").partition("\n")[0].rstrip("."))
        documented = docstrings(stage) if helping else {}
        for name, argument in flags_of(stage).items():
            _add(group, argument, documented.get(name, ""))
    flags = vars(parser.parse_args(["--help"] if helping else words))
    texts: dict[str, str] = {}
    for argument in (option for stage in stages(settings) for option in flags_of(stage).values()):
        flag, variables = flags[argument.flag.replace("-", "_")], (variable(prog, argument.flag), *argument.variables)
        if flag == "" and not argument.kind.may_be_empty:
            raise WrongSetting(f"{named(prog, argument.flag)} must not be empty")
        text = next((environment[name] for name in variables if environment.get(name)), None) if flag is None else flag
        if text is not None:
            texts[argument.flag] = text
    return _read(settings, prog, texts), frozenset(texts)


def variable(prog: str, flag: str) -> str:
    return f"{prog}-{flag}".replace("-", "_").upper()


def named(prog: str, flag: str) -> str:
    return f"--{flag} (or {variable(prog, flag)})"


def _read(settings: type[T], prog: str, texts: Mapping[str, str]) -> T:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type] # a dataclass, as everything here
        inner, one = _stage(field), field.metadata.get(_KEY)
        if inner is not None:
            values[field.name] = _read(inner, prog, texts)
        elif one is not None and one.flag in texts:
            try:
                values[field.name] = one.kind.parse(texts[one.flag])
            except ValueError as error:
                raise WrongSetting(f"{named(prog, one.flag)} {error}, got: {texts[one.flag]!r}") from None
    try:
        return settings(**values)
    except ValueError as error:
        names = ", ".join(f"--{option.flag}" for option in flags_of(settings).values())
        raise WrongSetting(f"{error} (one of {names})") from error


def stages(settings: type) -> Iterator[type]:
    """A settings class and, after it, every stage in it."""
    yield settings
    for field in dataclasses.fields(settings):
        inner = _stage(field)
        if inner is not None:
            yield from stages(inner)


def flags_of(stage: type) -> dict[str, Setting]:
    return {field.name: field.metadata[_KEY] for field in dataclasses.fields(stage) if _KEY in field.metadata}


def docstrings(cls: type) -> dict[str, str]:
    """Return the docstring under each field of a class and its bases, on one line; none without the source."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        with contextlib.suppress(OSError, TypeError):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            for statement, following in itertools.pairwise(body.body if isinstance(body, ast.ClassDef) else []):
                if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
                    continue
                if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                    texts[statement.target.id] = " ".join(str(following.value.value).split())
    return texts


def misspelled(settings: type, prog: str, environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each variable that looks like a setting and is none.

    Variables that Kubernetes makes of a Service's name (``HEADROOM_AGENT_PORT`` and so on) resemble none of ours.
    """
    prefix = variable(prog, "")
    variables = [variable(prog, option.flag) for stage in stages(settings) for option in flags_of(stage).values()]
    for name in sorted({name for name in environment if name.startswith(prefix)} - set(variables)):
        flag = f"--{name.removeprefix(prefix).lower().replace('_', '-')}"
        if sentence := removed("flag", flag):
            yield f"the variable {name} does nothing: {sentence}"
            continue
        rest = {name.removeprefix(prefix): name for name in variables}
        for close in difflib.get_close_matches(name.removeprefix(prefix), rest, 1, _SIMILAR):
            yield f"the variable {name} is no setting; did you mean {rest[close]}?"


def _add(to: argparse._ActionsContainer, one: Setting, documented: str) -> None:
    text = documented.replace("``", "").replace("%", "%%") + (f" (default: {one.shown})" if one.shown else "")
    names = [f"-{one.letter}", f"--{one.flag}"] if one.letter else [f"--{one.flag}"]
    if one.kind.switch:
        to.add_argument(*names, action="store_const", const="true", help=documented.replace("``", ""))
    else:
        to.add_argument(*names, metavar=one.kind.metavar, help=text)


def _stage(field: "dataclasses.Field[Any]") -> type | None:
    """The settings class that is a field's default, if it is one."""
    factory: object = field.default_factory
    if _KEY in field.metadata or not isinstance(factory, type) or not dataclasses.is_dataclass(factory):
        return None
    return factory
