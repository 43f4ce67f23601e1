-- Every metric of every slice in every replicate, as long rows.
create or replace temp table audit_replicates as
select * from (unpivot calibration_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot calibration_bin_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot brier_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot rank_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot pair_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot rank_gap on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot score_agreement on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot leak_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
union all by name
select * from (unpivot drift_metrics on columns(* exclude (slice, level, rep)) into name metric value value)
