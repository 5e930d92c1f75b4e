"""Mean rewards that are smooth: Gaussian processes, exactly and by features, alone, federated and private."""
