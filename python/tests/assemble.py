"""Makes a wheel of what a build for tests has left: ``assemble.py VERSION MODULE GUEST FOLDER``.

``make wheel`` has maturin make the one that is given away. This one has the same files in the
same places, of a module and the program ``narrows-guest`` that are there already.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "narrows"

ENTRY_POINTS = "[console_scripts]\nnarrows = narrows._command:main\n"
METADATA = "Metadata-Version: 2.1\nName: narrows\nVersion: {version}\nRequires-Python: >=3.10\n"
WHEEL = (
    "Wheel-Version: 1.0\nGenerator: narrows tests\nRoot-Is-Purelib: false\nTag: cp310-abi3-linux_{}\n"
)


def main(version: str, module: str, guest: str, folder: str) -> None:
    import platform

    machine = platform.machine()
    info = f"narrows-{version}.dist-info"
    files: dict[str, bytes] = {
        f"narrows/{path.relative_to(PACKAGE)}": path.read_bytes()
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in (".py", ".pyi", ".typed")
    }
    files |= {f"narrows/{name}": (PACKAGE / name).read_bytes() for name in ("py.typed",)
    }
    files["narrows/_narrows.abi3.so"] = Path(module).read_bytes()
    files["narrows/narrows-guest"] = Path(guest).read_bytes()
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    files[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(machine).encode()
    record = ""
    for name, contents in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(contents)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = Path(folder) / f"narrows-{version}-cp310-abi3-linux_{machine}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for name, contents in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if name == "narrows/narrows-guest" else 0o100644) << 16
            archive.writestr(entry, contents)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
