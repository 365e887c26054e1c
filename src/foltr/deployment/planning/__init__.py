"""What a federation of many devices costs, on paper: `foltr plan`.

- `example`: a message of a learner
- `traffic`: bytes of a round, exactly
- `measured`: the figures of `benchmarks/gateway.py`, stored in `measured.json`
- `fit`: constants from these figures, by least squares
- `model`: CPU, bytes, memory, gateways and money of a federation
- `limits`: what breaks first, and what to do
- `text`: what `foltr plan` prints"""
