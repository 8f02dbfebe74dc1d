"""Build and check what a release uploads: `make dist` writes dist/.

The committed tree is built twice, in different places and at different times; both builds must have
the same bytes. The wheel and the sdist are installed into empty environments on every Python at
hand, with the newest and the lowest dependencies, and the demo runs in each.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent  # of .venv/dist
OLDEST = (3, 11)
PLACEHOLDERS = re.compile(r"FILL[ _]IN|example\.org|OWNER/punoise")
LOWEST_SUITE = ("cli", "proteomics", "recipes", "report", "score", "tables", "variants")  # rooms
DEMO = ("--alpha", "0.2", "--beta", "0.95", "--n-labeled", "500", "--n-unlabeled", "3000")


def run(*command: object, folder: Path = ROOT, **variables: str) -> str:
    """Run a command; what it prints is shown only if it fails."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment = {**kept, "UV_PYTHON_DOWNLOADS": "never", **variables}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


# ---- Building


def committed_tree(folder: Path) -> Path:
    """A copy of what is committed, so that stray files are not packed."""
    folder.mkdir()
    if not (ROOT / ".git").exists():  # an unpacked sdist
        ignored = shutil.ignore_patterns(".venv", "dist", "__pycache__", ".*_cache", "site", "man")
        return Path(shutil.copytree(ROOT, folder / "source", ignore=ignored))
    if run("git", "status", "--porcelain"):
        print("note: there are uncommitted changes, which are not built")
    run("git", "archive", "--output", folder / "source.tar", "HEAD")
    (folder / "source").mkdir()
    run("tar", "-xf", folder / "source.tar", "-C", folder / "source")
    return folder / "source"


def build(folder: Path, **variables: str) -> dict[str, bytes]:
    """The files of one build by name."""
    source = committed_tree(folder)
    for path in source.rglob("*"):
        os.utime(path)  # a checkout has the time of the checkout
    said = run(TOOLS / "python", "-m", "build", "--outdir", folder / "dist", source, **variables)
    warnings = [line for line in said.splitlines() if "warn" in line.lower()]
    if warnings:
        sys.exit("the build warns:\n" + "\n".join(warnings))
    return {path.name: path.read_bytes() for path in (folder / "dist").iterdir()}


def build_twice(scratch: Path) -> None:
    first = build(scratch / "one")
    second = build(scratch / "another place", TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    if first != second:
        sys.exit("two builds of the same commit differ")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for name, content in first.items():
        (DIST / name).write_bytes(content)
    print(f"built twice with the same bytes: {', '.join(sorted(first))}")


def check_metadata(wheel: Path, sdist: Path) -> None:
    run(TOOLS / "twine", "check", "--strict", wheel, sdist)
    run(TOOLS / "check-wheel-contents", wheel)
    rating = run(TOOLS / "pyroma", "--min=10", sdist)
    if "10/10" not in rating:
        sys.exit(rating)
    print("twine --strict, check-wheel-contents and pyroma (10/10) pass")


# ---- Installing


def interpreters() -> Iterator[tuple[str, str]]:
    """The newest of each minor version that is installed, as version and path."""
    candidates = [
        *Path.home().glob(".pyenv/versions/*/bin/python"),
        *(Path(folder) / f"python3.{n}" for folder in os.get_exec_path() for n in range(11, 30)),
        Path(sys.executable),
    ]
    found: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}
    ask = "import sys; print(*sys.version_info[:3], sys.base_prefix)"
    for path in candidates:
        done = (
            subprocess.run([path, "-c", ask], capture_output=True, text=True)
            if path.exists()
            else None
        )
        if done is None or done.returncode:
            continue
        *numbers, _ = done.stdout.split(maxsplit=3)
        version = tuple(map(int, numbers))
        minor = (version[0], version[1])
        if minor >= OLDEST:
            found[minor] = max(found.get(minor, ((), "")), (version, str(path)))
    for _, (version, path) in sorted(found.items()):
        yield ".".join(map(str, version)), path


def environment(folder: Path, python: str, *packages: object, lowest: bool = False) -> Path:
    """An empty environment with punoise in it; its folder of commands."""
    uv = TOOLS / "uv"
    run(uv, "venv", "--clear", "--python", python, folder)
    install = (uv, "pip", "install", "--python", folder / "bin" / "python")
    if lowest:  # of a wheel by path, uv takes only the wheel itself for a direct requirement
        direct = ("--resolution", "lowest-direct", "--only-binary", ":all:", "-r")
        run(*install, *direct, ROOT / "pyproject.toml")
    run(*install, *packages)
    run(uv, "pip", "check", "--python", folder / "bin" / "python")
    return folder / "bin"


