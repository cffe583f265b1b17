"""What the set-up wants to know about torch before it downloads any; needs Python and pip only.

torch_plan.py requirement [LOCK]      prints the project's requirement, such as torch>=2.6,<2.14, or the lock's version
torch_plan.py installed REQUIREMENT   status 0 where this environment has it
torch_plan.py reachable URL           status 0 where it answers within 5 s
torch_plan.py plan REQUIREMENT        prints the build that pip would take and its download: "cpu 0.2", "cuda 2.7"
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
from importlib import metadata
from pathlib import Path

LIMIT_S = 5


def torch_requirement(lock: str | None = None) -> str:
    if lock:
        lines = Path(lock).read_text().splitlines()
    else:
        with open(Path(__file__).resolve().parents[1] / "pyproject.toml", "rb") as file:
            lines = tomllib.load(file)["project"]["dependencies"]
    return next(line for line in lines if re.match(r"torch\b(?!-)", line))


def is_installed(wanted: str) -> bool:
    """A torch that `wanted` admits."""
    from pip._vendor.packaging.requirements import Requirement

    try:
        return Requirement(wanted).specifier.contains(metadata.version("torch"), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def is_reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
            return answer.status == 200
    except (OSError, ValueError):
        return False


def plan_download(wanted: str) -> str:
    """Resolves without downloading wheels. CUDA builds are known by the NVIDIA packages that they need."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--no-input",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        "-",
        wanted,
    ]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if ran.returncode:
        sys.exit(ran.returncode)
    report = json.loads(ran.stdout)
    urls = {item["metadata"]["name"].lower(): item["download_info"]["url"] for item in report["install"]}
    cuda = any(name.startswith(("nvidia-", "cuda-")) for name in urls)
    sizes = [_size(url) for url in urls.values()]
    total = sum(size for size in sizes if size)
    known = f"{total / 1e9:.1f}" if all(sizes) else "several" if cuda else "?"
    return f"{'cuda' if cuda else 'cpu'} {known}"


def _size(url: str) -> int | None:
    """In bytes, or None where the server does not tell."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return os.path.getsize(urllib.request.url2pathname(parts.path))
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=LIMIT_S) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


if __name__ == "__main__":
    action, *rest = sys.argv[1:]
    result = {
        "requirement": torch_requirement,
        "installed": is_installed,
        "reachable": is_reachable,
        "plan": plan_download,
    }[action](*rest)
    if isinstance(result, str):
        print(result)
    else:
        sys.exit(not result)
