"""What a trained ranker computes, as data: the normalisation of features, and dense layers."""
