"""What was learned, epoch by epoch: success, mixed groups, ranking, and the optimizer steps behind them.

Invariant: no metric is written here; all numbers come from `analysis.audit.epoch_summary` or a file of `analysis/sql`.
Run: ``sera notebook learning STORE`` (app), ``--edit my_copy.py`` (editor), ``--run`` (script, prints the table)
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Learning")


@app.cell
def _():
    import altair as alt
    import marimo as mo

    import sera_data as sd
    from analysis.audit import epoch_summary
    from analysis.charts import BLUE, ORANGE
    from analysis.notebook_arguments import arguments
    from analysis.query import rows
    from analysis.wording import interval_text, value_text

    return BLUE, ORANGE, alt, arguments, epoch_summary, interval_text, mo, rows, sd, value_text


@app.cell
def _(arguments, mo, sd):
    path = arguments().get("store")
    mo.stop(path is None, mo.md("**No store named.** Run `sera notebook learning STORE`, or set `SERA_STORE`."))
    store = sd.open(path)
    return path, store


@app.cell
def _(epoch_summary, rows, store):
    epochs = epoch_summary(store)
    connection = store.connect()
    updates = rows(connection, "notebook_updates")
    progress = rows(connection, "notebook_progress")
    return epochs, progress, updates


@app.cell
def _(epochs, interval_text, mo, path, value_text):
    def _share(value):
        return "none" if value is None else f"{value:.1%}"

    table = [
        {
            "epoch": e.epoch,
            "trees": e.trees,
            "success": _share(e.success),
            "delegations per tree": None if e.delegations_per_tree is None else round(e.delegations_per_tree, 2),
            "mixed delegations": f"{e.mixed} of {e.forked}",
            "pair accuracy": value_text(e.pair_accuracy),
            "95 % interval": interval_text(e.pair_accuracy),
            "mean hinge": value_text(e.mean_hinge),
            "updates": ", ".join(f"{stage} {u.updates}" for stage, u in e.updates.items()) or "none",
            "skipped": [f"{stage} {u.skipped}" for stage, u in e.updates.items() if u.skipped],
        }
        for e in epochs
    ]
    if mo.app_meta().mode == "script":
        print("\n".join(f"epoch {row['epoch']}: success {row['success']}, updates {row['updates']}" for row in table))
    mo.vstack(
        [
            mo.md(f"# What was learned?\n\n`{path}`"),
            mo.ui.table(table, label="Every epoch", selection=None) if table else mo.md("No trees and no updates yet."),
        ]
    )
    return


@app.cell
def _(BLUE, ORANGE, alt, mo, progress):
    chart = (
        alt.Chart(alt.InlineData(values=progress))
        .mark_line(point=True)
        .encode(
            x=alt.X("epoch:O", title="epoch", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("success:Q", title="success of trees", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            color=alt.Color("purpose:N", scale=alt.Scale(range=[BLUE, ORANGE, "#98a3ae", "#1c7c54"])),
            tooltip=["epoch:O", "purpose:N", alt.Tooltip("success:Q", format=".1%"), "n_trees:Q"],
        )
        .properties(width="container", height=230)
    )
    mo.vstack([mo.md("## Success by epoch and purpose"), chart]) if progress else mo.md("No tree has a verdict yet.")
    return


@app.cell
def _(mo, updates):
    measures = [
        "loss",
        "grad_norm",
        "entropy",
        "ratio_mean",
        "clip_share",
        "ess",
        "kl",
        "mismatch",
        "advantage_abs_mean",
    ]
    measure = mo.ui.dropdown(options=measures, value="loss", label="Measure of the optimizer steps")
    measure if updates else mo.md("No learn phase has written updates yet.")
    return (measure,)


@app.cell
def _(BLUE, ORANGE, alt, measure, mo, updates):
    steps = (
        alt.Chart(alt.InlineData(values=updates))
        .mark_circle(size=60)
        .encode(
            x=alt.X("update:Q", title="update", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y(f"{measure.value}:Q", title=measure.value),
            color=alt.Color("stage:N", scale=alt.Scale(range=[BLUE, ORANGE, "#1c7c54", "#7a4fa3"])),
            tooltip=["update:Q", "stage:N", f"{measure.value}:Q", "n_datums:Q", "n_trained_tokens:Q"],
        )
        .properties(width="container", height=230)
    )
    steps if updates else mo.md("")
    return


@app.cell
def _(mo, updates):
    mo.ui.table(
        updates, label="Every optimizer step, skipped ones with their reason", selection=None
    ) if updates else None
    return


if __name__ == "__main__":
    app.run()
