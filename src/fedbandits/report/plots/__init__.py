"""The pictures of a report: each takes a tidy frame and returns a `Picture`. No pyplot, no global state.

Lines are means over seeds, bands and bars one standard error either way. With a single seed there is nothing to
estimate an error from, and none is drawn.
"""

from fedbandits.report.plots.curves import curves
from fedbandits.report.plots.picture import Picture
from fedbandits.report.plots.series import Series
from fedbandits.report.plots.sweeps import sweep
from fedbandits.report.plots.trade_off import trade_off

__all__ = ["Picture", "Series", "curves", "sweep", "trade_off"]
