"""What a federation of many devices costs, on paper: `foltr plan`.

- `traffic`: bytes of a round, exactly; a message of a learner as an example
- `model`: CPU, bytes, memory, gateways and money of a federation, from the constants that
  `benchmarks/gateway.py fit` stores in `measured.json`
- `limits`: what breaks first, and what to do
- `text`: what `foltr plan` prints"""
