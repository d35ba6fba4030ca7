"""A plugin as one executable file: a shell script in front of the archive that `krew` packs.

At its first start the script unpacks the archive into the user's cache, in a folder named by its checksum.
"""

import hashlib
from pathlib import Path
from typing import Final

_EXECUTABLE: Final = 0o755
_SCRIPT: Final = """\
#!/bin/sh
# kubectl-headroom {version}: this script and, behind it, an archive of the plugin with its libraries.
folder="${{XDG_CACHE_HOME:-$HOME/.cache}}/kubectl-headroom/{sha256}"
if [ ! -x "$folder/kubectl-headroom" ]; then
  mkdir -p "${{folder%/*}}" && partial=$(mktemp -d "$folder.XXXXXX") || exit 3
  tail -c +{first_byte:08d} "$0" | tar -xzf - -C "$partial" || exit 3
  ln -s kubectl-headroom "$partial/kubectl_complete-headroom"
  if [ -d "$folder" ]; then rm -rf "$partial"; else mv "$partial" "$folder"; fi  # another start was faster
fi
case "${{0##*/}}" in kubectl_complete-headroom) name=kubectl_complete-headroom ;; *) name=kubectl-headroom ;; esac
exec "$folder/$name" "$@"
"""


def write(archive: Path, version: str, target: Path) -> None:
    """Write the executable of an archive; the same archive makes the same bytes."""
    content = archive.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()[:16]
    script = ""
    for first_byte in (0, len(_SCRIPT.format(version=version, sha256=sha256, first_byte=0).encode()) + 1):
        script = _SCRIPT.format(version=version, sha256=sha256, first_byte=first_byte)
    target.write_bytes(script.encode() + content)
    target.chmod(_EXECUTABLE)
