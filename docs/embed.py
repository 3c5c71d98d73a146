#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies parts of source files into pages, so that pages show code that is compiled and run.

The block of code after one of these comments becomes

  <!-- from FILE [NAME] -->   what stands in FILE between `// [NAME]` and `// [/NAME]`
  <!-- from FILE {TEXT} -->   FILE from the first line that contains TEXT to the next line that is `}`

FILE is relative to the page. With --check nothing is written, and a stale page gives exit status 1."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- from (\S+) (\[\S+\]|\{.+?\}) -->\n```cpp\n)(.*?)(```\n)", re.S)


def section(page, file, what):
    text = (page.parent / file).read_text()
    name = what[1:-1]
    if what[0] == "[":
        found = re.search(rf"// \[{name}\]\n(.*?)// \[/{name}\]", text, re.S)
    else:
        found = re.search(rf"(^[^\n]*{re.escape(name)}.*?^}}\n)", text, re.S | re.M)
    if not found:
        sys.exit(f"{page}: {file} has no part {what}")
    return found.group(1).lstrip("\n")


def main():
    check = "--check" in sys.argv
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not page.exists():
            continue
        old = page.read_text()
        new = BLOCK.sub(lambda m: m[1] + section(page, m[2], m[3]) + m[5], old)
        if new == old:
            continue
        stale.append(page)
        if not check:
            page.write_text(new)
        print(("stale: " if check else "updated: ") + str(page.relative_to(ROOT)))
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
