"""Why each row is in a selection or out of it.

Nothing is kept of the rows that a selection leaves out: what became of them is found anew from the
selection's parameters and the version of the table that it is pinned to.
"""

from curation.selection.explanation.rows import explain
from curation.selection.explanation.summary import Step, Summary, summarize
from curation.selection.explanation.verdict import Verdict

__all__ = ["Step", "Summary", "Verdict", "explain", "summarize"]
