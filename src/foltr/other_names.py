"""What people of the field may type first, and what it is called here."""

OTHER_NAMES = {
    "FPDGD": "it is PDGD with more than one client",
    "FedAvg": "it is Mean",
    "FedProx": "it is PDGD with mu > 0",
    "FedSGD": "it is PDGD with update='round'",
    "FOLtR-ES": "it is ES",
    "FOLtRES": "it is ES",
    "MSE": "it is LeastSquares",
    "SVMRank": "it is RankingSVM",
    "SecAgg": "it is SecureSum",
    "NonIID": "it is ByIntent, ByLabel, ByClicks or ByVolume",
    "LIE": "it is LittleIsEnough",
    "ALIE": "it is LittleIsEnough",
    "IPM": "it is InnerProduct",
    "DataSharing": "it is Sharing, a partition around another",
    "Ditto": "it is Personal",
    "RFA": "it is GeometricMedian",
    "CClip": "it is CenteredClipping",
}
