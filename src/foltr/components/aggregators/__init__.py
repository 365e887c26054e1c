"""Every file in this folder adds aggregators; `foltr.spec` finds them.

Rules that average updates weigh them as FedAvg does, by the interactions behind each: Mean,
MultiKrum, DnC, GeometricMedian, Gated (whose fallback does as it does), and the means that NNM and
Bucketing make. Rules that follow one client, go coordinate by coordinate, clip or score take all
clients for equal: Krum, TrimmedMean, Median, Bulyan, CenteredClipping, FLTrust."""
