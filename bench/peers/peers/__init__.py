# SPDX-License-Identifier: Apache-2.0
"""The peer harness: what one would use instead of Rooftile, timed beside it in one Python process (run.py starts it)."""
