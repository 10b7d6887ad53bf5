"""Triggers. asyncssh tells a dozen lines of every command at level INFO, which would drown a task's log."""

import asyncssh

asyncssh.set_log_level("WARNING")
