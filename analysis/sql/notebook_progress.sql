-- Trees per epoch and purpose that have a verdict, for a chart.
from progress
where success is not null
order by epoch, purpose
