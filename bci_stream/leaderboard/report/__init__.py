"""The report: one self-contained HTML page on judged runs."""
