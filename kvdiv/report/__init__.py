"""From results to one self-contained page, in reading order: `figures`, `page`."""

from kvdiv.report.page import render, write_report

__all__ = ["render", "write_report"]
