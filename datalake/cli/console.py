"""What every command line of the toolkit shares: how it runs, fails and prints.

    app = console.new_app("What it does.")

    @console.command(app)
    def count(session: console.Session, name: str) -> None: ...

    def main() -> None:
        console.run(app, "curate")

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 the request
cannot be met (an argument, a name, a file), 3 done with refused rows; 130 interrupted, 141 the
reader of stdout went away.
"""

from __future__ import annotations

import atexit
import os
import re
import select
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import typer
from typer.core import TyperGroup

from datalake.cli.output import Rows, media_kind, print_json, print_pairs, print_table, size
from datalake.cli.progress import Progress
from datalake.cli.session import Session, command, new_app, with_session
from datalake.errors import LakeError

__all__ = [
    "Progress",
    "Rows",
    "Session",
    "command",
    "media_kind",
    "new_app",
    "print_json",
    "print_pairs",
    "print_table",
    "run",
    "size",
    "with_session",
]

_INTERRUPTED = 130
# Typer validates with pydantic, whose words are for programmers.
_VALIDATOR_WORDS = re.compile(r"Value error, |, unable to parse \w+ as an? \w+")
_READER_GONE = 141


def run(app: typer.Typer, name: str, args: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit. An error is one paragraph on stderr, never a traceback.

    Args:
        app: the application.
        name: the program's name, for usage lines.
        args: the arguments; None for those of the process. Without any, the help is printed.
    """
    _open_closed_streams()
    leave = _Leaving() if args is None else None
    given = list(sys.argv[1:] if args is None else args) or ["--help"]
    code = _code_of(app, name, given)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _READER_GONE
    if code == _READER_GONE:
        # The interpreter flushes once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if leave is not None:
        leave.code = code
    sys.exit(code)


class _Leaving:
    """Ends the process as the very last of what is done at its exit.

    Threads of libraries may still be about, those of a decoder that was interrupted for one. One
    that wants the interpreter while it takes itself apart aborts the process: the work is done, and
    the exit code says that it failed.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        # What was registered first runs last; it runs once all threads of Python have ended.
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.code is None:  # something else ends the process, and has a code of its own
            return
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(self.code)


def _open_closed_streams() -> None:
    """Let what goes to a closed stdout or stderr vanish, and not into the next file that opens."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the process


def _code_of(app: typer.Typer, name: str, args: list[str]) -> int:
    try:
        entry = typer.main.get_command(app)
        with entry.make_context(name, args) as context:
            entry.invoke(context)
    except typer.Exit as leaving:
        return leaving.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _failed("Interrupted.", _INTERRUPTED, args)
    except LakeError as error:
        return _failed(str(error), error.exit_code, args)
    except typer.TyperException as error:
        return _failed(_usage(name, error), error.exit_code, args)
    except BrokenPipeError as error:
        if _reader_is_gone():
            return _READER_GONE
        return _failed(_unexpected(error), 1, args)
    except Exception as error:
        return _failed(_unexpected(error), 1, args)
    return 0


def _failed(paragraph: str, code: int, args: list[str]) -> int:
    if "--debug" in args:
        traceback.print_exc()
    print(f"error: {paragraph}" if code != _INTERRUPTED else paragraph, file=sys.stderr)  # noqa: T201
    return code


def _unexpected(error: Exception) -> str:
    what = " ".join(str(error).split())
    return f"Unexpected {type(error).__name__}: {what}. Run again with --debug for the traceback."


def _usage(name: str, error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else name
    said = _VALIDATOR_WORDS.sub("", error.format_message()).replace("Input should be", "expected")
    problems: list[dict[str, object]] = getattr(error.__cause__, "errors", list)()
    if hasattr(error, "option_name") and isinstance(getattr(context, "command", None), TyperGroup):
        said += ". Options of a command follow its name"
    if "expected" in said and problems:
        said += f", found {problems[0]['input']!r}"
    return f"{said if said.endswith('?') else said.rstrip('.') + '.'} See: {path} --help"


def _reader_is_gone() -> bool:
    """Whether stdout is the pipe that broke, and not a connection to a store."""
    if not hasattr(select, "poll"):
        return False
    watch = select.poll()
    watch.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))
