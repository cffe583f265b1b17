"""The reference as an RO-Crate (researchobject.org/ro-crate), which archives of research data take as it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet

from repro.core import user_files
from repro.core.paths import PROJECT
from repro.records.tables import TABLES

CITATION = PROJECT / "CITATION.cff"
FORMATS = {".parquet": "application/vnd.apache.parquet", ".json": "application/json"}


def write_crate(reference: Path) -> Path:
    """Write `ro-crate-metadata.json` into the folder of the reference: its files, and title, licence, authors and
    papers of CITATION.cff. The same reference gives the same bytes."""
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    cited = user_files.read_yaml(CITATION, "citation file")
    crate = ROCrate()
    crate.name, crate.description, crate.keywords = cited["title"], cited["abstract"].strip(), cited["keywords"]
    crate.license = f"https://spdx.org/licenses/{cited['license']}"
    authors = [{"@type": "Organization", "name": author["name"]} for author in cited["authors"]]
    papers = [{"@type": "ScholarlyArticle", "name": paper["title"]} for paper in cited["references"]]
    for name, entries in (("author", authors), ("citation", papers)):
        made = [ContextEntity(crate, f"#{name}-{n}", entry) for n, entry in enumerate(entries, start=1)]
        crate.root_dataset[name] = [crate.add(entity) for entity in made]
    files = sorted(path for path in reference.glob("*/*") if path.suffix in FORMATS)
    for path in files:
        name = f"{path.parent.name}: {TABLES.get(path.stem, path.stem)}"
        about = {"name": name, "encodingFormat": FORMATS[path.suffix]}
        crate.add_file(path, path.relative_to(reference).as_posix(), properties=about)
    crate.root_dataset["datePublished"] = max(map(_newest, (path for path in files if path.name == "runs.parquet")))
    crate.metadata.write(reference)
    return reference / "ro-crate-metadata.json"


def _newest(runs: Path) -> str:
    """The day on which the newest run of a table ended."""
    ends = pyarrow.parquet.read_table(runs, columns=["finished_at"])["finished_at"].to_pylist()
    return max(str(end)[:10] for end in ends if end)
