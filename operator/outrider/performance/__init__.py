"""How fast engines are: throughput tables, step times, accepted tokens. Pure."""
