"""Make pu_noise_cli/report/assets/vega.js: Vega, Vega-Lite and Vega-Embed in one script.

Run it with the `report` extra installed to move to another version: python packaging/bundle_vega.py
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import vl_convert

TARGET = Path(__file__).parent.parent / "pu_noise_cli" / "report" / "assets" / "vega.js"
# What the libraries would only ever show or compare, never fetch: without a scheme nobody has to
# wonder whether the page leads elsewhere. The names of XML namespaces must stay.
LINKS = ("https://vega.github.io/", "https://github.com/vega/")


def bundle() -> str:
    """The script, with the versions in its first line."""
    source = vl_convert.javascript_bundle()
    for link in LINKS:
        source = source.replace(link, link.removeprefix("https://"))
    for forbidden in ("</script", "<!--", "https://"):
        if forbidden in source:
            raise ValueError(f"the bundle holds {forbidden!r}, which a page cannot carry")
    versions = (
        f"Vega {vl_convert.get_vega_version()}, "
        f"Vega-Lite {vl_convert.get_vegalite_versions()[-1]}, "
        f"Vega-Embed {vl_convert.get_vega_embed_version()}"
    )
    made_by = f"vl-convert-python {version('vl-convert-python')}"
    return f"/* {versions}; bundled by {made_by}; licences: vega.LICENSE.txt */\n{source}\n"


if __name__ == "__main__":
    TARGET.write_text(bundle(), encoding="utf-8")
