"""The example report of the site, and with --picture the top of it as docs/report.png.

The report is that of the tables that `punoise simulate` makes; the picture needs Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
EXAMPLE, PICTURE = DOCS / "example.html", DOCS / "report.png"
WINDOW = "1300,1500"


def punoise(*arguments: str) -> None:
    command = [sys.executable, "-m", "pu_noise_cli", *arguments, "--quiet"]
    subprocess.run(command, check=True)


def make_example(folder: str) -> None:
    """Run the demo in a folder, and keep its report."""
    punoise("simulate", "--out-dir", folder, "--alpha", "0.2", "--beta", "0.95")
    tables = ("--labeled", f"{folder}/labeled.csv", "--unlabeled", f"{folder}/unlabeled.csv")
    punoise("run", *tables, "--sample", "demo", "--out-dir", f"{folder}/results")
    shutil.copy(f"{folder}/results/report.html", EXAMPLE)


def take_picture(folder: str) -> None:
    """Photograph the first screen of the example."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((path for name in names if (path := shutil.which(name))), None)
    if browser is None:
        sys.exit("the picture needs Chromium")
    window = (f"--window-size={WINDOW}", "--hide-scrollbars", "--virtual-time-budget=10000")
    profile = (f"--user-data-dir={folder}/profile", "--no-sandbox", "--disable-gpu", "--headless")
    command = [browser, *profile, *window, f"--screenshot={PICTURE}", EXAMPLE.as_uri()]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        make_example(folder)
        if "--picture" in sys.argv[1:]:
            take_picture(folder)
