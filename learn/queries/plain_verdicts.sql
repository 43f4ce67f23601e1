-- The verdicts, worked out once for all rules.
create temp table verdicts as select * from verdicts
