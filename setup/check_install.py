"""Are the files of every installed package there and whole? pip trusts what an interrupted run left; we do not.

check_install.py            status 1 where a package is damaged
check_install.py --forget   makes pip forget the damaged ones, so that it installs them again; status 1 where pip
                            itself is damaged
"""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path


def find_damage(package: metadata.Distribution) -> str | None:
    """What is wrong with it: a file missing or of another size than recorded, or an installation not finished (pip
    writes INSTALLER and RECORD last); None where nothing is."""
    if package.files is None or package.read_text("INSTALLER") is None or package.read_text("METADATA") is None:
        return "its installation did not finish"
    for file in package.files:
        path = Path(file.locate())
        if file.size is None or file.suffix == ".pyc":
            continue
        if not path.is_file():
            return f"{file} is missing"
        if path.stat().st_size != file.size:
            return f"{file} has {path.stat().st_size} bytes instead of {file.size}"
    return None


def main() -> int:
    status = 0
    for package in list(metadata.distributions()):
        folder = Path(str(package._path))  # no public name for it
        if folder.suffix == ".dist-info" and (wrong := find_damage(package)):
            forget = "--forget" in sys.argv and not folder.name.startswith("pip-")
            then = "; installing it again" if forget else ""
            print(f"setup: {folder.stem} is damaged ({wrong}){then}", flush=True)
            if forget:
                shutil.rmtree(folder)
            else:
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
