"""The application `datalake`: which command lives where. A command is imported when it is named."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from datalake import plugins
from datalake.cli.session import command, new_app
from datalake.cli.startup import hide_pandas
from datalake.errors import ConfigError, NotFoundError, nearest

__all__ = ["app"]

_PLUGINS: Final = "datalake.commands"

_COMMANDS: Final = {
    "ingest": "datalake.cli.ingest:ingest",
    "detect": "datalake.cli.corpus:detect",
    "check": "datalake.cli.check:check",
    "quarantine": "datalake.cli.corpus:quarantine",
    "ls": "datalake.cli.look:ls",
    "info": "datalake.cli.look:info",
    "head": "datalake.cli.look:head",
    "episodes": "datalake.cli.episodes:app",
    "pack": "datalake.cli.pack:pack",
    "export": "datalake.cli.export:export",
    "log": "datalake.cli.history:log",
    "versions": "datalake.cli.history:versions",
    "tag": "datalake.cli.history:tag",
    "compact": "datalake.cli.care:compact",
    "cleanup": "datalake.cli.care:cleanup",
    "rm": "datalake.cli.care:rm",
    "cache": "datalake.cli.cache:app",
    "optimize": "datalake.cli.optimize:optimize",
    "plan": "datalake.cli.plan:plan",
}

# These are used often and do little.
_LOOKING: Final = frozenset({"ls", "info", "head", "log", "versions", "quarantine"})


class _LazyGroup(TyperGroup):
    """Commands by name: our own, then those that plug-ins bring."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [*_COMMANDS, *plugins.names(_PLUGINS)]

    # typer's own class of the result is private.
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _LOOKING:
            hide_pandas()
        if cmd_name in _COMMANDS:
            module, _, attribute = _COMMANDS[cmd_name].partition(":")
            own = getattr(import_module(module), attribute)
            if not isinstance(own, typer.Typer):
                function, own = own, new_app("")
                command(own, cmd_name)(function)
            entry = typer.main.get_command(own)
            entry.name = cmd_name
            return entry
        known = self.list_commands(ctx)
        if cmd_name not in known:
            raise NotFoundError(f"There is no command {cmd_name!r}", fix=nearest(cmd_name, known))
        mounted = plugins.load(_PLUGINS, cmd_name)
        if not isinstance(mounted, typer.Typer):
            raise ConfigError(
                f"The plug-in {cmd_name} is no command",
                where=_PLUGINS,
                expected="a typer.Typer",
                found=type(mounted).__name__,
            )
        entry = typer.main.get_command(mounted)
        entry.name = cmd_name
        return entry


app = new_app("An elastic data lake for speech and robot learning.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"datalake {version('datalake')}")
        raise typer.Exit


@app.callback(cls=_LazyGroup)
def _datalake(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """An elastic data lake for speech and robot learning."""
