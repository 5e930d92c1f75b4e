"""Claims about results, and whether measurements bear them out.

Every verdict rests on a Student-t interval over seeds at 95 % confidence. Algorithms meet the same arms and noise under
one seed, so comparisons use the differences within each seed. A claim *holds* if the whole interval agrees with it,
*fails* if the whole interval speaks against it, and is *undecided* otherwise, always so with fewer than three seeds.
Where a claim makes k comparisons, each has confidence 1 - 0.05/k (Bonferroni), so that the verdict as a whole keeps
95 %. So it is with a claim that is looked at for the k-th time, having been undecided by fewer seeds.

Where seeds were chosen by kinds of instances (`strata`) the interval is that of the weighted mean. They are no fair
sample, and no other claim is judged by them.
"""

from fedbandits.findings.claims.between import Between
from fedbandits.findings.claims.frontier import Frontier
from fedbandits.findings.claims.growth import Growth
from fedbandits.findings.claims.interval import Interval
from fedbandits.findings.claims.less import Less
from fedbandits.findings.claims.monotone import Monotone
from fedbandits.findings.claims.parsing import Claim, parse_claims
from fedbandits.findings.claims.verdict import Finding, Verdict
from fedbandits.findings.metrics import METRICS, known_metric

__all__ = [
    "METRICS",
    "Between",
    "Claim",
    "Finding",
    "Frontier",
    "Growth",
    "Interval",
    "Less",
    "Monotone",
    "Verdict",
    "known_metric",
    "parse_claims",
]
