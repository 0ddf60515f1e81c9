"""A report is one self-contained HTML page on one or more judged runs."""
