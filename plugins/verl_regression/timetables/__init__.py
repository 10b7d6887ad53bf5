"""Timetables: when a suite runs, and over what a backfill goes."""
