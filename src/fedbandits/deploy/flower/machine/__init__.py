"""A whole federation on one machine: programs, ports, certificates, the demonstration."""
