"""What an experiment guarantees, in one direction: events of the mechanism, participation,
accounting, adversaries, text, guarantee. Mechanisms are in `components/privatizers`."""
