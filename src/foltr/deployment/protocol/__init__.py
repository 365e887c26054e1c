"""What the machines of a federation tell each other, whatever carries it: the agreement, frames, a
participant's answers and records, the server's exchange and engine, both sides of a secure sum."""
