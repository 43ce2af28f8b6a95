"""The report of a study: figures, and a page that a person reads.

from pathlib import Path
from curation.report import StudyRecord, write_report

write_report(StudyRecord.read(Path("my_study")), Path("my_study/report"))
"""

from curation.report.analysis import Analysis, analyse
from curation.report.record import StudyRecord
from curation.report.writing import write_report

__all__ = ["Analysis", "StudyRecord", "analyse", "write_report"]