def demo(bin: Path, folder: Path) -> str:
    """What the README's example says of alpha."""
    run(bin / "punoise", "simulate", "--out-dir", "sim", *DEMO, folder=folder)
    tables = ("--labeled", "sim/labeled.csv", "--unlabeled", "sim/unlabeled.csv")
    run(bin / "punoise", "run", *tables, "--out-dir", "results", folder=folder)
    prior = json.loads((folder / "results" / "prior.json").read_text())
    low, high = prior["alpha_ci"]
    if not low <= 0.2 <= high:
        sys.exit(f"the demo's interval of alpha is [{low}, {high}], and alpha is 0.2")
    return f"alpha {prior['alpha']:.4f}"


def check_installation(scratch: Path, wheel: Path, sdist: Path) -> None:
    for version, python in interpreters():
        for kind, package, lowest in (
            ("wheel, newest dependencies", wheel, False),
            ("wheel, lowest dependencies", wheel, True),
            ("sdist, newest dependencies", sdist, False),
        ):
            folder = Path(tempfile.mkdtemp(dir=scratch))
            bin = environment(folder / "venv", python, package, lowest=lowest)
            print(f"Python {version}, {kind}: {demo(bin, folder)}", flush=True)
            shutil.rmtree(folder)


def run_suite_with_lowest(scratch: Path) -> None:
    """The quick tests on the oldest Python, with the lowest dependencies that are declared."""
    (wheel,) = DIST.glob("*.whl")
    _, python = next(interpreters())
    bin = environment(scratch / "venv", python, wheel, lowest=True)
    kept = run(TOOLS / "uv", "pip", "freeze", "--python", bin / "python")
    pins = [line for line in kept.splitlines() if "==" in line and not line.startswith("punoise")]
    (scratch / "pins.txt").write_text("\n".join(pins))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    options = ("--python", bin / "python", "--constraints", scratch / "pins.txt")
    run(TOOLS / "uv", "pip", "install", *options, *project["optional-dependencies"]["test"])
    source = committed_tree(scratch / "tree")
    shutil.rmtree(source / "pu_noise_cli")  # the installed one is tested
    chosen = [source / "tests" / room for room in LOWEST_SUITE]
    print(run(bin / "python", "-m", "pytest", "-q", "-m", "not ci and not slurm", *chosen)[-200:])


# ---- What lies beside the wheel


def write_sbom(scratch: Path, wheel: Path) -> None:
    """CycloneDX: the newest dependencies at the time of the release."""
    bin = environment(scratch / "sbom", sys.executable, wheel)
    out = DIST / f"{wheel.name.split('-py3')[0]}.cdx.json"
    options = ("--output-reproducible", "--pyproject", ROOT / "pyproject.toml", "-o", out)
    run(TOOLS / "cyclonedx-py", "environment", *options, bin / "python")
    components = json.loads(out.read_text())["components"]
    print(f"{out.name}: {len(components)} components")


def write_recipe(sdist: Path) -> None:
    """The conda recipe with the digest of the sdist."""
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    recipe = (ROOT / "packaging" / "recipe" / "meta.yaml").read_text()
    filled, count = re.subn(r"sha256: \S+", f"sha256: {digest}", recipe)
    if count != 1:
        sys.exit("packaging/recipe/meta.yaml: expected one sha256")
    (DIST / "recipe").mkdir()
    (DIST / "recipe" / "meta.yaml").write_text(filled)


def placeholders() -> list[str]:
    """The lines that only a maintainer can complete."""
    ours = {
        Path("packaging/dist.py"),
        Path("tests/workflows/test_packaging.py"),
        Path("CONTRIBUTING.md"),
    }
    names = run("git", "ls-files").splitlines() if (ROOT / ".git").exists() else []
    lines = []
    for name in names:
        if Path(name) in ours:
            continue
        try:
            text = (ROOT / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        lines += [
            f"{name}:{number}"
            for number, line in enumerate(text.splitlines(), 1)
            if PLACEHOLDERS.search(line)
        ]
    return lines


def main() -> None:
    if "--placeholders" in sys.argv:
        remaining = placeholders()
        sys.exit("to complete before a release:\n" + "\n".join(remaining) if remaining else 0)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if "--lowest-suite" in sys.argv:
            run_suite_with_lowest(scratch)
            return
        build_twice(scratch)
        (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
        check_metadata(wheel, sdist)
        if "--no-install" not in sys.argv:
            check_installation(scratch, wheel, sdist)
        write_sbom(scratch, wheel)
        write_recipe(sdist)
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in (wheel, sdist)
    ]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")
    remaining = placeholders()
    if remaining:
        print(f"{len(remaining)} lines to complete before a release: make placeholders")


if __name__ == "__main__":
    main()
