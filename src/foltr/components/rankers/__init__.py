"""Rankers: functions from document features to scores; `foltr.spec` finds them."""
