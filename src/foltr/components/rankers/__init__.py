"""Rankers: functions from document features to scores; `foltr.core.spec` finds them."""
