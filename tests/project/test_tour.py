"""The notebook of `examples/` runs from end to end, cell by cell and in Jupyter's own kernel."""

import json
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import clprim as cp

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"


@pytest.mark.alone
def test_every_cell_runs(device, capsys):
    pytest.importorskip("skimage")
    mpl.use("Agg")
    cells = json.loads(TOUR.read_text(encoding="utf-8"))["cells"]
    names, figures = {}, 0
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            figures += len(plt.get_fignums())
            plt.close("all")
    assert figures >= 6
    assert str(device) in capsys.readouterr().out
    # What was learnt is what the samples were made by.
    scale, slope = (p.get()[0] for p in names["parameters"])
    assert scale == pytest.approx(1.7, abs=0.05)
    assert slope == pytest.approx(2, abs=0.2)
    assert names["losses"][-1] < 1e-3 * names["losses"][0]


def test_in_a_kernel_of_jupyter(monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("skimage")
    monkeypatch.setenv("CLPRIM_DEVICE", str(cp.current_device().index))
    notebook = nbformat.read(TOUR, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", ())
    ]
    assert len(pictures) >= 6
