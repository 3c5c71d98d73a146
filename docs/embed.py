#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies sections of source files into pages: the block after `<!-- from FILE [NAME] -->` becomes what stands in FILE
(relative to the page) between `// [NAME]` and `// [/NAME]`. With --check nothing is written; exit 1 if a page is stale."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- from (\S+) \[(\S+)\] -->\n```cpp\n)(.*?)(```\n)", re.S)


def section(page, file, name):
    text = (page.parent / file).read_text()
    found = re.search(rf"// \[{name}\]\n(.*?)// \[/{name}\]", text, re.S)
    if not found:
        sys.exit(f"{page}: {file} has no section [{name}]")
    return found.group(1).lstrip("\n")


def main():
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not page.exists():
            continue
        old = page.read_text()
        new = BLOCK.sub(lambda m: m[1] + section(page, m[2], m[3]) + m[5], old)
        if new != old:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(new)
    for page in stale:
        print(("stale: " if "--check" in sys.argv else "updated: ") + page)
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
