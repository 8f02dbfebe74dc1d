"""Executes the tests of the Galaxy tool without Galaxy, in planemo's environment.

Macros, Cheetah and assertions are Galaxy's own; parameters are simple stand-ins for its wrappers.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from Cheetah.Template import Template
from galaxy.tool_util.loader import load_tool
from galaxy.tool_util.verify.asserts import verify_assertions

DATA = Path(__file__).resolve().parents[2] / "packaging" / "galaxy" / "test-data"


class Value(str):
    """A parameter that prints as on the command line; empty ones are false."""


class Group:
    """A section or a conditional."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


class Dataset(str):
    ext: str
    element_identifier: str


def dataset(name: str, ext: str) -> Dataset:
    value = Dataset(DATA / name)
    assert (DATA / name).exists(), name
    value.ext, value.element_identifier = ext, name
    return value


def name_of(param: Any) -> str:
    return param.get("name") or param.get("argument").lstrip("-").replace("-", "_")


def simple(param: Any, stated: dict[str, Any]) -> Any:
    """The value of one parameter: as the test states it, or its default."""
    test = stated.pop(name_of(param), None)
    text = None if test is None else test.get("value")
    kind = param.get("type")
    if kind == "data":
        if text is None:
            assert param.get("optional") == "true", name_of(param)
            return None
        assert test.get("ftype") in param.get("format").split(",")
        return dataset(text, test.get("ftype"))
    if kind == "boolean":
        chosen = (text or param.get("checked", "false")) == "true"
        return Value(
            param.get("truevalue" if chosen else "falsevalue") or ("true" if chosen else "")
        )
    if kind == "select":
        options = [option.get("value") for option in param.findall("option")]
        assert text is None or text in options
        return Value(text or options[0])
    return Value(param.get("value") or "" if text is None else text)


def parameters(inputs: Any, test: Any) -> dict[str, Any]:
    """The values of a level of inputs by name; a test must not name others."""
    stated = {name_of(child): child for child in test if child.tag in GROUPS}
    values: dict[str, Any] = {}
    for item in inputs:
        if item.tag == "param":
            values[name_of(item)] = simple(item, stated)
        elif item.tag == "section":
            values[item.get("name")] = Group(parameters(item, stated.pop(item.get("name"), [])))
        elif item.tag == "conditional":
            inner = stated.pop(item.get("name"))
            selector = item.find("param")
            own = {name_of(child): child for child in inner}
            kind = simple(selector, dict(own))
            (case,) = [when for when in item.findall("when") if when.get("value") == kind]
            rest = [child for child in inner if name_of(child) != name_of(selector)]
            values[item.get("name")] = Group({"kind": kind, **parameters(case, rest)})
    assert not stated, f"unknown parameters: {list(stated)}"
    return values


GROUPS = ("param", "section", "conditional")


def assertions(element: Any) -> list[dict[str, Any]]:
    return [
        {"tag": child.tag, "attributes": dict(child.attrib), "children": assertions(child)}
        for child in element
        if isinstance(child.tag, str)
    ]


def check(root: Any, test: Any) -> None:
    """Run the command of one test and compare what it promises."""
    values = parameters(root.find("inputs"), test)
    command = str(Template(root.find("command").text, searchList=[values]))
    folder = Path(tempfile.mkdtemp())
    try:
        script = " ".join(command.split("\n"))
        done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)
        code = int(test.get("expect_exit_code", "0"))
        assert done.returncode == code, f"{shlex.join([script])}\n{done.stderr}"
        for element in test.findall("assert_stderr"):
            verify_assertions(done.stderr.encode(), assertions(element))
        if test.get("expect_failure") == "true":
            return
        outputs = {o.get("name"): o for o in root.find("outputs")}
        assert len(outputs) == int(test.get("expect_num_outputs"))
        files = {name: folder / o.get("from_work_dir") for name, o in outputs.items()}
        missing = [name for name, path in files.items() if not path.exists()]
        assert not missing, f"missing: {missing}"
        for element in test.findall("output"):
            assert element.get("ftype") == outputs[element.get("name")].get("format")
            content = files[element.get("name")].read_bytes()
            for asserted in element.findall("assert_contents"):
                verify_assertions(content, assertions(asserted))
    finally:
        shutil.rmtree(folder)


def main() -> None:
    root = load_tool(sys.argv[1]).getroot()
    for number, test in enumerate(root.find("tests").findall("test"), 1):
        check(root, test)
        print(f"test {number} passed", flush=True)


if __name__ == "__main__":
    main()
