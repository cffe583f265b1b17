"""The floors of two commands: what none that does their work can do without.

verify  every published table is compared with its SHA-256 and read, records and draws are parsed; one process a core
page    the same of one paper, and the libraries by which a page is computed, drawn and written are imported
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from repro.core.paths import reference_root
from repro.core.worker_processes import usable_cores

PAPER = "pipesgd"


def main() -> None:
    if sys.argv[1] == "page":
        import jinja2  # noqa: F401
        import markdown_it  # noqa: F401
        import matplotlib.backends.backend_agg  # noqa: F401
        import pandas  # noqa: F401

        read_tables(reference_root() / PAPER)
        return
    folders = sorted(path.parent for path in reference_root().glob("*/manifest.json"))
    with ProcessPoolExecutor(usable_cores()) as pool:
        list(pool.map(read_tables, folders))


def read_tables(folder: Path) -> None:
    import pyarrow.parquet

    for name, entry in json.loads((folder / "manifest.json").read_bytes())["tables"].items():
        data = (folder / f"{name}.parquet").read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        table = pyarrow.parquet.ParquetFile(io.BytesIO(data)).read().to_pydict()
        for text in table.get("record", ()):
            json.loads(text)
        for lines in table.get("lines", ()):
            list(map(json.loads, lines.splitlines()))


if __name__ == "__main__":
    main()
