"""What `foltr demo --devices` needs besides devices and a federation: manuals, searches of them
with known answers, and simulated people."""
