"""`make versions`: write the golden rows and `versions.lock`, unless numbers changed and no version was raised."""

import json
import sys

from repro.experiment import versions
from tests.golden import rows

now = rows.compute()
if changed := rows.changed(now):
    for what, difference in changed.items():
        print(f"{what}: {difference} changed; raise the version of one of its parts in {versions.LOCK.name}")
    sys.exit(1)
computed_on, stored = rows.read()
# rows of another machine keep its bits, unless a version was raised
kept = {what: stored[what] if what in stored and stored[what].parts == row.parts else row for what, row in now.items()}
lines = ",\n".join(json.dumps(kept[what]._asdict(), sort_keys=True) for what in sorted(kept))
rows.FILE.write_text(f'{{"machine": {json.dumps(computed_on)}, "rows": [\n{lines}\n]}}\n')
known = versions.read_lock()
entries = {
    part: versions.Locked(version=known[part].version if part in known else 1, digest=digest)
    for part, digest in versions.project_digests().items()
}
versions.write_lock(entries)
print(f"{len(kept)} golden rows and {len(entries)} parts written")
