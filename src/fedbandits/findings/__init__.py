"""What results say: tables, claims and their verdicts, published figures beside ours."""
