"""Fetch Debian packages and unpack them below a folder: nothing is installed, no root needed."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from datalake.errors import MissingPackageError, StoreError

__all__ = ["Package", "PackageFolder"]


@dataclass(frozen=True)
class Package:
    """A package, by the names that distributions give it, the likeliest first."""

    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The likeliest name, which its folder has."""
        return self.names[0]


class PackageFolder:
    """Unpacked packages: `<root>/<name>/`, each complete or absent.

    apt keeps its lists and caches below the folder too, so that the machine's own stay as they are.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, package: Package) -> Path:
        """Where the package's files are."""
        return self._root / package.name

    def libraries(self, packages: Sequence[Package]) -> str:
        """The shared libraries of packages, as a value of LD_LIBRARY_PATH."""
        found = [path for each in packages for path in self.path(each).glob("usr/lib/*-linux-gnu*")]
        return os.pathsep.join(map(str, found))

    def licence(self, package: Package) -> str:
        """The text of the package's copyright file."""
        (path,) = self.path(package).glob("usr/share/doc/*/copyright")
        return path.read_text(encoding="utf-8", errors="replace")

    def version(self, package: Package) -> str:
        """The name and version that were fetched, such as `flite_2.2-5_amd64`."""
        return (self.path(package) / ".package").read_text().strip()

    def fetch(self, packages: Sequence[Package], on_package: Callable[[str], None]) -> None:
        """Fetch and unpack what is missing.

        Raises:
            MissingPackageError: this is no system with apt-get and dpkg-deb.
            StoreError: no archive that the system knows gave a package.
        """
        missing = [each for each in packages if not (self.path(each) / ".package").exists()]
        if not missing:
            return
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise MissingPackageError(
                    f"The demo's human speech comes in Debian packages and needs {tool}",
                    found="it is not on this system",
                    fix="Run the demo on Debian or Ubuntu, or in a container: "
                    "docker run -it -v $PWD:/lake -w /lake python:3.11-bookworm make demo",
                )
        self._apt("update")
        for each in missing:
            on_package(each.name)
            self._unpack(each, self._download(each))

    def _download(self, package: Package) -> Path:
        archives = self._root / "archives"
        for name in package.names:
            folder = archives / name
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.glob("*.deb")) or self._apt("download", name, cwd=folder, check=False):
                return next(folder.glob("*.deb"))
        raise StoreError(
            f"The package {' or '.join(package.names)} could not be fetched",
            expected="it among the archives of this system (Debian main, Ubuntu universe)",
            fix="Check the network and /etc/apt/sources.list, then run the demo again; it goes on "
            "where it stopped",
        )

    def _unpack(self, package: Package, archive: Path) -> None:
        target = self.path(package)
        partial = target.with_name(f"{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", archive, partial], check=True)
        (partial / ".package").write_text(archive.stem)
        partial.rename(target)
        archive.unlink()

    def _apt(self, *command: str, cwd: Path | None = None, check: bool = True) -> bool:
        apt = self._root / "apt"
        for folder in ("lists/partial", "cache/archives/partial"):
            (apt / folder).mkdir(parents=True, exist_ok=True)
        options = {
            "Dir::State::lists": apt / "lists",
            "Dir::Cache": apt / "cache",
            "APT::Sandbox::User": getpass.getuser(),
        }
        flags = [flag for key, value in options.items() for flag in ("-o", f"{key}={value}")]
        done = subprocess.run(
            ["apt-get", "-qq", *flags, *command], cwd=cwd, capture_output=True, text=True
        )
        if check and done.returncode:
            raise StoreError(
                f"apt-get {command[0]} failed",
                found=" ".join(done.stderr.split())[-400:],
                fix="Check the network and /etc/apt/sources.list, then run the demo again",
            )
        return done.returncode == 0
