"""Seeded faults against real processes, and pure checkers of what was recorded."""
