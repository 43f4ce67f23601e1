"""What happened in this tree? Failed roots, mixed groups, badly ranked delegations, loops: pick one and read it.

Invariant: the notebook holds no query of its own; lists, drawing and panels come from `analysis.explorer`, whose SQL is
`analysis/sql/explorer_*.sql`.
Run: ``sera notebook trees STORE`` (app), ``--edit my_copy.py`` (editor), ``--run`` (script, prints what the lists hold)
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="Tree explorer")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    import sera_data as sd
    from analysis.explorer import Explorer
    from analysis.explorer_list import TITLES
    from analysis.explorer_store import ExplorerStore
    from analysis.explorer_tokenizer import find_decoder
    from analysis.explorer_widget import explorer_widget
    from analysis.notebook_arguments import arguments

    return Explorer, ExplorerStore, Path, TITLES, arguments, explorer_widget, find_decoder, mo, sd


@app.cell
def _(ExplorerStore, Path, arguments, find_decoder, mo, sd):
    given = {key: Path(value) for key, value in arguments().items()}
    path = given.get("store")
    mo.stop(path is None, mo.md("**No store named.** Run `sera notebook trees STORE`, or set `SERA_STORE`."))
    store = sd.open(path)
    with mo.status.spinner("Reading the store's trees"):
        trees = ExplorerStore(store, credit=given.get("credit"), ratios=given.get("ratios"))
        decode = find_decoder(trees.tokenizer_hashes(), given.get("tokenizer"))
    return decode, path, store, trees


@app.cell
def _(TITLES, mo, path, trees):
    found = {key: trees.counts["trees" if key == "all" else key] for key in TITLES}
    if mo.app_meta().mode == "script":
        print("\n".join(f"{TITLES[key]}: {n}" for key, n in found.items()))
    mo.md(f"## What happened in this tree?\n`{path}`: {found['all']:,} trees, {found['worst']:,} ranked delegations")
    return


@app.cell
def _(Explorer, decode, explorer_widget, mo, trees):
    widget = mo.ui.anywidget(explorer_widget(Explorer(trees, decode=decode)))
    widget
    return (widget,)


@app.cell
def _(mo):
    query = mo.ui.code_editor(
        value="from progress",
        language="sql",
        label="Your own query, on the store's tables and views (sera data describe STORE lists them)",
    )
    mo.accordion({"Query the store yourself": query})
    return (query,)


@app.cell
def _(query, store):
    from sera_data.query import run_query

    run_query(store.connect(), query.value, path=store.path)
    return


if __name__ == "__main__":
    app.run()
