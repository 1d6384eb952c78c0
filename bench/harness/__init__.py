"""Starts the contenders of a benchmark, measures them in interleaved rounds, and writes the table."""
