"""The process `foltr node`: its connection, its clients, their simulated users or click logs."""
