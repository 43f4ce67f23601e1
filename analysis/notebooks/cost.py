"""What did it cost? Calls and tokens, hours by phase, and where the time went: per tree and per success.

Invariant: no number is written here; they are the queries of `sera data costs` (`cost_*.sql`).
Run: ``sera notebook cost STORE`` (app), ``--edit my_copy.py`` (editor), ``--run`` (script, prints the tables)
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Cost")


@app.cell
def _():
    import marimo as mo

    import sera_data as sd
    from analysis.notebook_arguments import arguments
    from sera_data.queries import query

    return arguments, mo, query, sd


@app.cell
def _(arguments, mo, sd):
    path = arguments().get("store")
    mo.stop(path is None, mo.md("**No store named.** Run `sera notebook cost STORE`, or set `SERA_STORE`."))
    store = sd.open(path)
    connection = store.connect()
    return connection, path


@app.cell
def _(mo, path):
    level = mo.ui.radio(
        options={"everything": "all", "by method": "method", "by epoch": "epoch"}, value="everything", inline=True
    )
    mo.vstack([mo.md(f"# What did it cost?\n\n`{path}`"), level])
    return (level,)


@app.cell
def _(connection, query):
    names = {
        "cost_calls": "Calls and tokens, per tree and per success",
        "cost_time": "Elapsed hours by phase",
        "cost_parts": "Where the time of calls and steps went",
    }
    tables = {name: connection.sql(query(name)).pl() for name in names}
    return names, tables


@app.cell
def _(level, mo, names, tables):
    shown = {name: table.filter(table["level"] == level.value) for name, table in tables.items()}
    if mo.app_meta().mode == "script":
        for name, table in shown.items():
            print(f"{names[name]}: {table.height} rows")
    parts = []
    for name, table in shown.items():
        parts.append(mo.md(f"## {names[name]}"))
        told = table.drop("level", *(["method", "epoch"] if level.value == "all" else []))
        grid = mo.ui.table(told, selection=None, pagination=False, show_column_summaries=False)
        parts.append(grid if table.height else mo.md("Nothing was recorded."))
    mo.vstack(parts)
    return


@app.cell
def _(mo, names):
    chosen = mo.ui.dropdown(options=list(names), value="cost_calls", label="The SQL")
    chosen
    return (chosen,)


@app.cell
def _(chosen, mo, query):
    mo.md(f"```sql\n{query(chosen.value)}\n```")
    return


if __name__ == "__main__":
    app.run()
