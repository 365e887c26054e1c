"""Aggregators: rules that turn a round's updates into one direction; `foltr.core.spec` finds them.

Some rules weight each update by the interactions behind it, as FedAvg does: Mean, MultiKrum, DnC,
GeometricMedian, Gated, and the means that NNM and Bucketing form. The other rules give every
client the same weight: Krum, TrimmedMean, Median, Bulyan, CenteredClipping, FLTrust."""
