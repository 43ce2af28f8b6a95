"""The options that every command has, and what they amount to: a `Session`."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, TypeVar, get_type_hints

import typer

from datalake.config import read_config
from datalake.lake import Lake, open_lake
from datalake.uri import StorageOptions

__all__ = ["Session", "command", "new_app", "with_session"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_PANEL: Final = "Common options"


@dataclass(frozen=True)
class Session:
    """What the common options say."""

    lake_uri: str
    storage: StorageOptions
    as_json: bool
    debug: bool

    def open_lake(self, *, create: bool = False) -> Lake:
        """Open the lake; commands that only read leave `create` false."""
        return open_lake(self.lake_uri, options=self.storage, create=create)


def new_app(purpose: str) -> typer.Typer:
    """A typer application that looks and fails like all of ours."""
    return typer.Typer(
        help=purpose,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Boxes are for people; a pipe gets plain text.
        # None stands for stdout if that is closed.
        rich_markup_mode="rich" if getattr(sys.stdout, "isatty", bool)() else None,
    )


def command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Add a function to `app` as a command; a parameter of type `Session` gets the common options.

    The function stays callable as it was written.
    """

    def add(function: Callable[_P, _R]) -> Callable[_P, _R]:
        app.command(name)(with_session(function))
        return function

    return add


def with_session(function: Callable[..., _R]) -> Callable[..., _R]:
    """`function` with the common options in place of its parameter of type `Session`."""
    hints = get_type_hints(function, include_extras=True)
    own = inspect.signature(function).parameters
    wanted = next((name for name in own if hints.get(name) is Session), None)
    if wanted is None:
        return function
    common = inspect.signature(_session).parameters

    @functools.wraps(function)
    def called(**values: Any) -> _R:
        session = _session(**{name: values.pop(name) for name in common})
        return function(**{wanted: session, **values})

    annotations = {**hints, **get_type_hints(_session, include_extras=True)}
    parameters = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=annotations[name])
        for name, parameter in [*own.items(), *common.items()]
        if name != wanted
    ]
    annotations.pop(wanted)
    called.__annotations__ = annotations
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _load_config(context: typer.Context, file: Path | None) -> Path | None:
    """Make the file's settings the command's defaults, so the command line wins over them."""
    if file is None or context.resilient_parsing:
        return file
    names: dict[str, str] = {}
    for parameter in context.command.params:
        if parameter.name in {None, "config", "debug", "help"}:
            continue
        long = [option[2:] for option in parameter.opts if option.startswith("--")]
        names.update(dict.fromkeys(long or [parameter.name], parameter.name))
    settings = read_config(file, names)
    context.default_map = {names[option]: value for option, value in settings.items()}
    return file


def _session(
    *,
    lake: Annotated[
        str,
        typer.Option(
            "--lake", metavar="URI", envvar="DATALAKE_URI", help="The lake.", rich_help_panel=_PANEL
        ),
    ] = "./lake",
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The object store's endpoint.", rich_help_panel=_PANEL),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The object store's region.", rich_help_panel=_PANEL),
    ] = None,
    path_style: Annotated[
        bool | None,
        typer.Option(
            "--path-style/--virtual-host",
            help="Where the bucket's name goes.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The AWS profile.", rich_help_panel=_PANEL),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_PANEL)
    ] = False,
    config: Annotated[  # noqa: ARG001 (read by its callback)
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A YAML file whose keys are the names of these options.",
            is_eager=True,
            callback=_load_config,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    debug: Annotated[  # console.run reads it too, as it also sees failures to parse
        bool,
        typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_PANEL),
    ] = False,
) -> Session:
    storage = StorageOptions(
        endpoint=endpoint, region=region, path_style=path_style, profile=profile
    )
    return Session(lake_uri=lake, storage=storage, as_json=json, debug=debug)
