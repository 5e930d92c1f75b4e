"""Tables, pictures and a self-contained HTML page of results."""

from fedbandits.report.page import page, write_report
from fedbandits.report.section import Section, SectionBuilder
from fedbandits.report.table import Table, summary_table

__all__ = ["Section", "SectionBuilder", "Table", "page", "summary_table", "write_report"]
