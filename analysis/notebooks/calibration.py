"""Calibration of rubric scores, to explore: the audit's own SQL files and charts, with an epoch and a margin to choose.

Invariant: no metric is written here; every number comes from `analysis.audit.run_audit` or a file of `analysis/sql`.
Run: ``sera notebook calibration STORE`` (app), ``--edit my_copy.py`` (editor), ``--run`` (script, prints the summary)
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Rubric calibration")


@app.cell
def _():
    import marimo as mo

    import sera_data as sd
    from analysis import charts, measure
    from analysis.audit import run_audit
    from analysis.metrics import HEADLINES, METRICS, SECTIONS
    from analysis.notebook_arguments import arguments
    from analysis.query import SQL, statement
    from analysis.wording import basis_text, interval_text, value_text

    return (
        HEADLINES, METRICS, SECTIONS, SQL, arguments, basis_text, charts, interval_text, measure, mo,
        run_audit, sd, statement, value_text,
    )  # fmt: skip


@app.cell
def _(arguments, mo, sd):
    path = arguments().get("store")
    mo.stop(path is None, mo.md("**No store named.** Run `sera notebook calibration STORE`, or set `SERA_STORE`."))
    store = sd.open(path)
    known_epochs = sorted({row[0] for row in store.sql("select distinct epoch from nodes").fetchall()})
    return known_epochs, path, store


@app.cell
def _(known_epochs, mo):
    epoch = mo.ui.dropdown(options={"all epochs": None, **{f"epoch {e}": e for e in known_epochs}}, value="all epochs")
    margin = mo.ui.slider(start=0.05, stop=0.5, step=0.05, value=0.2, label="margin", show_value=True)
    reps = mo.ui.dropdown(options={"200": 200, "1000": 1000, "4000": 4000}, value="200", label="replicates")
    mo.hstack([epoch, margin, reps], justify="start", gap=2)
    return epoch, margin, reps


@app.cell
def _(epoch, margin, mo, reps, run_audit, store):
    audit = run_audit(
        store, epochs=None if epoch.value is None else [epoch.value], margin=margin.value, reps=reps.value
    )
    if mo.app_meta().mode == "script":
        print("\n".join(audit.summary))
    return (audit,)


@app.cell
def _(HEADLINES, METRICS, audit, basis_text, interval_text, mo, path, value_text):
    mo.vstack(
        [
            mo.md(f"# Do rubric scores mean anything?\n\n`{path}`: {audit.summary[0]} {audit.worst_slice.text}"),
            mo.hstack(
                [
                    mo.stat(
                        value_text(audit.headline[name]),
                        label=METRICS[name].title,
                        caption=f"{interval_text(audit.headline[name])}, {basis_text(audit.headline[name])}",
                        bordered=True,
                    )
                    for name in HEADLINES
                ],
                widths="equal",
            ),
        ]
    )
    return


@app.cell
def _(audit, charts, mo):
    cards = [mo.vstack([mo.md(f"### {f.title}\n\n{f.about}"), f.chart]) for f in charts.figures(audit)]
    rows = [mo.hstack(cards[i : i + 2], widths="equal", gap=2) for i in range(0, len(cards), 2)]
    mo.vstack(rows or [mo.md("Nothing to draw yet.")])
    return


@app.cell
def _(METRICS, SECTIONS, audit, interval_text, mo, value_text):
    mo.ui.table(
        [
            {
                "section": section,
                "metric": METRICS[name].title,
                "value": value_text(audit.headline[name]),
                "95 % interval": interval_text(audit.headline[name]),
                "n": audit.headline[name].n,
                "how to read it": audit.headline[name].note or METRICS[name].about,
            }
            for section, names in SECTIONS.items()
            for name in names
        ],
        label="Every metric",
        pagination=False,
        selection=None,
    )
    return


@app.cell
def _(audit, mo, value_text):
    mo.ui.table(
        [
            {
                "slice": f"{part.slice} {part.level}",
                "pair accuracy": value_text(part.metrics["pair_accuracy"]),
                "hinge": value_text(part.metrics["mean_hinge"]),
                "bias": value_text(part.metrics["bias"]),
                "calibration error": value_text(part.metrics["calibration_error"]),
                "pairs": part.pairs,
                "nodes": part.scores,
                "tasks": part.pair_tasks,
            }
            for part in audit.slices
        ],
        label="Slices",
        selection=None,
    )
    return


@app.cell
def _(SQL, mo):
    names = sorted(entry.name.removesuffix(".sql") for entry in SQL.iterdir() if entry.name.endswith(".sql"))
    chosen = mo.ui.dropdown(options=names, value="pair_metrics", label="SQL file")
    chosen
    return (chosen,)


@app.cell
def _(chosen, mo, statement):
    mo.md(f"```sql\n{statement(chosen.value)}\n```")
    return


@app.cell
def _(mo):
    query = mo.ui.code_editor(
        value="from audit_pairs order by gap limit 20",
        language="sql",
        label="Your own query, on the store's tables and views and on the audit's tables",
    )
    query
    return (query,)


@app.cell
def _(margin, measure, query, store):
    connection = store.connect()
    measure.prepare(connection, reps=0, margin=margin.value)
    connection.sql(query.value).pl()
    return


if __name__ == "__main__":
    app.run()
