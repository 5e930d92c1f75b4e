"""What operators see and do: status, metrics, members, quarantine, supervision."""
