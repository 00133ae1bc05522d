"""Runs every cell of the notebooks; the first error ends it. What they print is not kept."""

import sys

import nbclient
import nbformat

for name in sys.argv[1:]:
    notebook = nbformat.read(name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300).execute()
    shown = sum(bool(cell.get("outputs")) for cell in notebook.cells)
    if shown == 0:
        sys.exit(f"{name}: no cell shows anything")
    print(f"{name}: {len(notebook.cells)} cells, {shown} show something")
