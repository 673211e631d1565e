"""Rows to grow on: what users pass, read, coded, put in order, standardised and ranked."""
