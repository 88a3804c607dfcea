"""The Chromium of the page's tests: the machine's, or one unpacked into the user's cache.

It is searched in LEVELWIND_CHROMIUM, on PATH, then in the cache. The one in the cache comes whole
in a package of the npm registry, so that nothing is installed on the machine and no rights are
needed: `make test` fetches it with npm. Without npm, too, the tests of the page are skipped, and
say what is missing.
"""

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from levelwind.deploy.bootstrap import cache

OVERRIDE = "LEVELWIND_CHROMIUM"
COMMANDS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGE = "@sparticuz/chromium@153.0.0"
INTEGRITY = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
"""Hash of the package's archive."""
DIRECTORY = "chromium-153.0.0"
LIBRARIES = "al2023/lib"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
"""The page is the project's own, and the machine may let no user but root make a sandbox."""

FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{cache}</cachedir>
</fontconfig>
"""


class NoBrowserError(Exception):
    """No Chromium runs here; the text says what to do."""


class PageBrowser(NamedTuple):
    """A Chromium, and the environment that it needs."""

    path: Path
    environment: Mapping[str, str]


def found() -> PageBrowser:
    """The Chromium to use.

    Raises:
        NoBrowserError: none is found.
    """
    if chosen := os.environ.get(OVERRIDE):
        return PageBrowser(Path(chosen), {})
    for command in COMMANDS:
        if path := shutil.which(command):
            return PageBrowser(Path(path), {})
    home = cache() / DIRECTORY
    if not (home / "chromium").exists():
        raise NoBrowserError(
            f"no Chromium: set {OVERRIDE}, install one (on Debian: apt-get install chromium), or"
            " install npm, with which `make test` fetches one into the cache"
        )
    return PageBrowser(
        home / "chromium",
        {"LD_LIBRARY_PATH": str(home / LIBRARIES), "FONTCONFIG_FILE": str(home / "fonts.conf")},
    )


def ensure() -> str:
    """Fetch a Chromium into the cache where the machine has none; return which is used.

    Raises:
        NoBrowserError: none is found, and none can be fetched.
    """
    try:
        return f"Chromium is {found().path}"
    except NoBrowserError:
        fits = platform.system() == "Linux" and platform.machine() == "x86_64"
        if not fits or shutil.which("npm") is None:
            raise
    with tempfile.TemporaryDirectory(prefix=".chromium-", dir=cache()) as scratch:
        archive = _fetched(Path(scratch))
        made = Path(scratch) / "made"
        _unpack(archive, made)
        with suppress(OSError):  # another run was faster
            made.rename(cache() / DIRECTORY)
    return f"Chromium is {found().path}"


def _fetched(directory: Path) -> Path:
    """The package's archive, which is what its hash says."""
    print("setup: fetching Chromium for the page's tests, 70 MB", flush=True)
    subprocess.run(
        ["npm", "pack", PACKAGE, "--silent"], cwd=directory, check=True, stdout=subprocess.DEVNULL
    )
    (archive,) = directory.glob("*.tgz")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != INTEGRITY:
        raise NoBrowserError(f"{PACKAGE} is not the archive that was expected")
    return archive


def _unpack(archive: Path, home: Path) -> None:
    import brotli  # noqa: PLC0415 - for the first run alone

    home.mkdir()
    with tarfile.open(archive) as package:
        for member in package:
            name = member.name.removeprefix("package/bin/")
            source = package.extractfile(member)
            if source is None or not name.endswith(".br") or "/" in name:
                continue
            if name == "chromium.br":
                unpacker = brotli.Decompressor()
                with (home / "chromium").open("wb") as file:
                    while block := source.read(1 << 20):
                        file.write(unpacker.process(block))
                (home / "chromium").chmod(0o755)
            else:
                inner = io.BytesIO(brotli.decompress(source.read()))
                with tarfile.open(fileobj=inner) as files:
                    files.extractall(home / name.removesuffix(".tar.br"), filter="data")
    shutil.copytree(home / "swiftshader", home, dirs_exist_ok=True)
    # The package's own configuration names the directories of another machine.
    final = cache() / DIRECTORY
    (home / "fonts.conf").write_text(
        FONTS.format(fonts=final / "fonts", cache=final / "font-cache")
    )


@contextmanager
def open_browser() -> Iterator[Any]:
    """A running Chromium, driven by Playwright.

    Raises:
        NoBrowserError: none is found.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - for tests of the page alone

    chosen = found()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chosen.path,
            args=list(ARGUMENTS),
            env={**os.environ, **chosen.environment},
        )
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    try:
        print(f"setup: {ensure()}")
    except (subprocess.CalledProcessError, NoBrowserError) as error:
        sys.exit(f"setup: the page's tests will be skipped: {error}")
